"""A session that is deleted while a drone works on a turn of it: the turn is cancelled, and nothing is left."""

import asyncio

import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.status import OrderStatus
from mcc.store.database.errors import UnknownOrder, UnknownSession
from tests.conformance.store.test_deleting_sessions import rows_of
from tests.drone.worker.test_earlier_turns import Talk


async def test_the_turn_that_runs_is_cancelled_and_nothing_of_the_session_is_left() -> None:
    async with Talk() as talk:
        first = await talk.say("one")
        running, queued = (talk.place(prompt, session_id=first.session_id) for prompt in ("slowly", "later"))
        working = asyncio.create_task(talk.runner.work(running.id))
        await talk.held.wait()
        talk.store.removal.begin(first.session_id, by=Actor("test"))
        talk.store.removal.advance()
        for run in talk.executions:
            await run.take(talk.store.controls.pending({running.id: run.seen}))
        await working
        assert talk.store.orders.get(running.id).status is OrderStatus.CANCELLED
        for _ in range(5):
            talk.store.removal.advance()
        assert rows_of(talk.store, {first.id, running.id, queued.id}) == {}
        for order in (first, running, queued):
            with pytest.raises(UnknownOrder):
                talk.store.orders.get(order.id)
        with pytest.raises(UnknownSession):
            talk.place("more", session_id=first.session_id)
        assert (await talk.say("another session")).session_id != first.session_id
