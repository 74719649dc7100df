"""Commits what is in a checkout and nobody has committed, as the git tools do: no hook or filter runs."""

from dataclasses import dataclass
from threading import Event

from drone.agent.turns.toolset import StartedCall
from drone.checkpoints.recording import CallCheckpoints, OrderCheckpoints
from drone.delivery.delivery_record import DeliveryRecord
from drone.sandbox.places.paths import Workspace
from drone.tools.frame.tool import ToolContext, ToolFailed
from drone.tools.git.program import Git
from drone.tools.git.writing import GitWriteTools
from mcc.contracts.git_delivery import DELIVER, DeliveryFinished, GitDelivery
from mcc.contracts.ids import derived_id


@dataclass(frozen=True, slots=True)
class Committing:
    """Commits in one checkout. What it held before is kept in the order's checkpoints."""

    git: Git
    workspace: Workspace
    checkpoints: OrderCheckpoints

    async def newest(self, record: DeliveryRecord, delivery: GitDelivery, message: str) -> str:
        """Commit what nobody has committed; answers the newest commit. Raises `ToolFailed`, `PathError`,
        `StoreBroken`, OSError, `JournalError`."""
        checkout = await self.git.opened(self.workspace, record.turn.threads)
        listed = await checkout.output("status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal")
        if not listed.total:
            return await checkout.commit("HEAD")
        await record.step("commit", delivery, None)
        tools = GitWriteTools(self.git)
        await tools.git_add(self._context(record, "add"), (".",))
        try:
            await tools.git_commit(self._context(record, "commit"), message)
        except ToolFailed as problem:
            # What is left is ignored, or belongs to a repository of its own.
            if "Nothing is staged" not in str(problem):
                raise
        commit = await checkout.commit("HEAD")
        await record.write(DeliveryFinished(step="commit", ok=True, commit=commit))
        return commit

    def _context(self, record: DeliveryRecord, act: str) -> ToolContext:
        call_id = derived_id(record.id, act, len(record.facts))
        call = StartedCall(call_id, DELIVER, {}, record.who, record.turn)
        taken = CallCheckpoints(self.checkpoints, call, record.turn, Event())
        return ToolContext(call_id, record.who, self.workspace, turn=record.turn, checkpoints=taken)
