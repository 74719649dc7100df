"""The cost of a short order: two model calls, one of which calls a tool, run by the shipped master agent.

    python -m benchmarks.orders [--orders 400] [--drones 1 2 4] [--database sqlite|postgresql] [--git]

Everything is real except the model, which answers at once from its own process. Each of `LINES` lines places an order
in its own workspace, waits for its end, and places the next, so that the drones always have work. Then `BACKLOG` orders
are placed together and worked off. Where a row says so, `PER_SECOND` orders are begun a second, and the CPU that idle
drones need is subtracted. The CPU is what the kernel counts for the drones' processes; programs of the sandbox are
counted separately. A fixed piece of plain Python is timed meanwhile, because the value of a second of CPU depends on
what else is running.
"""

import argparse
import os
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import psycopg

from benchmarks.beside import median_of, sampled_slowness
from benchmarks.journal import postgres_url
from benchmarks.service import Installation, installed
from benchmarks.summary import Promise
from benchmarks.workload import table
from mcc.contracts.status import FINAL
from mcc.store.store import open_store

ORDERS, WARM, LINES = 400, 40, 12
BACKLOG = 1_000
PACED, PER_SECOND = 150, 10.0
"""Orders that are begun at a rate which leaves the machine time: what drones then need, they need for the orders."""

IDLE_SECONDS = 5.0
DRONES = (1, 2, 4)
PAUSE_SECONDS = 0.005
FILES = {
    "README.md": "# A small project\n\nIt holds what the agents of the benchmark read.\n",
    "pyproject.toml": '[project]\nname = "small"\nversion = "1"\n',
    "small.py": "def small() -> int:\n    return 1\n",
}
IN_A_WORKSPACE = "Look something up. [[sub r=1 tool=list_files]]"
WITHOUT = "Look something up. [[sub r=1]]"


@dataclass(frozen=True, slots=True)
class Cpu:
    """Seconds of CPU that processes have used, and that their ended children have used."""

    own: float
    children: float

    @classmethod
    def of(cls, pids: Sequence[int]) -> "Cpu":
        tick = os.sysconf("SC_CLK_TCK")
        stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
        # The id of a process's CPU clock, as in clock_getcpuclockid(3): it counts nanoseconds, /proc steps of 10 ms.
        own = sum(time.clock_gettime(~pid << 3 | 2) for pid in pids)
        return cls(own, sum(int(stat[13]) + int(stat[14]) for stat in stats) / tick)

    def since(self, earlier: "Cpu") -> "Cpu":
        return Cpu(self.own - earlier.own, self.children - earlier.children)


@dataclass(frozen=True, slots=True)
class Took:
    """What `orders` orders took: CPU of the drones and of the service, and wall-clock seconds.

    `piece`: milliseconds that the fixed piece of plain Python took meanwhile (`slowness`).
    """

    orders: int
    drones: Cpu
    service: Cpu
    wall: float
    piece: float

    @property
    def milliseconds(self) -> float:
        """CPU of the drones per order."""
        return 1000 * self.drones.own / self.orders

    @property
    def rate(self) -> float:
        return self.orders / self.wall

    def row(self, what: str) -> tuple[str, ...]:
        children = 1000 * self.drones.children / self.orders
        service = 1000 * self.service.own / self.orders
        # The threads of a drone share one interpreter, so a drone cannot use more than one core.
        of_one_core = self.orders / self.drones.own
        cpu = (f"{one:.1f} ms" for one in (self.milliseconds, children, service))
        return (what, *cpu, f"{self.rate:.0f}", f"{of_one_core:.0f}", f"{self.piece:.1f} ms")


HEAD = (
    "orders",
    "CPU of the drones",
    "CPU of programs",
    "CPU of the service",
    "orders/s",
    "orders per s of CPU",
    "plain Python",
)


def workspace(here: Installation, line: int, *, git: bool) -> Path:
    directory = here.folder / f"line-{line}"
    if not directory.exists():
        directory.mkdir()
        for name, text in FILES.items():
            (directory / name).write_text(text, "utf-8")
        if git:
            author = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")
            for command in (("init", "-q"), ("add", "."), (*author, "commit", "-qm", "begin")):
                subprocess.run(["git", "-C", str(directory), *command], check=True)
    return directory


def run(here: Installation, orders: int, directories: Sequence[Path | None], per_second: float | None = None) -> None:
    """Run `orders` orders, one at a time in each directory, and begin `per_second` of them at most. Raises RuntimeError
    if one does not succeed."""
    free, left = deque(directories), orders
    open_orders, placing = dict[str, Path | None](), dict[Future[str], Path | None]()
    store, began = open_store(here.settings.database_url), time.perf_counter()
    with ThreadPoolExecutor(4) as pool:

        def may_begin() -> bool:
            return per_second is None or orders - left <= (time.perf_counter() - began) * per_second

        while left or placing or open_orders:
            while left and free and may_begin():
                directory = free.popleft()
                prompt, place = (WITHOUT, {}) if directory is None else (IN_A_WORKSPACE, {"workspace": str(directory)})
                placing[pool.submit(here.place, prompt, **place)] = directory
                left -= 1
            for placed in [one for one in placing if one.done()]:
                open_orders[placed.result()] = placing.pop(placed)
            reached = store.journal.reached(list(open_orders)) if open_orders else {}
            for order_id in [one for one, at in reached.items() if at.status in FINAL]:
                if reached[order_id].status.value != "succeeded":
                    raise RuntimeError(f"an order of the benchmark did not succeed: {here.order(order_id)}")
                free.append(open_orders.pop(order_id))
            time.sleep(PAUSE_SECONDS)
    store.close()


def work_off(here: Installation, directories: Sequence[Path | None]) -> None:
    """Place one order per directory, all in one request, and wait until all have ended."""
    orders = [
        {"model": "fake", "prompt": WITHOUT}
        if directory is None
        else {"model": "fake", "prompt": IN_A_WORKSPACE, "workspace": str(directory)}
        for directory in directories
    ]
    here.client.post("/orders:batch", json={"orders": orders}).raise_for_status()
    here.until_done()


def measured(here: Installation, orders: int, work: Callable[[], None]) -> Took:
    """Measure `work`, which places `orders` orders and waits until they have ended."""
    drones, service, began = Cpu.of(here.drones), Cpu.of([here.service]), time.perf_counter()
    with sampled_slowness() as pieces:
        work()
        wall = time.perf_counter() - began
        of_drones, of_service = Cpu.of(here.drones).since(drones), Cpu.of([here.service]).since(service)
    return Took(orders, of_drones, of_service, wall, median_of(pieces))


@dataclass(frozen=True, slots=True)
class Figures:
    """Orders in a workspace: as many as the drones can run, and `PER_SECOND`, without what idle drones need."""

    most: Took
    paced: Took


def paced(here: Installation, directories: Sequence[Path | None]) -> Took:
    """Measure `PACED` orders begun at `PER_SECOND`; of the drones' CPU, what they take when idle is subtracted."""
    idle = measured(here, 1, partial(time.sleep, IDLE_SECONDS))
    took = measured(here, PACED, partial(run, here, PACED, directories, PER_SECOND))
    needed = took.drones.own - idle.drones.own / idle.wall * took.wall
    return replace(took, drones=replace(took.drones, own=needed))


def by_drones(
    database: str, url: str | None, orders: int, counts: Sequence[int], *, git: bool
) -> Mapping[int, Figures]:
    """Measure and print all kinds of orders; answers the figures of orders in a workspace, by the number of drones."""
    rows, found = [], dict[int, Figures]()
    for drones in counts:
        with installed(drones, database_url=url) as here:
            label = f"{drones} drone{'s' * (drones > 1)}"
            lines = [workspace(here, line, git=git) for line in range(LINES)]
            run(here, WARM, lines)
            figures = Figures(measured(here, orders, partial(run, here, orders, lines)), paced(here, lines))
            found[drones] = figures
            rows.append(figures.most.row(f"{label}, in a workspace"))
            rows.append(figures.paced.row(f"{label}, in a workspace, {PER_SECOND:.0f} a second"))
            rows.append(measured(here, orders, partial(run, here, orders, [None] * LINES)).row(f"{label}, without"))
            own = [workspace(here, line, git=git) for line in range(BACKLOG)]
            rows.append(measured(here, BACKLOG, partial(work_off, here, own)).row(f"{label}, a backlog in workspaces"))
            without = partial(work_off, here, [None] * BACKLOG)
            rows.append(measured(here, BACKLOG, without).row(f"{label}, a backlog without"))
    table(f"Orders of two calls on {database} ({orders} each, {BACKLOG:,} in a backlog)", HEAD, rows)
    return found


def promises(database: str, found: Mapping[int, Figures]) -> Iterator[Promise]:
    fewest, *more = sorted(found)
    one, what = found[fewest], f"an order of two calls in a workspace, {database}"
    if database == "SQLite":
        note = f"plain Python {one.most.piece:.1f} ms"
        yield Promise(f"{what}: CPU of the drones", one.most.milliseconds, 8, "ms", note=note)
        yield Promise(f"{what}: orders/s", one.most.rate, 100, at_least=True)
        return
    for drones in more:
        of_most, of_paced = found[drones].most, found[drones].paced
        yield _compared(f"{what}: CPU relative to plain Python", of_most, one.most, f"{drones} drones / {fewest}")
        name = f"{what}, {PER_SECOND:.0f} a second: CPU relative to plain Python"
        yield _compared(name, of_paced, one.paced, f"{drones} drones / {fewest}")


def _compared(what: str, more: Took, fewest: Took, drones: str) -> Promise:
    # Relative to plain Python: with more drones, more processors are busy, and each of them may be slower.
    ratio = more.milliseconds / more.piece / (fewest.milliseconds / fewest.piece)
    note = f"{more.milliseconds:.1f} and {fewest.milliseconds:.1f} ms"
    return Promise(f"{what}, {drones}", ratio, 1.2, note=note)


def main(arguments: Sequence[str] = ()) -> list[Promise]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.orders")
    parser.add_argument("--orders", type=int, default=ORDERS)
    parser.add_argument("--drones", type=int, nargs="+", default=DRONES)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), help="measure only this database")
    parser.add_argument("--git", action="store_true", help="make the workspaces git repositories")
    options = parser.parse_args(arguments)
    found = list[Promise]()
    if options.database != "postgresql":
        found += promises("SQLite", by_drones("SQLite", None, options.orders, options.drones, git=options.git))
    if options.database != "sqlite":
        try:
            with postgres_url() as url:
                found += promises(
                    "PostgreSQL", by_drones("PostgreSQL", url, options.orders, options.drones, git=options.git)
                )
        except psycopg.OperationalError as error:
            print(f"\nPostgreSQL: not measured, {str(error).splitlines()[0]}")
    return found


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
