"""Agent files as they were found, and all scopes' agents as one: shipped, operator's, user's, workspace's."""

import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeAlias

from mcc.contracts.agents import INHERIT, AgentDefinition, DefinitionOrigin
from mcc.definitions.agents import line_of_spawn, parse_agent
from mcc.definitions.front_matter import DefinitionError, NotAgreed, Notice, decoded, suggestion
from mcc.definitions.rights import TOOL_GROUPS, GroupTable, allowed_to
from mcc.permission.layers import Layer
from mcc.rules.report import TEXT_NAME

MASTER = "master"

WORKSPACE_FILES = 200
WORKSPACE_BYTES = 1_000_000
"""Agent files of one workspace that are read, and the bytes of all of them."""

WORKSPACE_DIRECTORY = ".mcc/agents"


class Scope(StrEnum):
    """Whose file it is; a later one counts before an earlier one."""

    SHIPPED = "shipped"
    OPERATOR = "operator"
    USER = "user"
    WORKSPACE = "workspace"


def origin_of(name: str, scope: Scope) -> DefinitionOrigin:
    """Where the agent of that name is defined in that scope."""
    installed = f"{MASTER}/system.md" if name == MASTER else f"subagent/{name}/system.md"
    places = {Scope.WORKSPACE: place_of(name), Scope.USER: f"agents/{name}.md"}
    return DefinitionOrigin(scope=scope.value, path=places.get(scope, installed))


def place_of(name: str) -> str:
    """The path within a workspace of the file that defines the agent of that name."""
    return f"{WORKSPACE_DIRECTORY}/{name}.md"


@dataclass(frozen=True, slots=True)
class AgentFile:
    """One file: `name` is what its place says that its agent is called, `source` how people are told of it.

    `content` may be a byte longer than a file may be; `problem` says why there is none, `is_notice` that this is no
    mistake.
    """

    name: str
    source: str
    content: bytes = b""
    problem: str = ""
    is_notice: bool = False

    def text(self) -> str:
        """Raises `DefinitionError`."""
        if self.problem:
            raise (Notice if self.is_notice else DefinitionError)(self.source, self.problem)
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
    problem = (
        f"of {len(names)} agent files here, {len(found)} are read, because {WORKSPACE_FILES} files and "
        f"{WORKSPACE_BYTES:,} bytes in all are the most; {names[len(found)]!r} and those after it are left out"
    )
    return (*found, AgentFile("", WORKSPACE_DIRECTORY, problem=problem))


Reader: TypeAlias = Callable[[AgentFile, GroupTable], tuple[AgentDefinition, tuple[DefinitionError, ...]]]
"""Reads a workspace's file as `workspace_agent` does, wherever that is done."""


def _checked(definition: AgentDefinition, file: AgentFile) -> AgentDefinition:
    if definition.name != file.name:
        raise DefinitionError(
            file.source, f"the file names its agent {definition.name!r} but lies where {file.name!r} belongs"
        )
    return definition


DESCRIPTION_CHARACTERS = 120
"""Of a description that a workspace wrote."""

_READ = 4_000
_ENDS = (". ", "! ", "? ")
_EXCHANGED = str.maketrans({'"': "'", "“": "'", "”": "'", "„": "'", "`": "'", "<": "‹", ">": "›"})
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u180f\u2800\u3164\uffa0")
"""Letters and marks that show nothing."""


def untrusted_description(description: str) -> str:
    """What stands for a workspace's agent in prompts and schemas: that it is one, and the first sentence it says."""
    text = " ".join("".join(map(_shown, description[:_READ])).split()).translate(_EXCHANGED)
    end = min((found + 1 for mark in _ENDS if (found := text.find(mark)) >= 0), default=len(text))
    text = text[:end] if end <= DESCRIPTION_CHARACTERS else f"{text[:DESCRIPTION_CHARACTERS].rstrip()}…"
    return f"agent of this workspace, which says of itself: “{text}”" if text else "agent of this workspace"


def _shown(character: str) -> str:
    """Nothing for what controls, hides or reorders text; a space for everything that separates."""
    category = unicodedata.category(character)
    if character.isspace() or category[0] == "Z":
        return " "
    is_selector = "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"
    return "" if category[0] == "C" or is_selector or character in _BLANK else character


WORKSPACE_ANY = "workspace/*"
"""In `spawns`: every agent that only the order's workspace, or its user, defines."""


_CONSENT = "look at it, then run mcc agents trust WORKSPACE"


@dataclass(frozen=True, slots=True)
class Agents:
    """Agents by name, those that can be used and what is wrong with the others; `warnings` stop nobody.

    `refused` are the files of a workspace that are not used.
    `scopes` tells whose file counts for a usable agent; `own` names those that only a workspace or its user defines.
    `held` is the permission of the agents that these are held to.
    """

    usable: Mapping[str, AgentDefinition] = field(default_factory=dict)
    scopes: Mapping[str, Scope] = field(default_factory=dict)
    problems: Mapping[str, DefinitionError] = field(default_factory=dict)
    warnings: tuple[DefinitionError, ...] = ()
    refused: tuple[DefinitionError, ...] = ()
    own: frozenset[str] = frozenset()
    held: Mapping[str, tuple[Layer, ...]] = field(default_factory=dict)

    def get(self, name: str) -> AgentDefinition:
        """Raises LookupError with a sentence: there is no such agent, or its file is broken."""
        if name in self.usable:
            return self.usable[name]
        if name in self.problems:
            raise LookupError(f"The agent {name!r} cannot be used: {self.problems[name]}")
        raise LookupError(f"There is no agent {name!r}{suggestion(name, self.usable)}")

    def origin(self, name: str) -> DefinitionOrigin:
        """Where a usable agent is defined; of one that came from no file, that a program handed it over."""
        scope = self.scopes.get(name)
        return DefinitionOrigin(scope="library") if scope is None else origin_of(name, scope)

    def permission(self, name: str) -> tuple[Layer, ...]:
        """What the file of a usable agent says of its calls, and those of the agents that it is held to. The file of a
        workspace, or of its user, only narrows what these say."""
        installed = self.scopes.get(name) not in (Scope.WORKSPACE, Scope.USER)
        own = Layer("agent", self.usable[name].permission, consents=installed)
        return (*self.held.get(name, ()), own)

    def description(self, name: str) -> str:
        """That of a usable agent as models are shown it: a workspace's is a stranger's word."""
        own = self.usable[name].description
        return untrusted_description(own) if self.scopes.get(name) is Scope.WORKSPACE else own

    def spawns(self, name: str) -> tuple[str, ...]:
        """The agents that a usable one may delegate to, `workspace/*` spelled out, in the order of its file."""
        found: dict[str, None] = {}
        for spawn in self.usable[name].spawns:
            found.update(dict.fromkeys(sorted(self.own) if spawn == WORKSPACE_ANY else (spawn,)))
        return tuple(found)


def installed(
    shipped: Iterable[AgentFile], operators: Iterable[AgentFile] = (), groups: GroupTable = TOOL_GROUPS
) -> Agents:
    """What an installation has: the operator's files beside the shipped ones, or in the place of those they name.

    A broken file of the operator does not bring the shipped agent back. Never raises.
    """
    files: dict[str, tuple[AgentFile, Scope]] = {}
    problems: dict[str, DefinitionError] = {}
    for scope, found in ((Scope.SHIPPED, shipped), (Scope.OPERATOR, operators)):
        for file in found:
            earlier = files.get(file.name)
            if earlier is not None and earlier[1] is scope:
                sentence = f"two files define the agent {file.name!r}; rename or remove one of them"
                problems[file.name] = DefinitionError(file.source, sentence)
            files[file.name] = (file, scope)
    usable: dict[str, AgentDefinition] = {}
    for name, (file, _) in files.items():
        try:
            if name not in problems:
                usable[name] = installed_agent(file, groups)
        except DefinitionError as error:
            problems[name] = error
    for name in [name for name in usable if name not in problems]:
        problem = _unknown_name(files[name][0], usable[name], files)
        if problem is not None:
            problems[name] = problem
    usable = {name: agent for name, agent in usable.items() if name not in problems}
    return Agents(usable, {name: files[name][1] for name in usable}, problems)


def _unknown_name(file: AgentFile, agent: AgentDefinition, known: Collection[str]) -> DefinitionError | None:
    names = {*known, WORKSPACE_ANY}
    for index, spawn in enumerate(agent.spawns):
        if spawn not in names:
            problem = f"spawns names {spawn!r}, and there is no such agent{suggestion(spawn, names)}"
            return DefinitionError(file.source, problem, line_of_spawn(file.text(), index))
    verifier = agent.verify.agent if agent.verify else None
    if verifier is not None and verifier not in known:
        problem = f"verify names {verifier!r}, and there is no such agent{suggestion(verifier, known)}"
        return DefinitionError(file.source, problem)
    return None


def with_workspace(
    agents: Agents,
    files: Iterable[AgentFile],
    groups: GroupTable = TOOL_GROUPS,
    read: Reader = workspace_agent,
    trusted: Collection[str] = (),
    doubt: str = "",
    scope: Scope = Scope.WORKSPACE,
) -> Agents:
    """`agents`, and before them those of a workspace's files, none of which may do more than the operator allows.

    An agent that the operator has too is replaced, and a model chosen, only by files whose names are `trusted`. The
    agent is held to the operator's of its name, any other to the master; what is wrong is a warning. `doubt` says why
    nobody can know what is trusted.
    """
    warnings: list[DefinitionError] = []
    refused: list[DefinitionError] = []
    wanted: dict[str, tuple[AgentFile, AgentDefinition]] = {}
    for file in files:
        try:
            if file.name in wanted:
                raise DefinitionError(file.source, f"a second file for the agent {file.name!r}; it is left out")
            definition = _wanted(file, agents, groups, warnings, read)
            if file.name not in trusted:
                definition = _without_consent(file, definition, agents, warnings, doubt)
            wanted[file.name] = (file, definition)
        except Notice as error:
            warnings.append(error)
        except DefinitionError as error:
            refused.append(error)
    own = agents.own | (frozenset(wanted) - frozenset(agents.usable))
    usable, scopes, held = dict(agents.usable), dict(agents.scopes), dict(agents.held)
    for name, (file, definition) in wanted.items():
        usable[name], lost = allowed_to(definition, _ceiling(name, agents, own), groups)
        scopes[name] = scope
        held[name] = agents.permission(name if name in agents.usable else MASTER)
        warnings.extend(DefinitionError(file.source, sentence) for sentence in lost)
    return replace(
        agents,
        usable=usable,
        scopes=scopes,
        held=held,
        warnings=(*agents.warnings, *warnings),
        refused=(*agents.refused, *refused),
        own=own,
    )


def with_user(agents: Agents, files: Sequence[AgentFile], groups: GroupTable = TOOL_GROUPS) -> Agents:
    """`agents`, and before them those of the user's own directory, which need nobody's word and widen no rights.

    A broken file does not bring back the agent whose name it has. Never raises.
    """
    found = with_workspace(agents, files, groups, trusted={file.name for file in files}, scope=Scope.USER)
    names = {file.source: file.name for file in files if file.name}
    broken = {names[error.source]: error for error in found.refused if error.source in names}
    return replace(
        found,
        usable={name: agent for name, agent in found.usable.items() if name not in broken},
        scopes={name: scope for name, scope in found.scopes.items() if name not in broken},
        problems={**found.problems, **broken},
        refused=tuple(error for error in found.refused if error.source not in names),
    )


def in_folders(names: Sequence[str], directory: str) -> tuple[AgentFile, ...]:
    """What is told of folders below a directory of agent files: nothing in them is read."""
    if not names:
        return ()
    shown = ", ".join(f"{name}/" for name in names[:5]) + (", …" if len(names) > 5 else "")
    problem = f"agent files lie here itself; what is in folders is not read: {shown}"
    return (AgentFile("", directory, problem=problem, is_notice=True),)


def _wanted(
    file: AgentFile, agents: Agents, groups: GroupTable, warnings: list[DefinitionError], read: Reader
) -> AgentDefinition:
    """What the file asks for. Raises `DefinitionError` when there is nothing to hold it to."""
    definition, doubts = read(file, groups)
    warnings.extend(doubts)
    for name in (file.name, MASTER):
        if name in agents.problems:
            raise DefinitionError(file.source, f"not used, because the operator's agent {name!r} is broken")
        if name in agents.usable:
            return definition
    raise DefinitionError(file.source, f"not used, because there is no agent {MASTER!r} to hold it to")


def _without_consent(
    file: AgentFile, definition: AgentDefinition, agents: Agents, warnings: list[DefinitionError], doubt: str
) -> AgentDefinition:
    """What is left of the file's wishes. Raises `NotAgreed` when it is to stand for an agent of the operator's."""
    who, then = ("it is not known whether anybody", f": {doubt}") if doubt else ("nobody", f"; {_CONSENT}")
    if file.name in agents.usable:
        problem = f"not used, because {who} agreed that it replaces the operator's agent {file.name!r}"
        raise NotAgreed(file.source, f"{problem}{then}")
    if definition.model == INHERIT:
        return definition
    problem = f"model {definition.model!r} is not used, because {who} agreed that this file chooses a model"
    warnings.append(DefinitionError(file.source, f"{problem}{then}"))
    return definition.model_copy(update={"model": INHERIT})


def _ceiling(name: str, agents: Agents, own: frozenset[str]) -> AgentDefinition:
    """What the workspace's agent may be at most: the operator's of that name, else the master without its gate."""
    if name in agents.usable:
        ceiling = agents.usable[name]
    else:
        ceiling = agents.usable[MASTER].model_copy(
            update={"rules": (), "result": TEXT_NAME, "verify": None, "model": INHERIT}
        )
    if WORKSPACE_ANY not in ceiling.spawns:
        return ceiling
    return ceiling.model_copy(update={"spawns": (*ceiling.spawns, *sorted(own))})
