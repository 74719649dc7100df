"""The cost of each operation with 1,000 orders in the database, and with a hundred or a thousand times as many.

    python -m benchmarks backlog [--sizes 1000,10000,100000] [--database sqlite|postgresql] [--svg FILE]

On PostgreSQL `--sizes 1000,1000000` creates ten million journal entries, which takes 15 minutes and 12 GB of disk.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.backlog.curves import drawn
from benchmarks.backlog.first_claim import seconds_to_first_claim
from benchmarks.backlog.operations import Backlog, milliseconds
from benchmarks.backlog.plans import full_scans, plans
from benchmarks.backlog.seed import seed
from benchmarks.journal import postgres_url
from benchmarks.workload import table
from mcc.store.database.migrate import upgrade
from mcc.store.store import open_store

SIZES = (1_000, 10_000, 100_000)
TARGET = 1.5
SHOWN = (
    "submit",
    "claim",
    "poll: what can be claimed",
    "list: failed",
    "list: label nightly",
    "search: end of an id",
    "sweep",
    "doctor: orders and drones",
)
"""Operations whose curves are drawn."""

Figures = Mapping[str, Mapping[int, float]]


def main() -> None:
    options = _options()
    with ExitStack() as stack:
        urls = {size: stack.enter_context(_seeded(options.database, size)) for size in options.sizes}
        figures, steps = measured(urls)
        first = {size: seconds_to_first_claim(url) for size, url in urls.items()}
    show(options.database, figures, steps)
    by_size = ", ".join(f"{seconds:.2f} s with {size:,} orders" for size, seconds in first.items())
    print(f"  A drone's first claim after its registration (target: 2 s): {by_size}.")
    if options.svg:
        title = f"Milliseconds by the number of orders ({options.database})"
        options.svg.write_text(drawn(title, {name: figures[name] for name in SHOWN}), "utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks backlog", description=__doc__)
    parser.add_argument("figure", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")], default=list(SIZES))
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--svg", type=Path, help="the file for the curves")
    return parser.parse_args()


@contextmanager
def _seeded(database: str, orders: int) -> Iterator[str]:
    """Create a database with `orders` orders; yields its address, and drops the database afterwards."""
    with ExitStack() as stack:
        if database == "sqlite":
            url = f"sqlite:///{stack.enter_context(TemporaryDirectory(prefix='mcc-backlog-'))}/mcc.db"
        else:
            url = stack.enter_context(postgres_url())
        upgrade(url)
        seed(url, orders)
        yield url


def measured(urls: Mapping[int, str]) -> tuple[Figures, Mapping[str, Sequence[str]]]:
    """Milliseconds of each operation by size, and the query plan of each operation on the largest database.

    Every operation runs on all sizes in alternation, so that load on the machine affects all of them alike.
    """
    figures: dict[str, dict[int, float]] = {}
    steps: dict[str, Sequence[str]] = {}
    with ExitStack() as stack:
        stores = {size: open_store(url) for size, url in urls.items()}
        for store in stores.values():
            stack.callback(store.close)
        for sized in zip(*(Backlog(store).operations() for store in stores.values()), strict=True):
            by_size = dict(zip(stores, sized, strict=True))
            name, largest = sized[0].name, max(by_size)
            figures[name] = {size: milliseconds(operation) for size, operation in by_size.items()}
            if not by_size[largest].once:
                steps[name] = plans(stores[largest].database, by_size[largest].cases[0])
    return figures, steps


def show(database: str, figures: Figures, plans_by_name: Mapping[str, Sequence[str]]) -> None:
    sizes = sorted(next(iter(figures.values())))
    rows = []
    for name, by_size in figures.items():
        ratio = by_size[sizes[-1]] / by_size[sizes[0]]
        first = next((step for step in plans_by_name.get(name, ()) if "json_each" not in step), "")
        rows.append((name, *(f"{by_size[size]:.2f}" for size in sizes), f"{ratio:.2f}", first))
    head = (
        "operation",
        *(f"{size:,} orders" for size in sizes),
        f"ratio (target: <= {TARGET})",
        "first step of the plan",
    )
    table(f"Milliseconds with a backlog ({database})", head, rows)
    print(f"  Median of the ratios: {median(float(row[-2]) for row in rows):.2f}.")
    for name, steps in plans_by_name.items():
        if whole := full_scans(steps):
            print(f"  Reads a whole table: {name} ({'; '.join(whole)})")
