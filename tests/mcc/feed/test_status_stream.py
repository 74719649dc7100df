"""The stream of all orders' status changes."""

import asyncio
from typing import Any

from mcc.contracts.callers import Actor
from mcc.contracts.inbox_facts import ApprovalRequested
from mcc.contracts.order import NewOrder
from mcc.contracts.wire import Hint
from mcc.feed.statuses import StatusStream
from mcc.store.store import Offload
from mcc.testing.hand_drone import HandDrone

NEVER = 3_600.0
NOBODY = "01900000-0000-7000-8000-000000000000"


def place(store: Any, prompt: str = "x") -> str:
    return str(store.orders.place(NewOrder(prompt=prompt), by=Actor("test")).order.id)


def statuses(reader: Any, order_id: str) -> list[object]:
    return [data["status"] for _, kind, data in reader.events if kind == "order.status" and data["id"] == order_id]


async def test_a_snapshot_comes_first_and_then_each_change_without_an_id(
    store: Any, feed_of: Any, reader_of: Any
) -> None:
    old = place(store, "long " * 100)
    drone = HandDrone(store)
    async with feed_of(store, poll=NEVER) as feed:
        reader = reader_of(feed.statuses.stream())
        await reader.until(lambda one: bool(one.events))
        number, kind, data = reader.events[0]
        assert (number, kind, [order["id"] for order in data["orders"]]) == (None, "snapshot", [old])
        assert len(data["orders"][0]["title"]) == 200
        held = drone.claim(old)
        feed.on_hint(Hint(order_id=old, seq=held.seq, status="running"))
        await reader.until(lambda one: statuses(one, old) == ["running"])
        held.start()
        feed.on_hint(Hint(order_id=old, seq=held.finish(), status="succeeded"))
        await reader.until(lambda one: statuses(one, old) == ["running", "succeeded"])
        new = place(store)
        feed.on_hint(Hint(order_id=new, seq=1, status="queued"))
        await reader.until(lambda one: statuses(one, new) == ["queued"])
        assert {number for number, _, _ in reader.events} == {None}
        await reader.stop()


async def test_a_summary_says_what_waits_for_people_and_who_placed_the_order(
    store: Any, feed_of: Any, reader_of: Any
) -> None:
    asking, other = place(store), place(store)
    held = HandDrone(store).claim(asking)
    held.start()
    held.write(ApprovalRequested(approval_id="a", call_id="c", tool="git_commit", digest="d"))
    async with feed_of(store, poll=NEVER) as feed:
        reader = reader_of(feed.statuses.stream())
        await reader.until(lambda one: bool(one.events))
        shown = {order["id"]: order for order in reader.events[0][2]["orders"]}
        assert shown[asking]["needs"] == {"approvals": 1, "questions": 0} and shown[asking]["principal"] == "test"
        assert shown[other]["needs"] == {"approvals": 0, "questions": 0}
        feed.on_hint(Hint(order_id=NOBODY, seq=1, status="queued"))
        feed.on_hint(Hint(order_id=asking, seq=held.finish(), status="succeeded"))
        await reader.until(lambda one: statuses(one, asking) == ["succeeded"])
        assert reader.events[-1][2]["needs"]["approvals"] == 0
        await reader.stop()


async def test_changes_are_found_without_hints(store: Any, feed_of: Any, reader_of: Any) -> None:
    order_id = place(store)
    async with feed_of(store, poll=0.02) as feed:
        reader = reader_of(feed.statuses.stream())
        await reader.until(lambda one: bool(one.events))
        held = HandDrone(store).claim(order_id)
        await reader.until(lambda one: statuses(one, order_id) == ["running"])
        held.start()
        held.finish()
        new = place(store)
        await reader.until(
            lambda one: statuses(one, order_id)[-1:] == ["succeeded"] and statuses(one, new) == ["queued"]
        )
        await reader.stop()


async def test_a_second_viewer_does_not_take_a_change_from_the_first(store: Any, feed_of: Any, reader_of: Any) -> None:
    order_id = place(store)
    async with feed_of(store, poll=NEVER) as feed:
        first = reader_of(feed.statuses.stream())
        await first.until(lambda one: bool(one.events))
        HandDrone(store).claim(order_id)
        second = reader_of(feed.statuses.stream())
        await second.until(lambda one: bool(one.events))
        await first.until(lambda one: statuses(one, order_id) == ["running"])
        assert second.events[0][2]["orders"][0]["status"] == "running"
        assert statuses(second, order_id) == []
        await first.stop()
        await second.stop()


async def test_a_viewer_too_far_behind_is_ended_and_the_others_go_on(store: Any, reader_of: Any) -> None:
    offload = Offload(2)
    statuses = StatusStream(store, offload, lambda: True, NEVER, pending_events=5)
    running = asyncio.create_task(statuses.run())
    stuck = statuses.stream()
    assert b"snapshot" in await anext(stuck)
    reader = reader_of(statuses.stream())
    await reader.until(lambda one: bool(one.events))
    for number in range(6):
        order_id = place(store)
        statuses.status_changed(order_id)
        await reader.until(lambda one, count=number: len(one.events) == count + 2)
    assert statuses.viewers == 1
    assert [chunk async for chunk in stuck] == []
    await reader.stop()
    running.cancel()
    offload.close()


async def test_viewers_are_let_go_at_once(store: Any, feed_of: Any, reader_of: Any) -> None:
    async with feed_of(store, poll=NEVER) as feed:
        reader = reader_of(feed.statuses.stream())
        await reader.until(lambda one: bool(one.events))
        feed.end_streams()
        await reader.ended()
        assert feed.viewers == 0
