"""Event streams of orders: every entry once and in order, to any number of viewers."""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mcc.contracts.wire import Delta, Hint, Progress
from mcc.feed.frames import PING, Frame, PageCache, SharedJournal, entry_frame, plain_frame
from mcc.feed.statuses import StatusStream
from mcc.feed.subscription import Connect, Subscription
from mcc.store.errors import StoreError
from mcc.store.store import Offload, Store
from mcc.store.values import Reached

CHUNK_BYTES = 128 * 1024
"""What one viewer is sent at once, so that a slow one holds little; a single entry may be larger."""

PENDING_DELTAS = 512
"""More text than this that a slow viewer did not take is dropped from the front; the reply brings it whole."""

log = logging.getLogger(__name__)


class Viewer:
    """One viewer of an order: when to look again, and the text on its way that was not sent to it yet."""

    def __init__(self, position: int = 0) -> None:
        self.position = position
        """The number of the last entry that it was sent."""
        self._woken = False
        self._waiting: asyncio.Future[bool] | None = None
        self._deltas: deque[tuple[int, bytes]] = deque(maxlen=PENDING_DELTAS)

    def wake(self) -> None:
        self._woken = True
        self._settle(True)

    def offer(self, reached: int, frame: bytes) -> None:
        """Text that came when the journal had `reached` this number: it belongs after that entry."""
        self._deltas.append((reached, frame))
        self.wake()

    def heard(self) -> None:
        """From here on a `wake` counts; called before looking."""
        self._woken = False

    async def wait(self, seconds: float) -> bool:
        """False when nothing happened for so long."""
        if self._woken:
            return True
        # Without an event and a timeout around it: every entry goes through here once for each viewer.
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        patience = loop.call_later(seconds, self._settle, False)
        try:
            return await self._waiting
        finally:
            patience.cancel()
            self._waiting = None

    def _settle(self, happened: bool) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(happened)

    def due(self, position: int) -> bytes:
        """The text that may be shown once entry `position` was."""
        ready = []
        while self._deltas and self._deltas[0][0] <= position:
            ready.append(self._deltas.popleft()[1])
        return b"".join(ready)

    def next_stop(self) -> int | None:
        """The entry after which pending text must be shown, before any later one."""
        return self._deltas[0][0] if self._deltas else None


@dataclass(slots=True)
class Watched:
    """An order that viewers of this process look at."""

    journal: SharedJournal
    viewers: set[Viewer] = field(default_factory=set)
    _fetching: "asyncio.Task[None] | None" = None

    def wake(self) -> None:
        for viewer in self.viewers:
            viewer.wake()

    def look_again(self) -> None:
        """Wake who has not seen all that is known; when it is being read just now, the end of that does so."""
        if not self._is_fetching():
            self.wake_behind()

    def wake_behind(self) -> None:
        """Those that have not seen all that is known to be there."""
        for viewer in self.viewers:
            if viewer.position < self.journal.reached:
                viewer.wake()

    def grew(self, reached: int) -> None:
        """Its journal has so many entries: the new ones are read once, and then viewers look, who find them read."""
        before, self.journal.reached = self.journal.reached, reached
        if not self._is_fetching():
            self._fetching = asyncio.create_task(self._fetch(before))

    def _is_fetching(self) -> bool:
        return self._fetching is not None and not self._fetching.done()

    async def _fetch(self, position: int) -> None:
        known = position
        while known < self.journal.reached:
            position, known = known, self.journal.reached
            try:
                await self.journal.after(position)
            finally:
                self.wake_behind()


@dataclass(frozen=True, slots=True)
class Pace:
    """How often the feed looks by itself, and how patient it is with viewers; in seconds.

    A viewer that takes nothing for `send_seconds` is let go; it comes back with the number that it reached.
    """

    poll_seconds: float = 2.0
    poll_without_hints_seconds: float = 0.5
    ping_seconds: float = 15.0
    redis_ping_seconds: float = 5.0
    send_seconds: float = 20.0
    most_viewers: int = 1_000


class Feed:
    """The live side of one process. `connect` None: no Redis, the database alone is asked."""

    def __init__(self, store: Store, offload: Offload, connect: Connect | None, pace: Pace | None = None) -> None:
        self._store = store
        self._offload = offload
        self.pace = pace or Pace()
        self._cache = PageCache()
        self._watched: dict[str, Watched] = {}
        self._doubtful: set[str] = set()
        self._look_now = asyncio.Event()
        self._subscription: Subscription | None = None
        if connect is not None:
            ping = self.pace.redis_ping_seconds
            self._subscription = Subscription(connect, self.hint, self.delta, self.look, ping_seconds=ping)
        self.statuses = StatusStream(store, offload, self._hints_are_heard, self.pace.poll_seconds)
        self._closing = False

    @property
    def viewers(self) -> int:
        """Streams that are open now."""
        return sum(len(watched.viewers) for watched in self._watched.values()) + self.statuses.viewers

    @property
    def watched(self) -> frozenset[str]:
        """The orders whose journals somebody reads now."""
        return frozenset(tuple(self._watched))

    @property
    def connected(self) -> bool | None:
        """Whether Redis' hints are heard; None when no Redis was named."""
        return self._subscription.connected if self._subscription else None

    def _hints_are_heard(self) -> bool:
        return bool(self._subscription and self._subscription.connected)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Feed"]:
        """Listening and polling, for as long as the block lasts."""
        tasks = [asyncio.create_task(self._poll()), asyncio.create_task(self.statuses.run())]
        if self._subscription:
            tasks.append(asyncio.create_task(self._subscription.run()))
        for task in tasks:
            task.add_done_callback(_say_if_broken)
        try:
            yield self
        finally:
            self.end_streams()
            await _ended(tasks)

    def end_streams(self) -> None:
        """End every stream; viewers come back with the number that they reached."""
        self._closing = True
        for watched in self._watched.values():
            watched.wake()
        self.statuses.end_streams()

    async def reached(self, order_id: str) -> Reached | None:
        """How far the journal is, None for an order that does not exist. Raises `StoreUnavailable`."""
        return (await self._offload(self._store.journal.reached, [order_id])).get(order_id)

    async def stream(self, order_id: str, after: int, reached: int = 0) -> AsyncIterator[bytes]:
        """Events after entry `after` until the final one: entries with ids, text on its way and pings without.

        `reached`: how far the journal is known to be.
        """
        viewer = Viewer(after)
        watched = self._join(order_id, viewer)
        if reached > watched.journal.reached:
            watched.journal.reached = reached
            watched.wake_behind()
        try:
            while not self._closing:
                viewer.heard()
                text = viewer.due(viewer.position)
                frames = _portion(await watched.journal.after(viewer.position), viewer.next_stop())
                chunk = text + b"".join(frame.data for frame in frames)
                if chunk:
                    yield chunk
                if frames:
                    viewer.position = frames[-1].seq
                    if frames[-1].final:
                        return
                elif watched.journal.pruned:
                    # Whoever comes back with the number that it reached is told where the record is.
                    return
                elif not chunk and not await viewer.wait(self.pace.ping_seconds):
                    yield PING
        finally:
            self._leave(order_id, viewer)

    def _join(self, order_id: str, viewer: Viewer) -> Watched:
        watched = self._watched.get(order_id)
        if watched is None:
            watched = self._watched[order_id] = Watched(SharedJournal(order_id, self._cache, self._read))
            if self._subscription:
                self._subscription.watch(order_id)
        watched.viewers.add(viewer)
        self.look(order_id)
        return watched

    def _leave(self, order_id: str, viewer: Viewer) -> None:
        watched = self._watched[order_id]
        watched.viewers.discard(viewer)
        if not watched.viewers:
            del self._watched[order_id]
            if self._subscription:
                self._subscription.leave(order_id)

    async def _read(self, order_id: str, after: int, limit: int) -> list[Frame]:
        def frames() -> list[Frame]:
            return [entry_frame(entry) for entry in self._store.journal.read(order_id, after=after, limit=limit)]

        return await self._offload(frames)

    def hint(self, hint: Hint) -> None:
        """An order's journal has grown, as this or another process says."""
        if hint.status is not None:
            self.statuses.moved(hint.order_id)
        watched = self._watched.get(hint.order_id)
        if watched is not None and hint.seq > watched.journal.reached:
            watched.grew(hint.seq)

    def delta(self, delta: Delta | Progress) -> None:
        """Text of a reply on its way, or how far a generation is; that of a claim before the latest one is dropped."""
        watched = self._watched.get(delta.order_id)
        if watched is None or delta.epoch < watched.journal.epoch:
            return
        watched.journal.epoch = delta.epoch
        event = ("generation.progress", delta.data) if isinstance(delta, Progress) else (delta.kind, delta)
        frame = plain_frame(*event)
        for viewer in watched.viewers:
            viewer.offer(watched.journal.reached, frame)

    def look(self, order_id: str) -> None:
        """Ask the database at once: hints of this order come from now on, and an earlier one may have been missed."""
        self._doubtful.add(order_id)
        self._look_now.set()

    async def _poll(self) -> None:
        """Ask how far the watched orders are: the doubtful ones at once, all of them every now and then."""
        looked = time.monotonic()
        while True:
            pause = self.pace.poll_seconds if self._hints_are_heard() else self.pace.poll_without_hints_seconds
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, looked + pause - time.monotonic())):
                    await self._look_now.wait()
            self._look_now.clear()
            asked, self._doubtful = self._doubtful & set(self._watched), set()
            if time.monotonic() - looked >= pause:
                looked, asked = time.monotonic(), set(self._watched)
            if asked:
                self._compare(await self._ask(asked))

    async def _ask(self, order_ids: Iterable[str]) -> Mapping[str, Reached]:
        try:
            return await self._offload(self._store.journal.reached, list(order_ids))
        except StoreError as error:
            log.warning("the database cannot say how far the watched orders are: %s", error)
            return {}

    def _compare(self, reached: Mapping[str, Reached]) -> None:
        for order_id, there in reached.items():
            watched = self._watched.get(order_id)
            if watched is not None and there.seq > watched.journal.reached:
                watched.grew(there.seq)
            elif watched is not None:
                watched.look_again()


def _say_if_broken(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.critical("a part of the feed broke; viewers are served by what is left", exc_info=error)


def _portion(frames: Sequence[Frame], stop: int | None) -> list[Frame]:
    """The first of these that are sent at once: up to entry `stop`, and not much more than `CHUNK_BYTES`."""
    chosen: list[Frame] = []
    size = 0
    for frame in frames:
        if size >= CHUNK_BYTES or (stop is not None and frame.seq > stop):
            break
        chosen.append(frame)
        size += len(frame.data)
    return chosen


async def _ended(tasks: Iterable["asyncio.Task[None]"]) -> None:
    """Cancel until it is heeded: on Python 3.11 `asyncio.wait_for` can swallow one that comes as its wait ends."""
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=0.05)
