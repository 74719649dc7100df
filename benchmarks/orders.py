"""What a short order costs: two model calls, one of them for a tool, by the shipped master.

    python -m benchmarks.orders [--orders 400] [--drones 1 2 4] [--database sqlite|postgresql] [--git]

Everything is real but the model, which answers at once from a process of its own. Each of `LINES` places an order in
a workspace of its own, waits for its end, and places the next, so that the drones always have work; then `BACKLOG`
orders are placed together, and worked off. The CPU is that of the drones' processes, before and after, as the kernel
counts it; what the programs of the sandbox took stands apart.
A piece of plain Python is timed meanwhile, since what a second of CPU is worth depends on what else is busy.
"""

import argparse
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg

from benchmarks.beside import median_of, slowness_meanwhile
from benchmarks.journal import postgres_url
from benchmarks.service import Place, place
from benchmarks.summary import Promise
from benchmarks.workload import table
from mcc.contracts.status import FINAL
from mcc.store.store import open_store

ORDERS, WARM, LINES = 400, 40, 12
BACKLOG = 1_000
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
    """Seconds of CPU that processes have used: their own, and their children's that have ended."""

    own: float
    children: float

    @classmethod
    def of(cls, pids: Sequence[int]) -> "Cpu":
        tick = os.sysconf("SC_CLK_TCK")
        stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
        # The clock of a process's CPU, as clock_getcpuclockid(3) makes its number: nanoseconds, where /proc has 10 ms.
        own = sum(time.clock_gettime(~pid << 3 | 2) for pid in pids)
        return cls(own, sum(int(stat[13]) + int(stat[14]) for stat in stats) / tick)

    def since(self, earlier: "Cpu") -> "Cpu":
        return Cpu(self.own - earlier.own, self.children - earlier.children)


@dataclass(frozen=True, slots=True)
class Took:
    """Of `orders` by `drones`: seconds on the wall, CPU of the drones and of the service. `piece`: milliseconds that a
    piece of plain Python took meanwhile (`slowness`)."""

    orders: int
    drones: Cpu
    service: Cpu
    wall: float
    piece: float

    @property
    def milliseconds(self) -> float:
        """CPU of the drones for an order."""
        return 1000 * self.drones.own / self.orders

    @property
    def rate(self) -> float:
        return self.orders / self.wall

    def row(self, what: str) -> tuple[str, ...]:
        children = 1000 * self.drones.children / self.orders
        service = 1000 * self.service.own / self.orders
        # A drone whose threads share one interpreter takes no more than one core of its machine.
        of_one_core = self.orders / self.drones.own
        cpu = (f"{one:.1f} ms" for one in (self.milliseconds, children, service))
        return (what, *cpu, f"{self.rate:.0f}", f"{of_one_core:.0f}", f"{self.piece:.1f} ms")


HEAD = ("what", "CPU of the drone", "of programs", "of the service", "orders/s", "orders per s of CPU", "plain Python")


def workspace(here: Place, line: int, *, git: bool) -> Path:
    directory = here.folder / f"line-{line}"
    if not directory.exists():
        directory.mkdir()
        for name, text in FILES.items():
            (directory / name).write_text(text, "utf-8")
        if git:
            who = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")
            for command in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "begin")):
                subprocess.run(["git", "-C", str(directory), *command], check=True)
    return directory


def run(here: Place, orders: int, directories: Sequence[Path | None]) -> None:
    """That many orders, one at a time in each of these directories. Raises RuntimeError when one does not succeed."""
    left, open_orders, placing = orders, dict[str, Path | None](), dict[Future[str], Path | None]()
    store = open_store(here.settings.database_url)
    with ThreadPoolExecutor(4) as pool:

        def begin(directory: Path | None) -> None:
            if directory is None:
                placing[pool.submit(here.place, WITHOUT)] = None
            else:
                placing[pool.submit(here.place, IN_A_WORKSPACE, workspace=str(directory))] = directory

        for directory in directories[:orders]:
            begin(directory)
            left -= 1
        while placing or open_orders:
            for placed in [one for one in placing if one.done()]:
                open_orders[placed.result()] = placing.pop(placed)
            reached = store.journal.reached(list(open_orders)) if open_orders else {}
            for order_id in [one for one, at in reached.items() if at.status in FINAL]:
                if reached[order_id].status.value != "succeeded":
                    raise RuntimeError(f"an order of the benchmark did not succeed: {here.order(order_id)}")
                directory = open_orders.pop(order_id)
                if left:
                    begin(directory)
                    left -= 1
            time.sleep(PAUSE_SECONDS)
    store.close()


def work_off(here: Place, directories: Sequence[Path | None]) -> None:
    """An order for each of these, all of them placed in one request."""
    asked = [
        {"model": "fake", "prompt": WITHOUT}
        if directory is None
        else {"model": "fake", "prompt": IN_A_WORKSPACE, "workspace": str(directory)}
        for directory in directories
    ]
    here.client.post("/orders:batch", json={"orders": asked}).raise_for_status()
    here.until_done()


def measured(here: Place, orders: int, work: Callable[[], None]) -> Took:
    """What so many orders took, which `work` places and waits for."""
    drones, service, began = Cpu.of(here.drones), Cpu.of([here.service]), time.perf_counter()
    with slowness_meanwhile() as pieces:
        work()
        wall = time.perf_counter() - began
        of_drones, of_service = Cpu.of(here.drones).since(drones), Cpu.of([here.service]).since(service)
    return Took(orders, of_drones, of_service, wall, median_of(pieces))


def by_drones(database: str, url: str | None, orders: int, counts: Sequence[int], *, git: bool) -> Mapping[int, Took]:
    """What an order in a workspace took, by the number of drones."""
    rows, found = [], dict[int, Took]()
    for drones in counts:
        with place(drones, database_url=url) as here:
            said = f"{drones} drone{'s' * (drones > 1)}"
            lines = [workspace(here, line, git=git) for line in range(LINES)]
            run(here, WARM, lines)
            found[drones] = measured(here, orders, partial(run, here, orders, lines))
            rows.append(found[drones].row(f"{said}, in a workspace"))
            rows.append(measured(here, orders, partial(run, here, orders, [None] * LINES)).row(f"{said}, without"))
            own = [workspace(here, line, git=git) for line in range(BACKLOG)]
            rows.append(measured(here, BACKLOG, partial(work_off, here, own)).row(f"{said}, a backlog in workspaces"))
            without = partial(work_off, here, [None] * BACKLOG)
            rows.append(measured(here, BACKLOG, without).row(f"{said}, a backlog without"))
    table(f"Orders of two calls, {orders} each, of a backlog {BACKLOG:,}, {database}", HEAD, rows)
    return found


def held(database: str, found: Mapping[int, Took]) -> Iterator[Promise]:
    fewest, *more = sorted(found)
    one, what = found[fewest], f"an order of two calls in a workspace, {database}"
    if database == "SQLite":
        note = f"plain Python {one.piece:.1f} ms"
        yield Promise(f"{what}: CPU of the drone", one.milliseconds, 8, "ms", note=note)
        yield Promise(f"{what}: orders/s", one.rate, 100, at_least=True)
        return
    for drones in more:
        # In pieces of plain Python: with more drones more processors are busy, and each of them may be slower for it.
        ratio = found[drones].milliseconds / found[drones].piece / (one.milliseconds / one.piece)
        note = f"{found[drones].milliseconds:.1f} and {one.milliseconds:.1f} ms"
        yield Promise(f"{what}: CPU by plain Python, {drones} drones / {fewest}", ratio, 1.2, note=note)


def main(arguments: Sequence[str] = ()) -> list[Promise]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.orders")
    parser.add_argument("--orders", type=int, default=ORDERS)
    parser.add_argument("--drones", type=int, nargs="+", default=DRONES)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), help="this one alone")
    parser.add_argument("--git", action="store_true", help="the workspaces are git repositories")
    asked = parser.parse_args(arguments)
    found = list[Promise]()
    if asked.database != "postgresql":
        found += held("SQLite", by_drones("SQLite", None, asked.orders, asked.drones, git=asked.git))
    if asked.database != "sqlite":
        try:
            with postgres_url() as url:
                found += held("PostgreSQL", by_drones("PostgreSQL", url, asked.orders, asked.drones, git=asked.git))
        except psycopg.OperationalError as error:
            print(f"\nPostgreSQL: not measured, {str(error).splitlines()[0]}")
    return found


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
