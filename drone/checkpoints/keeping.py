"""The checkpoints of a drone: of each order in its workspace, what became of it in the end, and the way back."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from drone.agent.journal import Journal
from drone.agent.threads import NoThread, OwnThreads
from drone.agent.turn import Turn
from drone.checkpoints.ledger import Summary
from drone.checkpoints.recording import OrderCheckpoints
from drone.checkpoints.retention import Pruned, prune
from drone.checkpoints.revert import Revert
from drone.checkpoints.scan import Stopped
from drone.checkpoints.store import StoreBroken
from drone.sandbox.paths import Workspace, WorkspaceGone
from mcc.contracts.changes import Changes
from mcc.contracts.order import Outcome, WorkOrder

CHECKPOINTS = "checkpoints"
"""The directory of them in a data directory."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """`directory` has a file for each workspace."""

    directory: Path

    @classmethod
    def within(cls, data_dir: Path) -> "Keeping":
        return cls(data_dir / CHECKPOINTS)

    def of(self, order: WorkOrder, workspace: Workspace) -> OrderCheckpoints:
        return OrderCheckpoints(workspace, self.directory, order.id)

    def known(self, order_id: str, workspace: Workspace) -> frozenset[str]:
        """Ids of the checkpoints that were taken here for an order. Blocks. Raises `StoreBroken`, OSError."""
        return frozenset(move.id for move in OrderCheckpoints(workspace, self.directory, order_id).known())

    def prune(self, days: float) -> Pruned:
        """Remove what is older. Blocks."""
        return prune(self.directory, days)

    async def with_changes(
        self, order: WorkOrder, workspace: Workspace, journal: Journal, threads: OwnThreads, outcome: Outcome
    ) -> Outcome:
        """The outcome, with what the order did to its workspace. Raises `JournalError`."""
        try:
            found = await threads.claim(self._summary, order, workspace)
        except WorkspaceGone:
            said = (
                f"Its workspace, {workspace.root}, was deleted while it worked: if it changed anything, that is lost."
            )
            return outcome.model_copy(update={"detail": outcome.detail or said})
        except (StoreBroken, OSError, Stopped, NoThread) as problem:
            said = f"What it changed in its workspace cannot be told: {problem}"
            return outcome.model_copy(update={"detail": outcome.detail or said})
        if found is None:
            return outcome
        diff = await journal.keep(found.diff) if found.diff else None
        where = str(workspace.root)
        changes = Changes(workspace=where, files=found.files, diff=diff, checkpoints=found.checkpoints)
        return outcome.model_copy(update={"changes": changes})

    def _summary(self, order: WorkOrder, workspace: Workspace) -> Summary | None:
        workspace.check()
        return self.of(order, workspace).summary(Event())

    async def revert(self, order: WorkOrder, workspace: Workspace, turn: Turn, reached: Collection[str]) -> Outcome:
        """Do an order of kind revert; `reached`: calls of the other order that stay. Raises `JournalError`."""
        assert order.origin is not None
        return await Revert(order, order.origin, self.of(order, workspace), turn, reached).run()
