"""The transcript of a run: what its model is shown, what journal entries say to it, and how long that is."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from drone.agent.clipping import with_clipped
from drone.agent.messages import AssistantMessage, Message, ToolResults, UserMessage
from drone.agent.pictures import seen
from mcc.contracts.control import SteerMode
from mcc.contracts.fact import Fact
from mcc.contracts.fence import noticed
from mcc.contracts.journal import AgentStep, BudgetWarned, Clipped, ControlApplied, GateChecked, VerifyChecked
from mcc.contracts.order import EarlierTurn

NUDGE = "nudge"
NOT_SENT = "not_sent"
"""The step that tells what of a question its model was not told."""

VALIDATE = "validate"

WOULD_BE = "would be accepted"
"""What an agent is told of a result that it had checked and did not hand in."""
"""The tool of a gate that checks a result and ends nothing."""

REPLY = "reply"
"""`GateChecked.tool` of a reply without tool calls from an agent that has a gate."""

TRY_FIRST = (
    "You report that you are blocked, but you have not tried to look at anything. Try your tools first; if you are "
    "blocked then, say what you tried and what came of it."
)
"""The error of a check, once in a run."""

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
            return sum(len(result.content) + seen(result.pictures) for result in message.told)
        case AssistantMessage():
            return len(message.text) + len(message.thinking)
        case _:
            return len(message.text)


def spoken(fact: Fact) -> str | None:
    """The user message that an entry puts into its record's transcript, word for word; None when it puts none.

    A resumed run reads its transcript from the journal, so nothing else may ever be said to a model.
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
