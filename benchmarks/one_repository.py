"""Many short orders in one repository, beside as many with a workspace each, and then with some that write among them.

    python -m benchmarks.one_repository [--orders 400] [--writers 50] [--database postgresql]

A drone in this process, as in `benchmarks.one_drone`. Orders that only read must not wait for each other: their rate in
one workspace is promised to be at least `PROMISED` of that with a workspace each, in the same run.
"""

import argparse
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import structlog

from benchmarks.journal import postgres_url
from benchmarks.one_drone import QUEUE, WARM, drone_here, placed, run
from benchmarks.orders import FILES, IN_A_WORKSPACE, LINES
from benchmarks.summary import Promise
from benchmarks.workload import table
from drone.worker.drone import DroneProcess
from mcc.contracts.callers import Actor
from mcc.contracts.order import NewOrder
from mcc.contracts.status import FINAL, OrderStatus
from mcc.store.store import Store

ORDERS, WRITERS = 400, 50
PROMISED = 0.8


def furnished(directory: Path) -> Path:
    directory.mkdir()
    for name, text in FILES.items():
        (directory / name).write_text(text, "utf-8")
    return directory


def rate(drone: DroneProcess, store: Store, lines: Sequence[Sequence[str]]) -> float:
    """Orders a second. Raises RuntimeError if an order fails."""
    began = time.perf_counter()
    with ThreadPoolExecutor(len(lines), thread_name_prefix="celery") as pool:
        list(pool.map(lambda line: list(map(drone.work, line)), lines))
    pending = [order_id for line in lines for order_id in line]
    while pending:
        orders = [store.orders.get(order_id) for order_id in pending]
        if failed := [order for order in orders if order.status in FINAL and order.status is not OrderStatus.SUCCEEDED]:
            raise RuntimeError(f"an order of the benchmark did not succeed: {failed[0]}")
        # Its turn to write has come: no other drone polls the queue of the benchmark.
        for order in orders:
            if order.status is OrderStatus.QUEUED:
                drone.work(order.id)
        pending = [order.id for order in orders if order.status not in FINAL]
    return sum(map(len, lines)) / (time.perf_counter() - began)


def with_writers(
    store: Store, lines: Sequence[Sequence[str]], writers: int, directory: Path
) -> Sequence[Sequence[str]]:
    """The lines, with so many orders that write distributed among them."""
    mixed = [list(line) for line in lines]
    new = NewOrder(prompt=IN_A_WORKSPACE, workspace=str(directory), model="fake", queue=QUEUE, write=True)
    for number in range(writers):
        line = mixed[number % len(mixed)]
        line.insert(number // len(mixed) * 2, store.orders.place(new, by=Actor("bench")).order.id)
    return mixed


def main(arguments: Sequence[str] = ()) -> list[Promise]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.one_repository")
    parser.add_argument("--orders", type=int, default=ORDERS)
    parser.add_argument("--writers", type=int, default=WRITERS)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    options = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    postgres = postgres_url() if options.database == "postgresql" else nullcontext()
    with postgres as url, drone_here(database_url=url) as (drone, store, work):
        shared, own = furnished(work / "shared"), [furnished(work / f"own-{line}") for line in range(LINES)]
        together: list[Path | None] = [shared] * LINES
        run(drone, store, placed(store, WARM, [*own]))
        run(drone, store, placed(store, WARM, together))
        apart = rate(drone, store, placed(store, options.orders, [*own]))
        beside = rate(drone, store, placed(store, options.orders, together))
        lines = with_writers(store, placed(store, options.orders, together), options.writers, shared)
        mixed = rate(drone, store, lines)
    rows = [
        ("a workspace each", f"{apart:.0f}", "1.00"),
        ("one workspace", f"{beside:.0f}", f"{beside / apart:.2f}"),
        (f"one workspace, {options.writers} that write among them", f"{mixed:.0f}", f"{mixed / apart:.2f}"),
    ]
    title = f"{options.orders} orders that only read, {options.database}; promised for one workspace: {PROMISED}"
    table(title, ("orders in", "orders a second", "of the rate with a workspace each"), rows)
    what = "orders that only read in one workspace, of their rate with one each"
    return [Promise(what, beside / apart, PROMISED, at_least=True)]


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
