"""The stream of all orders' status changes: a snapshot first, then every order whose status moved."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence

from mcc.contracts.answers import OrderSummary
from mcc.contracts.status import FINAL, UNFINISHED, OrderStatus
from mcc.feed.frames import PING, plain_frame
from mcc.store.errors import StoreError, UnknownOrder
from mcc.store.store import Offload, Store

SETTLE_SECONDS = 0.02
"""Moves within this time are sent together, so that a burst of orders is one reading."""

SNAPSHOT_ORDERS = 200
RECENT_ORDERS = 50
PENDING_EVENTS = 1_000
KNOWN_ORDERS = 5_000
PING_SECONDS = 15.0

log = logging.getLogger(__name__)


class _Viewer:
    """A viewer that falls too far behind is ended, and begins with a new snapshot."""

    def __init__(self, pending_events: int) -> None:
        self._queue: asyncio.Queue[OrderSummary | None] = asyncio.Queue(pending_events)

    def put(self, order: OrderSummary | None) -> bool:
        """None ends the stream. False when the viewer was too far behind and is ended."""
        try:
            self._queue.put_nowait(order)
        except asyncio.QueueFull:
            while not self._queue.empty():
                self._queue.get_nowait()
            self._queue.put_nowait(None)
            return False
        return True

    async def next(self) -> bytes | None:
        """What to send next: a move, a ping after a quiet time, or None at the end."""
        try:
            async with asyncio.timeout(PING_SECONDS):
                order = await self._queue.get()
        except TimeoutError:
            return PING
        return None if order is None else plain_frame("order.status", order)

    def drop_shown(self, snapshot: Sequence[OrderSummary]) -> None:
        """Drop the moves that came while the snapshot was read and are in it."""
        shown = {order.id: order.last_seq for order in snapshot}
        waiting = [self._queue.get_nowait() for _ in range(self._queue.qsize())]
        for order in waiting:
            if order is None or order.last_seq > shown.get(order.id, 0):
                self._queue.put_nowait(order)


class StatusStream:
    """`hints_are_heard` says whether moves come by Redis; otherwise the database is asked more often."""

    def __init__(
        self,
        store: Store,
        offload: Offload,
        hints_are_heard: Callable[[], bool],
        poll_seconds: float,
        pending_events: int = PENDING_EVENTS,
    ) -> None:
        self._store = store
        self._offload = offload
        self._hints_are_heard = hints_are_heard
        self._poll_seconds = poll_seconds
        self._pending_events = pending_events
        self._viewers: set[_Viewer] = set()
        self._moved: set[str] = set()
        self._wake = asyncio.Event()
        self._known: dict[str, OrderStatus] = {}

    @property
    def viewers(self) -> int:
        return len(self._viewers)

    def moved(self, order_id: str) -> None:
        if self._viewers:
            self._moved.add(order_id)
            self._wake.set()

    def end_streams(self) -> None:
        for viewer in self._viewers:
            viewer.put(None)

    async def stream(self) -> AsyncIterator[bytes]:
        """`snapshot` {orders: [...]}, then `order.status` with one summary each. Raises `StoreUnavailable` at first."""
        viewer = _Viewer(self._pending_events)
        self._viewers.add(viewer)
        try:
            orders = await self._offload(self._snapshot)
            for order in orders:
                self._send(order)
            viewer.drop_shown(orders)
            yield plain_frame("snapshot", {"orders": orders})
            while (frame := await viewer.next()) is not None:
                yield frame
        finally:
            self._viewers.discard(viewer)
            if not self._viewers:
                self._known.clear()

    async def run(self) -> None:
        """Look whenever something moved, and every now and then in case that nobody said so; until cancelled."""
        looked = time.monotonic()
        while True:
            pause = self._poll_seconds if self._hints_are_heard() else self._poll_seconds / 4
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
                await asyncio.sleep(SETTLE_SECONDS)
            except TimeoutError:
                pass
            self._wake.clear()
            moved, self._moved = self._moved, set()
            everything = time.monotonic() - looked >= pause
            if everything:
                looked = time.monotonic()
            if self._viewers:
                await self._look(moved, everything=everything)

    async def _look(self, moved: set[str], *, everything: bool) -> None:
        try:
            orders = await self._offload(self._read, moved, dict(self._known), everything)
        except StoreError as error:
            log.warning("the database cannot say which orders moved: %s", error)
            return
        for order in sorted(orders, key=lambda order: order.id):
            self._send(order)

    def _send(self, order: OrderSummary) -> None:
        if self._known.get(order.id) == order.status:
            return
        self._known.pop(order.id, None)
        self._known[order.id] = order.status
        self._viewers = {viewer for viewer in self._viewers if viewer.put(order)}
        if len(self._known) > KNOWN_ORDERS:
            finished = [order_id for order_id, status in self._known.items() if status in FINAL]
            for order_id in finished[: KNOWN_ORDERS // 2]:
                del self._known[order_id]

    def _snapshot(self) -> list[OrderSummary]:
        """Everything unfinished, and the newest of all, newest first."""
        found: dict[str, OrderSummary] = {}
        for status in sorted(UNFINISHED):
            for order in self._store.orders.list(status=status, limit=SNAPSHOT_ORDERS).items:
                found[order.id] = OrderSummary.of(order)
        for order in self._store.orders.list(limit=RECENT_ORDERS).items:
            found[order.id] = OrderSummary.of(order)
        return sorted(found.values(), key=lambda order: order.id, reverse=True)

    def _read(self, moved: set[str], known: dict[str, OrderStatus], everything: bool) -> list[OrderSummary]:
        found: dict[str, OrderSummary] = {}
        if everything:
            open_ids = [order_id for order_id, status in known.items() if status not in FINAL]
            reached = self._store.journal.reached(open_ids)
            moved |= {order_id for order_id, there in reached.items() if there.status != known[order_id]}
            for order in self._store.orders.list(limit=RECENT_ORDERS).items:
                found[order.id] = OrderSummary.of(order)
        return list((found | self._summaries(moved - found.keys())).values())

    def _summaries(self, order_ids: Iterable[str]) -> dict[str, OrderSummary]:
        found = {}
        for order_id in order_ids:
            try:
                found[order_id] = OrderSummary.of(self._store.orders.get(order_id))
            except UnknownOrder:
                log.debug("a hint named order %s, which does not exist", order_id)
        return found
