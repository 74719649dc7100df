"""What each operation costs with 1,000 orders in the database, and with a hundred or a thousand times as many.

    python -m benchmarks backlog [--sizes 1000,10000,100000] [--database sqlite|postgresql] [--svg FILE]

On PostgreSQL `--sizes 1000,1000000` makes ten million journal entries: a quarter of an hour, and 12 GB of disk.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.backlog.curves import drawn
from benchmarks.backlog.first_claim import seconds_to_first_claim
from benchmarks.backlog.operations import Backlog, Operation, milliseconds
from benchmarks.backlog.plans import full_scans, plans
from benchmarks.backlog.seed import seed
from benchmarks.journal import postgres_url
from benchmarks.workload import table
from mcc.store.migrate import upgrade
from mcc.store.store import open_store

SIZES = (1_000, 10_000, 100_000)
HOLD = 1.5
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
    asked = _asked()
    with ExitStack() as stack:
        urls = {size: stack.enter_context(_seeded(asked.database, size)) for size in asked.sizes}
        figures, found = measured(urls)
        first = {size: seconds_to_first_claim(url) for size, url in urls.items()}
    show(asked.database, figures, found)
    told = ", ".join(f"{seconds:.2f} s with {size:,} orders" for size, seconds in first.items())
    print(f"  A drone's first claim after its registration (hold: 2 s): {told}.")
    if asked.svg:
        title = f"Milliseconds by the number of orders ({asked.database})"
        asked.svg.write_text(drawn(title, {name: figures[name] for name in SHOWN}), "utf-8")


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks backlog", description=__doc__)
    parser.add_argument("figure", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")], default=list(SIZES))
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--svg", type=Path, help="where the curves are written")
    return parser.parse_args()


@contextmanager
def _seeded(database: str, orders: int) -> Iterator[str]:
    """The address of a database of its own with so many orders, gone afterwards."""
    with ExitStack() as stack:
        if database == "sqlite":
            url = f"sqlite:///{stack.enter_context(TemporaryDirectory(prefix='mcc-backlog-'))}/mcc.db"
        else:
            url = stack.enter_context(postgres_url())
        upgrade(url)
        seed(url, orders)
        yield url


def measured(urls: Mapping[int, str]) -> tuple[Figures, Mapping[str, Sequence[str]]]:
    """Milliseconds of each operation by size, and how the largest database finds what it asks for.

    The sizes take turns in every operation, so that a busy machine is busy for all of them.
    """
    figures: dict[str, dict[int, float]] = {}
    found: dict[str, Sequence[str]] = {}
    with ExitStack() as stack:
        stores = {size: open_store(url) for size, url in urls.items()}
        for store in stores.values():
            stack.callback(store.close)
        for same in zip(*(Backlog(store).operations() for store in stores.values()), strict=True):
            by_size = dict(zip(stores, same, strict=True))
            name, largest = same[0].name, max(by_size)
            figures[name] = {size: milliseconds(operation) for size, operation in by_size.items()}
            if not by_size[largest].once:
                found[name] = plans(stores[largest].database, by_size[largest].cases[0])
    return figures, found


def show(database: str, figures: Figures, found: Mapping[str, Sequence[str]]) -> None:
    sizes = sorted(next(iter(figures.values())))
    rows = []
    for name, by_size in figures.items():
        ratio = by_size[sizes[-1]] / by_size[sizes[0]]
        first = next((step for step in found.get(name, ()) if "json_each" not in step), "")
        rows.append((name, *(f"{by_size[size]:.2f}" for size in sizes), f"{ratio:.2f}", first))
    head = ("operation", *(f"{size:,} orders" for size in sizes), f"ratio, <= {HOLD}", "first step of the plan")
    table(f"Milliseconds with a backlog ({database})", head, rows)
    print(f"  Median of the ratios: {median(float(row[-2]) for row in rows):.2f}.")
    for name, steps in found.items():
        if whole := full_scans(steps):
            print(f"  Reads a whole table: {name} ({'; '.join(whole)})")


__all__ = ["Operation", "main", "measured", "show"]
