"""Orders that harm a drone end as poison: at once if they froze one before, and when their threads never end."""

import asyncio
from pathlib import Path

from drone.worker.ending import Suspects, threads_exhausted
from mcc.contracts.status import FailureReason, OrderStatus
from tests.drone.worker.bench_of_orders import Bench


async def test_an_order_that_froze_a_drone_of_this_machine_is_not_tried_again(tmp_path: Path) -> None:
    suspects = Suspects(tmp_path / "froze")
    async with Bench(suspects=suspects) as bench:
        order, other = bench.place("hello"), bench.place("hello")
        (suspects.made() / order.id).touch()
        assert all(suspects.holds(order.id) for _ in range(2)), "until its end is written down"
        await bench.runner.work(order.id)
        ended = bench.store.orders.get(order.id)
        assert (ended.status, ended.reason) == (OrderStatus.FAILED, FailureReason.POISON)
        assert not bench.crew.began.is_set(), "no tool of it runs"
        assert not list(suspects.made().iterdir()), "what is settled is forgotten"
        await bench.runner.work(other.id)
        assert bench.store.orders.get(other.id).status is OrderStatus.SUCCEEDED


async def test_an_order_whose_threads_never_end_ends_with_its_drone() -> None:
    async with Bench() as bench:
        order = bench.place("write for ever")
        working = asyncio.create_task(bench.runner.work(order.id))
        await bench.crew.began.wait()
        (run,) = bench.executions
        run.end(threads_exhausted())
        await working
        ended = bench.store.orders.get(order.id)
        assert (ended.status, ended.reason) == (OrderStatus.FAILED, FailureReason.POISON)
