"""The agent definitions of an installation: the shipped ones, the operator's and the user's, each file read once."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mcc.configuration.places import NotPrivate, refuse_others
from mcc.contracts.agents import AgentDefinition, definition_digest
from mcc.contracts.drones import AgentSheet, Capability
from mcc.definitions.front_matter import FILE_BYTES, DefinitionError
from mcc.definitions.rights import TOOL_GROUPS, GroupTable, tools_of
from mcc.definitions.scopes import (
    MASTER,
    AgentFile,
    Reader,
    UsableAgents,
    in_folders,
    installed,
    with_user,
    with_workspace,
    within_bounds,
    workspace_agent,
)
from mcc.rules.report import few

__all__ = ["MASTER", "Definitions", "shipped_prompts"]

TOLD = 100
TOLD_CHARACTERS = 1_000
"""Most warnings about a workspace's files, and most characters of each."""

_FILE = "system.md"


@dataclass(frozen=True, slots=True)
class Definitions:
    """All agents that orders and agents may name. A broken file is listed with its problem instead of a definition."""

    known: UsableAgents
    groups: GroupTable = field(default_factory=lambda: TOOL_GROUPS)

    @classmethod
    def load(
        cls, prompts_dir: Path | str | None = None, groups: GroupTable = TOOL_GROUPS, own_dir: Path | None = None
    ) -> "Definitions":
        """The shipped agents, and those of `master/system.md` and `subagent/*/system.md` under `prompts_dir`; `*.md` in
        `own_dir`, the user's own directory, take precedence.

        Never raises for a file's content: see `problems`, `get` and `capabilities`.
        """
        shipped = tuple(_files(shipped_prompts(), whole=True))
        if prompts_dir is None:
            return cls(with_user(installed(shipped, groups=groups), _own_files(own_dir), groups), groups)
        directory = Path(prompts_dir).expanduser()
        if directory.is_dir():
            built_in = installed(shipped, _files(directory), groups)
            return cls(with_user(built_in, _own_files(own_dir), groups), groups)
        problem = DefinitionError(str(directory), "prompts are to be read from here, and it is no directory")
        return cls(UsableAgents(problems={file.name: problem for file in shipped}), groups)

    @property
    def agents(self) -> Mapping[str, AgentDefinition]:
        return self.known.usable

    @property
    def problems(self) -> Mapping[str, str]:
        return {name: str(problem) for name, problem in self.known.problems.items()}

    @property
    def warnings(self) -> tuple[str, ...]:
        """Problems of a workspace's files; number and length are bounded, since they become journal entries."""
        return few([str(one) for one in (*self.known.refused, *self.known.warnings)], TOLD, TOLD_CHARACTERS)

    def nearer(
        self,
        files: Iterable[AgentFile],
        read: Reader = workspace_agent,
        trusted: Collection[str] = (),
        doubt: str = "",
    ) -> "Definitions":
        """Add the agents of an order's workspace, which take precedence, without more rights than the operator's.

        `trusted`: names of the files that the operator has allowed to replace an agent or to choose a model; `doubt`:
        why it cannot be determined which are.
        """
        return Definitions(with_workspace(self.known, files, self.groups, read, trusted, doubt), self.groups)

    def get(self, name: str) -> AgentDefinition:
        """Raises LookupError when there is no such agent or its file is broken; the message says which."""
        return self.known.get(name)

    def spawns(self, name: str) -> tuple[str, ...]:
        """The agents that a usable agent may delegate to, `workspace/*` expanded, in the order of its file."""
        return self.known.spawns(name)

    def names(self) -> tuple[str, ...]:
        """The usable agents in alphabetical order."""
        return tuple(sorted(self.agents))

    def capabilities(self, tools: Collection[Capability] = ()) -> tuple[Capability, ...]:
        """Every agent with a file, broken ones with their problem; `tools` are the drone's tools."""
        usable = [
            Capability(name=name, description=agent.description, agent=self._sheet(name, agent, tools))
            for name, agent in self.agents.items()
        ]
        broken = [Capability(name=name, problem=problem) for name, problem in self.problems.items()]
        return tuple(sorted((*usable, *broken), key=lambda capability: capability.name))

    def _sheet(self, name: str, agent: AgentDefinition, there: Collection[Capability]) -> AgentSheet:
        return AgentSheet(
            definition=agent,
            origin=self.known.scopes[name].value,
            tools=tools_of(agent, [(tool.name, tool.group) for tool in there], self.groups),
            digest=definition_digest(agent),
        )


def shipped_prompts() -> Path:
    """The directory of shipped prompts: inside the package for a wheel, beside it in a checkout."""
    package = Path(__file__).resolve().parent
    packed = package / "_prompts"
    return packed if packed.is_dir() else package.parent / "prompts"


def _files(directory: Path, *, whole: bool = False) -> Iterator[AgentFile]:
    """The agent files of a prompts directory; in a `whole` one a missing master file is reported as a problem."""
    master = directory / MASTER / _FILE
    if whole or master.parent.is_dir():
        yield _read(MASTER, master)
    subagents = directory / "subagent"
    if subagents.is_dir():
        for folder in sorted(subagents.iterdir()):
            if folder.is_dir() and not folder.name.startswith((".", "_")):
                yield _read(folder.name, folder / _FILE)


def _own_files(directory: Path | None) -> tuple[AgentFile, ...]:
    """The agent files of the user's own directory; refused when other users may write to it."""
    if directory is None or not os.path.isdir(directory):
        return ()
    try:
        refuse_others(directory.stat(), directory)
        names = sorted(path.name for path in directory.glob("*.md") if not path.name.startswith("."))
        folders = sorted(path.name for path in directory.iterdir() if path.is_dir() and not path.name.startswith("."))
    except (OSError, NotPrivate) as error:
        return (AgentFile("", str(directory), problem=f"not read: {error}".rstrip(".")),)
    read = within_bounds(names, lambda name: _read(name.removesuffix(".md"), directory / name))
    return (*read, *in_folders(folders, str(directory)))


def _read(name: str, path: Path) -> AgentFile:
    try:
        if not path.is_file():
            return AgentFile(name, str(path), problem="there is no such file, and an agent needs one")
        with path.open("rb") as file:
            return AgentFile(name, str(path), file.read(FILE_BYTES + 1))
    except OSError as error:
        return AgentFile(name, str(path), problem=f"the file cannot be read: {error.strerror}")
