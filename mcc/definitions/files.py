"""This room is for agent files as they were found: each read for its scope, and what is wrong with it told."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from mcc.contracts.agents import AgentDefinition, DefinitionOrigin
from mcc.definitions.agents import parse_agent
from mcc.definitions.errors import DefinitionError
from mcc.definitions.front_matter import decoded
from mcc.definitions.groups import TOOL_GROUPS, GroupTable

MASTER = "master"

WORKSPACE_FILES = 200
WORKSPACE_BYTES = 1_000_000
"""Agent files of one workspace that are read, and the bytes of all of them."""

WORKSPACE_DIRECTORY = ".mcc/agents"


class Scope(StrEnum):
    """Whose file it is; a later one counts before an earlier one."""

    SHIPPED = "shipped"
    OPERATOR = "operator"
    WORKSPACE = "workspace"


def origin_of(name: str, scope: Scope) -> DefinitionOrigin:
    """Where the agent of that name is defined in that scope."""
    installed = f"{MASTER}/system.md" if name == MASTER else f"subagent/{name}/system.md"
    return DefinitionOrigin(scope=scope.value, path=place_of(name) if scope is Scope.WORKSPACE else installed)


def place_of(name: str) -> str:
    """The path within a workspace of the file that defines the agent of that name."""
    return f"{WORKSPACE_DIRECTORY}/{name}.md"


@dataclass(frozen=True, slots=True)
class AgentFile:
    """One file: `name` is what its place says that its agent is called, `source` how people are told of it.

    `content` may be a byte longer than a file may be; `problem` says why there is none.
    """

    name: str
    source: str
    content: bytes = b""
    problem: str = ""

    def text(self) -> str:
        """Raises `DefinitionError`."""
        if self.problem:
            raise DefinitionError(self.source, self.problem)
        return decoded(self.content, self.source)


def installed_agent(file: AgentFile, groups: GroupTable = TOOL_GROUPS) -> AgentDefinition:
    """The agent of a file that an installation brings or its operator wrote. Raises `DefinitionError`."""
    return _checked(parse_agent(file.text(), file.source, groups), file)


def workspace_agent(
    file: AgentFile, groups: GroupTable = TOOL_GROUPS
) -> tuple[AgentDefinition, tuple[DefinitionError, ...]]:
    """The agent of a workspace's file as it is written there, with warnings. Raises `DefinitionError`."""
    warnings: list[DefinitionError] = []
    definition = parse_agent(file.text(), file.source, groups, warnings.append)
    return _checked(definition, file), tuple(warnings)


def within_bounds(names: Sequence[str], read: Callable[[str], AgentFile]) -> tuple[AgentFile, ...]:
    """The files of a workspace in the order of `names`, as long as number and bytes allow; then one that says so."""
    found: list[AgentFile] = []
    left = WORKSPACE_BYTES
    for name in names[:WORKSPACE_FILES]:
        file = read(name)
        if len(file.content) > left:
            break
        left -= len(file.content)
        found.append(file)
    if len(found) == len(names):
        return tuple(found)
    said = (
        f"of {len(names)} agent files here, {len(found)} are read, because {WORKSPACE_FILES} files and "
        f"{WORKSPACE_BYTES:,} bytes in all are the most; {names[len(found)]!r} and those after it are left out"
    )
    return (*found, AgentFile("", WORKSPACE_DIRECTORY, problem=said))


Reader: TypeAlias = Callable[[AgentFile, GroupTable], tuple[AgentDefinition, tuple[DefinitionError, ...]]]
"""Reads a workspace's file as `workspace_agent` does, wherever that is done."""


def _checked(definition: AgentDefinition, file: AgentFile) -> AgentDefinition:
    blank = AgentDefinition(name=definition.name)
    for part in ("permission", "isolation"):
        if getattr(definition, part) != getattr(blank, part):
            raise DefinitionError(file.source, f"{part} is not available in this version; leave it out")
    if definition.name != file.name:
        raise DefinitionError(
            file.source, f"the file names its agent {definition.name!r} but lies where {file.name!r} belongs"
        )
    return definition
