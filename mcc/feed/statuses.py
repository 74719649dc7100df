"""The stream of all orders' status changes: first a snapshot, then each order whose status changed."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence

from mcc.contracts.answers import OrderSummary
from mcc.contracts.status import FINAL, UNFINISHED, OrderStatus
from mcc.feed.frames import PING, plain_frame
from mcc.store.database.errors import StoreError, UnknownOrder
from mcc.store.store import Offload, Store

SETTLE_SECONDS = 0.02
"""Changes within this time are read together, so that a burst of orders costs one database read."""

SNAPSHOT_ORDERS = 200
RECENT_ORDERS = 50
PENDING_EVENTS = 1_000
KNOWN_ORDERS = 5_000
PING_SECONDS = 15.0

log = logging.getLogger(__name__)


class _Viewer:
    """The queue of one viewer. If it overflows, the stream ends; on reconnecting, the viewer gets a new snapshot."""

    def __init__(self, pending_events: int) -> None:
        self._queue: asyncio.Queue[OrderSummary | None] = asyncio.Queue(pending_events)

    def put(self, order: OrderSummary | None) -> bool:
        """Queue a status change, or None to end the stream. False when the viewer is too far behind and was ended."""
        try:
            self._queue.put_nowait(order)
        except asyncio.QueueFull:
            # The end must fit in: a viewer that is this far behind gets a new snapshot anyway.
            while not self._queue.empty():
                self._queue.get_nowait()
            self._queue.put_nowait(None)
            return False
        return True

    async def next(self) -> bytes | None:
        """The next event: a status change, a ping after `PING_SECONDS` without one, or None at the end."""
        try:
            async with asyncio.timeout(PING_SECONDS):
                order = await self._queue.get()
        except TimeoutError:
            return PING
        return None if order is None else plain_frame("order.status", order)

    def drop_shown(self, snapshot: Sequence[OrderSummary]) -> None:
        """Drop queued changes that arrived while the snapshot was read and that it already contains."""
        shown = {order.id: order.last_seq for order in snapshot}
        waiting = [self._queue.get_nowait() for _ in range(self._queue.qsize())]
        for order in waiting:
            if order is None or order.last_seq > shown.get(order.id, 0):
                self._queue.put_nowait(order)


class StatusStream:
    """Status changes of all orders, for any number of viewers.

    `hints_are_heard` tells whether hints from Redis arrive; without them the database is polled four times as often.
    """

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
        self._changed: set[str] = set()
        self._wake = asyncio.Event()
        self._known: dict[str, OrderStatus] = {}

    @property
    def viewers(self) -> int:
        return len(self._viewers)

    def status_changed(self, order_id: str) -> None:
        if self._viewers:
            self._changed.add(order_id)
            self._wake.set()

    def end_streams(self) -> None:
        for viewer in self._viewers:
            viewer.put(None)

    async def stream(self) -> AsyncIterator[bytes]:
        """SSE bytes: `snapshot` {orders: [...]}, then `order.status` events with one summary each.

        The first step raises `StoreUnavailable` when the snapshot cannot be read.
        """
        # Joined before the snapshot is read, so that no change falls between the two; `drop_shown` removes what is
        # double.
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
                # Nobody keeps it up to date without viewers, and the next snapshot fills it.
                self._known.clear()

    async def run(self) -> None:
        """Read changed orders whenever a hint arrives, and at intervals in case hints were lost, until cancelled."""
        polled = time.monotonic()
        while True:
            pause = self._poll_seconds if self._hints_are_heard() else self._poll_seconds / 4
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
                await asyncio.sleep(SETTLE_SECONDS)
            except TimeoutError:
                pass
            # Before reading: what changes during the read wakes the next round.
            self._wake.clear()
            changed, self._changed = self._changed, set()
            everything = time.monotonic() - polled >= pause
            if everything:
                polled = time.monotonic()
            if self._viewers:
                await self._send_changes(changed, everything=everything)

    async def _send_changes(self, changed: set[str], *, everything: bool) -> None:
        try:
            # A copy: the read runs in a thread, while viewers that join change `_known` here.
            orders = await self._offload(self._read, changed, dict(self._known), everything)
        except StoreError as error:
            log.warning("the database cannot say which orders moved: %s", error)
            return
        for order in sorted(orders, key=lambda order: order.id):
            self._send(order)

    def _send(self, order: OrderSummary) -> None:
        # Hints come from several processes and repeat each other; a viewer hears of each status once.
        if self._known.get(order.id) == order.status:
            return
        # Moves the order to the end, so that those that changed longest ago are dropped first.
        self._known.pop(order.id, None)
        self._known[order.id] = order.status
        self._viewers = {viewer for viewer in self._viewers if viewer.put(order)}
        if len(self._known) > KNOWN_ORDERS:
            # Unfinished orders stay, because the poll compares only orders it knows; half at once, since this looks at
            # all.
            finished = [order_id for order_id, status in self._known.items() if status in FINAL]
            for order_id in finished[: KNOWN_ORDERS // 2]:
                del self._known[order_id]

    def _snapshot(self) -> list[OrderSummary]:
        """Unfinished orders (at most `SNAPSHOT_ORDERS` per status) and the most recent ones, newest first."""
        summaries: dict[str, OrderSummary] = {}
        for status in sorted(UNFINISHED):
            for order in self._store.orders.list(status=status, limit=SNAPSHOT_ORDERS).items:
                summaries[order.id] = OrderSummary.of(order)
        for order in self._store.orders.list(limit=RECENT_ORDERS).items:
            summaries[order.id] = OrderSummary.of(order)
        return sorted(summaries.values(), key=lambda order: order.id, reverse=True)

    def _read(self, changed: set[str], known: dict[str, OrderStatus], everything: bool) -> list[OrderSummary]:
        summaries: dict[str, OrderSummary] = {}
        if everything:
            open_ids = [order_id for order_id, status in known.items() if status not in FINAL]
            reached = self._store.journal.reached(open_ids)
            changed |= {order_id for order_id, end in reached.items() if end.status != known[order_id]}
            for order in self._store.orders.list(limit=RECENT_ORDERS).items:
                summaries[order.id] = OrderSummary.of(order)
        return list((summaries | self._summaries(changed - summaries.keys())).values())

    def _summaries(self, order_ids: Iterable[str]) -> dict[str, OrderSummary]:
        found = {}
        for order_id in order_ids:
            try:
                found[order_id] = OrderSummary.of(self._store.orders.get(order_id))
            except UnknownOrder:
                log.debug("a hint named order %s, which does not exist", order_id)
        return found
