"""One stream of statuses, inbox and several orders: the bytes of each order's own stream, under ids that name it."""

from typing import Any

import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.inbox_facts import QuestionAsked
from mcc.contracts.order import NewOrder
from mcc.contracts.questions import NewAnswer
from mcc.contracts.wire import Delta, Hint
from mcc.feed.combined import CombinedStream
from mcc.feed.frames import plain_frame
from mcc.feed.joining import JOIN_SECONDS, JoinedText
from mcc.testing.hand_drone import HandDrone, HeldOrder

NEVER = 3_600.0
HELLO = plain_frame("hello", {"version": "0", "build": "b"})
UNKNOWN = "01900000-0000-7000-8000-000000000000"


def claimed(store: Any) -> HeldOrder:
    return HandDrone(store).claim(store.orders.place(NewOrder(prompt="x"), by=Actor("test")).order.id)


def numbers(reader: Any, held: HeldOrder) -> list[int]:
    ids = [number.split(":") for number, _, _ in reader.events if number is not None]
    return [int(seq) for order_id, seq in ids if order_id == held.id]


def told(reader: Any, *kinds: str) -> list[Any]:
    return [data for _, kind, data in reader.events if kind in kinds]


def piece(held: HeldOrder, offset: int, text: str, **more: Any) -> Delta:
    place = {"order_id": held.id, "epoch": held.claim.epoch, "record_id": held.master.record_id, "round": 1}
    return Delta(**{"kind": "model.delta", "attempt": 1, "offset": offset, "text": text, **place, **more})


async def test_it_begins_with_hello_and_a_snapshot_and_tells_each_order_to_its_end(
    store: Any, feed_of: Any, reader_of: Any
) -> None:
    one, two = claimed(store), claimed(store)
    async with feed_of(store) as feed:
        reader = reader_of(CombinedStream(feed, {one.id: 0, two.id: 1}).events(HELLO))
        await reader.until(lambda it: numbers(it, one) == [1, 2] and numbers(it, two) == [2])
        assert [kind for _, kind, _ in reader.events[:2]] == ["hello", "snapshot"]
        for held in (one, two):
            held.start()
            held.finish()
        await reader.until(lambda it: len(told(it, "end")) == 2)
        assert numbers(reader, one) == list(range(1, one.seq + 1)) and numbers(reader, two) == list(
            range(2, two.seq + 1)
        )
        assert not feed.watched
        third = claimed(store)
        await reader.until(lambda it: third.id in [data["id"] for data in told(it, "order.status")])
        await reader.stop()
        assert not feed.viewers


async def test_an_entry_has_the_bytes_of_the_orders_own_stream_and_is_read_once_for_all(
    store: Any, held: Any, feed_of: Any
) -> None:
    held.start()
    held.steps(200)
    held.finish()
    async with feed_of(store, poll=NEVER, poll_without_hints=NEVER) as feed:
        alone = b"".join([chunk async for chunk in feed.stream(held.id, 0, held.seq)])
        reads, combined = store.journal.reads, b""
        async for chunk in CombinedStream(feed, {held.id: 0}).events(HELLO):
            combined += chunk
            if b"event: end\n" in chunk:
                break
        assert store.journal.reads == reads
        begin, end = combined.index(b"id: "), combined.index(b"event: end\n")
        assert combined[begin:end].replace(f"id: {held.id}:".encode(), b"id: ") == alone


async def test_of_an_order_that_cannot_be_told_it_says_why_and_the_others_go_on(
    store: Any, held: Any, feed_of: Any, reader_of: Any
) -> None:
    other = claimed(store)
    other.start()
    other.finish()
    async with feed_of(store) as feed:
        reader = reader_of(CombinedStream(feed, {UNKNOWN: 3, other.id: other.seq, held.id: held.seq + 1}).events(HELLO))
        await reader.until(lambda it: len(told(it, "gone")) == 2 and told(it, "end") == [{"order_id": other.id}])
        assert told(reader, "gone") == [
            {"order_id": UNKNOWN, "status": 404},
            {"order_id": held.id, "status": 400},
        ]
        held.start()
        await reader.until(lambda it: held.id in [data["id"] for data in told(it, "snapshot")[0]["orders"]])
        await reader.stop()


async def test_a_pruned_journal_is_gone(store: Any, held: Any, feed_of: Any, reader_of: Any) -> None:
    held.start()
    held.finish()
    for _ in store.retention.clear(store.database.clock.now()):
        pass
    async with feed_of(store) as feed:
        reader = reader_of(CombinedStream(feed, {held.id: 1}).events(HELLO))
        await reader.until(lambda it: told(it, "gone") == [{"order_id": held.id, "status": 410}])
        await reader.stop()


async def test_text_comes_joined_and_before_the_entry_that_follows_it(
    store: Any, held: Any, feed_of: Any, reader_of: Any
) -> None:
    held.start()
    async with feed_of(store, poll=NEVER, poll_without_hints=NEVER) as feed:
        reader = reader_of(CombinedStream(feed, {held.id: 0}).events(HELLO))
        alone = reader_of(feed.stream(held.id, 0, held.seq))
        await reader.until(lambda it: numbers(it, held)[-1:] == [held.seq])
        await alone.until(lambda it: it.numbers[-1:] == [held.seq])
        for offset, text in enumerate("words"):
            feed.on_delta(piece(held, offset, text))
        feed.on_delta(piece(held, 9, "gap"))
        held.steps(1)
        feed.on_hint(Hint(order_id=held.id, seq=held.seq))
        await reader.until(lambda it: numbers(it, held)[-1:] == [held.seq])
        kinds = [(kind, data.get("text")) for _, kind, data in reader.events if kind in ("model.delta", "agent.step")]
        assert kinds == [("model.delta", "words"), ("model.delta", "gap"), ("agent.step", None)]
        assert told(reader, "model.delta")[0]["order_id"] == held.id
        await alone.until(lambda it: it.numbers[-1:] == [held.seq])
        assert [data["text"] for data in told(alone, "model.delta")] == [*"words", "gap"]
        for each in (reader, alone):
            await each.stop()


async def test_text_without_a_next_entry_comes_soon(store: Any, held: Any, feed_of: Any, reader_of: Any) -> None:
    async with feed_of(store, poll=NEVER, poll_without_hints=NEVER) as feed:
        reader = reader_of(CombinedStream(feed, {held.id: held.seq}).events(HELLO))
        await reader.until(lambda it: bool(feed.watched))
        feed.on_delta(piece(held, 0, "a"))
        await reader.until(lambda it: [data["text"] for data in told(it, "model.delta")] == ["a"])
        await reader.stop()


async def test_of_each_agent_there_is_one_event_for_all_that_it_said_meanwhile(held: Any) -> None:
    sent: list[bytes] = []
    joined = JoinedText(sent.append)
    for offset in range(100):
        joined.add(piece(held, offset, "x"))
        joined.add(piece(held, offset, "y", record_id="other"))
    assert sent == []
    joined.flush()
    assert sent[0].count(b"event: model.delta\n") == 2 and b'"text":"' + b"x" * 100 + b'"' in sent[0]
    joined.flush()
    assert len(sent) == 1 and JOIN_SECONDS >= 0.2


async def test_what_waits_for_a_person_is_counted_and_its_changes_are_told(
    store: Any, held: Any, feed_of: Any, reader_of: Any
) -> None:
    held.start()
    async with feed_of(store) as feed:
        reader, plain = reader_of(CombinedStream(feed, {}).events(HELLO)), reader_of(feed.statuses.stream())
        await reader.until(lambda it: told(it, "inbox")[-1:] == [{"pending": 0, "changed": []}])
        held.write(QuestionAsked(question_id="q1", call_id="c1", question="Which?"))
        item = {"id": "q1", "kind": "question", "order_id": held.id}
        expected = {"pending": 1, "changed": [{**item, "status": "pending"}]}
        for each in (reader, plain):
            await each.until(lambda it: expected in told(it, "inbox"))
        store.approvals.answer("q1", NewAnswer(answer="this"), by=Actor("ann"))
        settled = {"pending": 0, "changed": [{**item, "status": "answered"}]}
        for each in (reader, plain):
            await each.until(lambda it: settled in told(it, "inbox"))
            await each.stop()


async def test_whoever_leaves_between_two_steps_leaves_nothing_behind(store: Any, held: Any, feed_of: Any) -> None:
    async with feed_of(store) as feed:
        for _ in range(200):
            events = CombinedStream(feed, {held.id: 0}).events(HELLO)
            await anext(events)
            await events.aclose()  # type: ignore[attr-defined]
        assert (feed.viewers, feed.watched) == (0, frozenset())


async def test_the_end_of_the_service_ends_it(store: Any, held: Any, feed_of: Any, reader_of: Any) -> None:
    async with feed_of(store, poll=NEVER, poll_without_hints=NEVER) as feed:
        reader = reader_of(CombinedStream(feed, {held.id: 0}).events(HELLO))
        await reader.until(lambda it: bool(numbers(it, held)))
        feed.end_streams()
        await reader.ended()


@pytest.mark.parametrize("count", [1, 16])
async def test_many_orders_wake_one_stream(store: Any, feed_of: Any, reader_of: Any, count: int) -> None:
    orders = [claimed(store) for _ in range(count)]
    async with feed_of(store) as feed:
        reader = reader_of(CombinedStream(feed, dict.fromkeys((held.id for held in orders), 0)).events(HELLO))
        for held in orders:
            held.start()
            held.steps(40)
            held.finish()
        await reader.until(lambda it: len(told(it, "end")) == count)
        assert all(numbers(reader, held) == list(range(1, held.seq + 1)) for held in orders)
        await reader.stop()
