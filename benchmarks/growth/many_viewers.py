"""CPU of the service for an entry and one of its viewers, by the number of viewers."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.orders import Cpu
from benchmarks.service import Place, place
from benchmarks.stored import Trusted
from benchmarks.summary import Promise
from benchmarks.workload import table
from drone.worker.broadcaster import Broadcaster
from drone.worker.journal import OrderJournal, Writer
from mcc.contracts.entry import Origin
from mcc.contracts.fold import Fold
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import AgentStep
from mcc.contracts.order import NewOrder
from mcc.dispatch.publisher import AsyncPublisher
from mcc.store.store import open_store
from mcc.testing.hand_drone import HandDrone, HeldOrder

VIEWERS = (1, 10, 100, 500)
ENTRIES = 200
HOLD = 1.5
STEP = b"event: agent.step\n"


@dataclass(frozen=True, slots=True)
class Took:
    viewers: int
    service: float
    """Seconds of its CPU for `ENTRIES` entries, each of which all viewers had before the next was written."""

    joining: float
    """Seconds of its CPU until all viewers had what there was."""

    late: float
    """Seconds until the last viewer had an entry, at the median."""

    @property
    def entry(self) -> float:
        return 1000 * self.service / ENTRIES


def by_viewers() -> Sequence[Promise]:
    with place(0) as here:
        found = [asyncio.run(_watched(here, viewers)) for viewers in VIEWERS]
    alone = found[0].entry
    rows = [
        (
            one.viewers,
            f"{one.entry:.2f} ms",
            f"{1000 * (one.entry - alone) / max(one.viewers - 1, 1):.0f} µs" if one.viewers > 1 else "",
            f"{1000 * one.joining / one.viewers:.2f} ms",
            f"{1000 * one.late:.0f} ms",
        )
        for one in found
    ]
    head = ("viewers", "an entry", "each viewer more", "a viewer that comes", "the last one has it after")
    table(f"CPU of the service by viewers of an order ({ENTRIES} entries, one at a time)", head, rows)
    each = [(one.entry - alone) / (one.viewers - 1) for one in found[1:]]
    joining = found[-1].joining / found[-1].viewers / (found[1].joining / found[1].viewers)
    few, many = VIEWERS[1], VIEWERS[-1]
    return [
        Promise(f"an entry and viewer, {many} viewers / {few}", each[-1] / each[0], HOLD),
        Promise(f"a viewer that comes, {many} viewers / {few}", joining, HOLD),
    ]


class Watchers:
    """Connections to one order's events; counts the entries that all of them have read."""

    def __init__(self, here: Place, order_id: str) -> None:
        url = here.client.base_url
        self._host, self._port = url.host, url.port or 80
        token = here.client.headers["Authorization"]
        path = f"{url.path}orders/{order_id}/events"
        self._request = (
            f"GET {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nAuthorization: {token}\r\n\r\n".encode()
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._seen = asyncio.Semaphore(0)

    async def come(self, count: int) -> None:
        """Return when all of them have read the first entry."""
        self._tasks = [asyncio.create_task(self._watch()) for _ in range(count)]
        await self.all_have_one()

    async def all_have_one(self) -> None:
        for _ in self._tasks:
            await self._seen.acquire()

    async def _watch(self) -> None:
        reader, writer = await asyncio.open_connection(self._host, self._port, limit=1 << 22)
        writer.write(self._request)
        try:
            while line := await reader.readline():
                if line == STEP:
                    self._seen.release()
        finally:
            writer.close()

    async def go(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)


async def _watched(here: Place, viewers: int) -> Took:
    store = open_store(here.settings.database_url)
    publisher = AsyncPublisher(f"unix://{here.settings.data_dir / 'run' / 'redis.sock'}")
    broadcaster = Broadcaster(publisher)
    writer = Writer(store, Trusted(), broadcaster)
    tasks = [asyncio.create_task(writer.run()), asyncio.create_task(broadcaster.run())]
    placed = store.orders.place(NewOrder(prompt="bench", model="offline"), principal="bench").order
    journal = _journal(writer, HandDrone(store).claim(placed.id))
    watchers = Watchers(here, placed.id)
    try:
        await journal.write(_master(journal), AgentStep(name="note", message="the first"))
        before = Cpu.of([here.service])
        await watchers.come(viewers)
        joining = Cpu.of([here.service]).since(before).own
        late, before = [], Cpu.of([here.service])
        for number in range(ENTRIES):
            began = time.perf_counter()
            await journal.write(_master(journal), AgentStep(name="note", message=f"step {number} " * 20))
            await watchers.all_have_one()
            late.append(time.perf_counter() - began)
        used = Cpu.of([here.service]).since(before).own
        return Took(viewers, used, joining, sorted(late)[len(late) // 2])
    finally:
        await watchers.go()
        for task in tasks:
            task.cancel()
        await publisher.close()
        writer.close()
        store.close()


def _journal(writer: Writer, held: HeldOrder) -> OrderJournal:
    held.start()
    fold = Fold.of(held.id, held.store.journal.read(held.id))
    return writer.open(held.id, held.claim.epoch, fold)


def _master(journal: OrderJournal) -> Origin:
    return Origin(record_id=root_record_id(journal.order_id), agent="master")
