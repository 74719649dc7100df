"""Claiming an order: who claims, into which slot, with which workspace; and asking the database, without a broker."""

import asyncio
import random
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

import structlog

from drone.order_context import Seen
from drone.worker.broadcaster import Broadcaster
from drone.worker.executions import Execution
from drone.worker.keeper import Keeper
from drone.worker.loop import AsyncStore, Grouped
from drone.worker.workspaces import Plan, Workspaces
from mcc.contracts.drones import DroneCounters, DroneStatus
from mcc.contracts.ids import fresh_id
from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.store.claiming import ClaimAnswer
from mcc.store.errors import AnotherWorkspace, StoreUnavailable, WorkspaceNeeded
from mcc.store.values import Claim, ClaimingDrone, ClaimRequest

log = structlog.get_logger("drone.claiming")

MOST_TOGETHER = 200
"""Orders that are claimed in one transaction."""


class Slots:
    """At most `total` orders at a time, or one that has the process to itself. Safe for several threads."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._active = 0
        self._fillings = 0
        self._alone = False
        self._kept_clear = False
        self._lock = threading.Lock()

    @property
    def active(self) -> int:
        return self._active

    @property
    def free(self) -> int:
        return 0 if self._alone or self._kept_clear else self.total - self._active

    @property
    def alone(self) -> bool:
        """Whether one order has the process to itself."""
        return self._alone

    def keep_clear(self, wanted: bool) -> None:
        """Take nothing more, so that an order that must be alone finds this process empty; False: as usual again."""
        self._kept_clear = wanted

    @property
    def fillings(self) -> int:
        """How often the last free slot was taken so far. Two equal answers: the drone was never full in between."""
        return self._fillings

    def take(self, *, alone: bool = False) -> bool:
        """Take a slot, or all of them; False when none is free, or not all."""
        with self._lock:
            if self._active >= (1 if alone else self.total) or self._alone or (self._kept_clear and not alone):
                return False
            self._active += 1
            self._alone = alone
            self._fillings += self._active == self.total
            return True

    def release(self) -> None:
        with self._lock:
            self._active -= 1
            self._alone = False


class Counting:
    """Counts what `DroneCounters` names, since this process started. Safe for several threads."""

    def __init__(self) -> None:
        self._counters = DroneCounters()
        self._lock = threading.Lock()

    def add(self, counter: str) -> None:
        """One more; `counter` is a field of `DroneCounters`, AttributeError is raised for other names."""
        with self._lock:
            more = {counter: getattr(self._counters, counter) + 1}
            self._counters = self._counters.model_copy(update=more)

    @property
    def counters(self) -> DroneCounters:
        return self._counters


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


class GroupedClaims:
    """Claims in one transaction what was asked for while the one before was under way. Use on one event loop only."""

    def __init__(self, store: AsyncStore, claimant: Claimant) -> None:
        self._store = store
        self._claimant = claimant
        self._by_incarnation: dict[str, Grouped[ClaimRequest, Claim | None]] = {}

    async def claim(self, order: ClaimRequest, incarnation: str) -> Claim | None:
        """The claim; None when the order is not to be had. Raises what `Claims.claim` does."""
        if incarnation not in self._by_incarnation:
            # Those that were lost claim nothing more.
            self._by_incarnation = {incarnation: Grouped(partial(self._claimed, incarnation), MOST_TOGETHER)}
        return await self._by_incarnation[incarnation].ask(order)

    async def _claimed(self, incarnation: str, asked: Sequence[ClaimRequest]) -> Sequence[ClaimAnswer]:
        # One token for all tries: the store answers claims whose first answer was lost with the same claims.
        by = ClaimingDrone(self._claimant.name, incarnation, fresh_id(), self._claimant.slots.alone)
        return await self._store.patiently(lambda store: store.claims.claim_together(asked, by))


class Claiming:
    """Claims orders for one drone. Without `workspaces` orders are claimed as if none named a workspace."""

    def __init__(
        self, store: AsyncStore, claimant: Claimant, broadcaster: Broadcaster, workspaces: Workspaces | None = None
    ) -> None:
        self._store = store
        self._claimant = claimant
        self._broadcaster = broadcaster
        self._workspaces = workspaces
        self._claims = GroupedClaims(store, claimant)

    async def claim(self, execution: Execution) -> Claim | None:
        """The claim; None when the order is not to be had, or waits for its workspace from now on."""
        incarnation = self._claimant.incarnation
        if incarnation is None:
            return None
        execution.incarnation = incarnation
        claimed = await self._claimed(execution)
        if claimed is not None:
            self._broadcaster.moved(claimed.order, [claimed.entry] if claimed.entry else ())
        return claimed

    @asynccontextmanager
    async def entered(self, claim: Claim, execution: Execution) -> AsyncIterator[Seen | None]:
        """Work in the order's workspace, if it has one; see `Workspaces.entered`. Raises `CannotFetch` as well."""
        if self._workspaces is None or execution.workspace is None:
            yield None
            return
        held, directory = execution.workspace, execution.directory
        async with self._workspaces.entered(claim, held, execution.incarnation, directory) as seen:
            if directory is None:
                execution.directory = await self._workspaces.checked_out(claim.order)
            yield seen

    async def _claimed(self, execution: Execution) -> Claim | None:
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
        plan: Plan | None,
    ) -> Claim | None:
        """Claim an order that names a workspace; one that has to wait for its workspace is parked at once."""
        if plan is None:
            return None
        execution.workspace, execution.directory, execution.invalid = plan.hold, plan.workspace, plan.problem
        claimed = await self._claims.claim(ClaimRequest(execution.order_id, plan.hold), execution.incarnation)
        if claimed is None or plan.waits is None:
            return claimed
        seq = await workspaces.lay_aside(claimed, plan, drone=self._claimant.name)
        if seq is not None:
            laid_aside = {"status": OrderStatus.WAITING, "reason": WaitingReason.WORKSPACE, "detail": plan.waits}
            entries = await self._store.entries(claimed.order.id, after=claimed.last_seq - 1)
            self._broadcaster.moved(claimed.order.model_copy(update={**laid_aside, "last_seq": seq}), entries)
        return None


AWAY_SECONDS = 1.0
"""How often to ask while Redis is away."""

AHEAD_SECONDS = 0.25
"""So long what a look found is begun without another one: orders that are more urgent, and came since, wait for it."""

MOST_ASKED = 1_000
"""Orders that one look asks for, however many drones share them."""


class Poll:
    """Starts claimable orders of its queues in free slots: a fair share, other drones ask as well.

    It asks every `poll_seconds`, when it is called, and whenever a slot is free again while more may wait: what a look
    finds beyond the free slots is kept for a moment, so that one look is enough for several short orders.

    An order that may be what kills drones runs alone in a drone; one of the drones empties itself for such an order.
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
        """`start` is called with each order, in a slot that is taken. `connected` tells whether Redis is there."""
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
        """Set with each order that came while no slot was free."""
        self._drones = 1
        self._ahead: deque[str] = deque()
        self._ahead_until = 0.0
        self._beyond = 1
        """How many orders a look asks for beyond the free slots: about as many as were begun before it was too old."""
        self._more = False
        self._misses = 0

    @property
    def wanting(self) -> bool:
        """Whether orders may wait that this drone would begin, had it a free slot. For any thread."""
        return self._more or bool(self._ahead)

    def look(self) -> None:
        """Ask now: many orders were queued. Call on the loop."""
        self._called.set()

    def miss(self) -> None:
        """An order came while no slot was free: it waits, and nobody tells of it again. Call on the loop."""
        self._more = True
        self._misses += 1
        self.missed.set()
        self.freed()

    def freed(self) -> None:
        """A slot is free again: begin what was found before, or ask if more may wait. Call on the loop."""
        if self._ahead and asyncio.get_running_loop().time() > self._ahead_until:
            self._ahead.clear()
            self._beyond = max(1, self._beyond // 2)
            self._more = True
        while self._ahead and self._slots.take():
            self._begin(self._ahead.popleft())
            if not self._ahead:
                self._beyond = min(2 * self._beyond, self._slots.total)
        if self._more and not self._ahead and self._slots.free > 0:
            self.look()

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            # Spread at random: drones that were started together would otherwise all ask at the same moments.
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
        """Start what this drone should take now; answers how many. Raises `StoreUnavailable`."""
        self._ahead.clear()
        # Set before slots are counted: whoever frees one after that sees it, and calls `freed`.
        self._more = True
        free = self._slots.total - self._slots.active
        if free <= 0:
            return 0
        skipped, self._skipped, misses = tuple(self._skipped), set(), self._misses
        most = min((free + self._beyond) * self._drones, MOST_ASKED)
        waiting = await self._store.once(lambda store: store.claims.claimable(self._queues, most, besides=skipped))
        alone = [item.order_id for item in waiting if item.alone]
        others = [item.order_id for item in waiting if not item.alone]
        self._slots.keep_clear(bool(alone) and await self._is_chosen())
        mine = await self._share(others)
        # What was missed meanwhile may have come after the database was asked.
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
        self.skip(order_id)  # The next look may come before it is claimed.

    def skip(self, order_id: str) -> None:
        """Leave this order, which cannot be claimed now, out of the next look, which then sees those behind it."""
        self._skipped.add(order_id)

    async def _is_chosen(self) -> bool:
        """Whether it is this drone that empties itself for an order that must be alone."""
        # All drones compare the same rows, so that one is chosen without a word between them.
        rivals = await self.rivals()
        return bool(rivals) and min(rivals) == self._claimant.incarnation

    async def _share(self, waiting: Sequence[str]) -> Sequence[str]:
        """Those that are this drone's when each live drone of these queues takes its turn; a single one is anybody's.

        Drones that ask at the same moment have different ones.
        """
        if len(waiting) < 2:
            return waiting
        me, rivals = self._claimant.incarnation, sorted(await self.rivals())
        self._drones = max(1, len(rivals))
        return waiting[rivals.index(me) :: len(rivals)] if me is not None and me in rivals else waiting

    async def rivals(self) -> Sequence[str]:
        """Incarnations of the live drones that serve these queues, this one among them."""
        return [
            drone.incarnation
            for drone in await self._store.once(lambda store: store.leases.drones())
            if drone.status is DroneStatus.UP and not set(drone.queues).isdisjoint(self._queues)
        ]
