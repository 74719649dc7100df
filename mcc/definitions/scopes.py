"""Merging of agent files from all scopes: shipped, operator's, user's, workspace's."""

import json
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeAlias

from mcc.contracts.agents import INHERIT, AgentDefinition, DefinitionOrigin
from mcc.contracts.shape import to_json
from mcc.definitions.agents import line_of_spawn, parse_agent
from mcc.definitions.front_matter import DefinitionError, NotAgreed, Notice, decoded, suggestion
from mcc.definitions.rights import TOOL_GROUPS, GroupTable, allowed_to
from mcc.permission.layers import Layer
from mcc.rules.report import TEXT_NAME

MASTER = "master"

WORKSPACE_FILES = 200
WORKSPACE_BYTES = 1_000_000
"""Most agent files read from one workspace, and most bytes in total."""

WORKSPACE_DIRECTORY = ".mcc/agents"


class AgentScope(StrEnum):
    """Where an agent file comes from; a later scope takes precedence over an earlier one."""

    SHIPPED = "shipped"
    OPERATOR = "operator"
    USER = "user"
    WORKSPACE = "workspace"


def origin_of(name: str, scope: AgentScope) -> DefinitionOrigin:
    """The origin of an agent of this name in this scope."""
    installed = f"{MASTER}/system.md" if name == MASTER else f"subagent/{name}/system.md"
    places = {AgentScope.WORKSPACE: place_of(name), AgentScope.USER: f"agents/{name}.md"}
    return DefinitionOrigin(scope=scope.value, path=places.get(scope, installed))


def place_of(name: str) -> str:
    """The path within a workspace of the file for an agent of this name."""
    return f"{WORKSPACE_DIRECTORY}/{name}.md"


@dataclass(frozen=True, slots=True)
class AgentFile:
    """One file. `name` is the agent's name as derived from the path, `source` the label of the file in messages.

    `content` may exceed the size limit by one byte, which shows that the file is too large. `problem` says why there is
    no content; `is_notice`: that is no error.
    """

    name: str
    source: str
    content: bytes = b""
    problem: str = ""
    is_notice: bool = False

    def text(self) -> str:
        """The decoded content. Raises `DefinitionError`."""
        if self.problem:
            raise (Notice if self.is_notice else DefinitionError)(self.source, self.problem)
        return decoded(self.content, self.source)


def installed_agent(file: AgentFile, groups: GroupTable = TOOL_GROUPS) -> AgentDefinition:
    """Parse a shipped file or one of the operator. Raises `DefinitionError`."""
    return _checked(parse_agent(file.text(), file.source, groups), file)


def workspace_agent(
    file: AgentFile, groups: GroupTable = TOOL_GROUPS
) -> tuple[AgentDefinition, tuple[DefinitionError, ...]]:
    """Parse a workspace's file, without limiting its rights yet; answers warnings too. Raises `DefinitionError`."""
    warnings: list[DefinitionError] = []
    definition = parse_agent(file.text(), file.source, groups, warnings.append)
    return _checked(definition, file), tuple(warnings)


def agent_file_parser() -> Callable[[Any], object]:
    """The function that the separate process runs: from an agent file to its definition and warnings, or an error."""

    def parse_file(question: Any) -> object:
        file = AgentFile(question["name"], question["source"], question["text"].encode())
        try:
            definition, warnings = workspace_agent(file, question["groups"])
        except DefinitionError as error:
            return {"error": [error.sentence, error.line]}
        sentences = [(warning.sentence, warning.line) for warning in warnings]
        return {"definition": json.loads(to_json(definition)), "warnings": sentences}

    return parse_file


def within_bounds(names: Sequence[str], read: Callable[[str], AgentFile]) -> tuple[AgentFile, ...]:
    """Read a workspace's files in order, up to the limits; where any are left out, a last entry says so."""
    read_files: list[AgentFile] = []
    left = WORKSPACE_BYTES
    for name in names[:WORKSPACE_FILES]:
        file = read(name)
        # Although a smaller file behind it might fit: so one name says which files are left out.
        if len(file.content) > left:
            break
        left -= len(file.content)
        read_files.append(file)
    if len(read_files) == len(names):
        return tuple(read_files)
    problem = (
        f"of {len(names)} agent files here, {len(read_files)} are read, because {WORKSPACE_FILES} files and "
        f"{WORKSPACE_BYTES:,} bytes in all are the most; {names[len(read_files)]!r} and those after it are left out"
    )
    return (*read_files, AgentFile("", WORKSPACE_DIRECTORY, problem=problem))


Reader: TypeAlias = Callable[[AgentFile, GroupTable], tuple[AgentDefinition, tuple[DefinitionError, ...]]]
"""Parses a workspace's file like `workspace_agent`, perhaps in another process."""


def _checked(definition: AgentDefinition, file: AgentFile) -> AgentDefinition:
    if definition.name != file.name:
        raise DefinitionError(
            file.source, f"the file names its agent {definition.name!r} but lies where {file.name!r} belongs"
        )
    return definition


DESCRIPTION_CHARACTERS = 120
"""Most characters of an untrusted description."""

_READ = 4_000
_ENDS = (". ", "! ", "? ")
_EXCHANGED = str.maketrans({'"': "'", "“": "'", "”": "'", "„": "'", "`": "'", "<": "‹", ">": "›"})
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u180f\u2800\u3164\uffa0")
"""Letters and marks that are invisible."""


def untrusted_description(description: str) -> str:
    """The description of a workspace's agent for prompts and schemas: marked as such, cut to its first sentence."""
    # Quotes and angle brackets are exchanged too: the text must not end the marks that say it is untrusted.
    text = " ".join("".join(map(_visible, description[:_READ])).split()).translate(_EXCHANGED)
    end = min((found + 1 for mark in _ENDS if (found := text.find(mark)) >= 0), default=len(text))
    text = text[:end] if end <= DESCRIPTION_CHARACTERS else f"{text[:DESCRIPTION_CHARACTERS].rstrip()}…"
    return f"agent of this workspace, which says of itself: “{text}”" if text else "agent of this workspace"


def _visible(character: str) -> str:
    """The character; "" for one that controls, hides or reorders text, a space for any separator."""
    category = unicodedata.category(character)
    if character.isspace() or category[0] == "Z":
        return " "
    is_selector = "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"
    return "" if category[0] == "C" or is_selector or character in _BLANK else character


WORKSPACE_ANY = "workspace/*"
"""In `spawns`: all agents that are defined only by the order's workspace or its user."""


_CONSENT = "look at it, then run mcc agents trust WORKSPACE"


@dataclass(frozen=True, slots=True)
class UsableAgents:
    """The usable agents by name, and the `problems` of the others.

    `warnings` do not make an agent unusable; `refused` are a workspace's files that are not used. `scopes` has the
    scope of each usable agent, `own` the names that only a workspace or its user defines. `held` has, by the name of a
    workspace's or user's agent, the permission layers of the operator's agent that limits it.
    """

    usable: Mapping[str, AgentDefinition] = field(default_factory=dict)
    scopes: Mapping[str, AgentScope] = field(default_factory=dict)
    problems: Mapping[str, DefinitionError] = field(default_factory=dict)
    warnings: tuple[DefinitionError, ...] = ()
    refused: tuple[DefinitionError, ...] = ()
    own: frozenset[str] = frozenset()
    held: Mapping[str, tuple[Layer, ...]] = field(default_factory=dict)

    def get(self, name: str) -> AgentDefinition:
        """The agent of this name. Raises LookupError with a sentence if it does not exist or its file is broken."""
        if name in self.usable:
            return self.usable[name]
        if name in self.problems:
            raise LookupError(f"The agent {name!r} cannot be used: {self.problems[name]}")
        raise LookupError(f"There is no agent {name!r}{suggestion(name, self.usable)}")

    def origin(self, name: str) -> DefinitionOrigin:
        """The origin of a usable agent; scope "library" for one that a program passed without a file."""
        scope = self.scopes.get(name)
        return DefinitionOrigin(scope="library") if scope is None else origin_of(name, scope)

    def permission(self, name: str) -> tuple[Layer, ...]:
        """The permission layers of a usable agent: those of the agents that limit it, then its own, which may only
        restrict if it comes from a workspace or its user."""
        installed = self.scopes.get(name) not in (AgentScope.WORKSPACE, AgentScope.USER)
        own = Layer("agent", self.usable[name].permission, consents=installed)
        return (*self.held.get(name, ()), own)

    def description(self, name: str) -> str:
        """The description of a usable agent for models; a workspace's is marked as untrusted."""
        own = self.usable[name].description
        return untrusted_description(own) if self.scopes.get(name) is AgentScope.WORKSPACE else own

    def spawns(self, name: str) -> tuple[str, ...]:
        """The agents that a usable agent may delegate to, in the order of its file, with `workspace/*` expanded."""
        found: dict[str, None] = {}
        for spawn in self.usable[name].spawns:
            found.update(dict.fromkeys(sorted(self.own) if spawn == WORKSPACE_ANY else (spawn,)))
        return tuple(found)


def installed(
    shipped: Iterable[AgentFile], operators: Iterable[AgentFile] = (), groups: GroupTable = TOOL_GROUPS
) -> UsableAgents:
    """The agents of an installation: shipped files, added to or replaced by the operator's.

    A broken file of the operator makes the agent unusable, also if a shipped one has the same name. Never raises.
    """
    files: dict[str, tuple[AgentFile, AgentScope]] = {}
    problems: dict[str, DefinitionError] = {}
    for scope, scope_files in ((AgentScope.SHIPPED, shipped), (AgentScope.OPERATOR, operators)):
        for file in scope_files:
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
    return UsableAgents(usable, {name: files[name][1] for name in usable}, problems)


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
    agents: UsableAgents,
    files: Iterable[AgentFile],
    groups: GroupTable = TOOL_GROUPS,
    read: Reader = workspace_agent,
    trusted: Collection[str] = (),
    doubt: str = "",
    scope: AgentScope = AgentScope.WORKSPACE,
) -> UsableAgents:
    """`agents` with those of a workspace's files added, whose rights are limited to what the operator allows.

    An agent is limited to the operator's agent of the same name, others to the master. Only files whose names are
    `trusted` may replace an agent of the operator or choose a model. Problems become warnings or `refused` entries.
    `doubt` says why it is unknown what is trusted, if so.
    """
    warnings: list[DefinitionError] = []
    refused: list[DefinitionError] = []
    wanted: dict[str, tuple[AgentFile, AgentDefinition]] = {}
    for file in files:
        try:
            if file.name in wanted:
                raise DefinitionError(file.source, f"a second file for the agent {file.name!r}; it is left out")
            definition = _parsed(file, agents, groups, warnings, read)
            if file.name not in trusted:
                definition = _without_consent(file, definition, agents, warnings, doubt)
            wanted[file.name] = (file, definition)
        except Notice as error:
            warnings.append(error)
        except DefinitionError as error:
            refused.append(error)
    own_names = agents.own | (frozenset(wanted) - frozenset(agents.usable))
    usable, scopes, held = dict(agents.usable), dict(agents.scopes), dict(agents.held)
    for name, (file, definition) in wanted.items():
        usable[name], lost = allowed_to(definition, _ceiling(name, agents, own_names), groups)
        scopes[name] = scope
        # The operator's permission goes along as a layer, because permission cannot be narrowed by merging (see
        # `narrowed`).
        held[name] = agents.permission(name if name in agents.usable else MASTER)
        warnings.extend(DefinitionError(file.source, sentence) for sentence in lost)
    return replace(
        agents,
        usable=usable,
        scopes=scopes,
        held=held,
        warnings=(*agents.warnings, *warnings),
        refused=(*agents.refused, *refused),
        own=own_names,
    )


def with_user(agents: UsableAgents, files: Sequence[AgentFile], groups: GroupTable = TOOL_GROUPS) -> UsableAgents:
    """`agents` with those of the user's own directory added; they are trusted, but their rights are limited too.

    A broken file makes the agent of its name unusable. Never raises.
    """
    with_files = with_workspace(agents, files, groups, trusted={file.name for file in files}, scope=AgentScope.USER)
    names = {file.source: file.name for file in files if file.name}
    broken = {names[error.source]: error for error in with_files.refused if error.source in names}
    return replace(
        with_files,
        usable={name: agent for name, agent in with_files.usable.items() if name not in broken},
        scopes={name: scope for name, scope in with_files.scopes.items() if name not in broken},
        problems={**with_files.problems, **broken},
        refused=tuple(error for error in with_files.refused if error.source not in names),
    )


def in_folders(names: Sequence[str], directory: str) -> tuple[AgentFile, ...]:
    """A notice that folders below a directory of agent files are not read."""
    if not names:
        return ()
    shown = ", ".join(f"{name}/" for name in names[:5]) + (", …" if len(names) > 5 else "")
    problem = f"agent files lie here itself; what is in folders is not read: {shown}"
    return (AgentFile("", directory, problem=problem, is_notice=True),)


def _parsed(
    file: AgentFile, agents: UsableAgents, groups: GroupTable, warnings: list[DefinitionError], read: Reader
) -> AgentDefinition:
    """The parsed file. Raises `DefinitionError` when it is broken or there is no agent to limit it."""
    definition, doubts = read(file, groups)
    warnings.extend(doubts)
    # A broken file of the operator limits nobody: to fall back to the wider master would undo its limits.
    for name in (file.name, MASTER):
        if name in agents.problems:
            raise DefinitionError(file.source, f"not used, because the operator's agent {name!r} is broken")
        if name in agents.usable:
            return definition
    raise DefinitionError(file.source, f"not used, because there is no agent {MASTER!r} to limit it")


def _without_consent(
    file: AgentFile, definition: AgentDefinition, agents: UsableAgents, warnings: list[DefinitionError], doubt: str
) -> AgentDefinition:
    """The definition of an untrusted file, without its model. Raises `NotAgreed` if it replaces an operator's agent."""
    who, then = ("it is not known whether anybody", f": {doubt}") if doubt else ("nobody", f"; {_CONSENT}")
    if file.name in agents.usable:
        problem = f"not used, because {who} agreed that it replaces the operator's agent {file.name!r}"
        raise NotAgreed(file.source, f"{problem}{then}")
    if definition.model == INHERIT:
        return definition
    problem = f"model {definition.model!r} is not used, because {who} agreed that this file chooses a model"
    warnings.append(DefinitionError(file.source, f"{problem}{then}"))
    return definition.model_copy(update={"model": INHERIT})


def _ceiling(name: str, agents: UsableAgents, own: frozenset[str]) -> AgentDefinition:
    """The agent that limits a workspace's agent: the operator's of that name, else the master without its gate."""
    if name in agents.usable:
        ceiling = agents.usable[name]
    else:
        ceiling = agents.usable[MASTER].model_copy(
            # The master's gate is about its own result, which agents of a workspace do not owe.
            update={"rules": (), "result": TEXT_NAME, "verify": None, "model": INHERIT}
        )
    if WORKSPACE_ANY not in ceiling.spawns:
        return ceiling
    return ceiling.model_copy(update={"spawns": (*ceiling.spawns, *sorted(own))})
