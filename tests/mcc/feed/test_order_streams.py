"""The event stream of one order: every entry once and in order, even when hints are lost."""

import asyncio
import random
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis, FakeServer
from redis.exceptions import ConnectionError as RedisGone

from mcc.contracts.callers import Actor
from mcc.contracts.order import NewOrder
from mcc.contracts.shape import to_json
from mcc.contracts.wire import Delta, Hint, order_channel
from mcc.feed.frames import PAGE_ENTRIES, EntryFrame, PageCache
from mcc.feed.viewers import PENDING_DELTAS, WAITS, Viewer
from mcc.testing.hand_drone import HandDrone

NEVER = 3_600.0


def delta(held: Any, text: str, *, epoch: int | None = None) -> Delta:
    return Delta(
        kind="model.delta",
        order_id=held.id,
        epoch=held.claim.epoch if epoch is None else epoch,
        record_id="r",
        round=1,
        attempt=1,
        offset=0,
        text=text,
    )


async def told(server: FakeServer, message: Hint | Delta) -> None:
    async with FakeAsyncRedis(server=server) as redis:
        await redis.publish(order_channel(message.order_id), to_json(message))


async def test_a_viewer_sees_every_entry_and_the_end(store: Any, held: Any, feed_of: Any, reader_of: Any) -> None:
    async with feed_of(store) as feed:
        reader = reader_of(feed.stream(held.id, 0))
        held.start()
        await reader.until(lambda one: len(one.numbers) >= 3)
        held.steps(300)
        last = held.finish()
        await reader.ended()
        assert reader.numbers == list(range(1, last + 1))
        assert [kind for _, kind, _ in reader.events][-1] == "order.finished"
        number, kind, data = reader.events[2]
        assert (number, kind, data["kind"], data["seq"]) == ("3", "agent.started", "agent.started", 3)
        assert feed.viewers == 0


@pytest.mark.parametrize("after", [0, 1, 2, PAGE_ENTRIES - 1, PAGE_ENTRIES, PAGE_ENTRIES + 1, 303])
async def test_a_viewer_goes_on_from_any_number(
    store: Any, held: Any, feed_of: Any, reader_of: Any, after: int
) -> None:
    held.start()
    held.steps(300)
    last = held.finish()
    async with feed_of(store) as feed:
        reader = reader_of(feed.stream(held.id, after))
        await reader.ended()
        assert reader.numbers == list(range(after + 1, last + 1))


async def test_a_hint_brings_an_entry_without_any_poll(
    store: Any, held: Any, feed_of: Any, reader_of: Any, until: Any
) -> None:
    server = FakeServer()
    async with feed_of(store, lambda: FakeAsyncRedis(server=server), poll=NEVER) as feed:
        reader = reader_of(feed.stream(held.id, 0))
        await reader.until(lambda one: one.numbers == [1, 2])
        await until(lambda: feed.connected)
        await told(server, Hint(order_id=held.id, seq=held.start()))
        await reader.until(lambda one: one.numbers == [1, 2, 3])
        await reader.stop()


async def test_with_every_hint_lost_nothing_is(store: Any, held: Any, feed_of: Any, reader_of: Any) -> None:
    server = FakeServer()
    async with feed_of(store, lambda: FakeAsyncRedis(server=server), poll=0.01, poll_without_hints=NEVER) as feed:
        reader = reader_of(feed.stream(held.id, 0))
        held.start()
        held.steps(5)
        last = held.finish()
        await reader.ended()
        assert reader.numbers == list(range(1, last + 1))


async def test_without_redis_the_database_is_enough(store: Any, held: Any, feed_of: Any, reader_of: Any) -> None:
    def refused() -> FakeAsyncRedis:
        raise RedisGone("nothing listens there")

    async with feed_of(store, refused, poll=NEVER) as feed:
        reader = reader_of(feed.stream(held.id, 0))
        held.start()
        last = held.finish()
        await reader.ended()
        assert reader.numbers == list(range(1, last + 1))
        assert feed.connected is False


async def test_a_redis_that_comes_late_and_goes_again_is_heard_whenever_it_is_there(
    store: Any, held: Any, feed_of: Any, reader_of: Any, until: Any
) -> None:
    server = FakeServer()
    server.connected = False
    async with feed_of(store, lambda: FakeAsyncRedis(server=server), poll=NEVER, poll_without_hints=NEVER) as feed:
        reader = reader_of(feed.stream(held.id, 0))
        await reader.until(lambda one: one.numbers == [1, 2])
        assert not feed.connected
        for number in (3, 4):
            server.connected = True
            await until(lambda: feed.connected)
            await told(server, Hint(order_id=held.id, seq=held.steps(1)))
            await reader.until(lambda one, upto=number: one.numbers[-1] == upto)
            server.connected = False
            await until(lambda: not feed.connected)
        await reader.stop()


async def test_an_entry_committed_while_redis_was_away_is_found_when_it_is_back(
    store: Any, held: Any, feed_of: Any, reader_of: Any
) -> None:
    server = FakeServer()
    server.connected = False
    async with feed_of(store, lambda: FakeAsyncRedis(server=server), poll=NEVER, poll_without_hints=NEVER) as feed:
        reader = reader_of(feed.stream(held.id, 0))
        await reader.until(lambda one: one.numbers == [1, 2])
        held.start()
        server.connected = True
        await reader.until(lambda one: one.numbers == [1, 2, 3])
        await reader.stop()


async def test_garbage_on_redis_disturbs_nobody(
    store: Any, held: Any, feed_of: Any, reader_of: Any, until: Any
) -> None:
    server = FakeServer()
    async with feed_of(store, lambda: FakeAsyncRedis(server=server), poll=NEVER) as feed:
        reader = reader_of(feed.stream(held.id, 0))
        await until(lambda: feed.connected)
        async with FakeAsyncRedis(server=server) as redis:
            for junk in (b"", b"{", b"[]", b"1", b'{"type":"delta"}', b"\xff", b"[" * 100_000, b'{"type":"hint"}'):
                await redis.publish(order_channel(held.id), junk)
        await told(server, Hint(order_id=held.id, seq=10**9))
        await told(server, Hint(order_id=held.id, seq=held.start()))
        await told(server, delta(held, "still here"))
        last = held.finish()
        await told(server, Hint(order_id=held.id, seq=2 * 10**9))
        await reader.ended()
        assert reader.numbers == list(range(1, last + 1))


async def test_text_on_its_way_has_no_id_and_comes_between_the_entries_around_it(
    store: Any, held: Any, feed_of: Any, reader_of: Any
) -> None:
    async with feed_of(store, poll_without_hints=NEVER) as feed:
        reader = reader_of(feed.stream(held.id, 0))
        await reader.until(lambda one: one.numbers == [1, 2])
        feed.on_hint(Hint(order_id=held.id, seq=held.start()))
        feed.on_delta(delta(held, "a\ud800\n"))
        feed.on_hint(Hint(order_id=held.id, seq=held.steps(1)))
        feed.on_delta(delta(held, "b"))
        feed.on_hint(Hint(order_id=held.id, seq=held.finish()))
        await reader.ended()
        told_in_order = [number or data["text"] for number, _, data in reader.events]
        assert told_in_order == ["1", "2", "3", "a\ud800\n", "4", "b", "5", "6"]
        assert [kind for number, kind, _ in reader.events if number is None] == ["model.delta"] * 2


async def test_text_that_comes_before_the_history_is_read_is_shown_after_it(
    store: Any, held: Any, feed_of: Any, reader_of: Any, until: Any
) -> None:
    store.journal.away = True
    async with feed_of(store) as feed:
        reader = reader_of(feed.stream(held.id, 0, reached=2))
        await until(lambda: store.journal.reads > 0)
        feed.on_delta(delta(held, "now"))
        store.journal.away = False
        await reader.until(lambda one: len(one.events) == 3)
        assert [number or data["text"] for number, _, data in reader.events] == ["1", "2", "now"]
        await reader.stop()


async def test_text_of_an_earlier_epoch_is_dropped(store: Any, held: Any, feed_of: Any, reader_of: Any) -> None:
    async with feed_of(store) as feed:
        reader = reader_of(feed.stream(held.id, 0))
        await reader.until(lambda one: one.numbers == [1, 2])
        feed.on_delta(delta(held, "of a fenced drone", epoch=held.claim.epoch - 1))
        feed.on_delta(delta(held, "of the holder"))
        feed.on_delta(delta(held, "of the next", epoch=held.claim.epoch + 1))
        feed.on_delta(delta(held, "late"))
        await reader.until(lambda one: len(one.events) >= 4)
        held.finish_without_start()
        await reader.ended()
        texts = [data["text"] for number, _, data in reader.events if number is None]
        assert texts == ["of the holder", "of the next"]


async def test_many_viewers_share_one_reading(store: Any, held: Any, feed_of: Any, reader_of: Any) -> None:
    held.start()
    held.steps(1_000)
    last = held.finish()
    store.journal.reads = 0
    async with feed_of(store) as feed:
        readers = [reader_of(feed.stream(held.id, 0)) for _ in range(100)]
        await asyncio.gather(*(reader.ended() for reader in readers))
        assert all(reader.numbers == list(range(1, last + 1)) for reader in readers)
        assert store.journal.reads <= last // PAGE_ENTRIES + 2


async def test_viewers_stay_while_the_database_is_away(
    store: Any, held: Any, feed_of: Any, reader_of: Any, until: Any
) -> None:
    async with feed_of(store) as feed:
        reader = reader_of(feed.stream(held.id, 0))
        await reader.until(lambda one: one.numbers == [1, 2])
        store.journal.away = True
        held.start()
        reads = store.journal.reads
        await until(lambda: store.journal.reads > reads)
        assert reader.numbers == [1, 2]
        store.journal.away = False
        last = held.finish()
        await reader.ended()
        assert reader.numbers == list(range(1, last + 1))


async def test_a_quiet_stream_is_pinged(store: Any, held: Any, feed_of: Any, reader_of: Any) -> None:
    async with feed_of(store, poll_without_hints=NEVER, ping=0.01) as feed:
        reader = reader_of(feed.stream(held.id, 2))
        await reader.until(lambda one: len(one.events) >= 2)
        assert reader.events[:2] == [(None, "ping", {})] * 2
        await reader.stop()


async def test_viewers_are_let_go_at_once(store: Any, held: Any, feed_of: Any, reader_of: Any) -> None:
    async with feed_of(store, poll_without_hints=NEVER) as feed:
        readers = [reader_of(feed.stream(held.id, 0)) for _ in range(10)]
        await readers[-1].until(lambda one: one.numbers == [1, 2])
        feed.end_streams()
        await asyncio.gather(*(reader.ended() for reader in readers))
        assert feed.viewers == 0


async def test_viewers_that_come_and_go_at_random_miss_and_repeat_nothing(
    store: Any, held: Any, feed_of: Any, reader_of: Any
) -> None:
    chance = random.Random(5)
    server = FakeServer()
    async with feed_of(store, lambda: FakeAsyncRedis(server=server)) as feed:

        async def watch_in_pieces() -> list[int]:
            seen: list[int] = []
            while not seen or seen[-1] != 603:
                reader = reader_of(feed.stream(held.id, len(seen)))
                leave_after = chance.randint(1, 120)
                leaving = asyncio.create_task(reader.until(lambda one, most=leave_after: len(one.numbers) >= most))
                await asyncio.wait({leaving, reader.task}, return_when=asyncio.FIRST_COMPLETED)
                leaving.cancel()
                await reader.stop()
                seen += reader.numbers
            return seen

        async def work() -> None:
            for _ in range(120):
                seq = held.steps(5)
                if chance.random() < 0.5:
                    await told(server, Hint(order_id=held.id, seq=seq))
            held.finish_without_start()

        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            watching = [group.create_task(watch_in_pieces()) for _ in range(50)]
            group.create_task(work())
        assert all(task.result() == list(range(1, 604)) for task in watching)


def test_the_cache_keeps_within_its_bytes_and_drops_the_oldest() -> None:
    cache = PageCache(budget_bytes=25)
    for number in range(3):
        cache.put("order", number, [EntryFrame(1, b"x" * 10)])
    cache.get("order", 1)
    cache.put("order", 3, [EntryFrame(1, b"x" * 10)])
    assert [number for number in range(4) if cache.get("order", number)] == [1, 3]
    cache.put("order", 4, [EntryFrame(1, b"x" * 100)])
    assert not any(cache.get("order", number) for number in range(5))


def test_a_viewer_that_takes_no_text_holds_a_bounded_amount() -> None:
    viewer = Viewer()
    for number in range(PENDING_DELTAS + 10):
        viewer.offer(0, b"%d\n" % number)
    assert viewer.take_text(0).split(b"\n")[0] == b"10"
    assert viewer.take_text(0) == b""


async def test_a_viewer_is_told_what_its_order_waits_for_each_time_that_it_changes(
    store: Any, feed_of: Any, reader_of: Any
) -> None:
    order = store.orders.place(NewOrder(prompt="wait"), by=Actor("someone")).order

    def told(reader: Any) -> list[Any]:
        return [data["waits_for"] and data["waits_for"]["kind"] for _, name, data in reader.events if name == WAITS]

    async with feed_of(store) as feed:
        reader = reader_of(feed.stream(order.id, 0))
        await reader.until(lambda reader: told(reader) == ["drone"])
        drone = HandDrone(store)
        await reader.until(lambda reader: told(reader) == ["drone", "slot"])
        drone.claim(order.id)
        await reader.until(lambda reader: told(reader) == ["drone", "slot", None])
        assert all(id is None for id, name, _ in reader.events if name == WAITS)
        await reader.stop()
