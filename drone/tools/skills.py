"""This room is for skills: short guides to a kind of work, read when they are needed."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from drone.agent.ports import Output
from drone.sandbox.paths import PathError, PathMissing, Workspace
from drone.tools.terminal_text import plain
from drone.tools.tool import ToolContext, ToolFailed, tool
from drone.tools.walk import read_up_to
from mcc.contracts.shape import Text
from mcc.definitions.errors import DefinitionError, suggestion
from mcc.definitions.front_matter import FILE_BYTES, Parts, decoded, split
from mcc.definitions.yaml12 import YamlProblem, parse
from mcc.rules.patterns import Pattern

WORKSPACE_SKILLS = ".mcc/skills"
_FILE = "SKILL.md"
_MOST = 200
FRONT_CHARACTERS = 2_000
FRONTS_CHARACTERS = 40_000
"""Front matter of one skill, and of all that a directory holds: a thousand characters of it take 8 ms at worst."""

_NAME = Pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Skill:
    """`problem` says why its file cannot be used; `own`: it belongs to the workspace."""

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
    """The skills below each of `directories`, as NAME/SKILL.md, and of the order's workspace; of one name the first."""

    directories: tuple[Path, ...]

    @tool(group="rules_skills_read", idempotent=True, seconds=30, effects="read")
    def skills_list(self, context: ToolContext) -> Output:
        """List the skills that can be read: short guides on how to do a kind of work well, one line each.

        Look here before a kind of work that you do not do every day, and read the one that fits with skills_read.
        """
        skills = self._skills(context.workspace)
        if not skills:
            return Output("There are no skills here.", untrusted=False)
        lines = [f"{len(skills)} skills; read one with skills_read.", *(skill.line for skill in skills.values())]
        return Output("\n".join(lines), untrusted=any(skill.own for skill in skills.values()))

    @tool(group="rules_skills_read", idempotent=True, seconds=30, effects="read")
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
        """Blocks for as long as the disk takes."""
        found: dict[str, Skill] = {}
        for directory in self.directories:
            if directory.is_dir():
                found.update((one.name, one) for one in _in(Workspace(directory), ".") if one.name not in found)
        if workspace is not None:
            own = _in(workspace, WORKSPACE_SKILLS, own=True)
            found.update((one.name, one) for one in own if one.name not in found)
        return found


def _in(root: Workspace, directory: str, *, own: bool = False) -> Iterator[Skill]:
    """The skills below a directory, by name; at most 200, and as long as all their front matter is within its bound."""
    left = FRONTS_CHARACTERS
    for name in names_in(root, directory):
        if _NAME.fullmatch(name):
            skill, front = _read(root, f"{directory}/{name}/{_FILE}", name, left, own=own)
            left -= front
            if skill is not None:
                yield skill


def names_in(root: Workspace, directory: str) -> list[str]:
    """What a directory holds, sorted; nothing when it is not there or a link. At most 200 names."""
    try:
        fd = root.open_directory(directory, symlinks=False)
    except PathError:
        return []
    try:
        return sorted(os.listdir(fd))[:_MOST]
    finally:
        os.close(fd)


def _read(root: Workspace, path: str, name: str, left: int, *, own: bool) -> tuple[Skill | None, int]:
    """The skill at `path`, with its problem when the file is broken, and how much front matter was read of the `left`.

    None when there is no such file.
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
        return _parsed(parts, path, name, own=own), front
    except PathMissing:
        return None, front
    except (PathError, OSError) as error:
        return Skill(name, own=own, problem=f"its file cannot be opened: {error}"), front
    except (DefinitionError, YamlProblem) as error:
        return Skill(name, own=own, problem=f"{path} is not a skill: {getattr(error, 'sentence', error)}."), front


def _parsed(parts: Parts, path: str, name: str, *, own: bool) -> Skill:
    """Raises `DefinitionError` and `YamlProblem`."""
    front = parse(parts.front).value
    if not isinstance(front, dict) or not isinstance(front.get("description"), str):
        raise DefinitionError(path, "its front matter has no description")
    if front.get("name") != name:
        raise DefinitionError(path, f"its front matter must name it as its directory does, {name}")
    return Skill(name, " ".join(plain(front["description"]).split())[:500], plain(parts.prompt), own)
