"""An order of an installation that has no drone: its journal is written here, as a drone would write it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.service import Installation
from benchmarks.stored import Trusted
from drone.worker.broadcaster import Broadcaster
from drone.worker.journal import OrderJournal, Writer
from mcc.contracts.callers import Actor
from mcc.contracts.fold import Fold
from mcc.contracts.order import NewOrder
from mcc.dispatch.broker import RedisAt
from mcc.dispatch.publisher import AsyncPublisher
from mcc.store.store import open_store
from mcc.testing.hand_drone import HandDrone


@asynccontextmanager
async def written_order(here: Installation) -> AsyncIterator[OrderJournal]:
    """The journal of a new order, whose entries are announced to viewers."""
    store = open_store(here.settings.database_url)
    publisher = AsyncPublisher(RedisAt(f"unix://{here.settings.data_dir / 'run' / 'redis.sock'}"))
    broadcaster = Broadcaster(publisher)
    writer = Writer(store, Trusted(), broadcaster)
    tasks = [asyncio.create_task(writer.run()), asyncio.create_task(broadcaster.run())]
    placed = store.orders.place(NewOrder(prompt="bench", model="offline"), by=Actor("operator")).order
    held = HandDrone(store).claim(placed.id)
    held.start()
    try:
        yield writer.open(held.id, held.claim.epoch, Fold.of(held.id, store.journal.read(held.id)))
    finally:
        for task in tasks:
            task.cancel()
        await publisher.close()
        writer.close()
        store.close()
