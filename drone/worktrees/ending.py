"""The end of a worktree: its work saved, and what its parent is told; deleted only when nothing is lost by it."""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass

from drone.agent.threads import OwnThreads
from drone.checkpoints.store import StoreBroken
from drone.sandbox.paths import PathError, Workspace
from drone.sandbox.worktree import Worktree, common_of
from drone.tools.display_text import display_path
from drone.tools.git_program import Git
from drone.tools.git_repository import repository_of
from drone.tools.tool import ToolFailed
from drone.worktrees.places import Home, Made, WorktreeDirectory
from drone.worktrees.repository import OwnTree, Saved
from mcc.contracts.git_facts import WorktreeEnded, WorktreeState

log = logging.getLogger("drone.worktrees")

TOLD = 30
"""Paths that a parent is told of."""

TROUBLE = (ToolFailed, PathError, StoreBroken, OSError)


@dataclass(frozen=True, slots=True)
class SavedWork:
    """What was saved. `ignored`: files that git ignores; `all_ignored`: they are saved as well."""

    saved: Saved
    ignored: tuple[str, ...]
    all_ignored: bool

    @property
    def is_whole(self) -> bool:
        return not self.saved.lost and self.all_ignored


@dataclass(frozen=True, slots=True)
class Brought:
    """What became of a worktree. `where` it lies; `trouble`: why its work was not merged."""

    state: WorktreeState
    kept: SavedWork | None = None
    files: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    trouble: str = ""
    where: str = ""

    @property
    def is_safe(self) -> bool:
        """Whether all that is in the directory is elsewhere as well."""
        return self.state is not WorktreeState.LOST and self.kept is not None and self.kept.is_whole

    def told(self, made: Made) -> WorktreeEnded:
        return WorktreeEnded(
            child_id=made.record_id,
            child=made.child,
            ref=made.ref,
            state=self.state,
            commit=None if self.kept is None or self.kept.saved.tip == made.base else self.kept.saved.tip,
            conflicts=self.conflicts,
            message=" ".join(filter(None, (self._said(made), self._beside(made)))),
        )

    def _said(self, made: Made) -> str:
        look = (
            f"git_diff with ref {made.base[:12]}..{made.ref} shows it, git_show with this ref and a path a whole file."
        )
        merged = f"{_counted(self.files)} changed in your workspace, nothing is committed" if self.files else ""
        match self.state:
            case WorktreeState.EMPTY:
                return "It changed no file."
            case WorktreeState.MERGED:
                return f"Its work is merged: {merged or 'your files have all of it already'}."
            case WorktreeState.CONFLICT:
                left = f"Both sides changed {_named(self.conflicts)}: of that you have yours, its own is on {made.ref}"
                return f"{f'{merged}. ' if merged else ''}{left}; {look}"
            case WorktreeState.LOST:
                lost = "Somebody deleted its directory before its work was saved: what it did not commit is lost"
                on_ref = self.kept is not None and self.kept.saved.tip != made.base
                return (
                    f"{lost}. Nothing is merged; what it committed is on {made.ref}; {look}" if on_ref else f"{lost}."
                )
            case WorktreeState.KEPT if self.kept is None:
                return f"{self.trouble.rstrip('.')}. Nothing of its work is merged."
            case WorktreeState.KEPT:
                return f"{self.trouble.rstrip('.')}. Nothing of its work is merged. It is kept on {made.ref}; {look}"

    def _beside(self, made: Made) -> str:
        if self.kept is None:
            return f"Its directory stays: {self.where}."
        said = []
        if self.kept.ignored:
            place = f" they are on {made.ref}.ignored." if self.kept.all_ignored else ""
            said.append(f"Files that git ignores are not part of it ({_named(self.kept.ignored)});{place}")
        if not self.kept.is_whole:
            lost = (
                f" has what is in no commit ({_named(self.kept.saved.lost)})" if self.kept.saved.lost else " has them"
            )
            said.append(f"Its directory stays, which alone{lost}: {self.where}.")
        return " ".join(said)


def _counted(files: tuple[str, ...]) -> str:
    return f"{len(files):,} file{'' if len(files) == 1 else 's'} ({_named(files)})"


def _named(paths: tuple[str, ...]) -> str:
    more = f" and {len(paths) - TOLD:,} more" if len(paths) > TOLD else ""
    return ", ".join(map(display_path, paths[:TOLD])) + more


def worktree_at(place: WorktreeDirectory, above: Workspace) -> Worktree:
    """The worktree in this place, of what `above` works on. Blocks. Raises `PathError`, `ToolFailed`."""
    common = common_of(above, repository_of(above).directory)
    return Worktree(place.tree, place.git, common, above=above.root, private=above.private)


async def own_tree(git: Git, worktree: Worktree, threads: OwnThreads) -> OwnTree:
    """Raises `ToolFailed`, `PathError`."""
    # A descriptor of its own: bubblewrap takes each for one mount.
    return await OwnTree.opened(await git.opened(worktree, threads), worktree.git.again())


async def save(own: OwnTree, made: Made) -> SavedWork:
    """Commit all that is in a worktree. Raises `ToolFailed`, `PathError`, OSError."""
    saved = await own.save(made.ref, made.base, f"Work of {made.child}")
    ignored, whole = await own.save_ignored(made.ref, saved, f"What git ignores of the work of {made.child}")
    if saved.tip == made.base:
        await own.drop(made.ref)
    return SavedWork(saved, tuple(ignored), whole)


async def clear_up(git: Git, home: Home, order_id: str, opened: Callable[[str], Workspace], threads: OwnThreads) -> int:
    """Save and delete what an order that is over has left here; answers how many of its worktrees stay.

    `opened` opens the workspace of this path, and raises `PathError`. What cannot be saved whole is not deleted.
    """
    if not home.has(order_id):
        return 0
    lock = await threads.tool(home.hold, order_id)
    if lock is None:
        return len(await threads.tool(home.places, order_id))
    try:
        left = await _cleared(git, home, order_id, opened, threads)
        await threads.tool(home.forget, order_id)
        return left
    finally:
        os.close(lock)


async def _cleared(git: Git, home: Home, order_id: str, opened: Callable[[str], Workspace], threads: OwnThreads) -> int:
    left = 0
    for place in await threads.tool(home.places, order_id):
        try:
            made = await threads.tool(place.made)
            if made is None or await _saved(git, made, place, opened, threads):
                await threads.tool(place.remove)
                continue
        except TROUBLE as problem:
            log.warning("the worktree %s is kept: %s", place.directory, problem)
        left += 1
    return left


async def _saved(
    git: Git, made: Made, place: WorktreeDirectory, opened: Callable[[str], Workspace], threads: OwnThreads
) -> bool:
    if not await threads.tool(place.is_there):
        log.warning("the worktree %s was deleted by somebody: what was not committed there is lost", place.directory)
        return True
    workspace = await threads.tool(opened, made.workspace)
    await threads.tool(place.take_up)
    own = await own_tree(git, await threads.tool(worktree_at, place, workspace), threads)
    if await own.commit_of(made.base) is None:
        raise ToolFailed(f"{made.workspace} is another repository than the one that it was made of.")
    kept = await save(own, made)
    return kept.is_whole
