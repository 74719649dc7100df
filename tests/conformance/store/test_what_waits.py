"""The load of a database: how long claimable orders and inbox items have waited."""

import pytest

from mcc.contracts.status import OrderStatus
from tests.conformance.store.scene import Scene
from tests.conformance.store.test_inbox import asking, decide, question


def oldest(scene: Scene) -> dict[str, float]:
    return {queue: round(seconds) for queue, seconds in scene.store.load.load().oldest_claimable.items()}


def test_the_oldest_claimable_order_of_each_queue_counts(scene: Scene) -> None:
    scene.place("first")
    scene.clock.advance(20)
    scene.place("urgent", priority=0)
    scene.place("elsewhere", queue="slow")
    scene.clock.advance(10)
    assert oldest(scene) == {"default": 30, "slow": 10}


def test_an_order_whose_session_is_busy_waits_from_the_end_of_the_turn_before(scene: Scene) -> None:
    held = scene.running("first")
    session = scene.store.orders.get(held.order_id).session_id
    scene.place("second", session_id=session)
    scene.clock.advance(50)
    assert oldest(scene) == {}
    held.finish()
    scene.clock.advance(5)
    assert oldest(scene) == {"default": 5}


def test_an_order_that_was_taken_back_waits_from_then_on(scene: Scene) -> None:
    held = scene.running()
    scene.clock.advance(5)
    scene.lose()
    assert scene.status(held.order_id) is OrderStatus.QUEUED
    scene.clock.advance(3)
    assert oldest(scene) == {"default": 3}


def test_items_that_wait_for_people_are_counted_by_kind(scene: Scene) -> None:
    asking(scene)
    scene.clock.advance(60)
    asking(scene, question())
    scene.clock.advance(10)
    pending = scene.store.load.load().pending
    assert {kind: (one.items, round(one.oldest_seconds)) for kind, one in pending.items()} == {
        "approval": (1, 70),
        "question": (1, 10),
    }
    decide(scene)
    assert list(scene.store.load.load().pending) == ["question"]


def test_the_size_of_the_database_is_told(scene: Scene) -> None:
    assert scene.store.load.load().database_bytes == pytest.approx(scene.store.retention.size().bytes, rel=0.2)
    assert scene.store.load.load().database_bytes > 50_000
