"""Turns on the real store: placed, claimed, journaled in groups, finished."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TypeAlias

from benchmarks.workload import LIMITS, our_turn, prompt_of_a_turn
from drone.agent.ports.journal import Journal
from drone.agent.ports.model import Model
from drone.agent.state.tree import Tree
from drone.worker.broadcaster import Broadcaster
from drone.worker.ending import Finisher
from drone.worker.executions import Executions, Refusals
from drone.worker.journal import Writer
from drone.worker.loop import AsyncStore
from mcc.contracts.callers import Actor
from mcc.contracts.drones import Registration
from mcc.contracts.fold import Fold
from mcc.contracts.ids import fresh_id
from mcc.contracts.order import NewOrder, OrderOutcome, WorkOrder
from mcc.contracts.status import OrderStatus
from mcc.dispatch.publisher import Message
from mcc.store.database.migrate import upgrade
from mcc.store.store import Store, open_store

LEASE_SECONDS = 600.0


class Trusted:
    """A lease that is always trusted."""

    trusted = True


class Silent:
    """A publisher that discards everything."""

    async def publish(self, messages: Iterable[Message]) -> bool:
        return True

    def report_status(self, order: WorkOrder, why: str = "") -> None:
        pass


Play: TypeAlias = Callable[[Model, Journal, str], Awaitable[str]]
"""Runs the turn of the order of this id; answers its text."""


@asynccontextmanager
async def stored_turns(
    database_url: str, model: Model, broadcaster: Broadcaster | None = None, play: Play = our_turn
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Yields a function that runs one whole turn on the database: what a drone does from a message to the order's end.

    The caller of a `broadcaster` runs it; without one, a broadcaster that discards everything is run here.
    """
    upgrade(database_url)
    store = open_store(database_url)
    incarnation = _register(store)
    runs_broadcaster, broadcaster = broadcaster is None, broadcaster or Broadcaster(Silent())
    calls, executions = AsyncStore(store), Executions()
    writer = Writer(store, Trusted(), broadcaster)
    finisher = Finisher(calls, broadcaster)
    tasks = [asyncio.create_task(writer.run())]
    if runs_broadcaster:  # One that does not run would collect messages without end.
        tasks.append(asyncio.create_task(broadcaster.run()))

    async def turn() -> None:
        placed = await calls.once(
            lambda store: store.orders.place(NewOrder(prompt=prompt_of_a_turn(), limits=LIMITS), by=Actor("bench"))
        )
        execution = executions.enter(placed.order.id)
        claim = await calls.once(
            lambda store: store.claims.claim(
                placed.order.id, incarnation=incarnation, claim_token=fresh_id(), drone="bench"
            )
        )
        if execution is None or claim is None:
            raise RuntimeError("an order of the benchmark could not be claimed")
        fold = Fold(claim.order.id, claim.order.session_id)
        fold.last_seq, fold.attempt = claim.last_seq, 1
        journal = writer.open(claim.order.id, claim.epoch, fold)
        execution.hold(claim, journal, Refusals(calls), Tree())
        answer = await play(model, journal, claim.order.id)
        await finisher.finish(execution, OrderOutcome(status=OrderStatus.SUCCEEDED, answer=answer))
        executions.leave(execution)

    try:
        yield turn
    finally:
        for task in tasks:
            task.cancel()
        writer.close()
        calls.close()
        store.close()


def _register(store: Store) -> str:
    incarnation = fresh_id()
    drone = Registration(
        incarnation=incarnation, name="bench", pid=1, host="here", version="0", queues=("default",), slots=1000
    )
    store.leases.register(drone, lease_seconds=LEASE_SECONDS)
    return incarnation
