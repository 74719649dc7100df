"""A finished subagent's report, shortened for its parent, and its conversation, kept for follow-up messages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from drone.agent.ports.artifacts import Artifacts
from drone.agent.ports.report import Report
from mcc.contracts.record import RecordStatus
from mcc.contracts.shape import to_json
from mcc.rules.report import cut, shortened
from mcc.transcript.messages import Message
from mcc.transcript.previews import handle_of
from mcc.transcript.transcript import length

TEXT_CHARACTERS = 16_000
"""Most characters that a parent is shown of a child's text, or of a custom-schema result as JSON."""

REPORT_CHARACTERS = 100_000
"""A report longer than this as JSON is reduced to its status and summary."""

STRING_CHARACTERS = 2_000
"""Most characters of one string inside a custom-schema result that is too long as a whole."""

_SHORTENED = "This is shortened; the artifact has the whole."
_STATUSES = {RecordStatus.COMPLETED: "completed", RecordStatus.FAILED: "failed"}
_LISTS = ("steps", "findings", "artifacts", "recommended_next_actions")
_REPORT_KEYS = frozenset({"status", "summary", *_LISTS})


async def as_report(report: Report, artifacts: Artifacts) -> tuple[dict[str, Any], str | None]:
    """A child's report as a JSON object, for calls that run several; and the whole's digest when it is shortened.

    The object has the keys of a report, or `{status, result, …}` for a custom-schema result. When shortened, its key
    `whole` names the artifact that holds everything. Raises `JournalError`.
    """
    full = full_report(report)
    short, is_cut = _shortened(full)
    if not is_cut:
        return short, None
    text = to_json(full).decode()
    digest = await artifacts.keep(text)
    kept = {"artifact": handle_of(digest), "characters": len(text), "note": _SHORTENED}
    return {**short, "whole": kept}, digest


def full_report(report: Report) -> dict[str, Any]:
    """A child's complete report as a JSON object, from what its journal entries say."""
    status = _STATUSES.get(report.status, "blocked")
    ids = {
        "meta": {"rounds": report.rounds, "usage": report.usage.model_dump(), "effective_model": report.model},
        "record_id": report.record_id,
        **_worktree(report),
    }
    if report.error is not None:
        return {**_report_fields({"status": "blocked", "summary": _stop_text(report)}, report), **ids}
    if report.result is None:
        return {**_report_fields({"status": status, "summary": report.text}, report), **ids}
    if _is_report(report.result):
        return {**_report_fields(report.result, report), **ids}
    return {"status": status, "result": report.result, **ids}


def _worktree(report: Report) -> dict[str, Any]:
    ended = report.worktree
    if ended is None:
        return {}
    worktree = {"state": ended.state, "ref": ended.ref, "conflicts": list(ended.conflicts), "message": ended.message}
    return {"worktree": worktree}


def _report_fields(said: Any, report: Report) -> dict[str, Any]:
    return {
        "status": said["status"],
        "summary": said["summary"],
        "role": report.agent,
        "display_name": report.title or report.agent,
        **{name: said.get(name) or [] for name in _LISTS},
    }


def _is_report(result: object) -> bool:
    """Whether the result fits the keys of a report without losing anything."""
    return (
        isinstance(result, Mapping)
        and result.keys() <= _REPORT_KEYS
        and isinstance(result.get("status"), str)
        and isinstance(result.get("summary"), str)
        and all(isinstance(result.get(name) or [], list) for name in _LISTS)
    )


def _stop_text(report: Report) -> str:
    so_far = f"What it had so far:\n{report.text}" if report.text else "It had nothing to tell yet."
    return f"The agent stopped before it was done: {(report.error or '').rstrip('. ')}. {so_far}"


def _shortened(whole: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    if "summary" not in whole:
        result, is_cut = _shortened_result(whole["result"])
        return {**whole, "result": result}, is_cut
    short, is_cut = shortened(whole)
    summary = cut(short["summary"], TEXT_CHARACTERS)
    is_cut = is_cut or summary != short["summary"]
    short = {**short, "summary": summary}
    if len(to_json(short).decode()) <= REPORT_CHARACTERS:
        return short, is_cut
    return {**short, **{name: [] for name in _LISTS}}, True


def _shortened_result(result: object) -> tuple[object, bool]:
    """The result; if too long as JSON, with its strings cut, or, if still too long, the beginning of its JSON."""
    text = to_json(result).decode()
    if len(text) <= TEXT_CHARACTERS:
        return result, False
    trimmed = _trimmed(result)
    return (trimmed if len(to_json(trimmed).decode()) <= TEXT_CHARACTERS else cut(text, TEXT_CHARACTERS)), True


def _trimmed(value: object) -> object:
    match value:
        case str():
            return cut(value, STRING_CHARACTERS)
        case Mapping():
            return {key: _trimmed(item) for key, item in value.items()}
        case list() | tuple():
            return [_trimmed(item) for item in value]
        case _:
            return value


async def as_text(report: Report, artifacts: Artifacts) -> tuple[str, str | None]:
    """A child's answer with its record id, as text; and the whole's digest when shortened. Raises `JournalError`."""
    worktree = f"\n\nworktree: {report.worktree.message}" if report.worktree else ""
    last = f"{worktree}\n\nrecord_id: {report.record_id}"
    if len(report.text) <= TEXT_CHARACTERS:
        return report.text + last, None
    digest = await artifacts.keep(report.text)
    return f"{cut(report.text, TEXT_CHARACTERS)}\nThe whole text is the artifact {handle_of(digest)}.{last}", digest


async def as_content(report: Report, artifacts: Artifacts) -> tuple[str, str | None]:
    """What a parent reads of one child: its answer, or its report as JSON; and the whole's digest when shortened.

    Raises `JournalError`.
    """
    if report.error is None and report.result is None:
        return await as_text(report, artifacts)
    data, digest = await as_report(report, artifacts)
    return to_json(data).decode(), digest


KEPT_CHARACTERS = 2_000_000
"""Most characters of finished conversations that one tree keeps; beyond that the oldest are dropped."""


class CannotContinue(Exception):
    """The conversation cannot be continued; the message says what to do."""


A = TypeVar("A")


@dataclass(slots=True)
class Conversation(Generic[A]):
    """One subagent (`agent`) over all its records; `record_id` is the latest. `status` None: it is running.

    `tools_removed`: tools that people removed from it; they stay removed when it continues. `order_id`: the order of
    `record_id`, where it is that of an earlier turn. `told_first`: what the agent is told above the next message.
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
    order_id: str | None = None
    told_first: str = ""


class Conversations:
    """The conversations of one tree, by each of their record ids. Use on one event loop only."""

    def __init__(self, most_characters: int = KEPT_CHARACTERS) -> None:
        self._most_characters = most_characters
        self._by_record: dict[str, Conversation[Any]] = {}

    def begin(self, conversation: Conversation[Any]) -> None:
        """Register a new conversation."""
        self._by_record[conversation.record_id] = conversation

    def resume(self, conversation: Conversation[Any], record_id: str) -> None:
        """Continue a conversation under a further record id; the earlier ones still find it."""
        conversation.record_id, conversation.status = record_id, None
        conversation.order_id, conversation.told_first = None, ""
        conversation.turns += 1
        self._by_record[record_id] = conversation

    def knows(self, record_id: str) -> bool:
        """Whether this record belongs to a conversation of any parent."""
        return record_id in self._by_record

    def find(self, record_id: str, parent_id: str | None) -> Conversation[Any]:
        """The conversation of this record, if this parent may continue it. Raises `CannotContinue`."""
        conversation = self._by_record.get(record_id)
        if conversation is None:
            raise CannotContinue(
                f"There is no subagent {record_id[:100]!r} whose conversation is kept. "
                "Use a record_id that a result of yours names, or start a new subagent with all that it must know."
            )
        if conversation.parent_id != parent_id:
            raise CannotContinue("This subagent belongs to another agent. Start one of your own.")
        if conversation.status is None:
            raise CannotContinue("This subagent is still at work: wait for its result before you send it more.")
        if conversation.status is RecordStatus.CANCELLED:
            raise CannotContinue("This subagent was cancelled and cannot go on. Start a new one if it is still needed.")
        return conversation

    def end(
        self,
        conversation: Conversation[Any],
        status: RecordStatus,
        messages: Sequence[Message],
        tools_removed: tuple[str, ...] = (),
    ) -> None:
        """Keep the messages for the conversation's next turn, without their encoded bytes to save memory."""
        for message in messages:
            message.forget()
        conversation.status = status
        conversation.messages = tuple(messages)
        conversation.tools_removed = tools_removed
        conversation.characters = sum(map(length, messages))
        self._forget_oldest()

    def forget(self, parent_id: str) -> None:
        """Drop the conversations of a parent that has ended: nobody else may continue them."""
        self._drop([one for one in self._each() if one.parent_id == parent_id])

    def _forget_oldest(self) -> None:
        finished = [conversation for conversation in self._each() if conversation.status is not None]
        total = sum(conversation.characters for conversation in finished)
        dropped: list[Conversation[Any]] = []
        for conversation in finished:
            if total <= self._most_characters:
                break
            total -= conversation.characters
            dropped.append(conversation)
        self._drop(dropped)

    def _each(self) -> list[Conversation[Any]]:
        """Each conversation once, oldest first record first."""
        return list({id(one): one for one in self._by_record.values()}.values())

    def _drop(self, dropped: Sequence[Conversation[Any]]) -> None:
        if dropped:
            gone = set(map(id, dropped))
            self._by_record = {key: one for key, one in self._by_record.items() if id(one) not in gone}
