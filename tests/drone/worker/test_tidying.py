"""Worktrees are deleted once their orders have ended, including orders cancelled while they waited."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from typing import cast

import pytest

from drone.crew import Crew
from drone.worker.tidying import AGAIN, Tidying
from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.ids import fresh_id
from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.store.rows.values import Parking
from tests.drone.worker.bench_of_orders import Bench


class Left:
    """A crew with the worktrees that orders left on this machine; `rounds` counts the looks at them."""

    def __init__(self, orders: Collection[str], *, stay: Collection[str] = ()) -> None:
        self.orders = [*orders]
        self.stay = stay
        self.tried: list[str] = []
        self.rounds = 0
        self.until: Callable[[], bool] = lambda: False
        self.reached = asyncio.Event()

    def orders_with_worktrees(self) -> list[str]:
        self.rounds += 1
        if self.until():
            self._loop.call_soon_threadsafe(self.reached.set)
        return [*self.orders]

    async def clear_up(self, order_id: str) -> int:
        self.tried.append(order_id)
        if order_id in self.stay:
            return 1
        self.orders.remove(order_id)
        return 0

    async def looked_at(self, bench: Bench, until: Callable[[], bool]) -> None:
        self.until, self._loop = until, asyncio.get_running_loop()
        tidying = Tidying(bench.async_store, cast(Crew, self), every_seconds=0.0)
        running = asyncio.create_task(tidying.run())
        await self.reached.wait()
        running.cancel()
        await asyncio.wait((running,))


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with Bench() as made:
        yield made


async def test_the_worktrees_of_an_order_cancelled_while_waiting_are_deleted(bench: Bench) -> None:
    waiting, cancelled = bench.place("waits"), bench.place("waits, too")
    for order in (waiting, cancelled):
        claim = bench.claim(order)
        bench.store.claims.park(
            Parking(
                order_id=order.id,
                epoch=claim.epoch,
                last_seq=claim.last_seq,
                control_seq=0,
                reason=WaitingReason.APPROVAL,
                message="waits",
            ),
        )
    bench.store.controls.request(cancelled.id, ControlKind.CANCEL, NewControl(), by=Actor("test"))
    assert bench.store.orders.get(cancelled.id).status is OrderStatus.CANCELLED
    left = Left([waiting.id, cancelled.id])
    await left.looked_at(bench, lambda: left.rounds > 3)
    assert left.tried == [cancelled.id] and left.orders == [waiting.id]


async def test_worktrees_that_cannot_be_deleted_are_tried_again_now_and_then(bench: Bench) -> None:
    unknown = fresh_id()
    left = Left([unknown], stay=[unknown])
    await left.looked_at(bench, lambda: left.rounds > AGAIN + 3)
    assert left.tried == [unknown] * 2
