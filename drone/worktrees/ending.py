"""The end of a worktree: saving its work, reporting it to the parent, and deleting it only when nothing is lost."""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass

from drone.checkpoints.store import StoreBroken
from drone.sandbox.places.paths import PathError, Workspace
from drone.sandbox.places.worktree import Worktree, common_of
from drone.threads import OwnThreads
from drone.tools.frame.display_text import display_path
from drone.tools.frame.tool import ToolFailed
from drone.tools.git.program import Git
from drone.tools.git.repository import repository_of
from drone.worktrees.places import WorktreeDirectory, WorktreeHome, WorktreePage
from drone.worktrees.repository import Saved, WorktreeRepository
from mcc.contracts.git_facts import WorktreeEnded, WorktreeState

log = logging.getLogger("drone.worktrees")

TOLD = 30
"""Most paths that the report names."""

TROUBLE = (ToolFailed, PathError, StoreBroken, OSError)


@dataclass(frozen=True, slots=True)
class SavedWork:
    """The saved work of a worktree. `ignored`: its files that git ignores; `all_ignored`: those are saved as well."""

    saved: Saved
    ignored: tuple[str, ...]
    all_ignored: bool

    @property
    def is_whole(self) -> bool:
        return not self.saved.lost and self.all_ignored


@dataclass(frozen=True, slots=True)
class WorktreeOutcome:
    """The outcome of a worktree. `kept`: its saved work, None where it could not be saved. `files` were merged into the
    parent's workspace, `conflicts` were not. `where`: its directory; `trouble`: why its work was not merged.
    `not_recorded`: a line about what could not be recorded of the merge."""

    state: WorktreeState
    kept: SavedWork | None = None
    files: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    trouble: str = ""
    where: str = ""
    not_recorded: str = ""

    @property
    def is_safe(self) -> bool:
        """Whether everything in the directory is saved elsewhere too, so that the directory may be deleted."""
        return self.state is not WorktreeState.LOST and self.kept is not None and self.kept.is_whole

    def as_fact(self, page: WorktreePage) -> WorktreeEnded:
        return WorktreeEnded(
            child_id=page.record_id,
            child=page.child,
            ref=page.ref,
            state=self.state,
            commit=None if self.kept is None or self.kept.saved.tip == page.base else self.kept.saved.tip,
            conflicts=self.conflicts,
            message=" ".join(filter(None, (self._summary(page), self.not_recorded, self._leftovers(page)))),
        )

    def _summary(self, page: WorktreePage) -> str:
        """What became of the work, as sentences for the parent."""
        look = (
            f"git_diff with ref {page.base[:12]}..{page.ref} shows it, git_show with this ref and a path a whole file."
        )
        merged = f"{_counted(self.files)} changed in your workspace, nothing is committed" if self.files else ""
        match self.state:
            case WorktreeState.EMPTY:
                return "It changed no file."
            case WorktreeState.MERGED:
                return f"Its work is merged: {merged or 'your files have all of it already'}."
            case WorktreeState.CONFLICT:
                left = f"Both sides changed {_named(self.conflicts)}: of that you have yours, its own is on {page.ref}"
                return f"{f'{merged}. ' if merged else ''}{left}; {look}"
            case WorktreeState.LOST:
                lost = "Somebody deleted its directory before its work was saved: what it did not commit is lost"
                on_ref = self.kept is not None and self.kept.saved.tip != page.base
                return (
                    f"{lost}. Nothing is merged; what it committed is on {page.ref}; {look}" if on_ref else f"{lost}."
                )
            case WorktreeState.KEPT if self.kept is None:
                return f"{self.trouble.rstrip('.')}. Nothing of its work is merged."
            case WorktreeState.KEPT:
                return f"{self.trouble.rstrip('.')}. Nothing of its work is merged. It is kept on {page.ref}; {look}"

    def _leftovers(self, page: WorktreePage) -> str:
        """What is not part of the work, and whether the directory stays, as sentences for the parent."""
        if self.kept is None:
            return f"Its directory stays: {self.where}."
        sentences = []
        if self.kept.ignored:
            place = f" they are on {page.ref}.ignored." if self.kept.all_ignored else ""
            sentences.append(f"Files that git ignores are not part of it ({_named(self.kept.ignored)});{place}")
        if not self.kept.is_whole:
            lost = (
                f" has what is in no commit ({_named(self.kept.saved.lost)})" if self.kept.saved.lost else " has them"
            )
            sentences.append(f"Its directory stays, which alone{lost}: {self.where}.")
        return " ".join(sentences)


def _counted(files: tuple[str, ...]) -> str:
    return f"{len(files):,} file{'' if len(files) == 1 else 's'} ({_named(files)})"


def _named(paths: tuple[str, ...]) -> str:
    more = f" and {len(paths) - TOLD:,} more" if len(paths) > TOLD else ""
    return ", ".join(map(display_path, paths[:TOLD])) + more


def worktree_at(place: WorktreeDirectory, above: Workspace) -> Worktree:
    """The worktree in this place, of the repository of the workspace `above`. Blocks. Raises `PathError`,
    `ToolFailed`."""
    common = common_of(above, repository_of(above).directory)
    return Worktree(place.tree, place.git, common, above=above.root, private=above.private)


async def worktree_repository(git: Git, worktree: Worktree, threads: OwnThreads) -> WorktreeRepository:
    """git in this worktree. Raises `ToolFailed`, `PathError`."""
    # A duplicated descriptor: bubblewrap uses up one for each mount.
    return await WorktreeRepository.opened(await git.opened(worktree, threads), worktree.git.again())


async def save(own: WorktreeRepository, page: WorktreePage) -> SavedWork:
    """Commit everything in a worktree to its ref; a ref without changes is deleted. Raises `ToolFailed`, `PathError`,
    OSError."""
    saved = await own.save(page.ref, page.base, f"Work of {page.child}")
    ignored, whole = await own.save_ignored(page.ref, saved, f"What git ignores of the work of {page.child}")
    if saved.tip == page.base:
        await own.drop(page.ref)
    return SavedWork(saved, tuple(ignored), whole)


async def clear_up(
    git: Git, home: WorktreeHome, order_id: str, opened: Callable[[str], Workspace], threads: OwnThreads
) -> int:
    """Save and delete the worktrees that a finished order left on this machine; answers how many stay.

    `opened` opens a workspace by its path, and raises `PathError`. A worktree that cannot be saved completely stays.
    """
    if not home.has(order_id):
        return 0
    lock = await threads.tool(home.hold, order_id)
    # A process of this machine still works there, or clears up itself.
    if lock is None:
        return len(await threads.tool(home.places, order_id))
    try:
        left = await _clear_worktrees(git, home, order_id, opened, threads)
        await threads.tool(home.forget, order_id)
        return left
    finally:
        os.close(lock)


async def _clear_worktrees(
    git: Git, home: WorktreeHome, order_id: str, opened: Callable[[str], Workspace], threads: OwnThreads
) -> int:
    left = 0
    for place in await threads.tool(home.places, order_id):
        try:
            page = await threads.tool(place.page)
            if page is None or await _save_left_over(git, page, place, opened, threads):
                await threads.tool(place.remove)
                continue
        except TROUBLE as problem:
            log.warning("the worktree %s is kept: %s", place.directory, problem)
        left += 1
    return left


async def _save_left_over(
    git: Git, page: WorktreePage, place: WorktreeDirectory, opened: Callable[[str], Workspace], threads: OwnThreads
) -> bool:
    """Save a worktree; whether it is saved completely or nothing of it is left, so that it may be deleted."""
    if not await threads.tool(place.exists):
        log.warning("the worktree %s was deleted by somebody: what was not committed there is lost", place.directory)
        return True
    workspace = await threads.tool(opened, page.workspace)
    await threads.tool(place.remove_stale_locks)
    repository = await worktree_repository(git, await threads.tool(worktree_at, place, workspace), threads)
    if await repository.commit_of(page.base) is None:
        raise ToolFailed(f"{page.workspace} is another repository than the one that it was made of.")
    kept = await save(repository, page)
    return kept.is_whole
