"""Provisioning: tools chosen by name or group, which of its parent's an agent gets, and what it asked for in vain."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from drone.agent.messages import ToolSpec
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.journal import AgentStep
from mcc.definitions.front_matter import suggestion
from mcc.definitions.rights import TOOL_GROUPS, expanded, known_names
from mcc.rules.errors import alike

PROVISIONED = "provisioned"
UNKNOWN_GROUP = "unknown_tool_group"

DELEGATION_AND_SHELL_WRITES = frozenset({"delegation", "shell_write"})
"""Groups that an agent whose caller chose its groups never has."""

FINISH = "finish"


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


@dataclass(frozen=True, slots=True)
class Provision:
    """`names` of the tools that the agent gets, in their order; `missing` are names that its file or caller asked for.

    `notes` say what was wrong with the groups that its caller chose, `in_vain` names them when they gave nothing.
    """

    names: tuple[str, ...]
    missing: tuple[str, ...] = ()
    notes: tuple[AgentStep, ...] = ()
    in_vain: tuple[str, ...] = ()

    def steps(self, all_names: Sequence[str]) -> tuple[AgentStep, ...]:
        """The steps that the agent's record begins with; `all_names` are the tools it has in the end."""
        count = f"{len(all_names)} tool{'' if len(all_names) == 1 else 's'}"
        listed = f": {', '.join(all_names)}" if all_names else ""
        lacking = f"; not available here: {', '.join(self.missing)}" if self.missing else ""
        groups = ", ".join(group[:100] for group in self.in_vain)
        instead = f"; {groups} gave it no tool, so it has those of its file" if groups else ""
        said = f"provisioned {count}{listed}{lacking}{instead}"
        return (*self.notes, AgentStep(name=PROVISIONED, message=said))


def provision(there: Sequence[ToolSpec], definition: AgentDefinition, groups: Sequence[str] | None = None) -> Provision:
    """What the definition lets its agent have of `there`; `groups` (None = not chosen) leave less of it.

    Groups never give an agent what its file does not. Without one that gives it a tool it has what its file says,
    delegation and shell writes left out all the same.
    """
    own = _by_definition(there, definition)
    if groups is None:
        return Provision(tuple(spec.name for spec in own), _missing(there, own, definition))
    allowed = [spec for spec in own if spec.group not in DELEGATION_AND_SHELL_WRITES]
    known = [group for group in groups if group in TOOL_GROUPS]
    notes = [_unknown_group(group) for group in groups if group not in TOOL_GROUPS]
    wanted = set(chosen(allowed, known))
    found = [spec for spec in allowed if spec.name in wanted]
    in_vain = tuple(groups) if not found and set(known) != {FINISH} else ()
    missing = [group for group in known if group != FINISH and not chosen(found, [group])]
    names = tuple(spec.name for spec in found or allowed)
    return Provision(names, tuple(dict.fromkeys(missing)), tuple(notes), in_vain)


def _by_definition(there: Sequence[ToolSpec], definition: AgentDefinition) -> list[ToolSpec]:
    names = [spec.name for spec in there]
    wanted = set(names if definition.tools is None else chosen(there, definition.tools))
    refused = set(chosen(there, definition.disallowed_tools))
    return [spec for spec in there if spec.name in wanted - refused]


def _missing(there: Sequence[ToolSpec], own: Sequence[ToolSpec], definition: AgentDefinition) -> tuple[str, ...]:
    """Names in the file's `tools` that brought nothing: a group of which nothing is there, a tool that is not."""
    refused = set(chosen(there, definition.disallowed_tools))
    named = definition.tools or ()
    in_groups = expanded(name for name in named if name in TOOL_GROUPS)
    spared = {FINISH, *definition.disallowed_tools, *in_groups}
    asked = [name for name in named if name not in spared]
    return tuple(name for name in asked if not chosen(own, [name]) and not refused.intersection(chosen(there, [name])))


def _unknown_group(group: str) -> AgentStep:
    near = suggestion(group, TOOL_GROUPS)
    return AgentStep(name=UNKNOWN_GROUP, message=f"there is no tool group {group[:100]!r}{near}")
