"""Parks orders before memory or disk runs out, and returns free memory to the operating system."""

import asyncio
import contextlib
import gc
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from drone.agent.control.idle_watch import Block
from drone.worker.executions import Execution, Executions
from drone.worker.loop import AsyncStore
from mcc.contracts.order import OrderOutcome
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from mcc.resources import MEGABYTE, Reserve, resident_bytes, trim_heap
from mcc.store.database.errors import StoreUnavailable
from mcc.store.rows.values import Waiting
from mcc.store.store import Offload

log = structlog.get_logger("drone.shortage")

LOOK_SECONDS = 1.0
REQUEUE_EVERY = 5
"""Every so many looks, orders that wait for memory or disk space are looked for."""

ORDERS = 25
"""A garbage collection is worthwhile after so many ended orders."""

PART_OF_TIME = 0.01
"""Bound on the share of time spent on garbage collection, which is slow with thousands of live agents."""

GROWN_BYTES = 4_000_000
"""Growth of all journals after which the next look comes at once, and free heap memory is returned to the system."""

FULL = 0.85
"""Share of its memory above which a drone claims nothing more, so that its running orders can grow."""

ROOM = 0.7
"""Share of its memory below which an order that waits for memory continues. Lower than `FULL`, so that the order is not
parked again at once."""

MOST_REQUEUED = 100
REMEMBERED = 1_000


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a drone should do about its memory: claim nothing, for the reason `shortage`; `park` the order of this id;
    `end` the order of this id."""

    shortage: str | None = None
    park: str | None = None
    end: str | None = None
    bytes: int = 0
    """Approximate bytes that the order to park or end takes."""


def judge(limit: int, resident: int, idle: int, held: Mapping[str, int]) -> Judgement:
    """`resident`: bytes that the process holds; `idle`: bytes that it holds without any order; `held`: weight of each
    order's journal in bytes, by order id.

    Beyond `limit`, the largest order is parked. An order that would exceed the limit even alone ends, since it could
    wait for ever.
    """
    if resident < limit * FULL:
        return Judgement()
    short = (
        f"The memory of this drone is nearly full: it holds {_mb(resident)} of the {_mb(limit)} MB that it may "
        "(DRONE_MEMORY_MB)."
    )
    if resident <= limit or not held:
        return Judgement(short if held or resident > limit else None)
    largest = max(held, key=lambda order_id: (held[order_id], order_id))
    share = round(max(0, resident - idle) * held[largest] / max(1, sum(held.values())))
    if idle + share > limit or len(held) == 1:
        return Judgement(short, end=largest, bytes=share)
    return Judgement(short, park=largest, bytes=share)


class GarbageCollections:
    """Full garbage collections that return the freed memory to the system. Automatic collections hardly ever run
    (`tune_collector`).

    `clock` counts seconds, `cpu_time` the CPU seconds of this thread.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        cpu_time: Callable[[], float] = time.thread_time,
        collect: Callable[[], object] = gc.collect,
        trim: Callable[[], object] = trim_heap,
        freeze: Callable[[], object] = gc.freeze,
    ) -> None:
        self._clock = clock
        self._cpu_time = cpu_time
        self._collect = collect
        self._trim = trim
        self._freeze = freeze
        self._next_at = clock()

    @property
    def is_due(self) -> bool:
        return self._clock() >= self._next_at

    def freeze(self) -> None:
        """Exclude all present objects (modules, classes, schemas) from later collections, which would spend most of
        their time on them."""
        self._collect()
        self._freeze()

    def run(self) -> None:
        """Collect now, and put off the next collection so that all take at most `PART_OF_TIME`."""
        began = self._cpu_time()
        self._collect()
        self._trim()
        self._next_at = self._clock() + (self._cpu_time() - began) / PART_OF_TIME


class MemoryWatch:
    """Watches how many bytes this process holds, and keeps it below `limit`; None = unlimited.

    While `shortage`, a sentence, is set, this drone should claim nothing. `give_up` ends a process that exceeds the
    limit although no order runs in it, so that another can replace it. Use on one event loop only.
    """

    def __init__(
        self,
        limit: int | None,
        executions: Executions,
        store: AsyncStore,
        *,
        give_up: Callable[[str], None],
        resident: Callable[[], int | None] = resident_bytes,
        collections: GarbageCollections | None = None,
    ) -> None:
        self.shortage: str | None = None
        self._limit = limit
        self._executions = executions
        self._store = store
        self._give_up = give_up
        self._resident = resident
        self._collections = collections or GarbageCollections()
        self._idle = resident() or 0
        self._left_when_collected = 0
        self._grown = 0
        self._leaving: Execution | None = None
        self._look_now = asyncio.Event()
        self._sizes: dict[str, int] = {}

    def grew(self, bytes_more: int) -> None:
        """Note that the journals of running orders grew; after much growth, a look comes at once."""
        self._grown += bytes_more
        if self._grown > GROWN_BYTES:
            self._look_now.set()

    async def run(self) -> None:
        """Look until cancelled."""
        self._collections.freeze()
        look = 0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._look_now.wait()
            try:
                self.look()
                if look % REQUEUE_EVERY == 0:
                    await self.requeue_waiting()
            except StoreUnavailable as problem:
                log.debug("orders that wait for memory wait for the database", problem=str(problem))
            except Exception:
                log.exception("the memory watch failed")
            look += 1

    def look(self) -> None:
        """Collect the garbage of ended orders, and park or end the largest order if memory is short."""
        self._look_now.clear()
        enough = self._grown > GROWN_BYTES or self._executions.left - self._left_when_collected >= (
            ORDERS if len(self._executions) else 1
        )
        self._grown = 0
        if enough and self._collections.is_due:
            self._collect()
        if self._limit is not None:
            self._hold_to(self._limit)

    async def requeue_waiting(self) -> None:
        """Queue again one order that waits for memory, if it fits here. Raises `StoreUnavailable`."""
        room = self._room()
        if room <= 0:
            return
        for waiting in await self._store.once(lambda store: store.claims.waiting(WaitingReason.MEMORY, MOST_REQUEUED)):
            if len(self._executions) and self._sizes.get(waiting.order_id, 0) > room:
                continue
            # One at a time: only when it has grown does it show whether there is room for another.
            if await self._requeue(waiting.order_id):
                return

    async def _requeue(self, order_id: str) -> bool:
        why = "a drone has memory for it again"
        requeued = await self._store.once(lambda store: store.claims.resume(order_id, WaitingReason.MEMORY, why))
        if requeued:
            self._sizes.pop(order_id, None)
            log.info("order queued again", order_id=order_id, why=why)
        return bool(requeued)

    def _room(self) -> int:
        """Bytes that a resumed order may take here; 0 = none may resume."""
        if self._limit is None or not (len(self._executions) or self.shortage):
            return 1  # Nothing else runs: resume any order. One that does not fit even alone ends, with the reason.
        resident = self._resident() or 0
        if self.shortage or resident >= self._limit * ROOM:
            return 0
        return round(self._limit * FULL) - resident

    def _hold_to(self, limit: int) -> None:
        if self._leaving is not None and self._executions.get(self._leaving.order_id) is self._leaving:
            return  # Only after it has left does its freed memory show whether another order must leave as well.
        self._leaving = None
        resident = self._resident()
        if resident is None:
            return
        if resident > limit or (resident > limit * FULL and self._collections.is_due):
            self._collect()
            resident = self._resident() or resident
        going = {running.order_id: running for running in self._executions if running.goes_on}
        held = {order_id: execution.weight for order_id, execution in going.items()}
        judgement = judge(limit, resident, self._idle, held)
        self._set_shortage(judgement.shortage)
        if judgement.park is not None:
            self._park(going[judgement.park], judgement.bytes, resident, limit)
        elif judgement.end is not None:
            self._end(going[judgement.end], judgement.bytes, limit)
        elif not len(self._executions) and resident > limit:
            self._give_up(f"it holds {_mb(resident)} of the {_mb(limit)} MB that it may, although nothing runs here")

    def _collect(self) -> None:
        self._left_when_collected = self._executions.left
        self._collections.run()
        if not len(self._executions):
            # Only ever less: the heap does not return all that former orders took.
            self._idle = min(self._idle, self._resident() or self._idle)

    def _set_shortage(self, shortage: str | None) -> None:
        before, self.shortage = self.shortage, shortage
        if shortage and not before:
            log.warning("this drone takes no orders", problem=shortage)
        if before and not shortage:
            log.info("there is memory again: this drone takes orders")

    def _park(self, execution: Execution, size: int, resident: int, limit: int) -> None:
        why = (
            f"the memory of its drone is full: it holds {_mb(resident)} of the {_mb(limit)} MB that it may "
            f"(DRONE_MEMORY_MB), about {_mb(size)} MB of them for this order, its largest. It goes on by itself "
            "when there is room"
        )
        self._leaving = execution
        execution.wait_for(Block(WaitingReason.MEMORY, why))
        self._sizes[execution.order_id] = size
        if len(self._sizes) > REMEMBERED:
            del self._sizes[next(iter(self._sizes))]
        log.warning("order is parked", order_id=execution.order_id, why=why)

    def _end(self, execution: Execution, size: int, limit: int) -> None:
        why = (
            f"This order takes about {_mb(size)} MB of memory, and a drone here may hold {_mb(limit)} MB in all "
            "(DRONE_MEMORY_MB). Let it read less at once, or allow more."
        )
        self._leaving = execution
        execution.end(OrderOutcome(status=OrderStatus.FAILED, reason=FailureReason.LIMIT_REACHED, detail=why))
        log.warning("order ends", order_id=execution.order_id, why=why)


def _mb(size: int) -> str:
    return f"{size / MEGABYTE:,.0f}"


REQUEUE_RESERVES = 1.5
"""How many reserves must be free before a waiting order continues, so that it is not parked again at once."""


class DiskWatch:
    """Watches the free space on the disks of database, data directory and the running orders' workspaces.

    While `shortage`, a sentence, is set, this drone should claim nothing. Use on one event loop only.
    """

    def __init__(
        self, reserve: Reserve, executions: Executions, store: AsyncStore, *, look_seconds: float = LOOK_SECONDS
    ) -> None:
        self.shortage: str | None = reserve.shortage()
        self._reserve = reserve
        self._executions = executions
        self._store = store
        self._look_seconds = look_seconds
        # A disk that does not answer then holds up this thread alone.
        self._looking = Offload(1, "disk")

    async def run(self) -> None:
        """Look until cancelled."""
        look = 0
        while True:
            try:
                await self.look()
                if look % REQUEUE_EVERY == 0:
                    await self.requeue_waiting()
            except StoreUnavailable as problem:
                log.debug("orders that wait for room wait for the database", problem=str(problem))
            except Exception:
                log.exception("the disk watch failed")
            look += 1
            await asyncio.sleep(self._look_seconds * random.uniform(0.8, 1.2))

    async def look(self) -> None:
        """Update `shortage`, and park the orders whose disks lack space."""
        before, self.shortage = self.shortage, await self._looking(self._reserve.shortage)
        if self.shortage and not before:
            log.error("this drone takes no orders", problem=self.shortage)
        if before and not self.shortage:
            log.warning("there is room on the disk again: this drone takes orders")
        for execution in self._executions:
            if execution.goes_on and (short := self.shortage or await self._shortage_of(execution)):
                execution.wait_for(Block(WaitingReason.DISK, short.removesuffix(".")))
                log.warning("order is parked", order_id=execution.order_id, why=short)

    async def requeue_waiting(self) -> None:
        """Queue again the orders that wait for disk space which this drone has. Raises `StoreUnavailable`."""
        if await self._looking(self._reserve.shortage, times=REQUEUE_RESERVES):
            return
        for waiting in await self._store.once(lambda store: store.claims.waiting(WaitingReason.DISK, MOST_REQUEUED)):
            if await self._looking(self._fits, waiting):
                await self._requeue(waiting.order_id)

    async def _requeue(self, order_id: str) -> None:
        why = "there is room on the disk again"
        if await self._store.once(lambda store: store.claims.resume(order_id, WaitingReason.DISK, why)):
            log.info("order queued again", order_id=order_id, why=why)

    def close(self) -> None:
        self._looking.close()

    async def _shortage_of(self, execution: Execution) -> str | None:
        workspace = execution.held[0].order.workspace if execution.held else None
        if workspace is None:
            return None
        alone = Reserve((Path(workspace),), self._reserve.bytes)
        return await self._looking(alone.shortage)

    def _fits(self, waiting: Waiting) -> bool:
        """Whether the order's disk has enough space now. False for a workspace that only other machines see."""
        if waiting.workspace is None:
            return True
        place = Path(waiting.workspace)
        return place.is_dir() and Reserve((place,), self._reserve.bytes).shortage(times=REQUEUE_RESERVES) is None
