"""CPU of an entry by the length of its order's journal: writing, reading, folding, and ending the order."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import sqlalchemy as sa

from benchmarks.journal import agent_started, postgres_url, round_of, sqlite_url
from benchmarks.stored import stored_turns
from benchmarks.summary import Promise
from benchmarks.workload import table
from drone.agent.ports.journal import Journal
from drone.agent.ports.model import Model
from drone.models.scripted import ScriptedModel
from mcc.contracts.entry import Origin
from mcc.contracts.fold import Fold
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import AgentFinished
from mcc.contracts.record import RecordStatus
from mcc.store.database.migrate import upgrade
from mcc.store.store import Store, open_store

LENGTHS = (100, 1_000, 5_000, 20_000)
WINDOW = 24
"""The last rounds, of four entries each, are written entry by entry and measured; earlier ones a round at a time."""

PAGE = 32
TARGET = 1.5

Figures = dict[int, float]


@dataclass(slots=True)
class Found:
    """Milliseconds of CPU by the length of the journal."""

    written: Figures = field(default_factory=dict)
    page: Figures = field(default_factory=dict)
    folded: Figures = field(default_factory=dict)
    ended: Figures = field(default_factory=dict)

    def columns(self) -> dict[str, Figures]:
        """The figures by column. Folding and ending an order go through all entries, so these are given per entry."""
        return {
            "writing an entry": self.written,
            f"reading the last page of {PAGE}": self.page,
            "reading and folding, per entry": self.folded,
            "ending the order, per entry": self.ended,
        }


def by_journal() -> Sequence[Promise]:
    promises: list[Promise] = []
    with sqlite_url() as url:
        promises += asyncio.run(_on("SQLite", url))
    try:
        with postgres_url() as url:
            promises += asyncio.run(_on("PostgreSQL", url))
    except psycopg.OperationalError as error:
        print(f"\nLong journals on PostgreSQL: not measured, {str(error).splitlines()[0]}")
    return promises


async def _on(name: str, url: str) -> Sequence[Promise]:
    upgrade(url)
    found = Found()
    with _opened(url) as store:
        for length in LENGTHS:
            await _measured(url, store, length, found)
    columns = found.columns()
    rows = [(f"{n:,}", *(f"{figures[n]:.3f} ms" for figures in columns.values())) for n in LENGTHS]
    ratios = {what: figures[LENGTHS[-1]] / figures[LENGTHS[0]] for what, figures in columns.items()}
    rows.append(("ratio", *(f"{ratio:.2f}" for ratio in ratios.values())))
    table(f"CPU by the entries of an order, {name} with its server's part", ("entries", *columns), rows)
    return [
        Promise(f"{what}: {LENGTHS[-1]:,} entries / {LENGTHS[0]}, {name}", ratio, TARGET)
        for what, ratio in ratios.items()
    ]


@contextmanager
def _opened(url: str) -> Iterator[Store]:
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()


class Clock:
    """Milliseconds of CPU of this process and, if they run on this machine, of the database's processes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._of_servers: dict[int, float] = {}

    def now(self) -> float:
        for pid in self._servers():
            self._of_servers[pid] = _milliseconds(pid) or self._of_servers.get(pid, 0.0)
        return 1000 * time.process_time() + sum(self._of_servers.values())

    def _servers(self) -> Sequence[int]:
        if self._store.database.dialect == "sqlite":
            return ()
        statement = sa.text("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
        return self._store.database.read(lambda connection: connection.execute(statement).scalars().all())

    def minimum(self, times: int, work: Callable[[], object]) -> float:
        durations = []
        for _ in range(times):
            before = self.now()
            work()
            durations.append(self.now() - before)
        return min(durations)


def _milliseconds(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6
    except OSError:  # It has ended, or runs on another machine.
        return 0.0


async def _measured(url: str, store: Store, length: int, found: Found) -> None:
    """Measure one order of this length; each length gets its own order, so that nothing else differs."""
    clock, order_ids, ending = Clock(store), list[str](), list[float]()

    async def play(_: Model, journal: Journal, order_id: str) -> str:
        order_ids.append(order_id)
        origin = Origin(record_id=root_record_id(order_id), agent="master")
        await journal.write(origin, agent_started())
        rounds = length // 4
        for number in range(1, rounds - WINDOW + 1):
            await journal.write(origin, *round_of(str(origin.record_id), number))
        last = [fact for number in range(rounds - WINDOW + 1, rounds + 1) for fact in round_of("r", number)]
        durations = []
        for start in range(0, len(last), WINDOW):
            before = clock.now()
            for fact in last[start : start + WINDOW]:
                await journal.write(origin, fact)
            durations.append((clock.now() - before) / WINDOW)
        found.written[length] = min(durations)
        await journal.write(origin, AgentFinished(status=RecordStatus.COMPLETED, answer="done"))
        ending.append(clock.now())
        return "done"

    async with stored_turns(url, ScriptedModel([]), play=play) as turn:
        await turn()
        found.ended[length] = (clock.now() - ending[0]) / length
    order_id, journal = order_ids[0], store.journal
    found.page[length] = clock.minimum(9, lambda: journal.read(order_id, after=length - PAGE, limit=PAGE))
    whole = clock.minimum(3, lambda: Fold.of(order_id, journal.read(order_id, limit=length * 2)))
    found.folded[length] = whole / length
