"""The stream of all orders' status changes: first a snapshot, then each order whose status changed."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from mcc.contracts.answers import OrderSummary
from mcc.contracts.order_lists import OrderCriteria
from mcc.contracts.status import FINAL, UNFINISHED, OrderStatus
from mcc.feed.frames import PING, plain_frame
from mcc.store.database.errors import StoreError
from mcc.store.store import Offload, Store

SETTLE_SECONDS = 0.02
"""Changes within this time are read together, so that a burst of orders costs one database read."""

SNAPSHOT_ORDERS = 200
RECENT_ORDERS = 50
PENDING_EVENTS = 1_000
KNOWN_ORDERS = 5_000
PING_SECONDS = 15.0

log = logging.getLogger(__name__)


class StatusViewer:
    """The queue of one viewer. If it overflows, the stream ends; on reconnecting, the viewer gets a new snapshot.

    `woken` is called when there is something to take.
    """

    def __init__(self, pending_events: int, woken: Callable[[], None] | None = None) -> None:
        self._queue: asyncio.Queue[OrderSummary | bytes | None] = asyncio.Queue(pending_events)
        self._woken = woken

    def put(self, event: OrderSummary | bytes | None) -> bool:
        """Queue a status change or a frame, or None to end the stream. False when the viewer is too far behind and was
        ended."""
        if self._woken is not None:
            self._woken()
        try:
            self._queue.put_nowait(event)
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
                return _framed(await self._queue.get())
        except TimeoutError:
            return PING

    def take(self) -> list[bytes | None]:
        """All events that wait, None for the end."""
        return [_framed(self._queue.get_nowait()) for _ in range(self._queue.qsize())]

    def drop_shown(self, snapshot: Sequence[OrderSummary]) -> None:
        """Drop queued changes that arrived while the snapshot was read and that it already contains."""
        shown = {order.id: order.last_seq for order in snapshot}
        waiting = [self._queue.get_nowait() for _ in range(self._queue.qsize())]
        for event in waiting:
            if not isinstance(event, OrderSummary) or event.last_seq > shown.get(event.id, 0):
                self._queue.put_nowait(event)


def _framed(event: OrderSummary | bytes | None) -> bytes | None:
    return plain_frame("order.status", event) if isinstance(event, OrderSummary) else event


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
        self._viewers: set[StatusViewer] = set()
        self.joined = 0
        """How many viewers have come so far."""
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
        """SSE bytes: `snapshot` {orders: [...]}, then `order.status` events with one summary each, and `inbox` events.

        The first step raises `StoreUnavailable` when the snapshot cannot be read.
        """
        with self.viewed() as viewer:
            yield await self.snapshot_for(viewer)
            while (frame := await viewer.next()) is not None:
                yield frame

    @contextlib.contextmanager
    def viewed(self, woken: Callable[[], None] | None = None) -> Iterator[StatusViewer]:
        """A viewer for the time of the block. `woken` is called when there is something for it to take."""
        viewer = StatusViewer(self._pending_events, woken)
        self._viewers.add(viewer)
        self.joined += 1
        try:
            yield viewer
        finally:
            self._viewers.discard(viewer)
            if not self._viewers:
                # Nobody keeps it up to date without viewers, and the next snapshot fills it.
                self._known.clear()

    async def snapshot_for(self, viewer: StatusViewer) -> bytes:
        """The event with which a viewer begins. Raises `StoreUnavailable`."""
        # The viewer has joined before it is read, so that no change falls between the two; `drop_shown` removes what
        # is double.
        orders = await self._offload(self._snapshot)
        for order in orders:
            self._send(order)
        viewer.drop_shown(orders)
        return plain_frame("snapshot", {"orders": orders})

    def tell(self, frame: bytes) -> None:
        """Send every viewer this event."""
        self._viewers = {viewer for viewer in self._viewers if viewer.put(frame)}

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
        lists = self._store.order_lists
        summaries = {order.id: order for order in lists.summaries(OrderCriteria(), limit=RECENT_ORDERS).items}
        for status in sorted(UNFINISHED):
            unfinished = lists.summaries(OrderCriteria(status=(status,)), limit=SNAPSHOT_ORDERS)
            summaries |= {order.id: order for order in unfinished.items}
        return sorted(summaries.values(), key=lambda order: order.id, reverse=True)

    def _read(self, changed: set[str], known: dict[str, OrderStatus], everything: bool) -> Sequence[OrderSummary]:
        """The orders that have changed, and with `everything` the newest ones as well."""
        recent: Sequence[OrderSummary] = ()
        if everything:
            open_ids = [order_id for order_id, status in known.items() if status not in FINAL]
            reached = self._store.journal.reached(open_ids)
            changed |= {order_id for order_id, end in reached.items() if end.status != known[order_id]}
            recent = self._store.order_lists.summaries(OrderCriteria(), limit=RECENT_ORDERS).items
        others = changed - {order.id for order in recent}
        return [*recent, *(self._store.order_lists.summaries_of(others) if others else ())]
