"""Shortage: orders are parked before memory or disk is used up, and memory that is free goes back to the system."""

import asyncio
import contextlib
import gc
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from drone.agent.idle_watch import Block
from drone.worker.executions import Execution, Executions
from drone.worker.loop import AsyncStore
from mcc.contracts.order import Outcome
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from mcc.store.errors import StoreUnavailable
from mcc.store.resources import MEGABYTE, Reserve, resident_bytes, trim_heap
from mcc.store.store import Offload
from mcc.store.values import Waiting

log = structlog.get_logger("drone.shortage")

LOOK_SECONDS = 1.0
WAKE_EVERY = 5
"""Every so many looks, orders are sought that wait for memory, or for room on the disk."""

ORDERS = 25
"""So many orders that ended leave enough behind to be worth a collection."""

PART_OF_TIME = 0.01
"""At most this part of the time is spent on collections; those of a drone with thousands of live agents are slow."""

GROWN_BYTES = 4_000_000
"""What orders may grow by before the next look comes at once, and what lies free between their texts is given back."""

FULL = 0.85
"""From this part of its memory on a drone takes nothing more, so that what runs here can grow."""

ROOM = 0.7
"""Below this part of it, an order that waits for memory goes on; so it is not laid aside again at once."""

MOST_WOKEN = 100
REMEMBERED = 1_000


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is to be done: take nothing more for this reason, lay this order aside, end that one."""

    shortage: str | None = None
    aside: str | None = None
    ended: str | None = None
    bytes: int = 0
    """About what the order takes that is named."""


def judged(limit: int, resident: int, idle: int, held: Mapping[str, int]) -> Judgement:
    """`resident` bytes are held in all, `idle` of them without any order; `held` is what each order's journal weighs.

    Beyond `limit` the largest order is laid aside. One that would pass it alone ends: it could wait for ever.
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
        return Judgement(short, ended=largest, bytes=share)
    return Judgement(short, aside=largest, bytes=share)


class Tidying:
    """Full collections, with what they free given back to the system; the automatic ones nearly never come.

    `clock` counts seconds, `worked` those that this thread had a core.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        worked: Callable[[], float] = time.thread_time,
        collect: Callable[[], object] = gc.collect,
        give: Callable[[], object] = trim_heap,
        freeze: Callable[[], object] = gc.freeze,
    ) -> None:
        self._clock = clock
        self._worked = worked
        self._collect = collect
        self._give = give
        self._freeze = freeze
        self._next_at = clock()

    @property
    def is_due(self) -> bool:
        return self._clock() >= self._next_at

    def settle(self) -> None:
        """What is there by now stays: modules, classes, schemas. No later collection goes through it again, which is
        what most of its time went into."""
        self._collect()
        self._freeze()

    def tidy(self) -> None:
        began = self._worked()
        self._collect()
        self._give()
        self._next_at = self._clock() + (self._worked() - began) / PART_OF_TIME


class MemoryWatch:
    """Looks at what this process holds, of which it may hold `limit` bytes; None = as much as it likes.

    While there is a `shortage`, a sentence, this drone should claim nothing. `give_up` lets a process that holds more
    than it may, although nothing runs in it, make room for another one. Use on one event loop only.
    """

    def __init__(
        self,
        limit: int | None,
        executions: Executions,
        store: AsyncStore,
        *,
        give_up: Callable[[str], None],
        resident: Callable[[], int | None] = resident_bytes,
        tidying: Tidying | None = None,
    ) -> None:
        self.shortage: str | None = None
        self._limit = limit
        self._executions = executions
        self._store = store
        self._give_up = give_up
        self._resident = resident
        self._tidying = tidying or Tidying()
        self._idle = resident() or 0
        self._tidied = 0
        self._grown = 0
        self._leaving: Execution | None = None
        self._look_now = asyncio.Event()
        self._sizes: dict[str, int] = {}

    def grew(self, bytes_more: int) -> None:
        """The journals of orders that run here grew; a look comes at once when they did by much."""
        self._grown += bytes_more
        if self._grown > GROWN_BYTES:
            self._look_now.set()

    async def run(self) -> None:
        """Look until cancelled."""
        self._tidying.settle()
        look = 0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._look_now.wait()
            try:
                self.look()
                if look % WAKE_EVERY == 0:
                    await self.wake()
            except StoreUnavailable as problem:
                log.debug("orders that wait for memory wait for the database", problem=str(problem))
            except Exception:
                log.exception("the memory could not be looked at")
            look += 1

    def look(self) -> None:
        """Collect the garbage of orders that ended, and park an order that there is no memory for."""
        self._look_now.clear()
        enough = self._grown > GROWN_BYTES or self._executions.left - self._tidied >= (
            ORDERS if len(self._executions) else 1
        )
        self._grown = 0
        if enough and self._tidying.is_due:
            self._tidy()
        if self._limit is not None:
            self._hold_to(self._limit)

    async def wake(self) -> None:
        """Queue one order again that waits for memory, if there is room for it here. Raises `StoreUnavailable`."""
        room = self._room()
        if room <= 0:
            return
        for waiting in await self._store.once(lambda store: store.claims.waiting(WaitingReason.MEMORY, MOST_WOKEN)):
            if len(self._executions) and self._sizes.get(waiting.order_id, 0) > room:
                continue
            if await self._wake(waiting.order_id):
                return

    async def _wake(self, order_id: str) -> bool:
        why = "a drone has memory for it again"
        woken = await self._store.once(lambda store: store.claims.resume(order_id, WaitingReason.MEMORY, why))
        if woken:
            self._sizes.pop(order_id, None)
            log.info("order goes on", order_id=order_id, why=why)
        return bool(woken)

    def _room(self) -> int:
        """Bytes that an order may bring along which goes on here."""
        if self._limit is None or not (len(self._executions) or self.shortage):
            return 1  # What does not fit where nothing else runs ends, with the reason told.
        resident = self._resident() or 0
        if self.shortage or resident >= self._limit * ROOM:
            return 0
        return round(self._limit * FULL) - resident

    def _hold_to(self, limit: int) -> None:
        if self._leaving is not None and self._executions.get(self._leaving.order_id) is self._leaving:
            return  # What it gives back shows whether another one has to go as well.
        self._leaving = None
        resident = self._resident()
        if resident is None:
            return
        if resident > limit or (resident > limit * FULL and self._tidying.is_due):
            self._tidy()
            resident = self._resident() or resident
        going = {one.order_id: one for one in self._executions if one.goes_on}
        held = {order_id: execution.weight for order_id, execution in going.items()}
        judgement = judged(limit, resident, self._idle, held)
        self._tell(judgement.shortage)
        if judgement.aside is not None:
            self._park(going[judgement.aside], judgement.bytes, resident, limit)
        elif judgement.ended is not None:
            self._end(going[judgement.ended], judgement.bytes, limit)
        elif not len(self._executions) and resident > limit:
            self._give_up(f"it holds {_mb(resident)} of the {_mb(limit)} MB that it may, although nothing runs here")

    def _tidy(self) -> None:
        self._tidied = self._executions.left
        self._tidying.tidy()
        if not len(self._executions):
            self._idle = min(self._idle, self._resident() or self._idle)

    def _tell(self, shortage: str | None) -> None:
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
        execution.end(Outcome(status=OrderStatus.FAILED, reason=FailureReason.LIMIT_REACHED, detail=why))
        log.warning("order ends", order_id=execution.order_id, why=why)


def _mb(size: int) -> str:
    return f"{size / MEGABYTE:,.0f}"


WAKE_TIMES = 1.5
"""So many reserves must be free before an order goes on, so that it is not parked again at once."""


class DiskWatch:
    """Looks at the free space beside database, data directory and the workspaces of the orders that run here.

    While there is a `shortage`, a sentence, this drone should claim nothing. Use on one event loop only.
    """

    def __init__(
        self, reserve: Reserve, executions: Executions, store: AsyncStore, *, look_seconds: float = LOOK_SECONDS
    ) -> None:
        self.shortage: str | None = reserve.shortage()
        self._reserve = reserve
        self._executions = executions
        self._store = store
        self._look_seconds = look_seconds
        self._looking = Offload(1, "disk")

    async def run(self) -> None:
        """Look until cancelled."""
        look = 0
        while True:
            try:
                await self.look()
                if look % WAKE_EVERY == 0:
                    await self.wake()
            except StoreUnavailable as problem:
                log.debug("orders that wait for room wait for the database", problem=str(problem))
            except Exception:
                log.exception("the disk could not be looked at")
            look += 1
            await asyncio.sleep(self._look_seconds * random.uniform(0.8, 1.2))

    async def look(self) -> None:
        """Park the orders that there is no room for."""
        before, self.shortage = self.shortage, await self._looking(self._reserve.shortage)
        if self.shortage and not before:
            log.error("this drone takes no orders", problem=self.shortage)
        if before and not self.shortage:
            log.warning("there is room on the disk again: this drone takes orders")
        for execution in self._executions:
            if execution.goes_on and (short := self.shortage or await self._shortage_of(execution)):
                execution.wait_for(Block(WaitingReason.DISK, short.removesuffix(".")))
                log.warning("order is parked", order_id=execution.order_id, why=short)

    async def wake(self) -> None:
        """Queue again what waits for room that there is here. Raises `StoreUnavailable`."""
        if await self._looking(self._reserve.shortage, times=WAKE_TIMES):
            return
        for waiting in await self._store.once(lambda store: store.claims.waiting(WaitingReason.DISK, MOST_WOKEN)):
            if await self._looking(self._fits, waiting):
                await self._wake(waiting.order_id)

    async def _wake(self, order_id: str) -> None:
        why = "there is room on the disk again"
        if await self._store.once(lambda store: store.claims.resume(order_id, WaitingReason.DISK, why)):
            log.info("order goes on", order_id=order_id, why=why)

    def close(self) -> None:
        self._looking.close()

    async def _shortage_of(self, execution: Execution) -> str | None:
        workspace = execution.held[0].order.workspace if execution.held else None
        if workspace is None:
            return None
        alone = Reserve((Path(workspace),), self._reserve.bytes)
        return await self._looking(alone.shortage)

    def _fits(self, waiting: Waiting) -> bool:
        """Whether an order that waits for room has it here. False for a workspace that only other machines see."""
        if waiting.workspace is None:
            return True
        place = Path(waiting.workspace)
        return place.is_dir() and Reserve((place,), self._reserve.bytes).shortage(times=WAKE_TIMES) is None
