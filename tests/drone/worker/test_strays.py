"""Orders that the database says this drone holds, and that nothing here works on, return to the queue."""

import asyncio
from dataclasses import dataclass

from drone.worker.strays import Strays
from mcc.contracts.order import WorkOrder
from mcc.contracts.status import OrderStatus
from mcc.store.database.errors import StoreUnavailable
from mcc.store.work.claims import Claims
from tests.drone.worker.bench_of_orders import Bench


@dataclass
class Losses:
    """Connections for heartbeats, of which so many were lost."""

    losses: int = 0


def strays_of(bench: Bench) -> tuple[Strays, Losses]:
    losses = Losses()
    bench.with_parts(beats=losses)
    return Strays(bench.async_store, bench.claimant, bench.executions), losses


async def left_behind(bench: Bench) -> WorkOrder:
    """An order that is held by this drone, and that nothing here works on."""
    order = bench.place("hello")
    bench.claim(order)
    return order


async def test_after_a_lost_connection_an_order_that_is_over_here_returns_to_the_queue() -> None:
    async with Bench() as bench:
        strays, connections = strays_of(bench)
        order = await left_behind(bench)
        connections.losses += 1
        await strays.look()
        assert bench.kinds(order.id) == ["order.queued", "order.claimed", "order.handed_back"]
        assert await bench.runner.work(order.id) is not None
        assert bench.store.orders.get(order.id).status is OrderStatus.SUCCEEDED


async def test_nothing_is_looked_for_while_the_connections_last_or_twice_after_one_loss() -> None:
    async with Bench() as bench:
        strays, connections = strays_of(bench)
        order = await left_behind(bench)
        await strays.look()
        assert bench.store.orders.get(order.id).status is OrderStatus.RUNNING
        connections.losses += 1
        await strays.look()
        again = await left_behind(bench)
        await strays.look()
        assert bench.store.orders.get(again.id).status is OrderStatus.RUNNING


async def test_an_order_that_is_at_work_here_is_left_alone() -> None:
    async with Bench() as bench:
        strays, connections = strays_of(bench)
        order = bench.place("sleep 0.02")
        working = asyncio.create_task(bench.runner.work(order.id))
        await bench.crew.began.wait()
        connections.losses += 1
        await strays.look()
        assert await working is not None
        assert "order.handed_back" not in bench.kinds(order.id)


class Away(Claims):
    def held_by(self, incarnation: str) -> list[tuple[str, int]]:
        raise StoreUnavailable("the database is away")


async def test_they_are_looked_for_until_the_database_answers() -> None:
    async with Bench() as bench:
        strays, connections = strays_of(bench)
        order = await left_behind(bench)
        connections.losses += 1
        bench.with_parts(claims=Away(bench.store.database))
        await strays.look()
        bench.with_parts(claims=bench.store.claims)
        await strays.look()
        assert bench.store.orders.get(order.id).status is OrderStatus.QUEUED
