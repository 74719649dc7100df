"""This room is for looking at a control before it is kept: does it say anything, and can it be meant so?"""

from collections.abc import Sequence

from mcc.api.problems import Unacceptable
from mcc.configuration.file import nearest
from mcc.contracts.control import ControlKind, NewControl, SteerMode
from mcc.contracts.drones import Registration
from mcc.definitions.groups import TOOL_GROUPS, expanded, known_names


def sensible(kind: ControlKind, asked: NewControl, drones: Sequence[Registration]) -> NewControl:
    """`asked`, a blank message left out. Raises `Unacceptable`.

    Names of tools are looked up among all groups, all tools of this version and those of `drones`; of none, if there
    are none that could be asked.
    """
    if kind is not ControlKind.STEER:
        for field in ("mode", "remove_tools"):
            if getattr(asked, field):
                raise Unacceptable(field, f"{field} belongs to a steer; leave it out of a {kind}.")
        return asked
    if not (asked.message or "").strip():
        asked = asked.model_copy(update={"message": None})
    if asked.message is None and asked.mode is SteerMode.REDIRECT:
        raise Unacceptable("message", "a redirect needs a message: the task from now on.")
    if asked.message is None and not asked.remove_tools:
        raise Unacceptable("message", "a steer needs a message, or tools to remove: what should the agent be told?")
    _check_tools(asked.remove_tools, drones)
    return asked


_FINISH = expanded(["finish"]) | {"finish"}


def _check_tools(names: Sequence[str], drones: Sequence[Registration]) -> None:
    known = known_names(TOOL_GROUPS) | {tool.name for drone in drones for tool in drone.tools}
    for name in names:
        if name in _FINISH:
            said = f"{name} cannot be taken away: an agent needs it to hand in its result. To stop it, cancel it."
            raise Unacceptable("remove_tools", said)
        if drones and name not in known:
            said = f"there is no tool and no group {name!r}{nearest(name, known)}; leave it out."
            raise Unacceptable("remove_tools", said)
