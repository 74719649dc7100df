"""Orders accepted and claimed per second, beside Celery's own `delay()` in the same run.

    python -m benchmarks.submit [--orders 2000]

The service runs in its own process, without drones, so it does nothing but accept orders. This process submits them,
one request or call after the other. Each accepted order is committed to the service's database, whereas `delay()` only
writes a message to the service's Redis.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from celery import Celery

from benchmarks.journal import postgres_url, sqlite_url
from benchmarks.orders import Cpu
from benchmarks.plain_celery import PREFIX
from benchmarks.service import Installation, installed
from benchmarks.summary import Promise
from benchmarks.workload import table
from mcc.contracts.callers import Actor
from mcc.contracts.drones import Registration
from mcc.contracts.ids import fresh_id
from mcc.contracts.order import NewOrder
from mcc.store.database.migrate import upgrade
from mcc.store.rows.values import BatchOrder, ClaimingDrone, ClaimRequest
from mcc.store.store import Store, open_store

ORDERS, GROUP, SINGLE, CLAIMED, WARM = 2_000, 500, 200, 400, 50
TARGET = 1_000
"""Orders accepted per second, in groups."""
SUBMIT_HEAD = ("submitted by", "orders/s", "CPU of the service", "CPU of the caller", "orders per s of its CPU")
CLAIM_HEAD = ("claimed", "orders/s", "CPU", "orders per s of CPU")


@dataclass(frozen=True, slots=True)
class Took:
    """Wall-clock seconds, and seconds of CPU of the caller and of the service, for `orders` orders."""

    orders: int
    wall: float
    caller: float
    service: float = 0.0

    @property
    def rate(self) -> float:
        return self.orders / self.wall

    def per_order(self, seconds: float) -> str:
        return f"{1000 * seconds / self.orders:.2f} ms"

    def submit_row(self, what: str) -> tuple[str, ...]:
        of_cpu = self.orders / max(self.service, self.caller)
        return what, f"{self.rate:,.0f}", self.per_order(self.service), self.per_order(self.caller), f"{of_cpu:,.0f}"

    def claim_row(self, what: str) -> tuple[str, ...]:
        return what, f"{self.rate:,.0f}", self.per_order(self.caller), f"{self.orders / self.caller:,.0f}"


def order_fields(number: int) -> dict[str, Any]:
    prompt = f"Which functions of module {number} have no test? Name each with its file and line."
    return {"prompt": prompt, "labels": ["bench"], "idempotency_key": fresh_id()}


def timed(work: Callable[[], int], here: Installation | None = None) -> Took:
    pids = [here.service] if here is not None else []
    service, caller, wall = Cpu.of(pids), time.process_time(), time.perf_counter()
    orders = work()
    wall, caller = time.perf_counter() - wall, time.process_time() - caller
    return Took(orders, wall, caller, Cpu.of(pids).since(service).own)


def submit_groups(here: Installation, orders: int) -> int:
    for start in range(0, orders, GROUP):
        group = [order_fields(number) for number in range(start, min(start + GROUP, orders))]
        answer = here.client.post("/orders:batch", json={"orders": group}).raise_for_status()
        assert len(answer.json()["items"]) == len(group)
    return orders


def submit_singly(here: Installation, orders: int) -> int:
    for number in range(orders):
        order = order_fields(number)
        key = {"Idempotency-Key": order.pop("idempotency_key")}
        here.client.post("/orders", json=order, headers=key).raise_for_status()
    return orders


def plain_task(broker_url: str) -> Any:
    """A task of plain Celery, which no worker executes."""
    app = Celery("bench", broker=broker_url, set_as_current=False)
    app.conf.update(task_ignore_result=True, broker_transport_options={"global_keyprefix": PREFIX})

    @app.task(name="bench.ask")  # type: ignore[untyped-decorator]
    def ask(order: dict[str, Any]) -> None:
        """Never runs."""

    return ask


def submit_to_celery(task: Any, orders: int) -> int:
    for number in range(orders):
        task.delay(order_fields(number))
    return orders


def measure_submitting(what: str, orders: int, database_url: str | None) -> list[Promise]:
    with installed(0, database_url=database_url) as here:
        task = plain_task(f"redis+socket://{here.settings.data_dir / 'run' / 'redis.sock'}")
        submit_groups(here, WARM)
        submit_singly(here, WARM)
        submit_to_celery(task, WARM)
        groups = timed(lambda: submit_groups(here, orders), here)
        rows = [
            groups.submit_row(f"POST /orders:batch, {GROUP} at a time"),
            timed(lambda: submit_singly(here, SINGLE), here).submit_row("POST /orders, one at a time"),
            (celery := timed(lambda: submit_to_celery(task, orders))).submit_row("Celery's delay(), one at a time"),
        ]
    table(f"Orders accepted, {what}", SUBMIT_HEAD, rows)
    note = f"Celery's delay() {celery.rate:,.0f}"
    return [Promise(f"orders accepted in groups, {what}", groups.rate, TARGET, "a second", at_least=True, note=note)]


@contextmanager
def queued_orders(url: str, orders: int) -> Iterator[tuple[Store, str, Sequence[str]]]:
    """Yields a store, the incarnation of a registered drone, and the ids of `orders` orders that it can claim."""
    upgrade(url)
    store = open_store(url)
    try:
        incarnation = fresh_id()
        drone = Registration(
            incarnation=incarnation, name="bench", pid=1, host="here", version="0", queues=("default",), slots=orders
        )
        store.leases.register(drone, lease_seconds=600.0)
        placed = store.orders.place_all([BatchOrder(NewOrder(prompt="bench"))] * orders, by=Actor("bench"))
        yield store, incarnation, [one.order.id for one in placed]
    finally:
        store.close()


def measure_claiming(what: str, url: str) -> None:
    with queued_orders(url, 2 * CLAIMED + WARM) as (store, incarnation, orders):

        def claim(order_ids: Sequence[str], size: int) -> int:
            for start in range(0, len(order_ids), size):
                by = ClaimingDrone("bench", incarnation, fresh_id(), alone=False)
                claims = store.claims.claim_together([ClaimRequest(one) for one in order_ids[start : start + size]], by)
                assert None not in claims
            return len(order_ids)

        claim(orders[:WARM], 1)
        rest = orders[WARM:]
        rows = [
            timed(lambda: claim(rest[:CLAIMED], 1)).claim_row("one at a time"),
            timed(lambda: claim(rest[CLAIMED:], 100)).claim_row("100 at a time"),
        ]
    table(f"Orders claimed, {what}", CLAIM_HEAD, rows)


def main(arguments: Sequence[str] = ()) -> list[Promise]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--orders", type=int, default=ORDERS)
    orders = parser.parse_args(arguments).orders
    found = measure_submitting("SQLite", orders, None)
    with sqlite_url() as url:
        measure_claiming("SQLite", url)
    try:
        with postgres_url() as url:
            found += measure_submitting("PostgreSQL", orders, url)
        with postgres_url() as url:
            measure_claiming("PostgreSQL", url)
    except psycopg.OperationalError as error:
        print(f"\nPostgreSQL: not measured, {str(error).splitlines()[0]}")
    return found


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
