"""Changes in the submodules of a repository: each is looked at as a repository of its own, as the one around it is."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

from drone.sandbox.child import Bounds
from drone.sandbox.places.paths import PathError, PathMissing, Workspace
from drone.tools.frame.display_text import display_path
from drone.tools.frame.tool import ToolFailed
from drone.tools.git.program import SECONDS, GitCheckout, names_in
from drone.tools.git.repository import git_directory_of
from mcc.contracts.journal import Outcome

MOST = 20
"""Submodules that one call looks into."""

LEVELS = 3
"""Levels of submodules within submodules that are looked into."""

NAMED = 10
GITLINK = "160000 "
_NAMES = Bounds(SECONDS, 8_000_000, 0)
_CLEAN = "nothing to commit, working tree clean"
_KINDS = {"?": "untracked files", "U": "conflicts"}


@dataclass(frozen=True, slots=True)
class Submodules:
    """`changed`: by path, what is changed in a submodule. `unseen`: paths of those that were not looked into."""

    changed: dict[str, str]
    unseen: list[str]

    def lines(self) -> Iterator[str]:
        """Sentences for a model, each on a line of its own; none where nothing is to be said."""
        for path, what in self.changed.items():
            yield f"Submodule {display_path(path)} has {what}; it is a repository of its own."
        if self.unseen:
            named = ", ".join(map(display_path, self.unseen[:NAMED]))
            more = f" and {len(self.unseen) - NAMED:,} more" if len(self.unseen) > NAMED else ""
            yield f"Not looked into, and maybe changed: submodule {named}{more}."


async def submodules_of(checkout: GitCheckout) -> Submodules:
    """The changes in the submodules below a checkout's working files. Raises `ToolFailed`."""
    found = Submodules({}, [])
    await _look(checkout, "", LEVELS, found, [MOST])
    return found


async def _look(checkout: GitCheckout, below: str, levels: int, found: Submodules, left: list[int]) -> None:
    for path in await gitlinks(checkout):
        full_path = f"{below}{path}"
        try:
            inner = await checkout.threads.tool(_directory_of, checkout.workspace, full_path)
        except PathMissing:
            continue  # it is not checked out, so nothing in it can be changed
        except (PathError, ToolFailed):
            found.unseen.append(full_path)
            continue
        left[0] -= 1
        if levels == 0 or left[0] < 0:
            found.unseen.append(full_path)
            continue
        try:
            module = await checkout.at(inner, full_path)
            if what := await _changes(module):
                found.changed[full_path] = what
            await _look(module, f"{full_path}/", levels - 1, found, left)
        except (ToolFailed, PathError) as failed:
            if isinstance(failed, ToolFailed) and failed.outcome is Outcome.TIMEOUT:
                # The next one would take as long, and the call has one time limit for all.
                left[0] = 0
            found.unseen.append(full_path)


def _directory_of(workspace: Workspace, path: str) -> str:
    """The git directory of a submodule, which must lie in the workspace. Raises `ToolFailed` and `PathError`;
    `PathMissing` where it is not checked out."""
    os.close(workspace.open_directory(path, symlinks=False))
    return git_directory_of(workspace, path)


async def gitlinks(checkout: GitCheckout) -> list[str]:
    """The paths of submodules in the index."""
    listed = names_in(await checkout.output("ls-files", "-z", "--stage", bounds=_NAMES))
    entries = (entry.partition("\t") for entry in listed)
    return list(dict.fromkeys(path for mode, _, path in entries if mode.startswith(GITLINK)))


async def _changes(module: GitCheckout) -> str:
    command = ("status", "--porcelain", "--no-renames", "--untracked-files=normal", "--ignore-submodules=dirty", "-z")
    marks = {name[:2] for name in names_in(await module.output(*command, bounds=_NAMES))}
    kinds = {_KINDS.get("U" if "U" in mark else mark[:1], "modified files") for mark in marks}
    return " and ".join(sorted(kinds))


def joined(status: str, found: Submodules) -> str:
    """The text of `git status` with what was found in submodules."""
    if not (lines := list(found.lines())):
        return status
    honest = status.rstrip("\n").replace(_CLEAN, "nothing to commit here, but see the submodules:")
    return "\n".join((honest, *lines))


def as_entries(found: Submodules) -> list[str]:
    """The changed submodules as `git status --porcelain` lists them."""
    return [f" m {path}" for path in found.changed]
