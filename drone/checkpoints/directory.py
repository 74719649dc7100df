"""The checkpoints of a drone: those of each order, their summary in its outcome, pruning and reverting."""

import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from drone.agent.ports.journal import Journal
from drone.agent.turns.turn import Turn
from drone.checkpoints.recording import OrderCheckpoints
from drone.checkpoints.revert import Revert
from drone.checkpoints.scan import ScanStopped
from drone.checkpoints.store import CheckpointStore, StoreBroken
from drone.checkpoints.summary import Summary
from drone.checkpoints.tree import EMPTY, Trees
from drone.sandbox.places.paths import Workspace, WorkspaceGone
from drone.threads import NoThread, OwnThreads
from mcc.contracts.changes import Changes
from mcc.contracts.order import OrderOutcome, WorkOrder

CHECKPOINTS = "checkpoints"
"""The name of the directory in a data directory."""

DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class PrunedCheckpoints:
    """How many `orders` were pruned, which cannot be reverted any more, and how many `contents` were deleted."""

    orders: int = 0
    contents: int = 0

    def __add__(self, other: "PrunedCheckpoints") -> "PrunedCheckpoints":
        return PrunedCheckpoints(self.orders + other.orders, self.contents + other.contents)


@dataclass(frozen=True, slots=True)
class CheckpointDirectory:
    """The checkpoints of all workspaces; `directory` holds one store file for each workspace."""

    directory: Path

    @classmethod
    def within(cls, data_dir: Path) -> "CheckpointDirectory":
        return cls(data_dir / CHECKPOINTS)

    def of(self, order: WorkOrder, workspace: Workspace) -> OrderCheckpoints:
        return OrderCheckpoints(workspace, self.directory, order.id)

    def known(self, order_id: str, workspace: Workspace) -> frozenset[str]:
        """The ids of an order's checkpoints on this host. Blocks. Raises `StoreBroken`, OSError."""
        return frozenset(checkpoint.id for checkpoint in OrderCheckpoints(workspace, self.directory, order_id).known())

    def prune(self, days: float) -> PrunedCheckpoints:
        """Remove the checkpoints of orders whose last call began more than `days` ago, in all workspaces; 0: none.

        Blocks. A store that cannot be used now is left for the next time.
        """
        done, before = PrunedCheckpoints(), time.time() - days * DAY_SECONDS
        for path in sorted(self.directory.glob("*.db")) if days > 0 else ():
            with suppress(StoreBroken), CheckpointStore.opened(path) as store:
                done += _prune(store, before)
        return done

    async def with_changes(
        self, order: WorkOrder, workspace: Workspace, journal: Journal, threads: OwnThreads, outcome: OrderOutcome
    ) -> OrderOutcome:
        """The outcome with a summary of the order's changes to its workspace. Raises `JournalError`."""
        try:
            summary = await threads.claim(self._summary, order, workspace)
        except WorkspaceGone:
            detail = (
                f"Its workspace, {workspace.root}, was deleted while it worked: if it changed anything, that is lost."
            )
            return outcome.model_copy(update={"detail": outcome.detail or detail})
        except (StoreBroken, OSError, ScanStopped, NoThread) as problem:
            detail = f"What it changed in its workspace cannot be told: {problem}"
            return outcome.model_copy(update={"detail": outcome.detail or detail})
        if summary is None:
            return outcome
        diff = await journal.keep(summary.diff) if summary.diff else None
        where = str(workspace.root)
        changes = Changes(workspace=where, files=summary.files, diff=diff, checkpoints=summary.checkpoints)
        return outcome.model_copy(update={"changes": changes})

    def _summary(self, order: WorkOrder, workspace: Workspace) -> Summary | None:
        workspace.check()
        return self.of(order, workspace).summary(Event())

    async def revert(
        self, order: WorkOrder, workspace: Workspace, turn: Turn, reached: Collection[str]
    ) -> OrderOutcome:
        """Run an order of kind revert. `reached`: calls of the reverted order whose changes stay. Raises
        `JournalError`."""
        assert order.origin is not None
        return await Revert(order, order.origin, self.of(order, workspace), turn, reached).run()


def _prune(store: CheckpointStore, before: float) -> PrunedCheckpoints:
    if not (old := store.orders_before(before)):
        return PrunedCheckpoints()
    with store.changing():
        store.forget(old)
        trees, contents = _needed(store.tree, store.roots())
        removed = store.remove_except(trees, contents)
    store.shrink()
    return PrunedCheckpoints(len(old), removed)


def _needed(listing: Trees, roots: Iterable[bytes]) -> tuple[set[bytes], set[bytes]]:
    """The digests of all trees and contents reachable from these trees."""
    trees, contents = set[bytes](), set[bytes]()
    pending = list(roots)
    while pending:
        if (digest := pending.pop()) in trees or digest == EMPTY:
            continue
        trees.add(digest)
        for node in listing(digest).values():
            if node.kind == "directory":
                pending.append(node.digest)
            else:
                contents.add(node.digest)
    return trees, contents
