"""An order's access to its workspace under one claim: its lock in the database, then the one of this machine."""

import asyncio
from collections.abc import Sequence
from datetime import datetime

import structlog

from drone.agent.control.idle_watch import Block
from drone.agent.ports.journal import Fenced
from drone.agent.ports.write_access import HoldRefused, KnownFiles, WriteHold
from drone.sandbox.host_lock import HostLock
from drone.worker.entering import Busy, Entrance
from drone.worker.executions import Execution
from mcc.contracts.order import OrderKind
from mcc.contracts.shape import now
from mcc.contracts.status import WaitingReason
from mcc.store.database.errors import StoreFenced
from mcc.store.rows.values import Claim, WorkspaceHold
from mcc.store.work.workspaces import WorkspaceTaken

log = structlog.get_logger("drone.workspaces")

WRITES = "It waits for the workspace {}, in which order {} writes"
COMES_FIRST = "It waits for the workspace {}, which order {} wants before it"


class OrderWriteAccess:
    """See `WriteAccess`. `lock` is that of this machine, held until `release`. Use on one event loop only."""

    def __init__(
        self, entrance: Entrance, lock: HostLock, claim: Claim, hold: WorkspaceHold, execution: Execution
    ) -> None:
        self._store = entrance.store
        self._crew = entrance.crew
        self._entrance = entrance
        self._lock = lock
        self._claim = claim
        self._hold = hold
        self._execution = execution
        self._held: WriteHold | None = None
        self._holder: str | None = None
        self._since: datetime | None = claim.wants_since
        self._withdrawing: asyncio.Task[None] | None = None

    @property
    def from_the_beginning(self) -> bool:
        """Whether the order writes from its claim on: it takes back what another one did, wants to, has written before,
        or works in a checkout of its own."""
        order = self._claim.order
        if order.kind is OrderKind.REVERT or self._execution.directory is None:
            return True
        return order.mode != "plan" and (order.write or self._claim.writes)

    async def acquire(self) -> WriteHold | HoldRefused:
        """As `WriteAccess.acquire`. Where another process of this machine is still at work in the workspace, the order
        is parked."""
        if self._held is not None:
            return self._held
        if self._withdrawing is not None:
            await self._withdrawing
        order_id, epoch = self._claim.order.id, self._claim.epoch
        try:
            taken = await self._store.patiently(lambda store: store.workspaces.acquire(order_id, epoch, self._hold))
        except StoreFenced as problem:
            raise Fenced(str(problem)) from problem
        if taken is not None:
            return self._refused(taken)
        try:
            await self._entrance.enter(self._lock, self._claim, self._execution.directory)
        except Busy as busy:
            self._execution.wait_for(Block(WaitingReason.WORKSPACE, str(busy)))
            raise Fenced(str(busy)) from busy
        waited = (now() - self._since).total_seconds() if self._since else 0.0
        self._held, self._execution.wrote = WriteHold(self._hold.key, max(0.0, waited), self._holder), True
        log.info("order writes in its workspace", order_id=order_id, epoch=epoch, waited_seconds=round(waited, 3))
        return self._held

    def _refused(self, taken: WorkspaceTaken) -> HoldRefused:
        self._since = self._since or now()
        self._holder = taken.holder
        said = COMES_FIRST if taken.waits else WRITES
        return HoldRefused(said.format(self._claim.order.workspace, taken.holder))

    def withdraw(self) -> None:
        """As `WriteAccess.withdraw`. An order that is halted keeps its place, or its next status takes it."""
        if self._execution.stop is None and self._withdrawing is None:
            self._withdrawing = asyncio.create_task(self._leave())

    async def _leave(self) -> None:
        try:
            order_id, epoch = self._claim.order.id, self._claim.epoch
            await self._store.patiently(lambda store: store.workspaces.leave(order_id, epoch))
            self._since = None
        except Exception:
            log.exception("an order stays in the line for its workspace", order_id=self._claim.order.id)
        finally:
            self._withdrawing = None

    async def changed(self, known: KnownFiles) -> Sequence[str]:
        """As `WriteAccess.changed`."""
        workspace, order = self._execution.directory, self._claim.order
        if workspace is None or not known:
            return ()
        threads = self._crew.pools.of(order.id)
        return await threads.claim(self._crew.changed_by_others, order, workspace, known)

    def release(self) -> None:
        """Give the lock of this machine back."""
        self._lock.release()
