"""The entries of all orders as they are committed, for readers of all of them."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.cancelling import OrdersToCancel
from mcc.contracts.entry import Draft
from mcc.contracts.journal import AgentStep
from mcc.contracts.order import NewOrder
from mcc.feed.firehose import BEHIND_BYTES, BEHIND_SECONDS, LINE_PING, EntryFilters, Firehose, ReaderTooSlow
from mcc.store.database.errors import StoreUnavailable
from mcc.store.lists.movements import MovementStore
from mcc.store.rows.values import Batch
from mcc.store.store import Offload
from mcc.testing import temporary_store
from mcc.testing.hand_drone import HandDrone

NEVER = 3_600.0
SECRET_LOOKING = "\u202esurprise\nnext"


class Scene:
    """A firehose that looks when it is told to, at a time that is told to it."""

    def __init__(self, movements: MovementStore, store: Any) -> None:
        self.at = 100.0
        self.offload = Offload(2)
        self.store = store
        self.drone = HandDrone(store)
        self.firehose = Firehose(movements, self.offload, ping_seconds=NEVER, uptime=lambda: self.at)

    def place(self, **fields: Any) -> str:
        return str(self.store.orders.place(NewOrder(prompt="x", **fields), by=Actor("test", "cli")).order.id)

    async def told(self, lines: AsyncIterator[bytes]) -> list[dict[str, Any]]:
        """What the reader is told of after another look; it has to be something."""
        await self.firehose.look()
        async with asyncio.timeout(30):
            return [json.loads(line) for line in (await anext(lines)).splitlines()]


class FailingMovements(MovementStore):
    """Fails to read entries once, when asked to."""

    fails = False

    def entries(self, order_id: str, after: int, limit: int) -> Any:
        if self.fails:
            self.fails = False
            raise StoreUnavailable("the database is away")
        return super().entries(order_id, after, limit)


@pytest.fixture
def movements(store: Any) -> FailingMovements:
    return FailingMovements(store.database)


@pytest.fixture
def scene(store: Any, movements: FailingMovements) -> Any:
    made = Scene(movements, store)
    yield made
    made.offload.close()


def numbers(told: list[dict[str, Any]], order_id: str) -> list[int]:
    return [entry["seq"] for entry in told if entry["order_id"] == order_id]


async def test_entries_are_told_from_the_first_line_on_and_none_of_before(scene: Scene) -> None:
    running, queued = scene.drone.claim(scene.place()), scene.place()
    async with aclosing(scene.firehose.lines(EntryFilters())) as lines:
        assert await anext(lines) == LINE_PING
        running.start()
        held = scene.drone.claim(queued)
        fresh = scene.place()
        scene.firehose.moved(fresh)
        told = await scene.told(lines)
        assert (numbers(told, running.id), numbers(told, queued), numbers(told, fresh)) == ([3], [2], [1])
        running.finish()
        held.steps(2)
        told = await scene.told(lines)
        assert numbers(told, held.id) == [3, 4]


async def test_what_a_drone_with_a_slow_clock_writes_is_told_too(scene: Scene) -> None:
    running = scene.drone.claim(scene.place())
    async with aclosing(scene.firehose.lines(EntryFilters())) as lines:
        await anext(lines)
        fresh = scene.drone.claim(scene.place())
        for held in (running, fresh):
            at = scene.store.database.clock.now() - timedelta(hours=1)
            entry = Draft(at=at, origin=held.master, data=AgentStep(name="note", message="x"))
            batch = Batch(held.id, held.claim.epoch, held.seq, [entry.numbered(held.id, held.seq + 1)])
            assert not scene.store.journal.append([batch]).fenced
        told = await scene.told(lines)
        assert (numbers(told, running.id), numbers(told, fresh.id)) == ([3], [1, 2, 3])


async def test_an_order_that_came_and_ended_between_two_looks_is_told_whole_without_a_hint(scene: Scene) -> None:
    async with aclosing(scene.firehose.lines(EntryFilters())) as lines:
        await anext(lines)
        held = scene.drone.claim(scene.place())
        held.start()
        last = held.finish()
        assert numbers(await scene.told(lines), held.id) == list(range(1, last + 1))


async def test_the_end_of_an_order_that_waited_in_the_queue_is_told_without_a_hint(scene: Scene) -> None:
    order_id = scene.place()
    async with aclosing(scene.firehose.lines(EntryFilters())) as lines:
        await anext(lines)
        scene.store.cancelling.cancel(OrdersToCancel(all=True), by=Actor("test"))
        told = await scene.told(lines)
        assert (told[-1]["order_id"], told[-1]["kind"]) == (order_id, "order.finished")


async def test_a_line_is_one_entry_whatever_is_in_it(scene: Scene) -> None:
    held = scene.drone.claim(scene.place())
    async with aclosing(scene.firehose.lines(EntryFilters())) as lines:
        await anext(lines)
        held.write(AgentStep(name="note", message=SECRET_LOOKING))
        await scene.firehose.look()
        piece = await anext(lines)
        assert piece.count(b"\n") == 1 and piece.isascii()
        assert json.loads(piece)["data"]["message"] == SECRET_LOOKING


@pytest.mark.parametrize(
    ("filters", "fits"),
    [
        (EntryFilters(kinds=("agent.step",)), [True, True]),
        (EntryFilters(kinds=("order.finished",)), [False, False]),
        (EntryFilters(labels=("a", "z")), [True, False]),
        (EntryFilters(agents=("other",)), [False, True]),
        (EntryFilters(principals=("test",), doors=("cli",)), [True, True]),
        (EntryFilters(principals=("nobody",)), [False, False]),
        (EntryFilters(doors=("page",)), [False, False]),
        (EntryFilters(session_ids=("first",)), [True, False]),
        (EntryFilters(labels=("a",), agents=("other",)), [False, False]),
    ],
)
async def test_a_reader_is_told_what_fits_all_of_its_filters(
    scene: Scene, filters: EntryFilters, fits: list[bool]
) -> None:
    first = scene.drone.claim(scene.place(labels=("a", "b")))
    second = scene.drone.claim(scene.place(agent="other"))
    if filters.session_ids:
        filters = EntryFilters(session_ids=(first.claim.order.session_id,))
    async with aclosing(scene.firehose.lines(filters)) as lines, aclosing(scene.firehose.lines(EntryFilters())) as all_:
        await anext(lines), await anext(all_)
        first.steps(1)
        second.steps(1)
        assert len(await scene.told(all_)) == 2
        if any(fits):
            told = [json.loads(line)["order_id"] for line in (await anext(lines)).splitlines()]
            assert told == [held.id for held, fit in zip((first, second), fits, strict=True) if fit]
        scene.firehose.end_streams()
        assert [piece async for piece in lines] == []


async def test_what_could_not_be_read_is_told_once_by_a_later_look(scene: Scene, movements: FailingMovements) -> None:
    held = scene.drone.claim(scene.place())
    async with aclosing(scene.firehose.lines(EntryFilters())) as lines:
        await anext(lines)
        held.steps(3)
        movements.fails = True
        with pytest.raises(StoreUnavailable):
            await scene.firehose.look()
        assert numbers(await scene.told(lines), held.id) == [3, 4, 5]
        held.steps(1)
        assert numbers(await scene.told(lines), held.id) == [6]


async def test_a_hint_of_an_order_that_could_not_be_read_is_not_forgotten(
    scene: Scene, movements: FailingMovements
) -> None:
    async with aclosing(scene.firehose.lines(EntryFilters())) as lines:
        await anext(lines)
        await scene.firehose.look()
        # From here on it is looked for what runs, or was hinted at, alone.
        order_id = scene.place()
        scene.firehose.moved(order_id)
        movements.fails = True
        with pytest.raises(StoreUnavailable):
            await scene.firehose.look()
        assert numbers(await scene.told(lines), order_id) == [1]


async def test_an_old_order_whose_journal_is_packed_is_no_news(scene: Scene) -> None:
    held = scene.drone.claim(scene.place())
    held.start()
    held.finish()
    assert list(scene.store.packing.pack(scene.store.database.clock.now() + timedelta(days=1))) == [held.id]
    async with aclosing(scene.firehose.lines(EntryFilters())) as lines:
        await anext(lines)
        scene.firehose.moved(held.id)
        fresh = scene.place()
        told = await scene.told(lines)
        assert (numbers(told, held.id), numbers(told, fresh)) == ([], [1])


async def test_a_reader_that_is_behind_is_cut_and_the_others_go_on(scene: Scene) -> None:
    held = scene.drone.claim(scene.place())
    async with (
        aclosing(scene.firehose.lines(EntryFilters())) as slow,
        aclosing(scene.firehose.lines(EntryFilters())) as quick,
    ):
        await anext(slow), await anext(quick)
        held.steps(1)
        await scene.told(quick)
        scene.at += BEHIND_SECONDS
        held.steps(1)
        await scene.told(quick)
        assert len((await anext(slow)).splitlines()) == 2
        held.steps(1)
        await scene.told(quick)
        scene.at += BEHIND_SECONDS + 0.1
        with pytest.raises(ReaderTooSlow):
            await anext(slow)
        held.steps(1)
        await scene.told(quick)
    assert scene.firehose.readers == 0


async def test_a_reader_holds_no_more_than_its_bytes(scene: Scene) -> None:
    held = scene.drone.claim(scene.place())
    async with (
        aclosing(scene.firehose.lines(EntryFilters())) as slow,
        aclosing(scene.firehose.lines(EntryFilters())) as quick,
    ):
        await anext(slow), await anext(quick)
        for _ in range(BEHIND_BYTES // 4_000_000 + 1):
            held.write(AgentStep(name="note", message="x" * 4_000_000))
            await scene.told(quick)
        with pytest.raises(ReaderTooSlow):
            await anext(slow)


async def test_who_comes_later_hears_nothing_of_before_and_who_comes_again_neither(scene: Scene) -> None:
    held = scene.drone.claim(scene.place())
    for _ in range(2):
        async with aclosing(scene.firehose.lines(EntryFilters())) as lines:
            await anext(lines)
            last = held.steps(2)
            assert numbers(await scene.told(lines), held.id) == [last - 1, last]
        held.steps(5)


async def test_nothing_is_read_without_readers() -> None:
    store = temporary_store()
    offload = Offload(1)
    firehose = Firehose(MovementStore(store.database), offload, ping_seconds=NEVER)
    store.close()
    await firehose.look()
    firehose.moved("x")
    await firehose.look()
    offload.close()


async def test_all_of_a_feed_ends_together_and_counts_together(store: Any, feed_of: Any) -> None:
    async with feed_of(store, poll=NEVER) as feed:
        lines = feed.firehose.lines(EntryFilters())
        await anext(lines)
        assert feed.viewers == 1
        held = HandDrone(store).claim(store.orders.place(NewOrder(prompt="x"), by=Actor("test")).order.id)
        first = json.loads((await anext(lines)).splitlines()[0])
        assert (first["order_id"], first["kind"]) == (held.id, "order.queued")
        feed.end_streams()
        assert all([piece async for piece in lines])
        assert feed.viewers == 0
