"""What a turn adds to its session: the messages of its root agent, computed from the entries of its journal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from drone.agent.ports.messages import AssistantMessage, Message, UserMessage
from drone.agent.ports.pictures import REFUSED, with_pictures
from drone.agent.ports.shown import ShownMessage
from drone.agent.ports.transcript import Transcript, add_what_it_says, opening_message, without_answer
from drone.agent.state.record_parts import OpenReply
from mcc.contracts.compaction import Clipped, TranscriptCompacted
from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.entry import Entry
from mcc.contracts.journal import AgentStarted, AgentStep, AnyFact, ControlApplied, ToolFinished
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.status import OrderStatus
from mcc.contracts.turn_context import ContextMode, LastRequest

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
    found: dict[str, None] = field(default_factory=dict)
    """Deferred tools that it has searched for, in order."""
    last: LastRequest | None = None
    """The newest request that was answered."""
    _root: str | None = None
    _transcript: Transcript = field(default_factory=Transcript)
    _open: OpenReply | None = None
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
        model = started.model.effective if started is not None and started.model is not None else replied.model
        context = None if started is None else started.session
        told = {} if context is None or context.mode == "answers" else context.environment
        return LastRequest(
            agent=entry.origin.agent or "",
            model=model,
            at=entry.at,
            prefix=replied.prefix,
            environment=told,
            opening_tokens=0 if context is None else context.tokens,
            window=replied.context_tokens,
            input_tokens=replied.usage.input_tokens,
            cached_input_tokens=replied.usage.cached_input_tokens,
        )

    def _apply(self, fact: AnyFact) -> None:
        match fact:
            case ModelReplied():
                self._transcript.add(AssistantMessage(fact.blocks, fact.model))
                self._open = OpenReply(fact) if fact.calls_tools else None
            case ToolFinished():
                self._finished(fact)
            case TranscriptCompacted():
                self._compacted(fact)
            case ControlApplied(control="steer", message=str(message)):
                self._steers.append(message)
                add_what_it_says(self._transcript, fact)
            case AgentDelivered(child_id=child_id, artifact=str(artifact)):
                self.artifacts[child_id] = artifact
                add_what_it_says(self._transcript, fact)
            case AgentStep(pictures=pictures) if pictures:
                self._transcript.refused_pictures.update(dict.fromkeys(pictures, REFUSED))
            case _:
                add_what_it_says(self._transcript, fact)

    def _compacted(self, fact: TranscriptCompacted) -> None:
        """Later turns are shown its messages one by one where they are shown this turn without the ones before; so what
        a summary replaces is left here, and only replaced in the context through this turn (`with_summaries`)."""
        self._transcript.compact(fact.model_copy(update={"summary": None}))
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

    def _finished(self, done: ToolFinished) -> None:
        if self._open is None or self._open.call(done.call_id) is None:
            return
        self._open.finished[done.call_id] = done
        self.found.update(dict.fromkeys(done.found))
        if done.artifact is not None:
            self.artifacts[done.call_id] = done.artifact
        if self._open.is_done:
            self._transcript.add(self._open.results())
            self._open = None

    @property
    def summarised(self) -> bool:
        """Whether a summary, or lines, took the place of messages during the turn."""
        return bool(self._summaries)

    def shortened(self, messages: Iterable[Message]) -> Iterator[Message]:
        """The messages with the results and arguments that were shortened during the turn."""
        return self._transcript.shortened(messages)

    @property
    def put_away(self) -> dict[str, Clipped]:
        """The calls whose arguments were put away during the turn, those of earlier turns included."""
        return self._transcript.put_away

    @property
    def clips(self) -> dict[str, Clipped]:
        """The results that were shortened during the turn, those of earlier turns included, by call id."""
        return self._transcript.clips

    @property
    def refused_pictures(self) -> Mapping[str, str]:
        """By digest, why a picture is not shown any more, of earlier turns or of this one."""
        return self._transcript.refused_pictures

    def as_shown(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages without the pictures that a provider refused."""
        whys = self.refused_pictures
        return with_pictures(messages, lambda picture: whys.get(picture.image.artifact, picture)) if whys else messages

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
        placed: list[tuple[int, Message]] = [*zip(self._seqs, self.as_shown(self._transcript.said), strict=True)]
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
