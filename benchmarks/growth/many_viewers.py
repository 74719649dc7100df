"""CPU of the service per entry and viewer, by the number of viewers."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.orders import Cpu
from benchmarks.service import Installation, installed
from benchmarks.summary import Promise
from benchmarks.workload import table
from benchmarks.writing import written_order
from drone.worker.journal import OrderJournal
from mcc.contracts.entry import Origin
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import AgentStep

VIEWERS = (1, 10, 100, 500)
ENTRIES = 200
TARGET = 1.5
STEP = b"event: agent.step\n"


@dataclass(frozen=True, slots=True)
class Took:
    """What the service and the viewers took with this number of viewers."""

    viewers: int
    service: float
    """Seconds of its CPU for `ENTRIES` entries, each written after all viewers received the previous one."""

    joining: float
    """Seconds of its CPU until all viewers had connected and received the existing entries."""

    delay: float
    """Median seconds until the last viewer has received an entry."""

    @property
    def entry(self) -> float:
        return 1000 * self.service / ENTRIES


def by_viewers(*, together: bool = False) -> Sequence[Promise]:
    """`together`: each viewer is a page, which gets all that it shows in one stream."""
    with installed(0) as here:
        found = [asyncio.run(_watched(here, viewers, together)) for viewers in VIEWERS]
    single = found[0].entry
    rows = [
        (
            one.viewers,
            f"{one.entry:.2f} ms",
            f"{1000 * (one.entry - single) / max(one.viewers - 1, 1):.0f} µs" if one.viewers > 1 else "",
            f"{1000 * one.joining / one.viewers:.2f} ms",
            f"{1000 * one.delay:.0f} ms",
        )
        for one in found
    ]
    head = ("viewers", "an entry", "per additional viewer", "connecting a viewer", "last viewer has it after")
    table(f"CPU of the service by number of viewers ({ENTRIES} entries, one at a time)", head, rows)
    each = [(one.entry - single) / (one.viewers - 1) for one in found[1:]]
    joining = found[-1].joining / found[-1].viewers / (found[1].joining / found[1].viewers)
    few, many = VIEWERS[1], VIEWERS[-1]
    return [
        Promise(f"an entry per viewer, {many} viewers / {few}", each[-1] / each[0], TARGET),
        Promise(f"connecting a viewer, {many} viewers / {few}", joining, TARGET),
    ]


class Watchers:
    """Connections to the events of one order; `together`: to the stream of a page that shows it."""

    def __init__(self, here: Installation, order_id: str, *, together: bool = False) -> None:
        url = here.client.base_url
        self._host, self._port = url.host, url.port or 80
        token = here.client.headers["Authorization"]
        path = f"{url.path}stream?orders={order_id}:0" if together else f"{url.path}orders/{order_id}/events"
        self._request = (
            f"GET {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nAuthorization: {token}\r\n\r\n".encode()
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._read = asyncio.Semaphore(0)

    async def connect(self, count: int) -> None:
        """Open `count` connections; return when each has read the first entry."""
        self._tasks = [asyncio.create_task(self._watch()) for _ in range(count)]
        await self.all_read_one()

    async def all_read_one(self) -> None:
        """Return when each connection has read one more entry."""
        for _ in self._tasks:
            await self._read.acquire()

    async def _watch(self) -> None:
        reader, writer = await asyncio.open_connection(self._host, self._port, limit=1 << 22)
        writer.write(self._request)
        try:
            while line := await reader.readline():
                if line == STEP:
                    self._read.release()
        finally:
            writer.close()

    async def disconnect(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)


async def _watched(here: Installation, viewers: int, together: bool) -> Took:
    async with written_order(here) as journal:
        watchers = Watchers(here, journal.order_id, together=together)
        await journal.write(_master(journal), AgentStep(name="note", message="the first"))
        before = Cpu.of([here.service])
        await watchers.connect(viewers)
        joining = Cpu.of([here.service]).since(before).own
        delay, before = [], Cpu.of([here.service])
        for number in range(ENTRIES):
            began = time.perf_counter()
            await journal.write(_master(journal), AgentStep(name="note", message=f"step {number} " * 20))
            await watchers.all_read_one()
            delay.append(time.perf_counter() - began)
        used = Cpu.of([here.service]).since(before).own
        await watchers.disconnect()
    return Took(viewers, used, joining, sorted(delay)[len(delay) // 2])


def _master(journal: OrderJournal) -> Origin:
    return Origin(record_id=root_record_id(journal.order_id), agent="master")
