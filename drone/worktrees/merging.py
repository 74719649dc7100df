"""Merging a worktree's work back into the workspace of the agent that asked for it, and proving that it is there."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from drone.agent.threads import OwnThreads
from drone.sandbox.paths import Workspace
from drone.sandbox.protected import Protected
from drone.tools.tool import ToolFailed
from drone.worktrees.bringing import bring
from drone.worktrees.places import Made, WorktreeDirectory
from drone.worktrees.repository import Merge, Repository

Keep = Callable[[Sequence[str]], AbstractAsyncContextManager[None]]
"""Keeps what these paths of the workspace hold, while they are changed inside."""


@dataclass(frozen=True, slots=True)
class Merged:
    """`files` were brought into the workspace; `conflicts` were left as they are there."""

    files: tuple[str, ...]
    conflicts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Merging:
    """From the worktree `made`, which lies at `place`, into the workspace of `above`."""

    above: Repository
    made: Made
    place: WorktreeDirectory
    threads: OwnThreads
    protected: Protected

    async def bring_back(self, tip: str, keep: Keep) -> Merged:
        """Bring what `tip` changed, file by file, but for what both sides changed. Again, after a kill, it goes on.

        Raises `ToolFailed`, `PathError`, `StoreBroken`, OSError.
        """
        merge = await self._merge(tip)
        clean = [change for change in merge.changes if change.path not in merge.conflicts]
        left: list[str] = []
        if clean:
            staged = Workspace(await self.threads.tool(self.place.stage))
            await self.above.stage(merge, staged, clean)
            async with keep([change.path for change in clean]):
                left = await self.threads.tool(bring, self.above.workspace, staged, clean, self.protected)
        conflicts = tuple(dict.fromkeys((*merge.conflicts, *left)))
        await self._prove(tip, conflicts)
        return Merged(tuple(one.path for one in clean if one.path not in conflicts), conflicts)

    async def _prove(self, tip: str, conflicts: Sequence[str]) -> None:
        """Merged once more, nothing comes of it. Raises `ToolFailed`."""
        again = await self._merge(tip)
        new = [one.path for one in again.changes if one.path not in (*conflicts, *again.conflicts)]
        unforeseen = [path for path in again.conflicts if path not in conflicts]
        if new or unforeseen:
            raise ToolFailed(f"the workspace was changed meanwhile: {', '.join((*new, *unforeseen)[:10])}")

    async def _merge(self, tip: str) -> Merge:
        return await self.above.merged(self.made.base, tip, f"What {self.made.child}'s work is merged with")
