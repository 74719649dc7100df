"""Placing several orders in one transaction: all with the same results as one by one, or none."""

from typing import Any

import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.order import NewOrder, WhenBusy
from mcc.contracts.status import OrderStatus
from mcc.store.database.errors import IdempotencyConflict, SessionBusy, SomeRefused, UnknownSession
from mcc.store.rows.values import BatchOrder, Placed
from tests.conformance.store.scene import Scene, at_once

NOBODY = "01900000-0000-7000-8000-000000000000"


def together(scene: Scene, *asked: BatchOrder) -> list[Placed]:
    return list(scene.store.orders.place_all(asked, by=Actor("someone")))


def keyed(prompt: str, key: str | None = None, **fields: object) -> BatchOrder:
    return BatchOrder(NewOrder.model_validate({"prompt": prompt, **fields}), key)


def test_each_order_is_as_if_placed_alone(scene: Scene) -> None:
    fields: dict[str, Any] = {"labels": ("a", "b"), "priority": 2, "metadata": {"ticket": 7}, "on_ask": "wait"}
    later: dict[str, Any] = {"not_before": scene.clock.now().replace(year=2030)}
    alone = scene.store.orders.place(NewOrder(prompt="one", **fields), by=Actor("someone")).order
    first, second = together(scene, keyed("one", **fields), keyed("two", **later))
    assert alone == scene.store.orders.get(alone.id) and alone.queue_position == 1
    assert first.created and second.created
    for placed in (first, second):
        unread = {"queue_position": None, "waits_for": None, "detail": None}
        assert placed.order == scene.store.orders.get(placed.order.id).model_copy(update=unread)
        assert list(placed.entries) == scene.store.journal.read(placed.order.id)
    assert (first.order.session_title, second.order.session_title) == ("one", "two")
    own = {"id", "session_id", "queue_position", "waits_for", "detail", "created_at"}
    assert first.order.model_dump(exclude=own) == alone.model_dump(exclude=own)
    assert second.order.status is OrderStatus.WAITING
    assert [one.id for one in scene.store.orders.list(label="b").items] == [first.order.id, alone.id]


def test_they_are_claimed_in_the_order_in_which_they_were_asked_for(scene: Scene) -> None:
    placed = together(scene, *(keyed(f"order {number}") for number in range(20)))
    waiting = scene.store.claims.claimable(["default"], 50)
    assert [one.order_id for one in waiting] == [one.order.id for one in placed]


def test_a_known_key_is_answered_with_its_order_also_within_one_request(scene: Scene) -> None:
    before = scene.placed("first", key="k1").order.id
    found = together(scene, keyed("first", "k1"), keyed("second", "k2"), keyed("second", "k2"))
    assert [one.created for one in found] == [False, True, False]
    assert found[0].order.id == before and found[2].order.id == found[1].order.id
    again = together(scene, keyed("first", "k1"), keyed("second", "k2"))
    assert [(one.created, one.order.id) for one in again] == [(False, before), (False, found[1].order.id)]
    assert scene.store.orders.counts() == {OrderStatus.QUEUED: 2}


def test_all_that_cannot_be_placed_are_named_and_nothing_is_placed(scene: Scene) -> None:
    scene.placed("first", key="k1")
    session = scene.store.sessions.list().items[0].id
    asked = (
        keyed("fine", "k2", labels=("fine",)),
        keyed("another body", "k1"),
        keyed("nowhere", session_id=NOBODY),
        keyed("busy", session_id=session, when_busy=WhenBusy.REJECT),
    )
    with pytest.raises(SomeRefused) as refused:
        together(scene, *asked)
    kinds = {index: type(problem) for index, problem in refused.value.refused.items()}
    assert kinds == {1: IdempotencyConflict, 2: UnknownSession, 3: SessionBusy}
    assert scene.store.orders.counts() == {OrderStatus.QUEUED: 1}
    assert not scene.store.orders.list(label="fine").items and len(scene.store.sessions.list().items) == 1
    assert together(scene, asked[0])[0].created


def test_turns_of_one_session_follow_one_another(scene: Scene) -> None:
    first = together(scene, keyed("one"))[0].order
    second, other, third = together(
        scene, keyed("two", session_id=first.session_id), keyed("other"), keyed("three", session_id=first.session_id)
    )
    assert (second.order.session_seq, third.order.session_seq) == (2, 3)
    assert second.order.blocked_by == third.order.blocked_by == first.id
    claimable = {one.order_id for one in scene.store.claims.claimable(["default"], 50)}
    assert claimable == {first.id, other.order.id}


def test_two_that_send_the_same_at_once_place_it_once(scene: Scene) -> None:
    asked = [keyed(f"order {number}", f"key-{number}") for number in range(30)]
    found = at_once(lambda: together(scene, *asked), lambda: together(scene, *asked[::-1])[::-1])
    first, second = ([one.order.id for one in answer] for answer in found if not isinstance(answer, BaseException))
    assert first == second
    assert scene.store.orders.counts() == {OrderStatus.QUEUED: 30}
