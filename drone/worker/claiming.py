"""Claims orders into the slots of a drone, and polls the database for claimable orders independently of the broker."""

import asyncio
import random
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

import structlog

from drone.delivery.deliveries import Deliveries
from drone.order_context import Seen
from drone.worker.broadcaster import Broadcaster
from drone.worker.executions import Execution
from drone.worker.keeper import Keeper
from drone.worker.loop import AsyncStore, Grouped
from drone.worker.workspaces import ClaimPlan, Workspaces
from mcc.contracts.drones import DroneStatus
from mcc.contracts.ids import fresh_id
from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.store.database.errors import AnotherWorkspace, StoreUnavailable, WorkspaceNeeded
from mcc.store.rows.values import Claim, ClaimingDrone, ClaimRequest
from mcc.store.work.claiming import ClaimAnswer

log = structlog.get_logger("drone.claiming")

MOST_TOGETHER = 200
"""Bound on the orders claimed in one transaction."""


class Slots:
    """Limits a drone to `total` orders at a time, or to one order that has the process to itself. Thread-safe."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._active = 0
        self._fillings = 0
        self._alone = False
        self._kept_clear = False
        self._closed = False
        self._lock = threading.Lock()

    @property
    def active(self) -> int:
        return self._active

    @property
    def free(self) -> int:
        return 0 if self._alone or self._kept_clear or self._closed else self.total - self._active

    @property
    def alone(self) -> bool:
        """Whether one order has the process to itself."""
        return self._alone

    def keep_clear(self, wanted: bool) -> None:
        """True: refuse all orders except one that must run alone, so that the process empties for it. False: accept
        orders as usual again."""
        self._kept_clear = wanted

    def close(self, closed: bool) -> None:
        """True: refuse all orders, whatever they are. False: accept orders as usual again."""
        self._closed = closed

    @property
    def fillings(self) -> int:
        """How often the last free slot has been taken. Between two equal readings the drone never became full."""
        return self._fillings

    def take(self, *, alone: bool = False) -> bool:
        """Take one slot, or with `alone` the whole process. Answers False when no slot is free, or with `alone` when
        any slot is taken."""
        with self._lock:
            if (
                self._closed
                or self._active >= (1 if alone else self.total)
                or self._alone
                or (self._kept_clear and not alone)
            ):
                return False
            self._active += 1
            self._alone = alone
            self._fillings += self._active == self.total
            return True

    def release(self) -> None:
        with self._lock:
            self._active -= 1
            self._alone = False


@dataclass(frozen=True, slots=True)
class Claimant:
    """The drone that claims orders: its `name`, the lease that it claims under, and the slots that it fills."""

    name: str
    lease: Keeper
    slots: Slots

    @property
    def incarnation(self) -> str | None:
        """None between a lost lease and the next registration; nothing can be claimed meanwhile."""
        return self.lease.incarnation


class GroupedClaims:
    """Claims in one transaction all orders requested while the previous transaction ran. Use on one event loop only."""

    def __init__(self, store: AsyncStore, claimant: Claimant) -> None:
        self._store = store
        self._claimant = claimant
        self._by_incarnation: dict[str, Grouped[ClaimRequest, Claim | None]] = {}

    async def claim(self, order: ClaimRequest, incarnation: str) -> Claim | None:
        """The claim; None when the order cannot be claimed. Raises what `Claims.claim` raises."""
        if incarnation not in self._by_incarnation:
            # Replaces the groups of earlier incarnations: a lost incarnation claims nothing more.
            self._by_incarnation = {incarnation: Grouped(partial(self._claim_group, incarnation), MOST_TOGETHER)}
        return await self._by_incarnation[incarnation].ask(order)

    async def _claim_group(self, incarnation: str, requests: Sequence[ClaimRequest]) -> Sequence[ClaimAnswer]:
        # One token for all retries: if the answer to a committed try was lost, the store answers with the same claims.
        by = ClaimingDrone(self._claimant.name, incarnation, fresh_id(), self._claimant.slots.alone)
        return await self._store.patiently(lambda store: store.claims.claim_together(requests, by))


class Claiming:
    """Claims orders for one drone. Without `workspaces`, it ignores the workspaces that orders name."""

    def __init__(
        self, store: AsyncStore, claimant: Claimant, broadcaster: Broadcaster, workspaces: Workspaces | None = None
    ) -> None:
        self._store = store
        self._claimant = claimant
        self._broadcaster = broadcaster
        self._workspaces = workspaces
        self._claims = GroupedClaims(store, claimant)

    async def claim(self, execution: Execution) -> Claim | None:
        """The claim; None when the order cannot be claimed, or was parked until its workspace is there."""
        # Read once: the lease may be lost, and replaced by another, while the claim is on its way.
        incarnation = self._claimant.incarnation
        if incarnation is None:
            return None
        execution.incarnation = incarnation
        claimed = await self._claim_planned(execution)
        if claimed is not None:
            self._broadcaster.moved(claimed.order, [claimed.entry] if claimed.entry else ())
        return claimed

    @asynccontextmanager
    async def entered(self, claim: Claim, execution: Execution) -> AsyncIterator[Seen | None]:
        """Work in the order's workspace, if it has one, in which `execution.access` then lets it write. Yields the
        first look at it. Raises what `Workspaces.entered` does, and `CannotFetch`."""
        if self._workspaces is None or execution.workspace is None:
            yield None
            return
        async with self._workspaces.entered(claim, execution.workspace, execution):
            if execution.directory is None:
                execution.directory = await self._workspaces.checked_out(claim.order)
                yield None
            else:
                yield await self._workspaces.seen(claim.order, execution.directory)

    @property
    def deliveries(self) -> Deliveries | None:
        """As `Workspaces.deliveries`."""
        return None if self._workspaces is None else self._workspaces.deliveries

    def left(self, execution: Execution) -> None:
        """Note that the order is not held here any more: another one may write in its workspace."""
        if self._workspaces is not None and execution.wrote:
            self._workspaces.released.set()

    async def _claim_planned(self, execution: Execution) -> Claim | None:
        """Try without a workspace first, which most orders do not have; plan one only when the store asks for it."""
        order_id = execution.order_id
        if self._workspaces is None:
            return await self._claims.claim(ClaimRequest(order_id), execution.incarnation)
        try:
            return await self._claims.claim(ClaimRequest(order_id, workspace_optional=False), execution.incarnation)
        except WorkspaceNeeded as needed:
            order, begun = needed.order, needed.begun
        try:
            plan = await self._workspaces.plan(order, begun=begun)
            return await self._claim_with(self._workspaces, execution, plan)
        except AnotherWorkspace as another:
            plan = self._workspaces.replaced(order, another.found)
            return await self._claim_with(self._workspaces, execution, plan)

    async def _claim_with(
        self,
        workspaces: Workspaces,
        execution: Execution,
        plan: ClaimPlan | None,
    ) -> Claim | None:
        """Claim an order that names a workspace; if it must wait for the workspace, park it at once."""
        if plan is None:
            return None
        execution.workspace, execution.directory, execution.invalid = plan.hold, plan.workspace, plan.problem
        claimed = await self._claims.claim(ClaimRequest(execution.order_id, plan.hold), execution.incarnation)
        if claimed is None or plan.waits is None:
            return claimed
        seq = await workspaces.park(claimed, plan, drone=self._claimant.name)
        if seq is not None:
            parked = {"status": OrderStatus.WAITING, "reason": WaitingReason.WORKSPACE, "detail": plan.waits}
            # The claim's own entry is among them: `claim` announces nothing of an order that it does not answer.
            entries = await self._store.entries(claimed.order.id, after=claimed.last_seq - 1)
            self._broadcaster.moved(claimed.order.model_copy(update={**parked, "last_seq": seq}), entries)
        return None


AWAY_SECONDS = 1.0
"""Pause between polls while Redis is unreachable."""

AHEAD_SECONDS = 0.25
"""How long orders found by a poll may still be started without polling again. More urgent orders that arrive in the
meantime wait for that long."""

LEFT_SECONDS = 0.5
"""How long an order is left to the drone in whose share it is, while this one begins later orders."""

MOST_ASKED = 1_000
"""Bound on the orders that one poll asks for, however many drones share them."""


class Poll:
    """Starts claimable orders of its queues in free slots. It takes a fair share, since other drones poll as well.

    It polls the database every `poll_seconds`, after `look`, and whenever a slot becomes free while more orders may
    wait. Orders found beyond the free slots are kept for `AHEAD_SECONDS`, so that one poll serves several short orders.

    An order that the drone in whose share it is has not begun for `LEFT_SECONDS`, because its slots are taken, comes
    before all later ones; that time begins when any drone begins a later one.

    An order suspected of killing drones runs alone in a drone; one of the drones empties itself for such an order.
    """

    def __init__(
        self,
        store: AsyncStore,
        claimant: Claimant,
        queues: Sequence[str],
        start: Callable[[str], None],
        *,
        poll_seconds: float,
        connected: Callable[[], bool],
    ) -> None:
        """`start` is called with each order id, after its slot was taken. `connected` tells whether Redis is
        reachable."""
        self._store = store
        self._claimant = claimant
        self._slots = claimant.slots
        self._queues = tuple(queues)
        self._start = start
        self._poll_seconds = poll_seconds
        self._connected = connected
        self._skipped: set[str] = set()
        self._called = asyncio.Event()
        self.missed = asyncio.Event()
        """Set by each order that arrived while no slot was free."""
        self._drones = 1
        self._ahead: deque[str] = deque()
        self._ahead_until = 0.0
        self._beyond = 1
        """How many orders a poll asks for beyond the free slots: adapts to how many of them are started within
        `AHEAD_SECONDS`."""
        self._more = False
        self._misses = 0
        self._left: dict[str, float] = {}

    @property
    def wanting(self) -> bool:
        """Whether orders may be waiting that this drone would start if it had a free slot. Call from any thread."""
        return self._more or bool(self._ahead)

    def look(self) -> None:
        """Poll now. Call on the loop."""
        self._called.set()

    def miss(self) -> None:
        """Note that an order arrived while no slot was free: no further message will announce it. Call on the loop."""
        self.missed.set()
        self.arrived()

    def arrived(self) -> None:
        """Note that an order arrived while others may be waiting, the first of which comes first. Call on the loop."""
        self._more = True
        self._misses += 1
        self.freed()

    def freed(self) -> None:
        """Fill a slot that became free from the orders found before, or poll if more may wait. Call on the loop."""
        if self._ahead and asyncio.get_running_loop().time() > self._ahead_until:
            self._ahead.clear()
            # Too old to start without asking again: more were fetched than this drone gets through in that time.
            self._beyond = max(1, self._beyond // 2)
            self._more = True
        while self._ahead and self._slots.take():
            self._begin(self._ahead.popleft())
            if not self._ahead:
                # All of them were started in time: fetch more at once.
                self._beyond = min(2 * self._beyond, self._slots.total)
        if self._more and not self._ahead and self._slots.free > 0:
            self.look()

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            # Jitter: drones that were started together would otherwise all poll at the same moments.
            seconds = self._poll_seconds if self._connected() else min(self._poll_seconds, AWAY_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds * random.uniform(0.8, 1.2)):
                    await self._called.wait()
            self._called.clear()
            try:
                await self.once()
            except StoreUnavailable as problem:
                log.debug("the poll waits for the database", problem=str(problem))
            except Exception:
                log.exception("the poll failed")

    async def once(self) -> int:
        """Start the orders that this drone should take now; answers how many. Raises `StoreUnavailable`."""
        self._ahead.clear()
        # Set before the slots are counted: a thread that frees a slot afterwards sees `wanting`, and calls `freed`.
        self._more = True
        # Not `slots.free`, which is 0 while the drone is kept clear: this poll decides whether it still has to be.
        free = self._slots.total - self._slots.active
        if free <= 0:
            return 0
        skipped, self._skipped, misses = tuple(self._skipped), set(), self._misses
        # All drones get the same first rows and divide them: one's own share is found only among the shares of all.
        most = min((free + self._beyond) * self._drones, MOST_ASKED)
        waiting = await self._store.once(lambda store: store.claims.claimable(self._queues, most, besides=skipped))
        alone = [item.order_id for item in waiting if item.alone]
        others = [item.order_id for item in waiting if not item.alone]
        self._slots.keep_clear(bool(alone) and await self._is_chosen())
        mine = await self._share(others)
        # An order missed during this poll may have arrived after the database answered.
        self._more = len(waiting) >= most or len(mine) < len(others) or self._misses != misses
        started = 0
        for order_id in alone:
            if self._slots.take(alone=True):
                self._begin(order_id)
                started += 1
        self._ahead.extend(mine)
        while self._ahead and self._slots.take():
            self._begin(self._ahead.popleft())
            started += 1
        self._ahead_until = asyncio.get_running_loop().time() + AHEAD_SECONDS
        return started

    def _begin(self, order_id: str) -> None:
        self._start(order_id)
        self.skip(order_id)  # The next poll may come before the order is claimed.

    def skip(self, order_id: str) -> None:
        """Leave this order, which cannot be claimed now, out of the next poll, so that it finds the orders behind."""
        self._skipped.add(order_id)

    async def _is_chosen(self) -> bool:
        """Whether this drone is the one that empties itself for an order that must run alone."""
        # All drones compare the same rows, so that they agree on one without messages.
        rivals = await self.rivals()
        return bool(rivals) and min(rivals) == self._claimant.incarnation

    async def _share(self, waiting: Sequence[str]) -> Sequence[str]:
        """This drone's share of the waiting orders, in their order: every n-th one, where n drones serve these queues,
        and those that were left to the others for too long. A single order is not divided.

        Drones that poll at the same moment get different orders.
        """
        if len(waiting) < 2:
            return waiting
        me, rivals = self._claimant.incarnation, sorted(await self.rivals())
        self._drones = max(1, len(rivals))
        if me is None or me not in rivals:
            return waiting
        mine, now = set(waiting[rivals.index(me) :: len(rivals)]), asyncio.get_running_loop().time()
        others = [order_id for order_id in waiting if order_id not in mine]
        if unseen := [order_id for order_id in others if order_id not in self._left]:
            begun = await self._store.once(lambda store: store.claims.begun_behind(unseen[0]))
            for order_id in unseen:
                self._left[order_id] = now - max((ago for later, ago in begun.items() if later > order_id), default=0)
        self._left = {order_id: self._left[order_id] for order_id in others}
        return [order_id for order_id in waiting if order_id in mine or now - self._left[order_id] >= LEFT_SECONDS]

    async def rivals(self) -> Sequence[str]:
        """Incarnations of the live drones that serve these queues, this drone included."""
        return [
            drone.incarnation
            for drone in await self._store.once(lambda store: store.leases.drones())
            if drone.status is DroneStatus.UP and not set(drone.queues).isdisjoint(self._queues)
        ]
