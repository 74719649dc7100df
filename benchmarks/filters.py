"""A request for a page of orders, by one filter or several, among many orders, beside a page without a filter.

    python -m benchmarks filters [--orders 100000] [--database sqlite|postgresql]

`--database postgresql --orders 1000000` takes eight minutes and 4 GB of disk. What is counted is the whole read of a
page of 50 summaries: the search, the rows, what waits for people. Of seven requests alike the median is shown.
"""

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy.engine import Connection

from benchmarks.backlog.seed import DAYS, Dialect, Originals, bulk_transaction
from benchmarks.journal import postgres_url
from benchmarks.summary import Promise
from benchmarks.workload import table
from mcc.contracts.order_lists import OrderCriteria
from mcc.contracts.shape import now
from mcc.store.database.columns import Row
from mcc.store.database.migrate import upgrade
from mcc.store.store import Store, open_store

ORDERS = 100_000
LIMIT_MS = 100.0
RUNS = 7
FILLERS = 20
"""Words of each order beside those that are asked for, out of 50,000."""

STATUSES = ("short", "short", "short", "short", "short", "short", "failed", "cancelled", "approval", "queued")
"""The original of each tenth order; the newest 1,000 are queued, as in a database whose drones keep up."""

CASES: Mapping[str, Mapping[str, Any]] = {
    "no filter: by id": {},
    "status succeeded": {"status": ["succeeded"]},
    "status waiting": {"status": ["waiting"]},
    "agent of half": {"agent": ["half"]},
    "agent of one in 10,000": {"agent": ["rare"]},
    "model of a fifth": {"model": ["model-3"]},
    "model of none": {"model": ["none"]},
    "drone of a fiftieth": {"drone": ["drone-7"]},
    "label of half": {"label": ["nightly"]},
    "label of 40": {"label": ["batch-11"]},
    "person of a hundredth": {"who": ["person:7"]},
    "person of none": {"who": ["nobody"]},
    "cause of a failure": {"fingerprint": ["00000000000a"]},
    "needs input": {"group": "needs_input"},
    "working": {"group": "working"},
    "done": {"group": "done"},
    "a day, a month ago": {"since": now() - timedelta(days=DAYS - 1), "until": now() - timedelta(days=DAYS - 2)},
    "word of all": {"text": "common"},
    "word of half": {"text": "half"},
    "word of a hundredth": {"text": "hundredth"},
    "word of one in 10,000": {"text": "rarity"},
    "word of none": {"text": "nowhere"},
    "the oldest word": {"text": "oldest"},
    "two words, together in none": {"text": "half other"},
    "agent and label, half each": {"agent": ["half"], "label": ["nightly"]},
    "agent, model, drone": {"agent": ["half"], "model": ["model-3"], "drone": ["drone-7"]},
    "agent of half, word of a hundredth": {"agent": ["half"], "text": "hundredth"},
    "label of half, word of half, failed": {"label": ["nightly"], "text": "half", "status": ["failed"]},
    "status and person, in none together": {"status": ["failed"], "who": ["person:7"]},
    "rare agent, common word": {"agent": ["rare"], "text": "common"},
}


def main() -> list[Promise]:
    options = _options()
    promises: list[Promise] = []
    for database in (options.database,) if options.database else ("sqlite", "postgresql"):
        with _seeded(database, options.orders) as store:
            figures = measured(store)
        show(database, options.orders, figures)
        worst = max(figures, key=lambda name: max(figures[name]))
        what = f"a filtered page of {options.orders:,} orders ({database})"
        promises.append(Promise(what, max(figures[worst]), LIMIT_MS, "ms", note=f"slowest: {worst}"))
    return promises


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks filters", description=__doc__)
    parser.add_argument("figure", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--orders", type=int, default=ORDERS)
    parser.add_argument("--database", choices=("sqlite", "postgresql"))
    return parser.parse_args()


@contextmanager
def _seeded(database: str, orders: int) -> Iterator[Store]:
    with ExitStack() as stack:
        if database == "sqlite":
            url = f"sqlite:///{stack.enter_context(TemporaryDirectory(prefix='mcc-filters-'))}/mcc.db"
        else:
            url = stack.enter_context(postgres_url())
        upgrade(url)
        store = open_store(url)
        stack.callback(store.close)
        began = time.monotonic()
        originals = Originals(store).make()
        with bulk_transaction(store) as connection:
            Seeds(connection, originals.ids, orders).plant()
        print(f"  {database}: {orders:,} orders made in {time.monotonic() - began:.0f} s", flush=True)
        yield store


def measured(store: Store) -> Mapping[str, Sequence[float]]:
    """Milliseconds of the first page, and of the page that follows it where there is one, by case."""
    figures: dict[str, list[float]] = {}
    for name, filters in CASES.items():
        criteria = OrderCriteria.model_validate(filters)
        first, cursor = _page(store, criteria, None)
        figures[name] = [first] if cursor is None else [first, _page(store, criteria, cursor)[0]]
    return figures


def _page(store: Store, criteria: OrderCriteria, cursor: str | None) -> tuple[float, str | None]:
    times: list[float] = []
    for _ in range(RUNS):
        began = time.perf_counter()
        page = store.order_lists.summaries(criteria, cursor=cursor, limit=50)
        times.append(1_000 * (time.perf_counter() - began))
    return median(times), page.next_cursor


def show(database: str, orders: int, figures: Mapping[str, Sequence[float]]) -> None:
    plain = figures[next(iter(CASES))][0]
    rows = [
        (name, f"{times[0]:.1f}", f"{times[1]:.1f}" if len(times) > 1 else "", f"{times[0] / plain:.1f}")
        for name, times in figures.items()
    ]
    head = ("filters", "first page, ms", "second page, ms", "first page, by id = 1")
    table(f"A page of 50 among {orders:,} orders ({database})", head, rows)


class Seeds:
    """Orders made by bulk SQL: rows of `orders`, `order_state`, labels, items and words, without journals."""

    def __init__(self, connection: Connection, originals: Mapping[str, str], orders: int) -> None:
        self._connection = connection
        self._originals = originals
        self._orders = orders
        self._dialect = Dialect(connection.dialect.name)

    def _run(self, statement: str) -> None:
        self._connection.exec_driver_sql(statement.replace("%", "%%") if not self._dialect.is_sqlite else statement)

    def plant(self) -> None:
        begun = int((now() - timedelta(days=DAYS)).timestamp() * 1_000)
        stride = max(DAYS * 86_400_000 // self._orders, 1)
        milliseconds = f"{begun} + k * {stride}"
        by_tenth = " ".join(f"WHEN {number} THEN '{self._originals[name]}'" for number, name in enumerate(STATUSES))
        queued = self._originals["queued"]
        original = f"CASE WHEN k >= {self._orders - 1_000} THEN '{queued}' ELSE CASE k % 10 {by_tenth} END END"
        self._run("CREATE TABLE planted (n bigint, original text, id text, at bigint)")
        self._run(
            f"INSERT INTO planted SELECT k, {original}, {self._dialect.order_id('k', milliseconds)},"
            f" ({milliseconds}) * 1000 FROM {self._dialect.numbers(self._orders)}"
        )
        session = "replace(p.id, '-8000-', '-9000-')"
        self._run(
            "INSERT INTO sessions (id, title_json, principal, created_at, turns, last_order_id)"
            f" SELECT {session}, '\"\"', 'operator', p.at, 1, p.id FROM planted p"
        )
        self._copy(
            "orders",
            "id",
            session_id=session,
            session_seq="1",
            created_at="p.at",
            principal="'person:' || (p.n % 100)",
            agent="CASE WHEN p.n % 10000 = 4 THEN 'rare' WHEN p.n % 2 = 0 THEN 'half' ELSE 'master' END",
            model="'model-' || (p.n % 5)",
            last_drone="CASE WHEN o.finished_at IS NULL THEN NULL ELSE 'drone-' || (p.n % 50) END",
            fingerprint="CASE WHEN o.fingerprint IS NULL THEN NULL"
            f" ELSE {self._dialect.hexadecimal('p.n / 10 % 30', 12)} END",
            finished_at="CASE WHEN o.finished_at IS NULL THEN NULL ELSE p.at + 40000000 END",
        )
        self._copy("order_state", "order_id", session_id=session, session_seq="1")
        self._copy("approvals", "order_id", id="'a' || p.id", requested_at="p.at + 3000000", call_id="'call-' || p.n")
        self._run("INSERT INTO order_labels (label, order_id) SELECT 'nightly', id FROM planted WHERE n % 4 < 2")
        self._run("INSERT INTO order_labels (label, order_id) SELECT 'batch-' || (n / 40), id FROM planted")
        fillers = " || ' w' || ".join(f"((n * {7919 + 2 * number} + {number}) % 50000)" for number in range(FILLERS))
        asked = (
            "CASE WHEN n % 2 = 0 THEN ' whalf' ELSE ' wother' END"
            " || CASE WHEN n % 100 = 7 THEN ' whundredth' ELSE '' END"
            " || CASE WHEN n % 10000 = 9 THEN ' wrarity' ELSE '' END"
            " || CASE WHEN n = 3 THEN ' woldest' ELSE '' END"
        )
        self._run(
            "INSERT INTO order_words (number, order_id, words)"
            f" SELECT n, id, ' wcommon' || {asked} || ' w' || {fillers} || ' ' FROM planted ORDER BY n"
        )
        self._run("DROP TABLE planted")

    def _copy(self, name: str, owner: str, **changed: str) -> None:
        """Copy the rows of a table whose column `owner` holds the id of an original."""
        columns = [column.name for column in Row.metadata.tables[name].columns]
        chosen = ", ".join({owner: "p.id", **changed}.get(column, f"o.{column}") for column in columns)
        self._run(
            f"INSERT INTO {name} ({', '.join(columns)}) SELECT {chosen} FROM planted p"
            f" JOIN {name} o ON o.{owner} = p.original"
        )
