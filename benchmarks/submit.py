"""How many orders are accepted and claimed in a second, beside Celery's own `delay()` in the same run.

    python -m benchmarks.submit [--orders 2000]

The service is a process of its own, without drones, so that nothing but accepting goes on; whoever submits is this
process, one request or call after the other. `delay()` writes a message to the service's own Redis, which keeps
nothing of the orders; each order that the service accepts is committed to its database.
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
from benchmarks.service import Place, place
from benchmarks.summary import Promise
from benchmarks.workload import table
from mcc.contracts.drones import Registration
from mcc.contracts.ids import fresh_id
from mcc.contracts.order import NewOrder
from mcc.store.migrate import upgrade
from mcc.store.store import Store, open_store
from mcc.store.values import BatchOrder, ClaimingDrone, ClaimRequest

ORDERS, GROUP, ALONE, CLAIMED, WARM = 2_000, 500, 200, 400, 50
HOLD = 1_000
"""Orders accepted a second, in groups."""
SUBMIT_HEAD = ("way", "orders/s", "CPU of the service", "CPU of the caller", "orders per s of its CPU")
CLAIM_HEAD = ("way", "orders/s", "CPU", "orders per s of CPU")


@dataclass(frozen=True, slots=True)
class Took:
    orders: int
    wall: float
    caller: float
    service: float = 0.0

    @property
    def rate(self) -> float:
        return self.orders / self.wall

    def each(self, seconds: float) -> str:
        return f"{1000 * seconds / self.orders:.2f} ms"

    def submitted(self, what: str) -> tuple[str, ...]:
        of_cpu = self.orders / max(self.service, self.caller)
        return what, f"{self.rate:,.0f}", self.each(self.service), self.each(self.caller), f"{of_cpu:,.0f}"

    def claimed(self, what: str) -> tuple[str, ...]:
        return what, f"{self.rate:,.0f}", self.each(self.caller), f"{self.orders / self.caller:,.0f}"


def asked(number: int) -> dict[str, Any]:
    prompt = f"Which functions of module {number} have no test? Name each with its file and line."
    return {"prompt": prompt, "labels": ["bench"], "idempotency_key": fresh_id()}


def timed(work: Callable[[], int], here: Place | None = None) -> Took:
    pids = [here.service] if here is not None else []
    service, caller, wall = Cpu.of(pids), time.process_time(), time.perf_counter()
    orders = work()
    wall, caller = time.perf_counter() - wall, time.process_time() - caller
    return Took(orders, wall, caller, Cpu.of(pids).since(service).own)


def together(here: Place, orders: int) -> int:
    for start in range(0, orders, GROUP):
        group = [asked(number) for number in range(start, min(start + GROUP, orders))]
        answer = here.client.post("/orders:batch", json={"orders": group}).raise_for_status()
        assert len(answer.json()["items"]) == len(group)
    return orders


def alone(here: Place, orders: int) -> int:
    for number in range(orders):
        order = asked(number)
        key = {"Idempotency-Key": order.pop("idempotency_key")}
        here.client.post("/orders", json=order, headers=key).raise_for_status()
    return orders


def plain_task(broker_url: str) -> Any:
    """A task of Celery as it comes, which nobody carries out."""
    app = Celery("bench", broker=broker_url, set_as_current=False)
    app.conf.update(task_ignore_result=True, broker_transport_options={"global_keyprefix": PREFIX})

    @app.task(name="bench.ask")  # type: ignore[untyped-decorator]
    def ask(order: dict[str, Any]) -> None:
        """Never runs."""

    return ask


def delayed(task: Any, orders: int) -> int:
    for number in range(orders):
        task.delay(asked(number))
    return orders


def submitted(what: str, orders: int, database_url: str | None) -> list[Promise]:
    with place(0, database_url=database_url) as here:
        task = plain_task(f"redis+socket://{here.settings.data_dir / 'run' / 'redis.sock'}")
        together(here, WARM)
        alone(here, WARM)
        delayed(task, WARM)
        groups = timed(lambda: together(here, orders), here)
        rows = [
            groups.submitted(f"POST /orders:batch, {GROUP} at a time"),
            timed(lambda: alone(here, ALONE), here).submitted("POST /orders, one at a time"),
            (bare := timed(lambda: delayed(task, orders))).submitted("Celery's delay(), one at a time"),
        ]
    table(f"Orders accepted, {what}", SUBMIT_HEAD, rows)
    beside = f"Celery's delay() {bare.rate:,.0f}"
    return [Promise(f"orders accepted in groups, {what}", groups.rate, HOLD, "a second", at_least=True, note=beside)]


@contextmanager
def waiting(url: str, orders: int) -> Iterator[tuple[Store, str, Sequence[str]]]:
    """A store with a registered drone and so many orders that it could claim."""
    upgrade(url)
    store = open_store(url)
    try:
        incarnation = fresh_id()
        drone = Registration(
            incarnation=incarnation, name="bench", pid=1, host="here", version="0", queues=("default",), slots=orders
        )
        store.leases.register(drone, lease_seconds=600.0)
        placed = store.orders.place_all([BatchOrder(NewOrder(prompt="bench"))] * orders, principal="bench")
        yield store, incarnation, [one.order.id for one in placed]
    finally:
        store.close()


def claimed(what: str, url: str) -> None:
    with waiting(url, 2 * CLAIMED + WARM) as (store, incarnation, orders):

        def claim(some: Sequence[str], size: int) -> int:
            for start in range(0, len(some), size):
                by = ClaimingDrone("bench", incarnation, fresh_id(), alone=False)
                found = store.claims.claim_together([ClaimRequest(one) for one in some[start : start + size]], by)
                assert None not in found
            return len(some)

        claim(orders[:WARM], 1)
        rest = orders[WARM:]
        rows = [
            timed(lambda: claim(rest[:CLAIMED], 1)).claimed("one at a time"),
            timed(lambda: claim(rest[CLAIMED:], 100)).claimed("100 at a time"),
        ]
    table(f"Orders claimed, {what}", CLAIM_HEAD, rows)


def main(arguments: Sequence[str] = ()) -> list[Promise]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--orders", type=int, default=ORDERS)
    orders = parser.parse_args(arguments).orders
    found = submitted("SQLite", orders, None)
    with sqlite_url() as url:
        claimed("SQLite", url)
    try:
        with postgres_url() as url:
            found += submitted("PostgreSQL", orders, url)
        with postgres_url() as url:
            claimed("PostgreSQL", url)
    except psycopg.OperationalError as error:
        print(f"\nPostgreSQL: not measured, {str(error).splitlines()[0]}")
    return found


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
