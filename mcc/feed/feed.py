"""Streams the journals of orders to viewers live: each viewer gets every entry once and in order."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mcc.contracts.status import FINAL
from mcc.contracts.wire import KEY_PREFIX, Hint, InboxMoved
from mcc.feed.firehose import Firehose
from mcc.feed.frames import PING, EntryFrame, PageCache, SharedJournal, entry_frame
from mcc.feed.inbox import InboxWatch
from mcc.feed.statuses import StatusStream
from mcc.feed.subscription import Connect, Subscription, Transient
from mcc.feed.viewers import Viewer, WatchedOrder
from mcc.store.database.errors import JournalPruned, StoreError
from mcc.store.lists.movements import MovementStore
from mcc.store.rows.values import Reached
from mcc.store.store import Offload, Store

CHUNK_BYTES = 128 * 1024
"""The most sent to one viewer at once, so that a slow viewer occupies little memory. A single entry may be larger."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pace:
    """How often the feed polls the database, with and without hints from Redis, and its limits for viewers.

    A viewer that accepts no data for `send_seconds` is disconnected; it reconnects at its position.
    """

    poll_seconds: float = 2.0
    poll_without_hints_seconds: float = 0.5
    ping_seconds: float = 15.0
    redis_ping_seconds: float = 5.0
    send_seconds: float = 20.0
    most_viewers: int = 1_000


class Feed:
    """All event streams of one process. `connect` None: there is no Redis, and only the database is polled."""

    def __init__(
        self,
        store: Store,
        offload: Offload,
        connect: Connect | None,
        pace: Pace | None = None,
        *,
        prefix: str = KEY_PREFIX,
    ) -> None:
        self._store = store
        self._offload = offload
        self.pace = pace or Pace()
        self._cache = PageCache()
        self._watched: dict[str, WatchedOrder] = {}
        self._to_check: set[str] = set()
        self._check_now = asyncio.Event()
        self._subscription: Subscription | None = None
        if connect is not None:
            ping = self.pace.redis_ping_seconds
            self._subscription = Subscription(
                connect, self.on_hint, self.on_delta, self.check, ping_seconds=ping, prefix=prefix
            )
        self.statuses = StatusStream(store, offload, self._hints_are_heard, self.pace.poll_seconds)
        self.inbox = InboxWatch(store, offload, self.statuses, self._hints_are_heard, self.pace.poll_seconds)
        self.firehose = Firehose(MovementStore(store.database), offload, ping_seconds=self.pace.ping_seconds)
        self._closing = False

    @property
    def viewers(self) -> int:
        """How many streams are open."""
        # Whoever watches several orders in one stream watches statuses too.
        of_orders = sum(len(watched.viewers) for watched in self._watched.values())
        return of_orders + self.statuses.viewers + self.firehose.readers

    @property
    def is_closing(self) -> bool:
        """Whether every stream is to end."""
        return self._closing

    async def ends(self, order_ids: Iterable[str]) -> Mapping[str, Reached]:
        """The ends of these orders' journals, without those of unknown orders. Raises `StoreUnavailable`."""
        return await self._offload(self._store.journal.reached, list(order_ids))

    async def is_pruned(self, order_id: str) -> bool:
        """Whether the entries of an order that has ended are no longer kept. Raises `StoreUnavailable`."""
        try:
            await self._offload(self._store.journal.check, order_id)
        except JournalPruned:
            return True
        return False

    @property
    def watched(self) -> frozenset[str]:
        """The ids of orders that have viewers."""
        # A copy: whoever asks from another thread must not see the dictionary change.
        return frozenset(tuple(self._watched))

    @property
    def connected(self) -> bool | None:
        """Whether hints from Redis arrive; None when no Redis is configured."""
        return self._subscription.connected if self._subscription else None

    def _hints_are_heard(self) -> bool:
        return bool(self._subscription and self._subscription.connected)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Feed"]:
        """Listen and poll while the block runs."""
        parts = (self._poll(), self.statuses.run(), self.inbox.run(), self.firehose.run())
        tasks = [asyncio.create_task(part) for part in parts]
        if self._subscription:
            tasks.append(asyncio.create_task(self._subscription.run()))
        # A part that fails is logged, and the others go on: without hints, polling still serves every viewer.
        for task in tasks:
            task.add_done_callback(_log_failure)
        try:
            yield self
        finally:
            self.end_streams()
            await _cancel(tasks)

    def end_streams(self) -> None:
        """End every stream. Viewers reconnect at their position."""
        self._closing = True
        for watched in self._watched.values():
            watched.wake()
        self.statuses.end_streams()
        self.firehose.end_streams()

    async def reached(self, order_id: str) -> Reached | None:
        """The end of the order's journal, None if the order does not exist. Raises `StoreUnavailable`."""
        return (await self._offload(self._store.journal.reached, [order_id])).get(order_id)

    async def stream(self, order_id: str, after: int, reached: int = 0) -> AsyncIterator[bytes]:
        """SSE bytes of all entries after number `after`, until the final one; in between text deltas, pings, and what
        the order waits for each time that this has changed.

        Only entries have SSE ids. `reached` is the highest entry number that the caller knows to exist.
        """
        viewer = Viewer(after)
        watched = self.join(order_id)
        watched.viewers.add(viewer)
        if reached > watched.journal.reached:
            watched.journal.reached = reached
            watched.wake_behind()
        try:
            while not self._closing:
                viewer.rearm()
                # Text first: it follows the last entry that was sent, and comes before the next one.
                text = viewer.take_text(viewer.position)
                frames = chunk_of(await watched.journal.after(viewer.position), viewer.next_stop())
                chunk = text + b"".join(frame.data for frame in frames)
                if chunk:
                    yield chunk
                if frames:
                    viewer.position = frames[-1].seq
                    if frames[-1].final:
                        return
                elif watched.journal.pruned:
                    # A viewer that reconnects gets an error that says where the record is.
                    return
                elif not chunk and not await viewer.wait(self.pace.ping_seconds):
                    yield PING
        finally:
            watched.viewers.discard(viewer)
            self.leave(order_id)

    def join(self, order_id: str) -> WatchedOrder:
        """The order, for a viewer or a part that its caller adds. `leave` once that has been taken out again."""
        watched = self._watched.get(order_id)
        if watched is None:
            watched = self._watched[order_id] = WatchedOrder(SharedJournal(order_id, self._cache, self._read))
            if self._subscription:
                self._subscription.watch(order_id)
        # Hints from before the subscription took effect never arrive.
        self.check(order_id)
        return watched

    def leave(self, order_id: str) -> None:
        """Watch the order no longer, unless somebody still does."""
        if not any(self._watched[order_id]):
            del self._watched[order_id]
            if self._subscription:
                self._subscription.leave(order_id)

    async def _read(self, order_id: str, after: int, limit: int) -> list[EntryFrame]:
        def frames() -> list[EntryFrame]:
            return [entry_frame(entry) for entry in self._store.journal.read(order_id, after=after, limit=limit)]

        return await self._offload(frames)

    def on_hint(self, hint: Hint) -> None:
        """Take a hint from this or another process that an order's journal has grown or its status has changed."""
        if hint.status is not None:
            self.statuses.status_changed(hint.order_id)
        self.firehose.moved(hint.order_id)
        watched = self._watched.get(hint.order_id)
        if watched is not None and hint.seq > watched.journal.reached:
            watched.grew(hint.seq)

    def on_delta(self, delta: Transient) -> None:
        """Pass text of an unfinished reply, or the progress of a generation, on to viewers; look at the inbox where it
        has moved.

        Deltas from an epoch before the latest known one are dropped: their drone is fenced.
        """
        if isinstance(delta, InboxMoved):
            self.inbox.changed()
            return
        watched = self._watched.get(delta.order_id)
        if watched is None or delta.epoch < watched.journal.epoch:
            return
        watched.journal.epoch = delta.epoch
        watched.pass_on(delta)

    def check(self, order_id: str) -> None:
        """Read the end of the order's journal at once, since hints about it may have been missed until now."""
        self._to_check.add(order_id)
        self._check_now.set()

    async def _poll(self) -> None:
        """Read the journal ends of watched orders: those to check at once, all of them at intervals."""
        polled = time.monotonic()
        while True:
            pause = self.pace.poll_seconds if self._hints_are_heard() else self.pace.poll_without_hints_seconds
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, polled + pause - time.monotonic())):
                    await self._check_now.wait()
            # Before the set is taken: an order that is added from here on sets it again.
            self._check_now.clear()
            wanted, self._to_check = self._to_check & set(self._watched), set()
            everything = time.monotonic() - polled >= pause
            if everything:
                polled, wanted = time.monotonic(), set(self._watched)
            if wanted:
                ends = await self._read_ends(wanted)
                self._compare(ends)
                if everything:
                    await self._tell_waits([order_id for order_id, end in ends.items() if end.status not in FINAL])

    async def _read_ends(self, order_ids: Iterable[str]) -> Mapping[str, Reached]:
        try:
            return await self._offload(self._store.journal.reached, list(order_ids))
        except StoreError as error:
            log.warning("the database cannot say how far the watched orders are: %s", error)
            return {}

    async def _tell_waits(self, order_ids: Sequence[str]) -> None:
        """Tell viewers of these unfinished orders what they wait for, where that has changed."""
        try:
            waits = await self._offload(self._store.orders.waits, order_ids) if order_ids else {}
        except StoreError as error:
            log.warning("the database cannot say what the watched orders wait for: %s", error)
            return
        for order_id in order_ids:
            if (watched := self._watched.get(order_id)) is not None:
                watched.tell(waits.get(order_id))

    def _compare(self, reached: Mapping[str, Reached]) -> None:
        for order_id, end in reached.items():
            watched = self._watched.get(order_id)
            if watched is not None and end.seq > watched.journal.reached:
                watched.grew(end.seq)
            elif watched is not None:
                watched.retry_behind()


def _log_failure(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.critical("a part of the feed broke; viewers are served by what is left", exc_info=error)


def chunk_of(frames: Sequence[EntryFrame], stop: int | None) -> list[EntryFrame]:
    """The first frames to send together: up to entry `stop`, and not much more than `CHUNK_BYTES`."""
    chosen: list[EntryFrame] = []
    size = 0
    for frame in frames:
        if size >= CHUNK_BYTES or (stop is not None and frame.seq > stop):
            break
        chosen.append(frame)
        size += len(frame.data)
    return chosen


async def _cancel(tasks: Iterable["asyncio.Task[None]"]) -> None:
    """Cancel the tasks repeatedly until all have ended.

    Once is not enough: on Python 3.11 `asyncio.wait_for` swallows a cancellation that arrives just as its wait ends.
    """
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=0.05)
