"""Claiming an order: who claims, into which slot, with which workspace; and asking the database, without a broker."""

import asyncio
import random
import threading
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
from mcc.store.values import Claim, Claimable, ClaimedBy, ToClaim

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
        self._by_incarnation: dict[str, Grouped[ToClaim, Claim | None]] = {}

    async def claim(self, order: ToClaim, incarnation: str) -> Claim | None:
        """The claim; None when the order is not to be had. Raises what `Claims.claim` does."""
        if incarnation not in self._by_incarnation:
            # Those that were lost claim nothing more.
            self._by_incarnation = {incarnation: Grouped(partial(self._claimed, incarnation), MOST_TOGETHER)}
        return await self._by_incarnation[incarnation].ask(order)

    async def _claimed(self, incarnation: str, asked: Sequence[ToClaim]) -> Sequence[ClaimAnswer]:
        # One token for all tries: the store answers claims whose first answer was lost with the same claims.
        by = ClaimedBy(self._claimant.name, incarnation, fresh_id(), self._claimant.slots.alone)
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
            return await self._claims.claim(ToClaim(order_id), execution.incarnation)
        try:
            return await self._claims.claim(ToClaim(order_id, unseen=False), execution.incarnation)
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
        claimed = await self._claims.claim(ToClaim(execution.order_id, plan.hold), execution.incarnation)
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


class Poll:
    """Starts claimable orders of its queues in free slots: a fair share, other drones ask as well.

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

    def look(self) -> None:
        """Ask now: many orders were queued. Call on the loop."""
        self._called.set()

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
        free = self._slots.total - self._slots.active
        if free <= 0:
            return 0
        skipped, self._skipped = tuple(self._skipped), set()
        waiting = await self._store.once(lambda store: store.claims.claimable(self._queues, free, besides=skipped))
        alone = [item for item in waiting if item.alone]
        others = [item for item in waiting if not item.alone]
        self._slots.keep_clear(bool(alone) and await self._is_chosen())
        started = 0
        for item in (*alone, *await self._share(others)):
            if not self._slots.take(alone=item.alone):
                continue
            self._start(item.order_id)
            started += 1
        return started

    def skip(self, order_id: str) -> None:
        """Leave this order, which could not be claimed now, out of the next poll, which then sees those behind it."""
        self._skipped.add(order_id)

    async def _is_chosen(self) -> bool:
        """Whether it is this drone that empties itself for an order that must be alone."""
        # All drones compare the same rows, so that one is chosen without a word between them.
        rivals = await self._rivals()
        return bool(rivals) and min(rivals) == self._claimant.incarnation

    async def _share(self, waiting: Sequence[Claimable]) -> Sequence[Claimable]:
        """Those that are this drone's when each live drone of these queues takes its turn; a single one is anybody's.

        Drones that ask at the same moment have different ones.
        """
        me, rivals = self._claimant.incarnation, sorted(await self._rivals()) if len(waiting) > 1 else []
        return waiting[rivals.index(me) :: len(rivals)] if me is not None and me in rivals else waiting

    async def _rivals(self) -> Sequence[str]:
        """Incarnations of the live drones that serve these queues, this one among them."""
        return [
            drone.incarnation
            for drone in await self._store.once(lambda store: store.leases.drones())
            if drone.status is DroneStatus.UP and not set(drone.queues).isdisjoint(self._queues)
        ]
