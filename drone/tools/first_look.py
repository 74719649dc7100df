"""The first look at an order's workspace, which its agents are shown before their request."""

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Event
from typing import Any

from drone.agent.threads import OwnThreads
from drone.sandbox.paths import PathError, Workspace
from drone.tools.display_text import cut, plain, written
from drone.tools.environment import surveyed
from drone.tools.git_program import Git
from drone.tools.tool import ToolFailed
from drone.tools.walk import read_up_to
from mcc.contracts.fence import fenced

GUIDE = "AGENTS.md"
GUIDE_BYTES = 8_192
_NAMED = 12
_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class Look:
    """`text` is for models, what strangers may have written within a fence; `succeeded`: git and shell may be used."""

    text: str = ""
    succeeded: bool = False


async def first_look(workspace: Workspace, git: Git, threads: OwnThreads) -> Look:
    """Never raises for what is in the workspace: an agent can still call `environment_detect` itself."""
    try:
        found = await threads.claim(surveyed, workspace, Event(), git.problem)
    except (PathError, OSError):
        return Look()
    changed = await _changed(workspace, git, threads) if found["git"] and git.problem is None else ""
    guide = await threads.claim(_guide, workspace)
    body = "\n".join(line for line in (*_lines(found), changed, guide) if line)
    said = f"What a look at the workspace found{f', and how {GUIDE} in it begins' if guide else ''}:"
    return Look(f"{said}\n{fenced(body, GUIDE)}", succeeded=True)


def _lines(found: Mapping[str, Any]) -> list[str]:
    git = found["git"]
    where = "" if not git else f"git: branch {git['branch'] or '(detached)'}, commit {str(git['head'])[:12]}"
    languages = [f"{one['language']} ({one['files']:,})" for one in found["languages"]]
    starts = [f"{one['name']} ({one['file']})" for one in found["entry_points"]]
    lines = [f"{found['files']:,} files in {found['directories']:,} directories", where]
    for title, names in (("languages", languages), ("build files", found["build_files"]), ("entry points", starts)):
        lines.append(_few(title, names))
    return [plain(line) for line in lines]


def _few(title: str, names: list[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{title}: {cut(', '.join(names[:_NAMED]), _CHARACTERS)}{more}"


async def _changed(workspace: Workspace, git: Git, threads: OwnThreads) -> str:
    try:
        checkout = await git.opened(workspace, threads)
        checkout.needs_files()
        asked = ("status", "--porcelain", "--no-renames", "--untracked-files=normal", "--ignore-submodules=dirty")
        return _few("changed", (await checkout.text(*asked)).splitlines()) or "nothing is changed since the commit"
    except (ToolFailed, PathError):
        return ""


def _guide(workspace: Workspace) -> str:
    """How AGENTS.md at the root begins; empty where there is none."""
    try:
        with workspace.open_file(GUIDE) as file:
            size = file.seek(0, 2)
            file.seek(0)
            data = read_up_to(file.fileno(), GUIDE_BYTES)
    except (PathError, OSError):
        return ""
    if b"\0" in data or not data.strip():
        return ""
    part = f" (the first {GUIDE_BYTES:,} of {size:,} bytes)" if size > GUIDE_BYTES else ""
    return f"\n{written(GUIDE)}{part}:\n{plain(data.decode('utf-8', 'replace')).strip()}"
