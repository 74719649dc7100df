"""What a connection pooler in transaction mode costs: reads, renewals and whole orders beside a direct connection."""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from statistics import median

import psycopg

from benchmarks.journal import postgres_url
from benchmarks.summary import Promise
from benchmarks.workload import table
from mcc.contracts.callers import Actor
from mcc.contracts.order import NewOrder
from mcc.store.database.migrate import upgrade
from mcc.store.store import Store, open_store
from mcc.testing.hand_drone import HandDrone
from tests.faults.pgbouncer import NoPgBouncer, pgbouncer_before

ROUNDS, TIMES = 15, 20
ENTRIES = 8
TARGETS = {"one order read": 6.0, "a renewal, committed": 3.0, f"an order with {ENTRIES} entries, committed": 3.0}
"""The most that each may take, in times of what it takes on a direct connection."""

Work = Callable[[], object]


def operations(store: Store) -> Mapping[str, Work]:
    drone = HandDrone(store)
    known = store.orders.place(NewOrder(prompt="x"), by=Actor("bench")).order.id

    def renew() -> None:
        store.leases.renew(drone.incarnation, lease_seconds=3_600.0, active=0)

    def order() -> None:
        held = drone.claim(store.orders.place(NewOrder(prompt="x"), by=Actor("bench")).order.id)
        held.start()
        for _ in range(ENTRIES):
            held.steps(1)
        held.finish()

    works: tuple[Work, ...] = (lambda: store.orders.get(known), renew, order)
    return dict(zip(TARGETS, works, strict=True))


def micros_of(work: Work, times: int) -> float:
    begun = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - begun) / times * 1e6


def compared(direct: Mapping[str, Work], pooled: Mapping[str, Work]) -> list[Promise]:
    """In alternation, so that both meet the same machine."""
    rows, promises = [], []
    for what, target in TARGETS.items():
        times = TIMES if "order with" not in what else 2
        took = [(micros_of(direct[what], times), micros_of(pooled[what], times)) for _ in range(ROUNDS)]
        one, other = median(pair[0] for pair in took), median(pair[1] for pair in took)
        rows.append((what, f"{one:,.0f} µs", f"{other:,.0f} µs", f"{other / one:.1f}"))
        promises.append(Promise(f"{what}, through a pooler", other / one, target, "times", note=f"{other:,.0f} µs"))
    table("PostgreSQL, directly and through PgBouncer in transaction mode", ("", "direct", "pooled", "ratio"), rows)
    return promises


def main() -> list[Promise]:
    with ExitStack() as stack:
        try:
            url = stack.enter_context(postgres_url())
            through = stack.enter_context(pgbouncer_before(url, "transaction"))
        except psycopg.OperationalError as error:
            print(f"\nThe price of a pooler: not measured, {str(error).splitlines()[0]}")
            return []
        except NoPgBouncer as why:
            print(f"\nThe price of a pooler: not measured, {why}")
            return []
        upgrade(url)
        stores = [open_store(url), open_store(through)]
        for store in stores:
            stack.callback(store.close)
        return compared(*map(operations, stores))


if __name__ == "__main__":
    main()
