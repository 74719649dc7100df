"""What a turn adds to its session: the messages of its root agent, computed from the entries of its journal."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from mcc.contracts.compaction import TranscriptCompacted
from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.entry import Entry
from mcc.contracts.journal import AgentStarted, AnyFact, ControlApplied, ToolFinished
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.status import OrderStatus
from mcc.contracts.turn_context import ContextMode, LastRequest
from mcc.transcript.heard import HeardConversation
from mcc.transcript.messages import AssistantMessage, Message, UserMessage
from mcc.transcript.replies import OpenReply
from mcc.transcript.shown import ShownMessage
from mcc.transcript.transcript import Transcript, opening_message, without_answer

NOT_ENDED = "The turn ended before this call did."


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How a turn ended, as its order's row says. `turn`: its number in its session."""

    order_id: str
    turn: int
    prompt: str
    status: OrderStatus
    answer: str | None


@dataclass(frozen=True, slots=True)
class _Summary:
    """A text that took the place of all but the last `kept` messages, when there were `said` own ones. `seq`: its
    entry's number."""

    said: int
    kept: int
    text: str
    seq: int


@dataclass(slots=True)
class OwnMessages:
    """The messages of a turn's root agent, as its model was shown them, without those of earlier turns.

    Every entry of the order is added in order; those of other records change nothing.
    """

    started: AgentStarted | None = None
    """The start of the root agent."""
    last_seq: int = 0
    artifacts: dict[str, str] = field(default_factory=dict)
    """Digests of whole results that its model was shown in part, by call id."""
    last: LastRequest | None = None
    """The newest request that was answered."""
    _root: str | None = None
    _heard: HeardConversation = field(default_factory=HeardConversation)
    _steers: list[str] = field(default_factory=list)
    _seqs: list[int] = field(default_factory=list)
    _summaries: list[_Summary] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        self.last_seq = entry.seq
        fact, origin = cast(AnyFact, entry.data), entry.origin
        if isinstance(fact, AgentStarted) and origin.parent_id is None and self.started is None:
            self.started, self._root = fact, origin.record_id
            self._transcript.begin(fact)
            self._transcript.add(opening_message(fact.environment, fact.prompt, fact.attachments))
        elif self._root is not None and origin.record_id == self._root:
            if isinstance(fact, ModelReplied):
                self.last = self._request(entry, fact)
            self._apply(fact)
        self._seqs += [entry.seq] * (len(self._transcript.said) - len(self._seqs))

    def _request(self, entry: Entry, replied: ModelReplied) -> LastRequest:
        started = self.started
        asked = None if started is None else started.model
        context = None if started is None else started.session
        told = {} if context is None or context.mode == "answers" else context.environment
        return LastRequest(
            agent=entry.origin.agent or "",
            model=replied.model if asked is None else asked.effective,
            requested=None if asked is None else asked.requested,
            at=entry.at,
            prefix=replied.prefix,
            environment=told,
            opening_tokens=0 if context is None else context.tokens,
            opening_messages=0 if context is None else context.messages,
            window=replied.context_tokens,
            input_tokens=replied.usage.input_tokens,
            cached_input_tokens=replied.usage.cached_input_tokens,
        )

    def _apply(self, fact: AnyFact) -> None:
        match fact:
            case ToolFinished(call_id=known, artifact=str(artifact)) if self._open is not None and self._open.call(
                known
            ):
                self.artifacts[known] = artifact
            case TranscriptCompacted():
                self._compacted(fact)
                return
            case ControlApplied(control="steer", message=str(message)):
                self._steers.append(message)
            case AgentDelivered(child_id=child_id, artifact=str(artifact)):
                self.artifacts[child_id] = artifact
            case _:
                pass
        self._heard.hear(fact)

    @property
    def _transcript(self) -> Transcript:
        return self._heard.transcript

    @property
    def _open(self) -> OpenReply | None:
        return self._heard.open

    @property
    def found(self) -> Mapping[str, None]:
        """Deferred tools that the agent has searched for, in order."""
        return self._heard.found

    def _compacted(self, fact: TranscriptCompacted) -> None:
        """Later turns are shown its messages one by one where they are shown this turn without the ones before; so what
        a summary replaces is left here, and only replaced in the context through this turn (`with_summaries`)."""
        self._heard.hear(fact.model_copy(update={"summary": None}))
        if fact.stage != "arguments":
            self.artifacts |= {clip.call_id: clip.artifact for clip in fact.clipped}
        if fact.summary is not None and fact.kept_messages is not None:
            self._summaries.append(
                _Summary(len(self._transcript.said), fact.kept_messages, fact.summary, self.last_seq)
            )

    def with_summaries(
        self, before: Sequence[ShownMessage], own: Sequence[ShownMessage], turn: int
    ) -> tuple[ShownMessage, ...]:
        """All that the turn's agent was shown at its end: of `before`, what it was shown of earlier turns, and of its
        `own` messages, without what a summary took the place of."""
        shown, done = [*before], 0
        for summary in self._summaries:
            shown += own[done : summary.said]
            done = summary.said
            kept = shown[len(shown) - summary.kept :] if summary.kept else []
            shown = [ShownMessage.of(UserMessage(summary.text), "", turn, summary.seq), *kept]
        return (*shown, *own[done:])

    @property
    def summarised(self) -> bool:
        """Whether a summary, or lines, took the place of messages during the turn."""
        return bool(self._summaries)

    def shown_before(self, shown: tuple[ShownMessage, ...]) -> tuple[ShownMessage, ...]:
        """What the agent was shown of earlier turns, as all that was shortened or hidden during the turn leaves it."""
        transcript = self._transcript
        if not (transcript.clips or transcript.put_away or transcript.hidden.whys):
            return shown
        shortened = transcript.shortened(place.message for place in shown)
        return tuple(
            place if message == place.message else place.saying(message, self.artifacts)
            for place, message in zip(shown, shortened, strict=True)
        )

    @property
    def readable(self) -> bool:
        """Whether its model can read artifacts."""
        return self._transcript.readable

    def at_end(self, end: TurnEnd, mode: ContextMode) -> tuple[ShownMessage, ...]:
        """The messages that later turns are shown of this ended turn.

        Prompt and answer where no agent called a model, and in the mode "answers". A turn that ended without an answer
        gets one that says so, and a call without a result one that says that.
        """
        if mode == "answers" or self.started is None or self.started.model is None:
            return prompt_and_answer(end, self._steers, self.last_seq)
        placed: list[tuple[int, Message]] = [*zip(self._seqs, self._transcript.said, strict=True)]
        if self._open is not None:
            placed.append((self.last_seq, self._open.results(NOT_ENDED)))
        last = placed[-1][1]
        answered = isinstance(last, AssistantMessage) and not last.tool_calls
        if not answered and end.status is not OrderStatus.SUCCEEDED:
            placed.append((self.last_seq, AssistantMessage.of(without_answer(end.status))))
        return tuple(ShownMessage.of(message, end.order_id, end.turn, seq, self.artifacts) for seq, message in placed)


def prompt_and_answer(end: TurnEnd, steers: Iterable[str], last_seq: int) -> tuple[ShownMessage, ...]:
    """A turn as its prompt, with what people told its agent later, and its answer. `last_seq`: the number of its last
    entry."""
    prompt = "\n\n".join((end.prompt, *steers))
    answer = AssistantMessage.of(end.answer or without_answer(end.status))
    return (
        ShownMessage.of(UserMessage(prompt, by_person=True), end.order_id, end.turn, 1),
        ShownMessage.of(answer, end.order_id, end.turn, last_seq),
    )
