"""This room is for event streams: per order, every entry once and in order, to any number of viewers."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mcc.contracts.wire import Delta, Hint
from mcc.feed.board import Board
from mcc.feed.frames import PING, Frame, entry_frames, plain_frame
from mcc.feed.hints import Connect, Hints
from mcc.feed.tape import PageCache, Tape
from mcc.feed.viewer import Viewer
from mcc.store.errors import StoreError
from mcc.store.offload import Offload
from mcc.store.ports import Store
from mcc.store.values import Reached

CHUNK_BYTES = 128 * 1024
"""What one viewer is sent at once, so that a slow one holds little; a single entry may be larger."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Watched:
    """An order that someone here looks at."""

    tape: Tape
    viewers: set[Viewer] = field(default_factory=set)

    def wake(self) -> None:
        for viewer in self.viewers:
            viewer.wake()


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
        self._hints = Hints(connect, self, ping_seconds=self.pace.redis_ping_seconds) if connect else None
        self.board = Board(store, offload, self._hints_are_heard, self.pace.poll_seconds)
        self._closing = False

    @property
    def viewers(self) -> int:
        """Streams that are open now."""
        return sum(len(watched.viewers) for watched in self._watched.values()) + self.board.viewers

    @property
    def connected(self) -> bool | None:
        """Whether Redis' hints are heard; None when no Redis was named."""
        return self._hints.connected if self._hints else None

    def _hints_are_heard(self) -> bool:
        return bool(self._hints and self._hints.connected)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Feed"]:
        """Listening and polling, for as long as the block lasts."""
        tasks = [asyncio.create_task(self._poll()), asyncio.create_task(self.board.run())]
        if self._hints:
            tasks.append(asyncio.create_task(self._hints.run()))
        for task in tasks:
            task.add_done_callback(_say_if_broken)
        try:
            yield self
        finally:
            self.let_go()
            await _ended(tasks)

    def let_go(self) -> None:
        """End every stream; viewers come back with the number that they reached."""
        self._closing = True
        for watched in self._watched.values():
            watched.wake()
        self.board.let_go()

    async def reached(self, order_id: str) -> Reached | None:
        """How far the journal is, None for an order that does not exist. Raises `StoreUnavailable`."""
        return (await self._offload(self._store.journal.reached, [order_id])).get(order_id)

    async def stream(self, order_id: str, after: int, reached: int = 0) -> AsyncIterator[bytes]:
        """Events after entry `after` until the final one: entries with ids, text on its way and pings without.

        `reached`: how far the journal is known to be.
        """
        viewer = Viewer()
        watched = self._join(order_id, viewer)
        watched.tape.reached = max(watched.tape.reached, reached)
        try:
            position = after
            while not self._closing:
                viewer.heard()
                chunk, frames = await self._next(watched.tape, viewer, position)
                if chunk:
                    yield chunk
                if frames:
                    position = frames[-1].seq
                    if frames[-1].final:
                        return
                elif not chunk and not await viewer.wait(self.pace.ping_seconds):
                    yield PING
        finally:
            self._leave(order_id, viewer)

    async def _next(self, tape: Tape, viewer: Viewer, position: int) -> tuple[bytes, list[Frame]]:
        text = viewer.due(position)
        frames = _portion(await tape.after(position), viewer.next_stop())
        return text + b"".join(frame.data for frame in frames), frames

    def _join(self, order_id: str, viewer: Viewer) -> Watched:
        watched = self._watched.get(order_id)
        if watched is None:
            watched = self._watched[order_id] = Watched(Tape(order_id, self._cache, self._read))
            if self._hints:
                self._hints.watch(order_id)
        watched.viewers.add(viewer)
        self.look(order_id)
        return watched

    def _leave(self, order_id: str, viewer: Viewer) -> None:
        watched = self._watched[order_id]
        watched.viewers.discard(viewer)
        if not watched.viewers:
            del self._watched[order_id]
            if self._hints:
                self._hints.leave(order_id)

    async def _read(self, order_id: str, after: int, limit: int) -> list[Frame]:
        return await self._offload(lambda: entry_frames(self._store.journal.read(order_id, after=after, limit=limit)))

    def hint(self, hint: Hint) -> None:
        if hint.status is not None:
            self.board.moved(hint.order_id)
        watched = self._watched.get(hint.order_id)
        if watched is not None and hint.seq > watched.tape.reached:
            watched.tape.reached = hint.seq
            watched.wake()

    def delta(self, delta: Delta) -> None:
        watched = self._watched.get(delta.order_id)
        if watched is None or delta.epoch < watched.tape.epoch:
            return
        watched.tape.epoch = delta.epoch
        frame = plain_frame(delta.kind, delta)
        for viewer in watched.viewers:
            viewer.offer(watched.tape.reached, frame)

    def look(self, order_id: str) -> None:
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
            if watched is not None and there.seq > watched.tape.reached:
                watched.tape.reached = there.seq
            if watched is not None:
                watched.wake()


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
