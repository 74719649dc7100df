"""The transcript of a run: the messages its model is shown, and their length."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar, assert_never, cast

from mcc.contracts.attachments import ShownAttachment
from mcc.contracts.blocks import ToolCall
from mcc.contracts.compaction import Clipped, ShortenedWords, TranscriptCompacted
from mcc.contracts.control import SteerMode
from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.fact import Fact
from mcc.contracts.fence import noticed
from mcc.contracts.git_delivery import DeliveryFinished, DeliveryStarted
from mcc.contracts.git_facts import WorkspaceCommitted, WorktreeEnded, WorktreeMade
from mcc.contracts.inbox_facts import ApprovalDecided, ApprovalRequested, QuestionAnswered, QuestionAsked
from mcc.contracts.journal import (
    AgentFinished,
    AgentReused,
    AgentStarted,
    AgentStep,
    AnyFact,
    BudgetWarned,
    ControlApplied,
    DocumentChanged,
    GateChecked,
    ToolFinished,
    ToolStarted,
    VerifyChecked,
    WorkspaceCheckpointed,
    WorkspaceHeld,
)
from mcc.contracts.model_facts import ModelFellBack, ModelReplied, ModelRetried, ModelStarted
from mcc.contracts.order import EarlierTurn
from mcc.contracts.order_facts import (
    OrderClaimed,
    OrderFinished,
    OrderHandedBack,
    OrderQueued,
    OrderRequeued,
    OrderResumed,
    OrderWaiting,
)
from mcc.contracts.questions import stamped
from mcc.contracts.status import OrderStatus
from mcc.contracts.usage import Usage
from mcc.transcript.clipping import CHARACTERS_PER_TOKEN, with_clipped, with_words
from mcc.transcript.environment import CHANGED
from mcc.transcript.messages import (
    AssistantMessage,
    Message,
    Picture,
    ToolResults,
    UserMessage,
)
from mcc.transcript.pictures import HiddenPictures, picture_characters
from mcc.transcript.previews import READ_ARTIFACT

ENOUGH = 400
"""Fewest characters by which a request must have grown for its growth to be used in the estimate."""

LEAST, MOST = 0.125, 1.5
"""Bounds of plausible tokens per character: from dense prose to scripts with more than one token per character."""


@dataclass(slots=True)
class Estimate:
    """Estimates the input tokens of a run's next request: those of the last one, plus those of the text since."""

    _characters: int = 0
    _tokens: int = 0
    _freed: int = 0
    _per_character: float = 1 / CHARACTERS_PER_TOKEN

    def tokens(self, characters: int, before: int = 0) -> int:
        """The tokens of a request with so many `characters` since the run's start, and `before` at its start."""
        grown = characters - self._characters if self._tokens else characters + before
        return max(0, self._tokens + int(grown * self._per_character) - self._freed)

    @property
    def per_character(self) -> float:
        """The tokens that a character takes."""
        return self._per_character

    def free(self, tokens: int) -> None:
        """Count so many tokens less, of messages that are not shown any more."""
        self._freed += tokens

    def learn(self, characters: int, usage: Usage) -> None:
        """Learn from a request with so many characters. A usage that covers several attempts is divided by them."""
        taken = usage.input_tokens // max(1, usage.model_calls)
        if taken == 0:
            return
        grown = characters - self._characters
        if self._tokens and grown >= ENOUGH and not self._freed:
            self._per_character = min(MOST, max(LEAST, (taken - self._tokens) / grown))
        self._characters, self._tokens, self._freed = characters, taken, 0


_BEGIN = "# Environment\n\n"
_REQUEST = "\n\n# Request\n\n"
_FENCE = "\n<untrusted "


def first_message(environment: str, prompt: str) -> str:
    """The first message of an agent: environment and prompt, or just the prompt when `environment` is empty. One that
    tells what has changed has its own heading."""
    begin = "" if environment.startswith(CHANGED) else _BEGIN
    return f"{begin}{environment}{_REQUEST}{prompt}" if environment else prompt


def opening_message(environment: str, prompt: str, attachments: Iterable[ShownAttachment]) -> UserMessage:
    """The first message of an agent with what it was given: below the prompt each attachment, its picture after it."""
    text = first_message(environment, prompt)
    pictures: list[Picture] = []
    for attachment in attachments:
        text += f"\n\n{attachment.text}"
        if attachment.image is not None:
            pictures.append(Picture(attachment.image, at=len(text)))
    return UserMessage(text, tuple(pictures), by_person=True)


def request_in(text: str) -> str:
    """The prompt within a message made by `first_message`; any other text is returned unchanged."""
    if not text.startswith((_BEGIN, CHANGED)):
        return text
    if 0 < text.find(_REQUEST) < text.find(_FENCE):  # the fence is that of an attachment
        return text.partition(_REQUEST)[2]
    _, fence, fenced = text.partition(_FENCE)
    number = fenced.partition(">")[0]
    rest = fenced.partition(f"\n</untrusted {number}>")[2] if fence else text
    return rest.partition(_REQUEST)[2] or text


NUDGE = "nudge"
ANNOUNCED = "announced"
"""Name of the step that says why an accepted answer may be none."""

NOT_SENT = "not_sent"
"""Name of the step that says which part of a request its model did not get."""

VALIDATE = "validate"
"""Name of a gate's tool that checks a result without submitting it."""

WOULD_BE_ACCEPTED = "would be accepted"
"""What an agent is told about a good result that it only had checked."""

REPLY = "reply"
"""`GateChecked.tool` of a reply without tool calls from an agent that has a gate."""

TRY_FIRST = (
    "You report that you are blocked, but you have not tried to look at anything. Try your tools first; if you are "
    "blocked then, say what you tried and what came of it."
)
"""The error of a "blocked" result without any attempt; repeated until something was tried or no attempt is left."""

_REDIRECTED = "Your task has changed. Leave what you were doing; this is your task from now on:\n\n"

NOTE = "session"

T = TypeVar("T")


@dataclass(slots=True)
class Transcript:
    """`opening`: the messages the run began with; `said`: those since. It only grows at its end; only `compact` and the
    notices added to the last tool results change earlier messages.

    `clips`: the shortened tool results by call id; `put_away`: the calls whose arguments are. `summary`: what stands in
    the place of all messages before the last `opening_kept` of those that the run began with (None: of none).
    `hidden`: the pictures that are not shown any more.
    `readable`: whether its model can read artifacts.
    """

    opening: tuple[Message, ...] = field(default=(), compare=False)
    said: list[Message] = field(default_factory=list)
    characters_said: int = 0
    characters_before: int = field(default=0, compare=False)
    clips: dict[str, Clipped] = field(default_factory=dict)
    put_away: dict[str, Clipped] = field(default_factory=dict)
    summary: str | None = None
    opening_kept: int = 0
    hidden: HiddenPictures = field(default_factory=HiddenPictures)
    readable: bool = False
    opening_words: dict[int, str] = field(default_factory=dict)
    """What is shown of people's words in the messages that the run began with, by their place from the end."""
    steers_at: int | None = None
    """Where in `said` the people's messages since the last request are, which are one message."""

    def begin(self, started: AgentStarted) -> None:
        """Learn from the start of the run what its model can do."""
        self.readable = READ_ARTIFACT in started.tools

    def open(self, messages: Iterable[Message], extra_characters: int = 0) -> None:
        """Begin with these messages. `extra_characters`: sent with each request in addition to the messages."""
        whole = with_words(tuple(messages), self.opening_words)
        self.characters_before = extra_characters + sum(map(length, whole))
        self.opening = tuple(self.shortened(self.began_with(whole)))

    def began_with(self, whole: Sequence[T]) -> Sequence[Message | T]:
        """What is shown of the messages that the run began with, or of what stands for them."""
        if self.summary is None:
            return whole
        return (UserMessage(self.summary), *whole[len(whole) - self.opening_kept :])

    def shortened(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Messages that the run began with, as all that was shortened or hidden so far leaves them."""
        return self.hidden.in_opening(with_clipped(messages, self.clips, self.readable, self.put_away))

    @property
    def messages(self) -> tuple[Message, ...]:
        return (*self.opening, *self.said)

    @property
    def characters(self) -> int:
        """The length of the next request in characters."""
        return self.characters_before + self.characters_said

    def add(self, message: Message) -> None:
        self.said.append(self.hidden.in_new(message))
        self.characters_said += length(message)

    def compact(self, fact: TranscriptCompacted) -> None:
        """Show less, as this entry says. Whatever people say after it is a message of its own: where a summary took the
        place of what they said before, it would not be shown otherwise."""
        self.steers_at = None
        if fact.words:
            self._shorten_words(fact.words)
        if fact.stage == "clip":
            self.clip(fact.clipped)
        elif fact.clipped:
            (self.put_away if fact.stage == "arguments" else self.clips).update(
                {clip.call_id: clip for clip in fact.clipped}
            )
            self._shorten()
        if fact.pictures:
            hide = partial(self.hidden.hide, fact.pictures, fact.reason, readable=self.readable)
            self.opening, self.said = tuple(hide(self.opening)), hide(self.said)
        if fact.summary is not None and fact.kept_messages is not None:
            self._replace(fact.summary, fact.kept_messages)

    def _replace(self, summary: str, kept: int) -> None:
        """Show this text in the place of all but the last `kept` messages."""
        self.opening_kept = max(0, kept - len(self.said))
        self.opening = (UserMessage(summary), *self.opening[len(self.opening) - self.opening_kept :])
        self.said = self.said[len(self.said) - min(kept, len(self.said)) :]
        self.summary = summary

    def _shorten_words(self, words: Iterable[ShortenedWords]) -> None:
        """Show less of what people said."""
        texts, count = {short.position: short.text for short in words}, len(self.said)
        self.opening_words |= {place - count: text for place, text in texts.items() if place > count}
        opening, said = with_words(self.opening, self.opening_words), with_words(self.said, texts)
        self.characters_said += sum(map(length, said)) - sum(map(length, self.said))
        self.characters_before += sum(map(length, opening)) - sum(map(length, self.opening))
        self.opening, self.said = opening, [*said]

    def clip(self, clipped: Iterable[Clipped]) -> None:
        """Shorten these tool results to their beginning and end."""
        clipped = list(clipped)
        shorter = {clip.call_id for clip in clipped}
        self.characters_said -= sum(
            picture_characters(result.pictures)
            for message in self.messages
            if isinstance(message, ToolResults)
            for result in message.results
            if result.call_id in shorter
        )
        for clip in clipped:
            before = self.clips.get(clip.call_id)
            self.characters_said -= (clip.characters if before is None else before.kept) - clip.kept
            self.clips[clip.call_id] = clip
        self._shorten()

    def _shorten(self) -> None:
        shorter = partial(with_clipped, clips=self.clips, readable=self.readable, put_away=self.put_away)
        self.opening, self.said = tuple(shorter(self.opening)), list(shorter(self.said))

    def add_text(self, text: str, *, in_results: bool = False, as_it_is: bool = False, by_person: bool = False) -> None:
        """Add what a journal entry says to the model, as a message of its own.

        `in_results`: append it to the preceding tool results instead, if there are any; every provider accepts that.
        `as_it_is`: the text says itself which of its words are the runtime's.
        """
        if in_results and self.said and isinstance(last := self.said[-1], ToolResults) and last.results:
            self.characters_said -= length(last)
            self.said.pop()
            self.add(last.noting(text if as_it_is else noticed(text)))
        else:
            self.add(UserMessage(text, by_person=by_person))

    def add_steer(self, text: str) -> None:
        """Add a person's message, to those since the last request if there are any."""
        if self.steers_at is None:
            self.steers_at = len(self.said)
            self.add(UserMessage(text, by_person=True))
        elif isinstance(before := self.said[self.steers_at], UserMessage):
            self.said[self.steers_at] = replace(before, text=f"{before.text}\n\n{text}")
            self.characters_said += len(text) + 2

    def clear(self) -> None:
        """Drop all messages, when they are not needed any more."""
        self.opening, self.said, self.steers_at = (), [], None


def length(message: Message) -> int:
    """The length of a message in characters, images included (`picture_characters`)."""
    match message:
        case ToolResults():
            return sum(len(result.content) + picture_characters(result.pictures) for result in message.as_shown)
        case AssistantMessage():
            return len(message.text) + len(message.thinking)
        case _:
            return len(message.text) + picture_characters(message.pictures)


def as_submission(reply: ModelReplied) -> ToolCall:
    """A reply without a tool call as the call that it stands for: its text are the arguments."""
    return ToolCall(call_id=f"{REPLY}_{reply.round}", name=REPLY, arguments=reply.text)


def text_for_model(fact: Fact) -> str | None:
    """The exact text that an entry adds to its record's transcript; None when it adds none.

    A resumed run rebuilds its transcript from the journal, so models must not be told anything that is not in an entry
    (docs/decisions/12).
    """
    known = cast(AnyFact, fact)
    match known:
        case ModelStarted() | ModelReplied() | ToolStarted() | ToolFinished():
            return None
        case ControlApplied():
            return _steered(known) if known.control == "steer" else None
        case AgentStep():
            return known.message if known.name == NUDGE else None
        case BudgetWarned():
            return known.message if known.used is not None else None
        case GateChecked():
            # What a tool handed in is answered by that tool's result.
            return "\n".join(known.errors) if known.tool == REPLY and not known.ok else None
        case VerifyChecked():
            return known.message or None
        case AgentDelivered():
            return known.content
        case AgentStarted() | AgentReused() | AgentFinished() | ModelRetried() | ModelFellBack():
            return None
        case TranscriptCompacted() | DocumentChanged() | WorkspaceCheckpointed() | WorkspaceCommitted():
            return None
        case WorktreeMade() | WorktreeEnded() | WorkspaceHeld() | DeliveryStarted() | DeliveryFinished():
            return None
        case ApprovalRequested() | ApprovalDecided() | QuestionAsked() | QuestionAnswered():
            return None
        case OrderQueued() | OrderClaimed() | OrderRequeued() | OrderHandedBack() | OrderWaiting() | OrderResumed():
            return None
        case OrderFinished():
            return None
        case _:
            assert_never(known)


def _steered(asked: ControlApplied) -> str | None:
    if asked.message is None:
        return None
    text = _REDIRECTED + asked.message if asked.mode == SteerMode.REDIRECT else asked.message
    # Of versions before `at` and of a fork's prompt: shown as it stands, and as a message of its own.
    return text if asked.at is None else stamped(asked.at, text)


def add_what_it_says(transcript: Transcript, fact: Fact) -> bool:
    """Add to the transcript what an entry says to the model; False when it says nothing."""
    if isinstance(fact, ModelStarted):
        transcript.steers_at = None
    if (text := text_for_model(fact)) is None:
        return False
    if isinstance(fact, ControlApplied) and fact.at is not None:
        transcript.add_steer(text)
        return True
    delivered = isinstance(fact, AgentDelivered)
    in_results = delivered or (isinstance(fact, AgentStep | BudgetWarned) and fact.in_results)
    transcript.add_text(text, in_results=in_results, as_it_is=delivered, by_person=isinstance(fact, ControlApplied))
    return True


def messages_of(turns: Iterable[EarlierTurn]) -> Iterator[Message]:
    """Each turn's prompt and answer. A turn without an answer gets one that says how it ended."""
    for turn in turns:
        yield UserMessage(turn.prompt, by_person=True)
        yield AssistantMessage.of(turn.answer or without_answer(turn.status))


def without_answer(status: OrderStatus) -> str:
    """What stands in place of a turn's answer where it has none."""
    return f"[This turn ended as {status.value}, without an answer.]"


def note_of(turns: int) -> AgentStep:
    """The step that tells people how many turns of its session the agent was shown."""
    before = "the turn" if turns == 1 else f"the {turns} turns"
    return AgentStep(name=NOTE, message=f"It was shown {before} before it in its session.")
