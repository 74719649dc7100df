"""Failures are gathered by cause; views are kept by name; many orders are cancelled together, each by itself."""

from datetime import timedelta

import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.control import Control
from mcc.contracts.order_bulk import MOST_VIEWS, ViewContent
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.store.database.errors import OrderIsFinal, TooManyViews, UnknownOrder, UnknownView
from tests.conformance.store.scene import Scene, replied, started


def failed(scene: Scene, reason: FailureReason) -> str:
    held = scene.running()
    held.write(started(), replied())
    scene.store.claims.finish(held.ending(OrderStatus.FAILED, reason=reason))
    scene.clock.advance(1)
    return held.order_id


def test_failures_are_gathered_by_cause_the_most_frequent_first(scene: Scene) -> None:
    begun = scene.clock.now()
    other = failed(scene, FailureReason.GATE_FAILED)
    ids = [failed(scene, FailureReason.INTERNAL) for _ in range(7)]
    often, once = scene.store.failures.since(begun)
    assert (often.count, often.reason, often.agent) == (7, FailureReason.INTERNAL, "master")
    assert often.orders == tuple(reversed(ids[2:]))
    assert often.last_at - often.first_at == timedelta(seconds=6)
    assert (once.count, once.orders, once.first_at) == (1, (other,), once.last_at)
    assert scene.store.failures.since(scene.clock.now()) == []


def test_a_view_is_kept_replaced_and_deleted_by_its_owner(scene: Scene) -> None:
    views = scene.store.views
    views.put("me", "Nächtlich 🌙", ViewContent(query={"label": ["nightly"]}, position=2))
    views.put("me", "mine", ViewContent(query={}, position=1))
    views.put("you", "shared", ViewContent(query={"group": "done"}, shared=True))
    views.put("you", "yours", ViewContent(query={}))
    assert [view.name for view in views.list("me")] == ["shared", "mine", "Nächtlich 🌙"]
    views.put("me", "mine", ViewContent(query={"status": "failed"}))
    assert views.get("me", "mine").query == {"status": "failed"}
    assert views.get("me", "shared").owner == "you"
    for name in ("yours", "none"):
        with pytest.raises(UnknownView):
            views.get("me", name)
    for name in ("shared", "none"):
        with pytest.raises(UnknownView):
            views.delete("me", name)
    views.delete("me", "mine")
    assert [view.name for view in views.list("me")] == ["shared", "Nächtlich 🌙"]


def test_ones_own_view_comes_before_a_shared_one_of_its_name(scene: Scene) -> None:
    scene.store.views.put("a", "same", ViewContent(query={"of": "a"}, shared=True))
    scene.store.views.put("me", "same", ViewContent(query={"of": "me"}))
    assert scene.store.views.get("me", "same").query == {"of": "me"}


def test_so_many_views_are_kept_and_no_more(scene: Scene) -> None:
    for number in range(MOST_VIEWS):
        scene.store.views.put("me", f"view {number}", ViewContent(query={}))
    with pytest.raises(TooManyViews):
        scene.store.views.put("me", "one more", ViewContent(query={}))
    scene.store.views.put("me", "view 1", ViewContent(query={"changed": True}))
    assert len(scene.store.views.list("me")) == MOST_VIEWS


def test_each_order_is_cancelled_or_says_why_not(scene: Scene) -> None:
    queued, running = scene.place().id, scene.running().order_id
    ended = failed(scene, FailureReason.INTERNAL)
    missing = "01a1d430-364d-7000-8000-9cf7f3a86dc4"
    results = scene.store.cancelling.each([queued, running, ended, missing, queued], reason="enough", by=Actor("me"))
    assert isinstance(results[queued], Control) and isinstance(results[running], Control)
    assert isinstance(results[ended], OrderIsFinal) and isinstance(results[missing], UnknownOrder)
    assert (scene.status(queued), scene.status(running)) == (OrderStatus.CANCELLED, OrderStatus.RUNNING)
