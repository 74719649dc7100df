"""The agents of an installation: their files found and read once, the shipped ones, the operator's, the user's."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mcc.configuration.places import NotPrivate, refuse_others
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.drones import AgentSheet, Capability
from mcc.contracts.shape import digest
from mcc.definitions.front_matter import FILE_BYTES, DefinitionError
from mcc.definitions.rights import TOOL_GROUPS, GroupTable, tools_of
from mcc.definitions.scopes import (
    MASTER,
    AgentFile,
    Agents,
    Reader,
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
"""Sentences about a workspace's files that are told, and the characters of each."""

_FILE = "system.md"


@dataclass(frozen=True, slots=True)
class Definitions:
    """All agents that orders and agents may name. A broken file is kept with its problem instead of a definition."""

    known: Agents
    groups: GroupTable = field(default_factory=lambda: TOOL_GROUPS)

    @classmethod
    def load(
        cls, prompts_dir: Path | str | None = None, groups: GroupTable = TOOL_GROUPS, own_dir: Path | None = None
    ) -> "Definitions":
        """The shipped agents, and those of `master/system.md` and `subagent/*/system.md` under `prompts_dir`;
        before them `*.md` of `own_dir`, the user's own.

        Never raises for what is in the files: `problems` says it, `get` and `capabilities` tell it.
        """
        shipped = tuple(_files(shipped_prompts(), whole=True))
        if prompts_dir is None:
            return cls(with_user(installed(shipped, groups=groups), _own_files(own_dir), groups), groups)
        directory = Path(prompts_dir).expanduser()
        if directory.is_dir():
            found = installed(shipped, _files(directory), groups)
            return cls(with_user(found, _own_files(own_dir), groups), groups)
        problem = DefinitionError(str(directory), "prompts are to be read from here, and it is no directory")
        return cls(Agents(problems={file.name: problem for file in shipped}), groups)

    @property
    def agents(self) -> Mapping[str, AgentDefinition]:
        return self.known.usable

    @property
    def problems(self) -> Mapping[str, str]:
        return {name: str(problem) for name, problem in self.known.problems.items()}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong with a workspace's files, in a bounded number of bounded sentences: they become entries."""
        return few([str(one) for one in (*self.known.refused, *self.known.warnings)], TOLD, TOLD_CHARACTERS)

    def nearer(
        self,
        files: Iterable[AgentFile],
        read: Reader = workspace_agent,
        trusted: Collection[str] = (),
        doubt: str = "",
    ) -> "Definitions":
        """With the agents of an order's workspace before these, none of them with more rights than the operator's.

        `trusted` are the names of those files that the operator agreed to, to replace an agent or to choose a model;
        `doubt` says why that cannot be known.
        """
        return Definitions(with_workspace(self.known, files, self.groups, read, trusted, doubt), self.groups)

    def get(self, name: str) -> AgentDefinition:
        """Raises LookupError with a sentence: there is no such agent, or its file is broken."""
        return self.known.get(name)

    def spawns(self, name: str) -> tuple[str, ...]:
        """The agents that a usable one may delegate to, `workspace/*` spelled out, in the order of its file."""
        return self.known.spawns(name)

    def names(self) -> tuple[str, ...]:
        """The agents that can be used, in alphabetical order."""
        return tuple(sorted(self.agents))

    def capabilities(self, tools: Collection[Capability] = ()) -> tuple[Capability, ...]:
        """Every agent that has a file, the broken ones with their problem; `tools` are those of the drone."""
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
            digest=digest(agent),
        )


def shipped_prompts() -> Path:
    """The prompts of this installation: inside the package when it came as a wheel, else beside it in the checkout."""
    package = Path(__file__).resolve().parents[1]
    packed = package / "_prompts"
    return packed if packed.is_dir() else package.parent / "prompts"


def _files(directory: Path, *, whole: bool = False) -> Iterator[AgentFile]:
    """The agent files of a directory of prompts; in a `whole` one the master may not be missing."""
    master = directory / MASTER / _FILE
    if whole or master.parent.is_dir():
        yield _read(MASTER, master)
    subagents = directory / "subagent"
    if subagents.is_dir():
        for folder in sorted(subagents.iterdir()):
            if folder.is_dir() and not folder.name.startswith((".", "_")):
                yield _read(folder.name, folder / _FILE)


def _own_files(directory: Path | None) -> tuple[AgentFile, ...]:
    """The agent files of the user's own directory, which nobody else may write."""
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
