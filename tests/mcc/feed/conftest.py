"""Fixtures of the feed tests: a running order, and a store that counts reads and can fail."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.entry import Entry
from mcc.contracts.order import NewOrder
from mcc.feed.feed import Feed, Pace
from mcc.feed.subscription import Connect
from mcc.store.database.errors import StoreUnavailable
from mcc.store.store import Offload, Store
from mcc.store.work.journal import JournalStore
from mcc.testing import temporary_store
from mcc.testing.hand_drone import HandDrone, HeldOrder

NEVER = 3_600.0


class WatchedJournal(JournalStore):
    """Counts reads, and fails while `away` is set."""

    reads = 0
    away = False

    def read(self, order_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        self.reads += 1
        if self.away:
            raise StoreUnavailable("the database is away")
        return super().read(order_id, after=after, limit=limit)


@dataclass(frozen=True)
class WatchedStore(Store):
    journal: WatchedJournal


@pytest.fixture
def store() -> Iterator[WatchedStore]:
    opened = temporary_store()
    yield WatchedStore(**{**vars(opened), "journal": WatchedJournal(opened.database)})
    opened.close()


@pytest.fixture
def held(store: WatchedStore) -> HeldOrder:
    """A running order with two entries: queued, claimed."""
    order = store.orders.place(NewOrder(prompt="x"), by=Actor("test")).order
    return HandDrone(store).claim(order.id)


@contextlib.asynccontextmanager
async def running_feed(
    store: Store,
    connect: Connect | None = None,
    *,
    poll: float = 0.01,
    poll_without_hints: float = 0.01,
    ping: float = NEVER,
) -> AsyncIterator[Feed]:
    offload = Offload(4)
    async with Feed(
        store, offload, connect, Pace(poll, poll_without_hints, ping, redis_ping_seconds=0.02)
    ).running() as feed:
        yield feed
    offload.close()


def events_of(chunk: bytes) -> list[tuple[str | None, str, dict[str, object]]]:
    """(id, event, data) of each event in a chunk of a stream."""
    found = []
    for block in chunk.decode().strip("\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        found.append((fields.get("id"), fields["event"], json.loads(fields["data"])))
    return found


class Reader:
    """Collects the events of a stream in the background."""

    def __init__(self, stream: AsyncIterator[bytes]) -> None:
        self.events: list[tuple[str | None, str, dict[str, object]]] = []
        self._changed = asyncio.Condition()
        self.task = asyncio.create_task(self._collect(stream))

    @property
    def numbers(self) -> list[int]:
        return [int(number) for number, _, _ in self.events if number is not None]

    async def until(self, true: Callable[["Reader"], bool]) -> None:
        async with asyncio.timeout(60), self._changed:
            await self._changed.wait_for(lambda: true(self))

    async def ended(self) -> None:
        async with asyncio.timeout(60):
            await self.task

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def _collect(self, stream: AsyncIterator[bytes]) -> None:
        async for chunk in stream:
            async with self._changed:
                self.events += events_of(chunk)
                self._changed.notify_all()


@pytest.fixture
def feed_of() -> Callable[..., contextlib.AbstractAsyncContextManager[Feed]]:
    return running_feed


async def eventually(true: Callable[[], bool]) -> None:
    """Poll for a condition. Raises AssertionError after ten seconds."""
    for _ in range(2_000):
        if true():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen")


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], Awaitable[None]]:
    return eventually


@pytest.fixture
def reader_of() -> type[Reader]:
    return Reader
