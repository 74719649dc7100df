"""This room is for the agents of all scopes as one: shipped, the operator's, the workspace's; the nearest counts."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from mcc.contracts.agents import INHERIT, AgentDefinition, DefinitionOrigin
from mcc.definitions.agents import line_of_spawn
from mcc.definitions.description import in_its_words
from mcc.definitions.errors import DefinitionError, NotAgreed, suggestion
from mcc.definitions.files import MASTER, AgentFile, Reader, Scope, installed_agent, origin_of, workspace_agent
from mcc.definitions.groups import TOOL_GROUPS, GroupTable
from mcc.definitions.rights import allowed_to
from mcc.rules.report import TEXT_NAME

WORKSPACE_ANY = "workspace/*"
"""In `spawns`: every agent that only the order's workspace defines."""


_CONSENT = "look at it, then run mcc agents trust WORKSPACE"


@dataclass(frozen=True, slots=True)
class Agents:
    """Agents by name, those that can be used and what is wrong with the others; `warnings` stop nobody.

    `refused` are the files of a workspace that are not used.
    `scopes` tells whose file counts for a usable agent; `own` names those that only a workspace defines.
    """

    usable: Mapping[str, AgentDefinition] = field(default_factory=dict)
    scopes: Mapping[str, Scope] = field(default_factory=dict)
    problems: Mapping[str, DefinitionError] = field(default_factory=dict)
    warnings: tuple[DefinitionError, ...] = ()
    refused: tuple[DefinitionError, ...] = ()
    own: frozenset[str] = frozenset()

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

    def description(self, name: str) -> str:
        """That of a usable agent as models are shown it: a workspace's is a stranger's word."""
        said = self.usable[name].description
        return in_its_words(said) if self.scopes.get(name) is Scope.WORKSPACE else said

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
                said = f"two files define the agent {file.name!r}; rename or remove one of them"
                problems[file.name] = DefinitionError(file.source, said)
            files[file.name] = (file, scope)
    usable: dict[str, AgentDefinition] = {}
    for name, (file, _) in files.items():
        try:
            if name not in problems:
                usable[name] = installed_agent(file, groups)
        except DefinitionError as error:
            problems[name] = error
    for name in [name for name in usable if name not in problems]:
        problem = _unknown_spawn(files[name][0], usable[name], files)
        if problem is not None:
            problems[name] = problem
    usable = {name: agent for name, agent in usable.items() if name not in problems}
    return Agents(usable, {name: files[name][1] for name in usable}, problems)


def _unknown_spawn(file: AgentFile, agent: AgentDefinition, known: Iterable[str]) -> DefinitionError | None:
    names = {*known, WORKSPACE_ANY}
    for index, spawn in enumerate(agent.spawns):
        if spawn not in names:
            said = f"spawns names {spawn!r}, and there is no such agent{suggestion(spawn, names)}"
            return DefinitionError(file.source, said, line_of_spawn(file.text(), index))
    return None


def with_workspace(
    agents: Agents,
    files: Iterable[AgentFile],
    groups: GroupTable = TOOL_GROUPS,
    read: Reader = workspace_agent,
    trusted: Collection[str] = (),
) -> Agents:
    """`agents`, and before them those of a workspace's files, none of which may do more than the operator allows.

    An agent that the operator has too is replaced, and a model chosen, only by files whose names are `trusted`. The
    agent is held to the operator's of its name, any other to the master; what is wrong is a warning.
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
                definition = _without_consent(file, definition, agents, warnings)
            wanted[file.name] = (file, definition)
        except NotAgreed as error:
            warnings.append(error)
        except DefinitionError as error:
            refused.append(error)
    own = frozenset(wanted) - frozenset(agents.usable)
    usable, scopes = dict(agents.usable), dict(agents.scopes)
    for name, (file, definition) in wanted.items():
        ceiling = _ceiling(name, agents, own)
        usable[name], lost = allowed_to(definition, ceiling, groups)
        scopes[name] = Scope.WORKSPACE
        warnings.extend(DefinitionError(file.source, sentence) for sentence in lost)
    return replace(agents, usable=usable, scopes=scopes, warnings=tuple(warnings), refused=tuple(refused), own=own)


def _wanted(
    file: AgentFile, agents: Agents, groups: GroupTable, warnings: list[DefinitionError], read: Reader
) -> AgentDefinition:
    """What the file asks for. Raises `DefinitionError` when there is nothing to hold it to."""
    definition, told = read(file, groups)
    warnings.extend(told)
    for name in (file.name, MASTER):
        if name in agents.problems:
            raise DefinitionError(file.source, f"not used, because the operator's agent {name!r} is broken")
        if name in agents.usable:
            return definition
    raise DefinitionError(file.source, f"not used, because there is no agent {MASTER!r} to hold it to")


def _without_consent(
    file: AgentFile, definition: AgentDefinition, agents: Agents, warnings: list[DefinitionError]
) -> AgentDefinition:
    """What is left of the file's wishes. Raises `NotAgreed` when it is to stand for an agent of the operator's."""
    if file.name in agents.usable:
        said = f"not used, because nobody agreed that it replaces the operator's agent {file.name!r}"
        raise NotAgreed(file.source, f"{said}; {_CONSENT}")
    if definition.model == INHERIT:
        return definition
    said = f"model {definition.model!r} is not used, because nobody agreed that this file chooses a model"
    warnings.append(DefinitionError(file.source, f"{said}; {_CONSENT}"))
    return definition.model_copy(update={"model": INHERIT})


def _ceiling(name: str, agents: Agents, own: frozenset[str]) -> AgentDefinition:
    """What the workspace's agent may be at most: the operator's of that name, else the master without its gate."""
    if name in agents.usable:
        ceiling = agents.usable[name]
    else:
        ceiling = agents.usable[MASTER].model_copy(update={"rules": (), "result": TEXT_NAME, "model": INHERIT})
    if WORKSPACE_ANY not in ceiling.spawns:
        return ceiling
    return ceiling.model_copy(update={"spawns": (*ceiling.spawns, *sorted(own))})
