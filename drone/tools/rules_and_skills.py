"""A workspace's texts for agents: rules, agent files, and skills, which are short guides to a kind of work."""

import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

from drone.agent.turns.toolset import Output
from drone.definitions import Definitions
from drone.sandbox.places.paths import PathError, PathMissing, Workspace
from drone.tools.files.listing import workspace_of
from drone.tools.files.walk import read_up_to
from drone.tools.frame.display_text import cut, display_path, strip_controls, word_before
from drone.tools.frame.tool import ToolContext, ToolFailed, tool
from mcc.configuration.trust import AgentConsent
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.shape import Text
from mcc.contracts.similar import close_matches
from mcc.definitions.front_matter import (
    FILE_BYTES,
    DefinitionError,
    Parts,
    YamlProblem,
    decoded,
    split,
    suggestion,
)
from mcc.definitions.rights import GroupTable
from mcc.definitions.scopes import (
    WORKSPACE_DIRECTORY,
    AgentFile,
    agent_file_parser,
    in_folders,
    place_of,
    within_bounds,
    workspace_agent,
)
from mcc.definitions.yaml_text import parse
from mcc.rules.patterns import Pattern
from mcc.side_process import CutOff, SideProcess

SECONDS = 20.0
"""How long reading all agent files of one workspace may take."""

EACH_SECONDS = 1.0
"""CPU time for one agent file in the separate process."""

_PLAIN_CHARACTERS = 2_000
"""Front matter parsed in this process, over all files: up to 30 ms, if it holds no rule."""

_SUFFIX = ".md"


def agent_files(workspace: Workspace) -> tuple[AgentFile, ...]:
    """The `*.md` files of the workspace's `.mcc/agents` by name, within bounds; unreadable ones carry their problem.

    Blocks on the disk.
    """
    try:
        directory = workspace.open_directory(WORKSPACE_DIRECTORY, symlinks=False)
    except PathMissing:
        return ()
    except PathError as error:
        return (AgentFile("", WORKSPACE_DIRECTORY, problem=str(error)),)
    try:
        listed = sorted(name for name in os.listdir(directory) if not name.startswith("."))
        folders = [name for name in listed if not name.endswith(_SUFFIX) and _is_folder(directory, name)]
    finally:
        os.close(directory)
    names = [name for name in listed if name.endswith(_SUFFIX)]
    files = within_bounds(names, lambda name: _read_agent_file(workspace, name))
    return (*files, *in_folders(folders, WORKSPACE_DIRECTORY))


def _is_folder(directory: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _read_agent_file(workspace: Workspace, name: str) -> AgentFile:
    path = f"{WORKSPACE_DIRECTORY}/{name}"
    agent = name.removesuffix(_SUFFIX)
    try:
        with workspace.open_file(path, symlinks=False) as file:
            return AgentFile(agent, path, file.read(FILE_BYTES + 1))
    except PathError as error:
        return AgentFile(agent, path, problem=str(error))
    except OSError as error:
        return AgentFile(agent, path, problem=f"the file cannot be read: {error.strerror}")


def with_agents_of(
    workspace: Workspace,
    definitions: Definitions,
    consent: AgentConsent,
    clean: Callable[[bytes], bytes] = lambda content: content,
) -> Definitions:
    """`definitions` with the agents of the workspace's files, which never get more rights than those allow. Blocks.

    `consent`: which of the files may replace an agent or choose a model. `clean` takes secrets out of their content.
    """
    found = agent_files(workspace)
    if not found:
        return definitions
    trusted = {file.name for file in found if consent.covers(place_of(file.name), file.content)}
    files = [replace(file, content=clean(file.content)) for file in found]
    with closing(AgentReader()) as read:
        return definitions.nearer(files, read, trusted, consent.problem)


class AgentReader:
    """Parses agent files as `workspace_agent` does, large ones in a separate process.

    Raises `DefinitionError` for malformed files and for those that take too long. Not thread-safe; close it.
    """

    def __init__(
        self, stop: Event | None = None, *, seconds: float = SECONDS, each_seconds: float = EACH_SECONDS
    ) -> None:
        """`seconds`: for all files; `each_seconds`: CPU time of one that is parsed in the separate process."""
        self._aside = SideProcess(agent_file_parser, stop)
        self._seconds = seconds
        self._each_seconds = each_seconds
        self._until: float | None = None
        self._plain_characters = _PLAIN_CHARACTERS

    def __call__(self, file: AgentFile, groups: GroupTable) -> tuple[AgentDefinition, tuple[DefinitionError, ...]]:
        text = file.text()
        front = split(text, file.source).front
        if len(front) <= self._plain_characters and "cel" not in front and "\\" not in front:
            self._plain_characters -= len(front)
            return workspace_agent(file, groups)
        return self._parse_aside(file, text, groups)

    def _parse_aside(
        self, file: AgentFile, text: str, groups: GroupTable
    ) -> tuple[AgentDefinition, tuple[DefinitionError, ...]]:
        now = time.monotonic()
        self._until = self._until or now + self._seconds
        if now > self._until:
            raise DefinitionError(file.source, "left out, because reading the files before it took too long")
        tools = {name: list(tools) for name, tools in groups.items()}
        question = {"name": file.name, "source": file.source, "text": text, "groups": tools}
        try:
            answer = self._aside.ask(question, self._each_seconds)
        except CutOff as error:
            raise DefinitionError(file.source, f"left out: {error}; make its front matter simpler") from error
        if "error" in answer:
            raise DefinitionError(file.source, *answer["error"])
        notes = tuple(DefinitionError(file.source, sentence, line) for sentence, line in answer["warnings"])
        return AgentDefinition.model_validate(answer["definition"]), notes

    def close(self) -> None:
        self._aside.close()


WORKSPACE_SKILLS = ".mcc/skills"
_FILE = "SKILL.md"
_MOST_NAMES = 200
FRONT_CHARACTERS = 2_000
FRONTS_CHARACTERS = 40_000
"""Limits on the front matter of one skill and of all skills in a directory: parsing a thousand characters takes up to
8 ms."""

_NAME = Pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

RULE_FILES = ("AGENTS.md", "CLAUDE.md", "CONTRIBUTING.md")
WORKSPACE_RULES = ".mcc/rules"
RULE_BYTES = 100_000
"""The bytes of one rules file that are read."""


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill. `problem` says why its file cannot be used; `own`: it belongs to the workspace."""

    name: str
    description: str = ""
    text: str = ""
    own: bool = False
    problem: str = ""

    @property
    def line(self) -> str:
        origin = " (of this workspace)" if self.own else ""
        return f"- {self.name}{origin}: {self.problem or self.description}"


@dataclass(frozen=True, slots=True)
class SkillTools:
    """The tools for skills, which are files NAME/SKILL.md in `directories` and the workspace; of one name the first."""

    directories: tuple[Path, ...]

    def tools(self) -> tuple[Callable[..., object], ...]:
        return (self.skills_list, self.skills_read)

    @tool(idempotent=True, seconds=30, effects="read")
    def skills_list(self, context: ToolContext) -> Output:
        """List the skills that can be read: short guides to a kind of work, one line each."""
        skills = self._skills(context.workspace)
        if not skills:
            return Output("There are no skills here.", untrusted=False)
        lines = [f"{len(skills)} skills; read one with skills_read.", *(skill.line for skill in skills.values())]
        return Output("\n".join(lines), untrusted=any(skill.own for skill in skills.values()))

    @tool(idempotent=True, seconds=30, effects="read")
    def skills_read(self, context: ToolContext, name: Text) -> Output:
        """Read one skill, as skills_list names it.

        Args:
            name: The skill's name.
        """
        skills = self._skills(context.workspace)
        skill = skills.get(name)
        if skill is None:
            raise ToolFailed(f"There is no skill {name[:100]!r}{suggestion(name[:100], skills)}")
        if skill.problem:
            raise ToolFailed(f"The skill {name} cannot be read: {skill.problem}")
        return Output(f"Skill {skill.name}: {skill.description}\n\n{skill.text}", untrusted=skill.own)

    def _skills(self, workspace: Workspace | None) -> Mapping[str, Skill]:
        """All skills by name. Blocks on the disk."""
        skills: dict[str, Skill] = {}
        for directory in self.directories:
            if directory.is_dir():
                for skill in _skills_in(Workspace(directory), "."):
                    skills.setdefault(skill.name, skill)
        if workspace is not None:
            for skill in _skills_in(workspace, WORKSPACE_SKILLS, own=True):
                skills.setdefault(skill.name, skill)
        return skills


def _skills_in(root: Workspace, directory: str, *, own: bool = False) -> Iterator[Skill]:
    """The skills below a directory, by name: at most 200, and no more front matter than `FRONTS_CHARACTERS`."""
    left = FRONTS_CHARACTERS
    for name in _names_in(root, directory):
        if _NAME.fullmatch(name):
            skill, front = _read_skill(root, f"{directory}/{name}/{_FILE}", name, left, own=own)
            left -= front
            if skill is not None:
                yield skill


def _names_in(root: Workspace, directory: str) -> list[str]:
    """The sorted names in a directory, at most 200; none if it does not exist or is a link."""
    try:
        fd = root.open_directory(directory, symlinks=False)
    except PathError:
        return []
    try:
        return sorted(os.listdir(fd))[:_MOST_NAMES]
    finally:
        os.close(fd)


def _read_skill(root: Workspace, path: str, name: str, left: int, *, own: bool) -> tuple[Skill | None, int]:
    """The skill at `path` (None if there is no file, with its problem if malformed) and the size of its front matter.

    `left` is the number of characters of front matter that may still be parsed.
    """
    front = 0
    try:
        with root.open_file(path) as file:
            content = read_up_to(file.fileno(), FILE_BYTES + 1)
        parts = split(decoded(content, path), path)
        if len(parts.front) > min(left, FRONT_CHARACTERS):
            many = "its front matter has" if len(parts.front) > FRONT_CHARACTERS else "the front matter of all has"
            most = FRONT_CHARACTERS if len(parts.front) > FRONT_CHARACTERS else FRONTS_CHARACTERS
            raise DefinitionError(path, f"{many} more than {most:,} characters")
        front = len(parts.front)
        return _parsed_skill(parts, path, name, own=own), front
    except PathMissing:
        return None, front
    except (PathError, OSError) as error:
        return Skill(name, own=own, problem=f"its file cannot be opened: {error}"), front
    except (DefinitionError, YamlProblem) as error:
        return Skill(name, own=own, problem=f"{path} is not a skill: {getattr(error, 'sentence', error)}."), front


def _parsed_skill(parts: Parts, path: str, name: str, *, own: bool) -> Skill:
    """The skill of a split file. Raises `DefinitionError` and `YamlProblem`."""
    front = parse(parts.front).value
    if not isinstance(front, dict) or not isinstance(front.get("description"), str):
        raise DefinitionError(path, "its front matter has no description")
    if front.get("name") != name:
        raise DefinitionError(path, f"its front matter must name it as its directory does, {name}")
    description = " ".join(strip_controls(front["description"]).split())
    return Skill(name, cut(description, 500), strip_controls(parts.prompt), own)


@tool(idempotent=True, seconds=30, effects="read")
def rules_list(context: ToolContext) -> str:
    """List the files in which this workspace says how to work in it (AGENTS.md, CONTRIBUTING.md)."""
    workspace = workspace_of(context)
    lines = [f"- {display_path(name)}: {_heading(workspace, name)}" for name in _rule_names(workspace)]
    if not lines:
        return f"This workspace has no rules for agents ({', '.join(RULE_FILES)} or {WORKSPACE_RULES}/*.md)."
    many = "file" if len(lines) == 1 else "files"
    return "\n".join([f"{len(lines)} {many} with rules of this workspace; read one with rules_read.", *lines])


@tool(idempotent=True, seconds=30, effects="read")
def rules_read(context: ToolContext, name: Text) -> str:
    """Read one file with rules of the workspace, as rules_list names it.

    Args:
        name: The file's name.
    """
    workspace = workspace_of(context)
    names = _rule_names(workspace)
    if name not in names:
        near = close_matches(name, names, n=1, cutoff=0.4)
        listed = ", ".join(map(display_path, names)) or "none"
        hint = f"Did you mean {display_path(near[0])}?" if near else f"There is {listed}."
        raise ToolFailed(f"There is no file with rules {name[:100]!r} here. {hint}")
    text, more = _rule_text(workspace, name, RULE_BYTES)
    rest = f"\n[Cut after {RULE_BYTES:,} bytes; read_file shows the rest.]" if more else ""
    return f"{display_path(name)}\n\n{text}{rest}"


RULE_TOOLS = (rules_list, rules_read)


def _rule_names(workspace: Workspace) -> list[str]:
    workspace.check()
    below = [f"{WORKSPACE_RULES}/{name}" for name in _names_in(workspace, WORKSPACE_RULES) if name.endswith(".md")]
    return [name for name in (*RULE_FILES, *below) if _is_file(workspace, name)]


def _is_file(workspace: Workspace, name: str) -> bool:
    try:
        workspace.open_file(name).close()
    except PathError:
        return False
    return True


def _heading(workspace: Workspace, name: str) -> str:
    """The first line with words in it."""
    text, _ = _rule_text(workspace, name, 4_000)
    return next((cut(line.strip("# \t"), 200) for line in text.splitlines() if line.strip("# \t-")), "empty")


def _rule_text(workspace: Workspace, name: str, size: int) -> tuple[str, bool]:
    with workspace.open_file(name) as file:
        data = read_up_to(file.fileno(), size + 1)
    more = len(data) > size
    shown = data[: word_before(data, size)] if more else data
    return strip_controls(shown.decode("utf-8-sig", "replace")), more
