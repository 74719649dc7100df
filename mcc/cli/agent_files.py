"""Checks and trusts agent files on this machine, for `mcc agents`: prompts, workspaces, single files."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mcc.configuration.file import ConfigProblem, content_of
from mcc.configuration.places import NotPrivate, own_agents, refuse_others
from mcc.configuration.providers import OFFLINE, PROVIDERS
from mcc.configuration.trust import AGENTS, AgentConsent, TrustStore, digest_of, trust_agents
from mcc.contracts.agents import INHERIT, AgentDefinition, definition_digest
from mcc.contracts.answers import Offer
from mcc.contracts.drones import AgentSheet
from mcc.definitions.front_matter import FILE_BYTES, LISTED, DefinitionError, suggestion
from mcc.definitions.rights import SERVER_TOOL, TOOL_GROUPS, GroupTable, of_server, tools_of
from mcc.definitions.scopes import (
    MASTER,
    WORKSPACE_DIRECTORY,
    AgentFile,
    AgentScope,
    UsableAgents,
    in_folders,
    installed,
    installed_agent,
    place_of,
    with_user,
    with_workspace,
    within_bounds,
)
from mcc.settings import trust_store

_FILE = "system.md"


@dataclass(frozen=True, slots=True)
class CheckedFiles:
    """The result of a check: the files read, errors that keep an agent from being used, and warnings.

    `agents`: the usable ones, by their files.
    """

    files: tuple[str, ...] = ()
    errors: tuple[DefinitionError, ...] = ()
    warnings: tuple[DefinitionError, ...] = ()
    agents: Mapping[str, AgentDefinition] = field(default_factory=dict)

    def plus(self, other: "CheckedFiles") -> "CheckedFiles":
        return CheckedFiles(
            tuple(dict.fromkeys((*self.files, *other.files))),
            tuple(_unique((*self.errors, *other.errors))),
            tuple(_unique((*self.warnings, *other.warnings))),
            {**self.agents, **other.agents},
        )


def sentences_of(found: CheckedFiles) -> Iterator[str]:
    """A line per finding, for people: what there is instead, the same for many of them, is told with the first."""
    told = set[str]()
    for level, findings in (("error", found.errors), ("warning", found.warnings)):
        for finding in findings:
            sentence, listed, names = str(finding).partition(LISTED)
            yield f"{level}: {sentence}" + ("" if names in told else listed + names)
            told.add(names)


def checked(
    path: Path,
    prompts_dir: Path | None,
    models: Collection[str] | None = None,
    tools: Sequence[Offer] | None = None,
) -> CheckedFiles:
    """Check what is at `path`: a directory of prompts, a workspace, or one agent file.

    `prompts_dir`: the operator's prompts, which limit the rights of a workspace's files (None = only the shipped ones).
    `models`: aliases of the operator's models, None where they are not known. `tools`: those of the live drones, None
    where no drone was asked. Then nobody knows which own tools and MCP servers there are, and an unknown name is only a
    warning; so is one of an MCP server that no live drone has, as servers come and go.
    """
    groups = groups_with(tools or ())
    found = _checked(path, prompts_dir, groups)
    doubted = [one for one in found.errors if one.tool and (tools is None or of_server(one.tool))]
    if doubted:
        supposed = [Offer(name=one.tool, group="mcp" if of_server(one.tool) else "workspace_read") for one in doubted]
        found = _checked(path, prompts_dir, groups_with([*(tools or ()), *supposed]))
    why = "no drone was asked whether it has" if tools is None else "no live drone has"
    hints = [(one, "".join(one.sentence.partition("; did you mean")[1:])) for one in doubted]
    warnings = [DefinitionError(one.source, f"{why} the tool {one.tool!r}{hint}", one.line) for one, hint in hints]
    return found.plus(CheckedFiles(warnings=(*warnings, *_doubts(found.agents, models))))


def groups_with(tools: Iterable[Offer]) -> GroupTable:
    """The tool groups with these tools in theirs, as drones that have them read agent files."""
    table = {group: tuple(names) for group, names in TOOL_GROUPS.items()}
    for one in tools:
        every = (f"{one.name.partition(SERVER_TOOL)[0]}{SERVER_TOOL}*",) if of_server(one.name) else ()
        table[one.group] = (*table.get(one.group, ()), one.name, *every)
    return table


def _doubts(agents: Mapping[str, AgentDefinition], models: Collection[str] | None) -> Iterator[DefinitionError]:
    """Warnings about what a file may say, but its author probably did not mean."""
    for source, agent in agents.items():
        if not agent.description.strip():
            yield DefinitionError(source, "there is no description, by which other agents choose whom to ask: add one")
        provider = agent.model.partition("/")[0] if "/" in agent.model else ""
        known = {INHERIT, OFFLINE, *(models or ())}
        if models is not None and agent.model not in known and provider not in {listed.name for listed in PROVIDERS}:
            near = suggestion(agent.model, sorted(known))
            yield DefinitionError(source, f"model {agent.model!r} is none of yours, so its orders would fail{near}")


def _checked(path: Path, prompts_dir: Path | None, groups: GroupTable) -> CheckedFiles:
    if path.absolute() == user_directory():
        return _checked_user_agents(prompts_dir, groups)
    if path.is_dir():
        files = CheckedFiles()
        if (path / MASTER).is_dir() or (path / "subagent").is_dir():
            files = files.plus(_checked_prompts(path, groups))
        if (path / WORKSPACE_DIRECTORY).is_dir():
            files = files.plus(_checked_workspace(path, prompts_dir, groups))
        if files.files:
            return files
        problem = f"there is no agent file here: neither {MASTER}/ nor subagent/ nor {WORKSPACE_DIRECTORY}/"
        return CheckedFiles(errors=(DefinitionError(str(path), problem),))
    return _only_about(str(path), _checked_around(path, prompts_dir, groups))


def _checked_around(path: Path, prompts_dir: Path | None, groups: GroupTable) -> CheckedFiles:
    """The check of the directory of prompts or the workspace that the file `path` belongs to; else of it alone."""
    above = path.absolute().parents
    if above[0] == user_directory():
        return _checked_user_agents(prompts_dir, groups)
    if len(above) > 2 and above[0].match(WORKSPACE_DIRECTORY):
        return _checked_workspace(above[2], prompts_dir, groups)
    if path.name == _FILE and len(above) > 2 and above[1].name == "subagent":
        return _checked_prompts(above[2], groups)
    if path.name == _FILE and len(above) > 1 and above[0].name == MASTER:
        return _checked_prompts(above[1], groups)
    try:
        agent = installed_agent(_read(path.stem, path), groups)
    except DefinitionError as error:
        return CheckedFiles((str(path),), (error, *error.others))
    return CheckedFiles((str(path),), agents={str(path): agent})


def _only_about(path: str, found: CheckedFiles) -> CheckedFiles:
    """The part of `found` that concerns the file at `path`."""
    here = Path(path).absolute()
    return CheckedFiles(
        (path,),
        tuple(error for error in found.errors if Path(error.source).absolute() == here),
        tuple(error for error in found.warnings if Path(error.source).absolute() == here),
        {source: agent for source, agent in found.agents.items() if Path(source).absolute() == here},
    )


def _checked_prompts(directory: Path, groups: GroupTable) -> CheckedFiles:
    files = tuple(prompt_files(directory))
    known = installed(prompt_files(shipped_prompts()), files, groups)
    sources = {file.source for file in files}
    return CheckedFiles(
        tuple(file.source for file in files),
        tuple(
            problem
            for error in known.problems.values()
            if error.source in sources
            for problem in (error, *error.others)
        ),
        agents={file.source: known.usable[file.name] for file in files if file.name in known.usable},
    )


def _checked_user_agents(prompts_dir: Path | None, groups: GroupTable) -> CheckedFiles:
    files = user_files()
    known = installed_here(prompts_dir, groups)
    sources = {file.source for file in files}
    errors = [*known.problems.values(), *known.refused]
    return CheckedFiles(
        tuple(file.source for file in files if file.name),
        tuple(problem for error in errors if error.source in sources for problem in (error, *error.others)),
        known.warnings,
        {file.source: known.usable[file.name] for file in files if file.name in known.usable},
    )


def _checked_workspace(root: Path, prompts_dir: Path | None, groups: GroupTable) -> CheckedFiles:
    files = workspace_files(root)
    known = _agents_in(root, files, prompts_dir, groups)
    refused = tuple(one for error in known.refused for one in (error, *error.others))
    used = {file.source: known.usable[file.name] for file in files if file.name in known.usable}
    broken = {one.source for one in refused}
    agents = {source: agent for source, agent in used.items() if source not in broken}
    return CheckedFiles(tuple(file.source for file in files if file.name), refused, known.warnings, agents)


def _agents_in(root: Path, files: Sequence[AgentFile], prompts_dir: Path | None, groups: GroupTable) -> UsableAgents:
    """The agents of orders in the workspace `root`, which has these files: those of the installation and its own."""
    consent = AgentConsent.read(trust_store(), root.resolve())
    trusted = {file.name for file in files if consent.covers(place_of(file.name), file.content)}
    return with_workspace(installed_here(prompts_dir, groups), files, groups, trusted=trusted, doubt=consent.problem)


def workspace_files(root: Path) -> tuple[AgentFile, ...]:
    """The agent files of a workspace, within the bounds that drones apply."""
    return _files_in(root / WORKSPACE_DIRECTORY, links=False)


def user_files() -> tuple[AgentFile, ...]:
    """The agent files in the user's own directory; where others can write there, one entry that says so."""
    directory = user_directory()
    if not os.path.isdir(directory):
        return ()
    try:
        refuse_others(directory.stat(), directory)
    except (OSError, NotPrivate) as error:
        return (AgentFile("", str(directory), problem=f"not read: {error}".rstrip(".")),)
    return _files_in(directory)


def user_directory() -> Path:
    return own_agents(os.environ)


def _files_in(directory: Path, *, links: bool = True) -> tuple[AgentFile, ...]:
    names = sorted(path.name for path in directory.glob("*.md") if not path.name.startswith("."))
    files = within_bounds(names, lambda name: _read(name.removesuffix(".md"), directory / name, links=links))
    folders = sorted(path.name for path in directory.glob("*/") if not path.name.startswith("."))
    return (*files, *in_folders(folders, str(directory)))


def installed_here(prompts_dir: Path | None, groups: GroupTable = TOOL_GROUPS) -> UsableAgents:
    """The agents of this installation: shipped ones, replaced by those in `prompts_dir`, replaced by the user's."""
    operators = prompt_files(prompts_dir) if prompts_dir is not None else ()
    return with_user(installed(prompt_files(shipped_prompts()), operators, groups), user_files(), groups)


def offers_here(prompts_dir: Path | None, tools: Sequence[Offer]) -> list[Offer]:
    """The agents that the current workspace's own files define, as orders there get them; `tools`: those of the live
    drones."""
    root = Path()
    files = workspace_files(root) if (root / WORKSPACE_DIRECTORY).is_dir() else ()
    groups = groups_with(tools)
    known = _agents_in(root, files, prompts_dir, groups)
    names = [name for name, scope in known.scopes.items() if scope is AgentScope.WORKSPACE]
    grouped = sorted({(tool, group) for group, those in groups.items() for tool in those if "*" not in tool})
    return [_offer(known.usable[name], grouped) for name in sorted(names)]


def _offer(agent: AgentDefinition, grouped_tools: Iterable[tuple[str, str]]) -> Offer:
    """An agent with the tools it would get of `grouped_tools`, which are (tool, group)."""
    found = tools_of(agent, grouped_tools)
    tools = None if found is None else tuple(dict.fromkeys(found))
    sheet = AgentSheet(
        definition=agent, origin=AgentScope.WORKSPACE.value, tools=tools, digest=definition_digest(agent)
    )
    return Offer(name=agent.name, description=agent.description, agent=sheet)


def shipped_prompts() -> Path:
    """The prompts that ship with this installation: inside the package `drone`, or in a checkout beside it."""
    root = Path(__file__).resolve().parents[2]
    packed = root / "drone" / "_prompts"
    return packed if packed.is_dir() else root / "prompts"


def prompt_files(directory: Path) -> Iterator[AgentFile]:
    if (directory / MASTER).is_dir():
        yield _read(MASTER, directory / MASTER / _FILE)
    folders = sorted((directory / "subagent").glob("*/"))
    for folder in folders:
        if not folder.name.startswith((".", "_")):
            yield _read(folder.name, folder / _FILE)


def _read(name: str, path: Path, *, links: bool = True) -> AgentFile:
    try:
        if not links and path.is_symlink():
            return AgentFile(name, str(path), problem="a symbolic link is not followed here; put the file itself")
        if not path.is_file():
            return AgentFile(name, str(path), problem="there is no such file, and an agent needs one")
        with path.open("rb") as file:
            return AgentFile(name, str(path), file.read(FILE_BYTES + 1))
    except OSError as error:
        return AgentFile(name, str(path), problem=f"the file cannot be read: {error.strerror}")


def _unique(errors: Iterable[DefinitionError]) -> Iterable[DefinitionError]:
    return {str(error): error for error in errors}.values()


def trust_workspace(
    store: TrustStore, root: Path, prompts_dir: Path | None
) -> tuple[dict[str, str], Sequence[DefinitionError]]:
    """Trust the usable agent files of `root` as they are now. Answers what each may do from now on, by its path, and
    why the others were refused.

    Raises `TrustProblem`.
    """
    files = workspace_files(root)
    before = installed_here(prompts_dir)
    known = with_workspace(before, files, trusted={file.name for file in files})
    refused = {error.source for error in known.refused}
    contents = {place_of(file.name): file for file in files if file.source not in refused}
    trust_agents(store, root, {path: file.content for path, file in contents.items()})
    return {path: _rights(file.name, before, known) for path, file in contents.items()}, known.refused


def _rights(name: str, before: UsableAgents, known: UsableAgents) -> str:
    rights = [f"replaces the agent {name!r}"] if name in before.usable else [f"adds the agent {name!r}"]
    model = known.usable[name].model
    if model not in (INHERIT, before.usable[name].model if name in before.usable else INHERIT):
        rights.append(f"chooses the model {model!r}")
    return " and ".join(rights)


def states(store: TrustStore) -> list[tuple[str, str]]:
    """Every file that was trusted, with "trusted", or why it is not any more. Raises `TrustProblem`."""
    return [(path, _state(Path(path), digest)) for path, digest in sorted(store.digests(AGENTS).items())]


def _state(path: Path, digest: str) -> str:
    try:
        return "trusted" if digest_of(content_of(path)) == digest else "changed since: not trusted"
    except ConfigProblem:
        return "changed since: not trusted"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
