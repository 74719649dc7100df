"""This room is for choosing tools by name or group, strictly: a name that nobody knows is an error, never nothing."""

from collections.abc import Iterable

from drone.agent.messages import ToolSpec
from mcc.definitions.groups import TOOL_GROUPS, known_names
from mcc.rules.nearness import alike

__all__ = ["TOOL_GROUPS", "UnknownToolName", "chosen", "expand"]


class UnknownToolName(LookupError):
    """Neither a tool nor a group has this name; the message names the nearest."""

    def __str__(self) -> str:
        return str(self.args[0])


def expand(names: Iterable[str], also: Iterable[str] = ()) -> tuple[str, ...]:
    """The tool names that groups and tool names stand for, each once, in order. `also`: further tools that exist.

    Raises `UnknownToolName`.
    """
    known = known_names(TOOL_GROUPS) | frozenset(also)
    found: dict[str, None] = {}
    for name in names:
        if name not in known:
            raise UnknownToolName(_unknown(name, known))
        found.update(dict.fromkeys(TOOL_GROUPS.get(name, (name,))))
    return tuple(found)


def chosen(specs: Iterable[ToolSpec], names: Iterable[str]) -> tuple[str, ...]:
    """Those of `specs` that `names` stand for, by their own name or by the group they declare."""
    there, wanted = list(specs), set(names)
    tools = set(expand(wanted, (spec.name for spec in there)))
    return tuple(spec.name for spec in there if spec.name in tools or spec.group in wanted)


def _unknown(name: str, known: frozenset[str]) -> str:
    near = alike(name, sorted(known), n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"The groups are {', '.join(TOOL_GROUPS)}."
    return f"There is no tool or tool group {name!r}. {hint}"
