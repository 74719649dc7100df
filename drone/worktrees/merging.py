"""Merging a worktree's work back into the workspace of the parent agent, and proving that nothing is missing."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from drone.sandbox.places.paths import Workspace
from drone.sandbox.protection.protected import Protected
from drone.threads import OwnThreads
from drone.tools.frame.tool import ToolFailed
from drone.worktrees.file_changes import apply_changes
from drone.worktrees.places import WorktreeDirectory, WorktreePage
from drone.worktrees.repository import Merge, WorkspaceGit

Keep = Callable[[Sequence[str]], AbstractAsyncContextManager[None]]
"""Takes a checkpoint of these paths of the workspace, which are changed inside the block."""


@dataclass(frozen=True, slots=True)
class Merged:
    """`files` were changed in the workspace; `conflicts` were left unchanged there."""

    files: tuple[str, ...]
    conflicts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Merging:
    """Merges the worktree described by `page`, in the directory `place`, into the workspace of `above`."""

    above: WorkspaceGit
    page: WorktreePage
    place: WorktreeDirectory
    threads: OwnThreads
    protected: Protected

    async def bring_back(self, tip: str, keep: Keep) -> Merged:
        """Apply the changes of the commit `tip` file by file, except files that both sides changed. May be repeated
        after a kill. Raises `ToolFailed`, `PathError`, `StoreBroken`, OSError.
        """
        merge = await self._merge(tip)
        clean = [change for change in merge.changes if change.path not in merge.conflicts]
        left: list[str] = []
        if clean:
            staged = Workspace(await self.threads.tool(self.place.stage))
            await self.above.stage(merge, staged, clean)
            async with keep([change.path for change in clean]):
                left = await self.threads.tool(apply_changes, self.above.workspace, staged, clean, self.protected)
        conflicts = tuple(dict.fromkeys((*merge.conflicts, *left)))
        # Somebody may have changed a file between the merge and its application.
        await self._prove(tip, conflicts)
        return Merged(tuple(one.path for one in clean if one.path not in conflicts), conflicts)

    async def _prove(self, tip: str, conflicts: Sequence[str]) -> None:
        """Merge once more, and raise `ToolFailed` if that would still change anything but the conflicts."""
        again = await self._merge(tip)
        new = [one.path for one in again.changes if one.path not in (*conflicts, *again.conflicts)]
        unforeseen = [path for path in again.conflicts if path not in conflicts]
        if new or unforeseen:
            raise ToolFailed(f"the workspace was changed meanwhile: {', '.join((*new, *unforeseen)[:10])}")

    async def _merge(self, tip: str) -> Merge:
        return await self.above.merged(self.page.base, tip, f"What {self.page.child}'s work is merged with")
