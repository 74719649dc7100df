"""This room is for what people asked of agents, in a few words."""

from mcc.contracts.control import SteerMode
from mcc.contracts.journal import ControlApplied

_BRIEF = {"pause": "paused", "resume": "goes on", "cancel": "is cancelled"}


def asked_in_brief(asked: ControlApplied) -> str:
    """What was asked, in words that go on after the agent's name."""
    said = [_BRIEF[asked.control]] if asked.control in _BRIEF else []
    if asked.control == "steer" and asked.message is not None:
        redirected = asked.mode == SteerMode.REDIRECT
        said.append(f"{'has a new task' if redirected else 'is told'}: {asked.message}")
    if asked.tools_removed:
        said.append(f"loses {', '.join(asked.tools_removed)}")
    why = f" ({asked.reason})" if asked.reason else ""
    return "; ".join(said) + why
