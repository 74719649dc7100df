"""Conversations that may go on: what a finished subagent said and heard, while its parent runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from drone.agent.messages import Message
from drone.agent.transcript import length
from mcc.contracts.record import RecordStatus

KEPT_CHARACTERS = 2_000_000
"""Characters of finished conversations that one tree keeps; beyond that the oldest are forgotten."""


class CannotContinue(Exception):
    """The conversation cannot go on; a sentence that says what to do."""


A = TypeVar("A")


@dataclass(slots=True)
class Conversation(Generic[A]):
    """One subagent (`agent`) over all its records, the last of which is `record_id`. `status` None: it works.

    `tools_removed` is what people took away from it: a continued agent does not get it back.
    """

    agent: A
    parent_id: str | None
    record_id: str
    title: str
    turns: int = 1
    status: RecordStatus | None = None
    messages: tuple[Message, ...] = ()
    tools_removed: tuple[str, ...] = ()
    characters: int = 0


class Conversations:
    """Those of one tree, by every record that belongs to them. Use on one event loop only."""

    def __init__(self, most_characters: int = KEPT_CHARACTERS) -> None:
        self._most_characters = most_characters
        self._by_record: dict[str, Conversation[Any]] = {}

    def begin(self, conversation: Conversation[Any]) -> None:
        """It is known from here on."""
        self._by_record[conversation.record_id] = conversation

    def resume(self, conversation: Conversation[Any], record_id: str) -> None:
        """It goes on under this record, and is known by it as well."""
        conversation.record_id, conversation.status = record_id, None
        conversation.turns += 1
        self._by_record[record_id] = conversation

    def knows(self, record_id: str) -> bool:
        """Whether this record belongs to one of them, whoever may go on with it."""
        return record_id in self._by_record

    def find(self, record_id: str, parent_id: str | None) -> Conversation[Any]:
        """The conversation that this record belongs to and this parent may go on with. Raises `CannotContinue`."""
        found = self._by_record.get(record_id)
        if found is None:
            raise CannotContinue(
                f"There is no subagent {record_id[:100]!r} whose conversation is kept. "
                "Use a record_id that a result of yours names, or start a new subagent with all that it must know."
            )
        if found.parent_id != parent_id:
            raise CannotContinue("This subagent belongs to another agent. Start one of your own.")
        if found.status is None:
            raise CannotContinue("This subagent still works: wait for its result before you send it more.")
        if found.status is RecordStatus.CANCELLED:
            raise CannotContinue("This subagent was cancelled and cannot go on. Start a new one if it is still needed.")
        return found

    def end(
        self,
        conversation: Conversation[Any],
        status: RecordStatus,
        messages: Sequence[Message],
        tools_removed: tuple[str, ...] = (),
    ) -> None:
        """Keep what was said for its next turn; the encoded form is made anew then."""
        for message in messages:
            message.encoded.clear()
        conversation.status = status
        conversation.messages = tuple(messages)
        conversation.tools_removed = tools_removed
        conversation.characters = sum(map(length, messages))
        self._forget_oldest()

    def forget(self, parent_id: str) -> None:
        """The parent has ended: nobody may go on with its subagents."""
        self._drop([one for one in self._kept() if one.parent_id == parent_id])

    def _forget_oldest(self) -> None:
        finished = [one for one in self._kept() if one.status is not None]
        total = sum(one.characters for one in finished)
        dropped: list[Conversation[Any]] = []
        for one in finished:
            if total <= self._most_characters:
                break
            total -= one.characters
            dropped.append(one)
        self._drop(dropped)

    def _kept(self) -> list[Conversation[Any]]:
        """Each once, the one whose first record is oldest first."""
        return list({id(one): one for one in self._by_record.values()}.values())

    def _drop(self, dropped: Sequence[Conversation[Any]]) -> None:
        if dropped:
            gone = set(map(id, dropped))
            self._by_record = {key: one for key, one in self._by_record.items() if id(one) not in gone}
