"""Claiming an order: who claims, with which workspace, and what becomes of an order that has to wait for one."""

from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

from drone.worker.async_store import AsyncStore
from drone.worker.broadcaster import Broadcaster
from drone.worker.executions import Execution
from drone.worker.keeper import Keeper
from drone.worker.slots import Slots
from drone.worker.workspaces import Plan, Workspaces
from mcc.contracts.ids import fresh_id
from mcc.contracts.status import OrderStatus
from mcc.contracts.wire import Hint
from mcc.store.errors import AnotherWorkspace, WorkspaceNeeded
from mcc.store.values import Claim


@dataclass(frozen=True, slots=True)
class Claimant:
    """Who claims orders: a drone by its `name`, under the incarnation of its lease, into its slots."""

    name: str
    lease: Keeper
    slots: Slots

    @property
    def incarnation(self) -> str | None:
        """None between a lost lease and the next registration: nothing can be claimed then."""
        return self.lease.incarnation


class Claiming:
    """Claims orders for one drone. Without `workspaces` orders are claimed as if none named a workspace."""

    def __init__(
        self, store: AsyncStore, claimant: Claimant, broadcaster: Broadcaster, workspaces: Workspaces | None = None
    ) -> None:
        self._store = store
        self._claimant = claimant
        self._broadcaster = broadcaster
        self._workspaces = workspaces

    async def claim(self, execution: Execution) -> Claim | None:
        """The claim; None when the order is not to be had, or waits for its workspace from now on."""
        incarnation = self._claimant.incarnation
        if incarnation is None:
            return None
        execution.incarnation = incarnation
        # One token for all tries: the store answers a claim whose first answer was lost with the same claim.
        claim = partial(
            self._store.store.claims.claim,
            execution.order_id,
            incarnation=incarnation,
            claim_token=fresh_id(),
            drone=self._claimant.name,
            alone=self._claimant.slots.alone,
        )
        claimed = await self._claimed(execution, claim)
        if claimed is not None:
            self._hint(execution.order_id, claimed.last_seq, OrderStatus.RUNNING)
        return claimed

    def entered(self, claim: Claim, execution: Execution) -> AbstractAsyncContextManager[None]:
        """Work in the order's workspace, if it has one; see `Workspaces.entered`."""
        if self._workspaces is None or execution.workspace is None:
            return nullcontext()
        return self._workspaces.entered(claim, execution.workspace, execution.incarnation)

    async def _claimed(self, execution: Execution, claim: "partial[Claim | None]") -> Claim | None:
        if self._workspaces is None:
            return await self._store.patiently(lambda _: claim())
        try:
            return await self._store.patiently(lambda _: claim(unseen=False))
        except WorkspaceNeeded as needed:
            order, begun = needed.order, needed.begun
        try:
            plan = await self._workspaces.plan(order, begun=begun)
            return await self._claim_with(self._workspaces, execution, plan, claim)
        except AnotherWorkspace as another:
            plan = self._workspaces.replaced(order, another.found)
            return await self._claim_with(self._workspaces, execution, plan, claim)

    async def _claim_with(
        self,
        workspaces: Workspaces,
        execution: Execution,
        plan: Plan | None,
        claim: "partial[Claim | None]",
    ) -> Claim | None:
        """Claim an order that names a workspace; one that has to wait for its workspace is parked at once."""
        if plan is None:
            return None
        execution.workspace, execution.directory, execution.invalid = plan.hold, plan.workspace, plan.problem
        claimed = await self._store.patiently(lambda _: claim(workspace=plan.hold))
        if claimed is None or plan.waits is None:
            return claimed
        seq = await workspaces.lay_aside(claimed, plan, drone=self._claimant.name)
        if seq is not None:
            self._hint(execution.order_id, seq, OrderStatus.WAITING)
        return None

    def _hint(self, order_id: str, seq: int, status: OrderStatus) -> None:
        self._broadcaster.hint(Hint(order_id=order_id, seq=seq, status=status.value))
