"""This room is for turns with the real store behind them: placed, claimed, journaled in groups, finished."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

from benchmarks.workload import LIMITS, our_turn, prompt_of_a_turn
from drone.agent.ports import Model
from drone.worker.ending import Finisher
from drone.worker.refusals import Refusals
from drone.worker.runs import Runs
from drone.worker.told import Teller
from drone.worker.writer import Writer
from mcc.contracts.drones import Registration
from mcc.contracts.fold import Fold
from mcc.contracts.ids import fresh_id
from mcc.contracts.order import NewOrder, Outcome
from mcc.contracts.status import OrderStatus
from mcc.dispatch.hints import Told
from mcc.store.migrate import upgrade
from mcc.store.offload import Offload
from mcc.store.ports import Store
from mcc.store.sql.store import open_store

LEASE_SECONDS = 600.0


class Trusted:
    """A lease that is not in question."""

    trusted = True


class Silent:
    """Nobody watches."""

    async def tell(self, told: Iterable[Told]) -> bool:
        return True


@asynccontextmanager
async def stored_turns(database_url: str, model: Model) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """A function that runs one whole turn on the database: what a drone does between a message and the order's end."""
    upgrade(database_url)
    store = open_store(database_url)
    incarnation = _register(store)
    offload, teller, runs = Offload(4), Teller(Silent()), Runs()
    writer = Writer(store, Trusted(), teller)
    finisher = Finisher(store, offload, teller)
    committing = asyncio.create_task(writer.run())

    async def turn() -> None:
        placed = await offload(
            store.orders.place, NewOrder(prompt=prompt_of_a_turn(), limits=LIMITS), principal="bench"
        )
        run = runs.enter(placed.order.id)
        claim = await offload(
            store.claims.claim, placed.order.id, incarnation=incarnation, claim_token=fresh_id(), drone="bench"
        )
        if run is None or claim is None:
            raise RuntimeError("an order of the benchmark could not be claimed")
        fold = Fold(claim.order.id, claim.order.session_id)
        fold.last_seq, fold.attempt = claim.last_seq, 1
        journal = writer.open(claim.order.id, claim.epoch, fold)
        run.hold(claim, journal, Refusals(store.controls, offload))
        answer = await our_turn(model, journal, claim.order.id)
        await finisher.finish(run, Outcome(status=OrderStatus.SUCCEEDED, answer=answer))
        runs.leave(run)

    try:
        yield turn
    finally:
        committing.cancel()
        writer.close()
        offload.close()
        store.close()


def _register(store: Store) -> str:
    incarnation = fresh_id()
    drone = Registration(
        incarnation=incarnation, name="bench", pid=1, host="here", version="0", queues=("default",), slots=1000
    )
    store.leases.register(drone, lease_seconds=LEASE_SECONDS)
    return incarnation
