"""A drone that an operator told so takes no orders, hands back those that it has, and takes orders again."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

from drone.sandbox.custody import Custody
from drone.worker.claiming import Slots
from drone.worker.executions import Execution, Executions, Stop
from drone.worker.strays import WHY, Draining
from mcc.redaction import Redactor
from mcc.store.database.errors import StoreUnavailable
from mcc.store.rows.values import Claim


class Held:
    """Orders that are held here; each ends when it is stopped, and is handed back. `away`: how often the database does
    not answer."""

    def __init__(self, away: int = 0) -> None:
        self.slots = Slots(4)
        self.executions = Executions(Redactor)
        self.away = away
        self.returned: list[Any] = []
        self.emptied = asyncio.Event()
        self.took_orders = asyncio.Event()
        self.looked = 0
        self.draining = Draining(self.slots, self.executions, Custody(), self.hand_back, self.look)

    def begin(self, order_id: str) -> "asyncio.Task[None]":
        execution = self.executions.enter(order_id)
        assert execution is not None
        return asyncio.create_task(self._run(execution))

    async def _run(self, execution: Execution) -> None:
        await execution.stopping
        execution._held = cast(Any, (execution.order_id, None))
        self.executions.leave(execution)

    async def hand_back(self, claims: Sequence[Claim], why: str) -> None:
        assert why == WHY
        if self.away:
            self.away -= 1
            raise StoreUnavailable("the database is away")
        self.returned += claims
        self.emptied.set()

    def look(self) -> None:
        self.looked += 1
        self.took_orders.set()


async def _over(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def test_closed_slots_take_nothing_whatever_it_is() -> None:
    slots = Slots(2)
    slots.close(True)
    assert (slots.free, slots.take(), slots.take(alone=True)) == (0, False, False)
    slots.close(False)
    assert slots.free == 2 and slots.take()


async def test_a_drone_that_ends_its_orders_stops_none_of_them() -> None:
    held = Held()
    working = held.begin("one")
    running = asyncio.create_task(held.draining.run())
    held.draining.told("finish")
    await asyncio.sleep(0)
    execution = held.executions.get("one")
    assert execution is not None and execution.stop is None and held.slots.free == 0
    held.draining.told(None)
    assert (held.slots.free, held.looked) == (4, 1)
    await _over(working)
    await _over(running)


async def test_orders_are_handed_back_once_they_have_stopped() -> None:
    held = Held()
    for order_id in ("one", "two"):
        held.begin(order_id)
    running = asyncio.create_task(held.draining.run())
    held.draining.told("hand_back")
    await held.emptied.wait()
    assert held.returned == ["one", "two"] and len(held.executions) == 0
    await _over(running)
    assert held.executions.stopped_to_hand_back() == []


async def test_what_could_not_be_handed_back_is_tried_again() -> None:
    held = Held(away=1)
    held.begin("one")
    running = asyncio.create_task(held.draining.run())
    held.draining.told("hand_back")
    await held.emptied.wait()
    assert held.returned == ["one"] and held.away == 0
    await _over(running)


async def test_an_order_of_which_the_claim_was_on_its_way_is_stopped_as_well() -> None:
    held = Held()
    execution = held.executions.enter("one")
    assert execution is not None
    running = asyncio.create_task(held.draining.run())
    held.draining.told("hand_back")
    await execution.stopping
    assert execution.stop is Stop.HAND_BACK
    # The claim failed: there is nothing to hand back.
    held.executions.leave(execution)
    await _over(running)
    assert held.returned == []


async def test_what_was_stopped_is_handed_back_though_the_drone_is_told_to_take_orders_again() -> None:
    held = Held(away=1)
    held.begin("one")
    stubborn = held.executions.enter("two")
    assert stubborn is not None
    running = asyncio.create_task(held.draining.run())
    held.draining.told("hand_back")
    await stubborn.stopping
    held.draining.told(None)
    assert (held.slots.free, held.looked) == (0, 0)
    stubborn._held = cast(Any, ("two", None))
    held.executions.leave(stubborn)
    await held.took_orders.wait()
    assert held.returned == ["one", "two"] and held.slots.free == 4
    await _over(running)
