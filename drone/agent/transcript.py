"""The transcript of a run: what its model is shown, what is shortened to fit its context, and how long that is."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from drone.agent.artifacts import preview, where_whole
from drone.agent.messages import AssistantMessage, Message, ToolResult, ToolResults, UserMessage, seen, without_pictures
from mcc.contracts.control import SteerMode
from mcc.contracts.fact import Fact
from mcc.contracts.fence import noticed
from mcc.contracts.journal import AgentStep, BudgetWarned, Clipped, ControlApplied, GateChecked, VerifyChecked
from mcc.contracts.order import EarlierTurn
from mcc.contracts.usage import Usage

CHARACTERS_PER_TOKEN = 4
"""What is assumed until two replies have shown what it really is."""

ENOUGH = 400
"""Characters by which a question must have grown before its growth tells anything."""

LEAST, MOST = 0.125, 1.5
"""Tokens per character that are believed: from packed prose to scripts whose characters take more than one."""


@dataclass(slots=True)
class Estimate:
    """The input tokens of one run's next question: those of the last one, and what was said since."""

    _characters: int = 0
    _tokens: int = 0
    _per_character: float = 1 / CHARACTERS_PER_TOKEN

    def tokens(self, characters: int, before: int = 0) -> int:
        """What a question takes in which so many characters were said since the run began with `before` of them."""
        grown = characters - self._characters if self._tokens else characters + before
        return max(0, self._tokens + int(grown * self._per_character))

    def learn(self, characters: int, usage: Usage) -> None:
        """A question with so many characters said took this; a usage of several tries counts as one of them."""
        taken = usage.input_tokens // max(1, usage.model_calls)
        if taken == 0:
            return
        grown = characters - self._characters
        if self._tokens and grown >= ENOUGH:
            self._per_character = min(MOST, max(LEAST, (taken - self._tokens) / grown))
        self._characters, self._tokens = characters, taken


_BEGIN = "# Environment\n\n"
_REQUEST = "\n\n# Request\n\n"
_FENCE = "\n<untrusted "


def opened(environment: str, prompt: str) -> str:
    """The first message of an agent; `environment` empty: nothing but the prompt."""
    return f"{_BEGIN}{environment}{_REQUEST}{prompt}" if environment else prompt


def request_in(text: str) -> str:
    """The prompt that `opened` was given; what it did not make comes back as it is."""
    if not text.startswith(_BEGIN):
        return text
    _, fence, fenced = text.partition(_FENCE)
    number = fenced.partition(">")[0]
    rest = fenced.partition(f"\n</untrusted {number}>")[2] if fence else text
    return rest.partition(_REQUEST)[2] or text


KEPT = (2_000, 400)
"""Characters that are left of a result: at first, and when all were cut down to that."""

NAMED = 120
"""Characters that say where an older result can be read, of which nothing is shown any more."""

FILLED = 0.8
"""The part of a context up to which a conversation is cut down, so that it is not cut again in every round."""

OF_UNKNOWN = 0.4
"""The part of a conversation that is cut away when nobody says how much its model takes in."""

_TOO_LARGE = "it did not fit into the conversation any more"

AT_LEAST = 0.2
"""The same when the conversation seemed to fit, and its model said that it does not."""


def to_cut(tokens: int, window: int | None, *, refused: bool) -> int:
    """Characters to cut of a conversation of about so many tokens; `refused`: its model said that it is too long."""
    too_many = OF_UNKNOWN * tokens if window is None else tokens - FILLED * window
    if refused:
        too_many = max(too_many, AT_LEAST * tokens)
    return max(0, int(too_many * CHARACTERS_PER_TOKEN))


def to_clip(
    messages: Sequence[Message], known: Mapping[str, Clipped], characters: int
) -> Iterator[tuple[ToolResult, int]]:
    """Results to cut, each with the characters that are left of it, until so many characters are gone or all are short.

    The newest results come first, of one reply the longest. When all are short, the oldest are only named, but never
    those of the last reply. `known`: what was cut before.
    """
    left = characters
    chosen: dict[str, tuple[ToolResult, int]] = {}
    sizes: dict[str, int] = {}
    newest = list(_newest_first(messages))
    for kept, results in (*((kept, newest) for kept in KEPT), (NAMED, list(_older(messages)))):
        for result in results:
            size = sizes.get(result.call_id, _size(result, known))
            if left <= 0:
                break
            if size > kept:
                chosen[result.call_id], sizes[result.call_id] = (result, kept), kept
                left -= size - kept
    yield from chosen.values()


def _size(result: ToolResult, known: Mapping[str, Clipped]) -> int:
    before = known.get(result.call_id)
    return len(result.content) + seen(result.pictures) if before is None else before.kept


def _newest_first(messages: Sequence[Message]) -> Iterator[ToolResult]:
    for message in reversed(messages):
        if isinstance(message, ToolResults):
            yield from sorted(message.results, key=lambda result: -len(result.content))


def _older(messages: Sequence[Message]) -> Iterator[ToolResult]:
    for message in [message for message in messages if isinstance(message, ToolResults)][:-1]:
        yield from (result for result in message.results if len(result.content) > 2 * NAMED)


def with_clipped(messages: Iterable[Message], clips: Mapping[str, Clipped], readable: bool) -> Iterator[Message]:
    """The messages with these results cut; `readable`: their model can read artifacts."""
    for message in messages:
        if isinstance(message, ToolResults) and any(result.call_id in clips for result in message.results):
            results = (_cut(result, clips.get(result.call_id), readable) for result in message.results)
            yield ToolResults(tuple(results), message.notices)
        else:
            yield message


def _cut(result: ToolResult, clip: Clipped | None, readable: bool) -> ToolResult:
    if clip is None:
        return result
    if clip.characters > clip.kept < len(result.content):
        content = preview(result.content, clip.kept, where_whole(clip.artifact, readable), clip.characters)
        result = replace(result, content=content)
    return without_pictures(result, _TOO_LARGE) if result.pictures else result


NUDGE = "nudge"
NOT_SENT = "not_sent"
"""The step that tells what of a question its model was not told."""

VALIDATE = "validate"
"""The tool of a gate that checks a result and ends nothing."""

WOULD_BE = "would be accepted"
"""What an agent is told of a result that it had checked and did not hand in."""

REPLY = "reply"
"""`GateChecked.tool` of a reply without tool calls from an agent that has a gate."""

TRY_FIRST = (
    "You report that you are blocked, but you have not tried to look at anything. Try your tools first; if you are "
    "blocked then, say what you tried and what came of it."
)
"""The error of a check: also the second time, until something was tried or no attempt is left."""

_REDIRECTED = "Your task has changed. Leave what you were doing; this is your task from now on:\n\n"

NOTE = "session"


@dataclass(slots=True)
class Transcript:
    """`opening` is what the run began with, `said` what came since. It grows at its end; only `clip` changes what
    stands there.

    `clips` are the tool results that were shortened, by their calls; `readable`: its model can read artifacts.
    """

    opening: tuple[Message, ...] = field(default=(), compare=False)
    said: list[Message] = field(default_factory=list)
    characters_said: int = 0
    characters_before: int = field(default=0, compare=False)
    clips: dict[str, Clipped] = field(default_factory=dict)
    readable: bool = False

    def open(self, messages: Iterable[Message], beside: int = 0) -> None:
        """Begin with these messages. `beside`: characters that are sent with each question beside all messages."""
        whole = tuple(messages)
        self.characters_before = beside + sum(map(length, whole))
        self.opening = tuple(with_clipped(whole, self.clips, self.readable))

    @property
    def messages(self) -> tuple[Message, ...]:
        return (*self.opening, *self.said)

    @property
    def characters(self) -> int:
        """The length of a question that is asked now."""
        return self.characters_before + self.characters_said

    def add(self, message: Message) -> None:
        self.said.append(message)
        self.characters_said += length(message)

    def clip(self, clipped: Iterable[Clipped]) -> None:
        """Show only beginning and end of these tool results, wherever they stand."""
        clipped = list(clipped)
        shorter = {clip.call_id for clip in clipped}
        self.characters_said -= sum(
            seen(result.pictures)
            for message in self.messages
            if isinstance(message, ToolResults)
            for result in message.results
            if result.call_id in shorter
        )
        for clip in clipped:
            before = self.clips.get(clip.call_id)
            self.characters_said -= (clip.characters if before is None else before.kept) - clip.kept
            self.clips[clip.call_id] = clip
        self.opening = tuple(with_clipped(self.opening, self.clips, self.readable))
        self.said = list(with_clipped(self.said, self.clips, self.readable))

    def hear(self, text: str, *, in_results: bool = False) -> None:
        """What a journal entry says to the model, as a message of its own.

        `in_results`: at the end of the tool results before it, where there are any: every provider takes it there.
        """
        if in_results and self.said and isinstance(last := self.said[-1], ToolResults) and last.results:
            self.characters_said -= length(last)
            self.said.pop()
            self.add(last.noting(noticed(text)))
        else:
            self.add(UserMessage(text))

    def let_go(self) -> None:
        """Nobody asks with it any more."""
        self.opening, self.said = (), []


def length(message: Message) -> int:
    """Characters of a message."""
    match message:
        case ToolResults():
            return sum(len(result.content) + seen(result.pictures) for result in message.as_shown)
        case AssistantMessage():
            return len(message.text) + len(message.thinking)
        case _:
            return len(message.text)


def spoken(fact: Fact) -> str | None:
    """The user message that an entry puts into its record's transcript, word for word; None when it puts none.

    A resumed run reads its transcript from the journal, so nothing else may ever be said to a model
    (docs/decisions/12).
    """
    match fact:
        case ControlApplied(control="steer", message=str() as text, mode=mode):
            return _REDIRECTED + text if mode == SteerMode.REDIRECT else text
        case AgentStep(name=name, message=text) if name == NUDGE:
            return text
        case BudgetWarned(message=text, used=used) if used is not None:
            return text
        case GateChecked(tool=tool, ok=False, errors=errors) if tool == REPLY:
            return "\n".join(errors)
        case VerifyChecked(message=text) if text:
            return text
        case _:
            return None


def messages_of(turns: Iterable[EarlierTurn]) -> Iterator[Message]:
    """Each turn's prompt and answer; one without an answer says how it ended: each prompt is answered."""
    for turn in turns:
        yield UserMessage(turn.prompt)
        yield AssistantMessage.of(turn.answer or f"[This turn ended as {turn.status.value}, without an answer.]")


def note_of(turns: tuple[EarlierTurn, ...]) -> AgentStep:
    """For people: how much of its session the agent was shown."""
    before = "the turn" if len(turns) == 1 else f"the {len(turns)} turns"
    return AgentStep(name=NOTE, message=f"It was shown {before} before it in its session.")
