"""This room is for the turns of a session before this one, as its master's model is shown them."""

from collections.abc import Iterable, Iterator

from drone.agent.messages import AssistantMessage, Message, UserMessage
from mcc.contracts.journal import AgentStep
from mcc.contracts.order import EarlierTurn

NOTE = "session"


def messages_of(turns: Iterable[EarlierTurn]) -> Iterator[Message]:
    """Each turn's prompt and answer; one without an answer says how it ended: each prompt is answered."""
    for turn in turns:
        yield UserMessage(turn.prompt)
        yield AssistantMessage(turn.answer or f"[This turn ended as {turn.status.value}, without an answer.]")


def note_of(turns: tuple[EarlierTurn, ...]) -> AgentStep:
    """For people: how much of its session the agent was shown."""
    before = "the turn" if len(turns) == 1 else f"the {len(turns)} turns"
    return AgentStep(name=NOTE, message=f"It was shown {before} before it in its session.")
