"""The conversation of one agent from the entries of its record, each message with the entry that it came from."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mcc.contracts.compaction import NOTHING_CARRIED, CompactedParts, TranscriptCompacted
from mcc.contracts.entry import ORDER, Entry
from mcc.contracts.journal import AgentStarted, AnyFact, BudgetWarned, ToolFinished
from mcc.contracts.model_facts import ModelReplied
from mcc.transcript.messages import AssistantMessage, Message
from mcc.transcript.replies import OpenReply
from mcc.transcript.transcript import Transcript, add_what_it_says, opening_message


@dataclass(slots=True)
class HeardConversation:
    """What a model has been shown since its agent's first message, `found`: deferred tools that it has searched for, in
    order."""

    transcript: Transcript = field(default_factory=Transcript)
    open: OpenReply | None = None
    """A reply whose tool calls have not all ended."""
    found: dict[str, None] = field(default_factory=dict)

    def hear(self, fact: AnyFact) -> None:
        """Apply the next fact of the agent's record after its start."""
        match fact:
            case ModelReplied():
                self.transcript.add(AssistantMessage(fact.blocks, fact.model))
                self.open = OpenReply(fact) if fact.calls_tools else None
            case ToolFinished():
                if self.open is None or self.open.call(fact.call_id) is None:
                    return
                self.open.finished[fact.call_id] = fact
                self.found.update(dict.fromkeys(fact.found))
                if self.open.is_done:
                    self.transcript.add(self.open.results())
                    self.open = None
            case TranscriptCompacted():
                self.transcript.compact(fact)
            case _:
                add_what_it_says(self.transcript, fact)


class PlacedMessage(NamedTuple):
    """A message and the entry that it came from. `order_id` empty: no single entry, as of a list of earlier turns.
    `turn`: the number of an earlier turn in its session, 0 = the running one, or not known."""

    message: Message
    order_id: str
    seq: int
    turn: int = 0


class RecordConversation:
    """All that one agent's model is shown, as of the last entry that was added.

    `before`: what it is shown before its own first message: earlier turns, or the records that its own continues.
    `copied_until`: entries up to this number were copied from another order. `has_prompt`: false of an agent that is
    shown a session alone, to shorten it. `first_record`: that with which the conversation began, as far as this order
    knows.
    """

    def __init__(
        self,
        order_id: str,
        before: Sequence[PlacedMessage] = (),
        *,
        copied_until: int = 0,
        has_prompt: bool = True,
        first_record: str = "",
    ) -> None:
        self.first_record = first_record
        self._order_id = order_id
        self._has_prompt = has_prompt
        self._before = before
        self._copied_until = copied_until
        self._heard = HeardConversation()
        self._places: list[tuple[str, int, int]] = []
        self.origin = ORDER
        """The agent and its place in the tree."""
        self.started: AgentStarted | None = None
        self.landing = False
        """Whether a limit has left the agent one reply."""
        self.carried: CompactedParts = NOTHING_CARRIED
        """What its next summary takes over from the last one."""
        self.windows: list[int] = []
        """Sizes of its model's context in tokens that its entries tell of, the last one first."""

    def add(self, entry: Entry) -> None:
        """Apply the next entry of the agent's record."""
        fact, transcript = entry.fact, self._heard.transcript
        if isinstance(fact, AgentStarted):
            self.origin = entry.origin
            self._begin(fact, entry.seq)
            return
        self._heard.hear(fact)
        if isinstance(fact, TranscriptCompacted):
            self._compacted(fact, entry.seq)
        if isinstance(fact, BudgetWarned):
            self.landing = self.landing or (fact.landing and entry.seq > self._copied_until)
        grown = len(transcript.opening) + len(transcript.said) - len(self._places)
        self._places += [(self._order_id, entry.seq, 0)] * grown

    def _begin(self, started: AgentStarted, seq: int) -> None:
        self.started = started
        transcript = self._heard.transcript
        transcript.begin(started)
        messages = [placed.message for placed in self._before]
        self._places = [(placed.order_id, placed.seq, placed.turn) for placed in self._before]
        if self._has_prompt:
            messages.append(opening_message(started.environment, started.prompt, started.attachments))
            self._places.append((self._order_id, seq, 0))
        transcript.open(messages)

    def _compacted(self, fact: TranscriptCompacted, seq: int) -> None:
        self.carried = fact.parts or self.carried
        if fact.window_tokens:
            self.windows.insert(0, fact.window_tokens)
        if fact.summary is not None and fact.kept_messages is not None:
            kept = self._places[max(0, len(self._places) - fact.kept_messages) :] if fact.kept_messages else []
            self._places = [(self._order_id, seq, 0), *kept]

    @property
    def found(self) -> Sequence[str]:
        """Deferred tools that the agent has searched for, in order."""
        return [*self._heard.found]

    @property
    def messages(self) -> Sequence[PlacedMessage]:
        shown = zip(self._heard.transcript.messages, self._places, strict=True)
        return [PlacedMessage(message, *place) for message, place in shown]
