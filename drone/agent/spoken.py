"""This room is for what entries say to the model: whatever the runtime tells an agent stands in its journal first."""

from mcc.contracts.control import SteerMode
from mcc.contracts.journal import AgentStep, BudgetWarned, ControlApplied, Fact, GateChecked

NUDGE = "nudge"
REPLY = "reply"
"""`GateChecked.tool` of a reply without tool calls from an agent that has a gate."""

_REDIRECTED = "Your task has changed. Leave what you were doing; this is your task from now on:\n\n"


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
        case _:
            return None
