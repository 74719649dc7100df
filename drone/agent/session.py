"""This room is for the turns of a session before this one, as its master's model is shown them."""

from collections.abc import Iterable, Iterator

from drone.agent.messages import AssistantMessage, Message, UserMessage
from mcc.contracts.journal import AgentStep
from mcc.contracts.order import EarlierTurn

NOTE = "session"


def messages_of(turns: Iterable[EarlierTurn]) -> Iterator[Message]:
    """Each turn's prompt and answer; one without an answer says how it ended, for roles must take turns."""
    for turn in turns:
        yield UserMessage(turn.prompt)
        yield AssistantMessage(turn.answer or f"[This turn was {turn.status.value}, without an answer.]")


def note_of(turns: tuple[EarlierTurn, ...]) -> AgentStep:
    """For people: which turns the agent was shown."""
    numbers = ", ".join(str(turn.session_seq) for turn in turns)
    word = "turn" if len(turns) == 1 else "turns"
    return AgentStep(name=NOTE, message=f"It was shown {word} {numbers} of its session.")
