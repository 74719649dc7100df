"""A drone in this process, without Celery and service: the CPU of a short order by thread.

    python -m benchmarks.one_drone [--orders 200] [--plain] [--database postgresql] [--profile FILE]

The store places the orders, and threads hand them to the drone, as Celery's pool does. `--profile` writes what
`cProfile` counted on the event loop, for `python -m pstats FILE`; the times in it are CPU of that thread.
"""

import argparse
import cProfile
import logging
import os
import pstats
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import structlog

from benchmarks.beside import slowness
from benchmarks.journal import postgres_url
from benchmarks.orders import FILES, IN_A_WORKSPACE, LINES, WITHOUT
from benchmarks.service import CONFIGURATION
from benchmarks.workload import fake_provider, table
from drone.crew import Crew
from drone.settings import load
from drone.worker.drone import DroneProcess
from mcc.contracts.callers import Actor
from mcc.contracts.order import NewOrder
from mcc.contracts.status import FINAL, OrderStatus
from mcc.resources import tune_collector
from mcc.store.database.migrate import upgrade
from mcc.store.store import Store, open_store

ORDERS, WARM = 200, 24
QUEUE = "handed"
"""A queue that the drone does not serve: it runs only what it is handed, although each end makes it look for more."""

REDIS = "redis://127.0.0.1:6379/9"


@contextmanager
def drone_here(redis_url: str = REDIS, database_url: str | None = None) -> Iterator[tuple[DroneProcess, Store, Path]]:
    """Run a drone in this process; yields it, its store, and the directory for its orders' workspaces.

    `database_url`: an empty database; None = a new SQLite file.
    """
    with TemporaryDirectory(prefix="mcc-") as folder, fake_provider() as address:
        data, work = Path(folder) / "data", Path(folder) / "work"
        for directory in (data, work):
            directory.mkdir(mode=0o700)
        configuration = data / "mcc.toml"
        configuration.write_text(CONFIGURATION.format(address=address), "utf-8")
        os.environ["FAKE_KEY"] = "benchmark"
        database = database_url or f"sqlite:///{data}/mcc.db"
        upgrade(database)
        settings = load(
            data_dir=data,
            workspace_roots=(work,),
            database_url=database,
            redis_url=redis_url,
            # Its database is new: under one prefix, the next one within five minutes would be taken for a stranger.
            redis_prefix=f"{Path(folder).name}:",
            poll_seconds=600,
            name="bench",
            slots=LINES,
        )
        store = open_store(database)
        drone = DroneProcess(settings, store, lambda: Crew.from_settings(settings))
        drone.start()
        tune_collector()
        try:
            yield drone, open_store(database), work
        finally:
            drone.drain()
            drone.drained.wait(10)
            drone.close()


def placed(store: Store, orders: int, directories: Sequence[Path | None]) -> Sequence[Sequence[str]]:
    """Place `orders` orders in turn in the directories; answers their ids by directory. The drone is not notified."""
    new_orders = [
        NewOrder(prompt=WITHOUT, model="fake", queue=QUEUE)
        if directory is None
        else NewOrder(prompt=IN_A_WORKSPACE, workspace=str(directory), model="fake", queue=QUEUE)
        for directory in directories
    ]
    lines: list[list[str]] = [[] for _ in directories]
    for number in range(orders):
        line = number % len(directories)
        lines[line].append(store.orders.place(new_orders[line], by=Actor("bench")).order.id)
    return lines


def run(drone: DroneProcess, store: Store, lines: Sequence[Sequence[str]]) -> None:
    """Run the orders of each line in sequence, all lines concurrently. Raises RuntimeError if an order fails."""

    def work(line: Sequence[str]) -> None:
        for order_id in line:
            drone.work(order_id)

    with ThreadPoolExecutor(len(lines), thread_name_prefix="celery") as pool:
        list(pool.map(work, lines))
    for order_id in (order_id for line in lines for order_id in line):
        while (order := store.orders.get(order_id)).status not in FINAL:
            time.sleep(0.01)
            drone.work(order_id)  # It waited for its workspace, held by an order that the drone's own poll had started.
        if order.status is not OrderStatus.SUCCEEDED:
            raise RuntimeError(f"an order of the benchmark did not succeed: {order}")


def cpu_by_thread() -> Mapping[str, float]:
    """Seconds of CPU of this process's living threads, by the first word of their names."""
    tick, spent = os.sysconf("SC_CLK_TCK"), defaultdict[str, float](float)
    for thread in threading.enumerate():
        try:
            stat = Path(f"/proc/self/task/{thread.native_id}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        spent[thread.name.partition("_")[0].partition(" ")[0]] += (int(stat[11]) + int(stat[12])) / tick
    return spent


def on_loop(drone: DroneProcess, function: Callable[[], None]) -> None:
    """Call `function` on the drone's event loop, and wait until it has returned."""
    done = threading.Event()

    async def run() -> None:
        function()
        done.set()

    drone._loop.submit(run())
    done.wait(10)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.one_drone")
    parser.add_argument("--orders", type=int, default=ORDERS)
    parser.add_argument("--plain", action="store_true", help="without a workspace")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--profile")
    options = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    postgres = postgres_url() if options.database == "postgresql" else nullcontext()
    with postgres as url, drone_here(database_url=url) as (drone, store, work):
        directories: list[Path | None] = [None if options.plain else work / f"line-{line}" for line in range(LINES)]
        for directory in filter(None, directories):
            directory.mkdir()
            for name, text in FILES.items():
                (directory / name).write_text(text, "utf-8")
        run(drone, store, placed(store, WARM, directories))
        lines, slow = placed(store, options.orders, directories), [slowness()]
        profile = cProfile.Profile(time.thread_time)
        if options.profile:
            on_loop(drone, profile.enable)
        before, cpu, began = cpu_by_thread(), time.process_time(), time.perf_counter()
        run(drone, store, lines)
        used, wall, after = time.process_time() - cpu, time.perf_counter() - began, cpu_by_thread()
        slow.append(slowness())
        if options.profile:
            on_loop(drone, profile.disable)
            profile.dump_stats(options.profile)
            counted = pstats.Stats(profile).stats.values()  # type: ignore[attr-defined]
            calls: float = sum(count for _, count, *_ in counted) / options.orders
            print(f"\n{calls:,.0f} function calls per order on the event loop, independent of the load")
    rows = [(name, f"{1000 * (after[name] - before.get(name, 0)) / options.orders:.1f} ms") for name in sorted(after)]
    rows.append(("total, with threads that ended", f"{1000 * used / options.orders:.1f} ms"))
    rows.append(("a fixed piece of plain Python, before and after", " and ".join(f"{one:.1f} ms" for one in slow)))
    table(
        f"{options.orders} orders of two calls, {options.orders / wall:.0f} a second", ("thread", "CPU per order"), rows
    )


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
