"""Orders chosen by what they were placed with: listed page by page, and cancelled together."""

from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from mcc.contracts.callers import Actor
from mcc.contracts.cancelling import OrdersToCancel
from mcc.contracts.status import OrderStatus
from mcc.store.work.cancelling import GROUP_ORDERS
from mcc.store.work.selection import CHUNK
from tests.conformance.store.scene import Scene

HERE, THERE = "/srv/here", "/srv/there"


def ids(scene: Scene, **filters: Any) -> list[str]:
    """All orders of the list, page by page."""
    found: list[str] = []
    cursor = None
    while True:
        page = scene.store.orders.list(**filters, cursor=cursor, limit=2)
        assert len(page.items) <= 2
        found += [order.id for order in page.items]
        if (cursor := page.next_cursor) is None:
            return found


def cancelled(scene: Scene, most: int = 1_000, cursor: str | None = None, **asked: Any) -> tuple[list[str], str | None]:
    made = scene.store.cancelling.cancel(
        OrdersToCancel.model_validate(asked), by=Actor("someone"), cursor=cursor, most=most
    )
    return [control.order_id for control in made.controls], made.next_cursor


def test_orders_are_listed_by_agent_workspace_and_time_and_by_several_at_once(scene: Scene) -> None:
    old = scene.place(agent="review", workspace=HERE)
    scene.clock.advance(60)
    since = scene.clock.now()
    first = scene.place(agent="review", workspace=HERE, labels=("a",))
    second = scene.place(agent="master", workspace=HERE, labels=("a",))
    third = scene.place(agent="review", workspace=THERE)
    nowhere = scene.place(agent="master")
    assert ids(scene, agent="review") == [third.id, first.id, old.id]
    assert ids(scene, workspace=HERE) == [second.id, first.id, old.id]
    assert ids(scene, since=since) == [nowhere.id, third.id, second.id, first.id]
    assert ids(scene, agent="review", workspace=HERE, since=since) == [first.id]
    assert ids(scene, label="a", agent="master") == [second.id]
    assert ids(scene, agent="review", status=OrderStatus.QUEUED, part=first.id[-8:]) == [first.id]
    assert ids(scene, agent="nobody") == ids(scene, since=since + timedelta(hours=1)) == []


def test_an_order_of_a_rare_agent_is_found_behind_many_others(scene: Scene) -> None:
    rare = scene.place(agent="review")
    for _ in range(CHUNK + 1):
        scene.place()
    assert ids(scene, agent="review") == [rare.id]


def test_those_that_fit_are_cancelled_and_no_other(scene: Scene) -> None:
    scene.drone()
    wanted = [scene.place(labels=("nightly",)).id for _ in range(3)]
    other, done = scene.place(), scene.running(labels=("nightly",))
    done.finish()
    running = scene.running(labels=("nightly",))
    made, cursor = cancelled(scene, label="nightly", reason="superseded")
    assert sorted(made) == sorted([*wanted, running.order_id]) and cursor is None
    assert [scene.status(id) for id in wanted] == [OrderStatus.CANCELLED] * 3
    assert scene.store.orders.get(wanted[0]).detail == "superseded"
    assert scene.status(running.order_id) is OrderStatus.RUNNING, "its drone ends it"
    assert [control.reason for control in scene.store.controls.of_order(running.order_id)] == ["superseded"]
    assert (scene.status(other.id), scene.status(done.order_id)) == (OrderStatus.QUEUED, OrderStatus.SUCCEEDED)


def test_a_cancel_goes_on_at_its_cursor_until_none_is_left(scene: Scene) -> None:
    placed = [scene.place().id for _ in range(GROUP_ORDERS + 5)]
    made, cursor = cancelled(scene, most=GROUP_ORDERS + 1, all=True)
    assert sorted(made) == placed[4:] and cursor == placed[4]
    rest, cursor = cancelled(scene, most=GROUP_ORDERS + 1, all=True, cursor=cursor)
    assert (sorted(rest), cursor) == (placed[:4], None)
    assert {scene.status(id) for id in placed} == {OrderStatus.CANCELLED}


def test_a_status_an_agent_a_workspace_a_session_and_a_time_choose(scene: Scene) -> None:
    held = scene.running(agent="review", workspace=HERE)
    queued = scene.place(agent="review", workspace=HERE)
    later = scene.place(not_before=scene.clock.now() + timedelta(hours=1))
    assert cancelled(scene, status="waiting") == ([later.id], None)
    assert cancelled(scene, agent="review", workspace=THERE) == ([], None)
    assert cancelled(scene, since=scene.clock.now() + timedelta(minutes=1)) == ([], None)
    assert cancelled(scene, session_id=held.scene.store.orders.get(held.order_id).session_id)[0] == [held.order_id]
    assert cancelled(scene, agent="review", workspace=HERE, status="queued")[0] == [queued.id]


@pytest.mark.parametrize(
    "asked", [{}, {"reason": "x"}, {"all": False}, {"all": True, "label": "a"}, {"status": "failed"}]
)
def test_which_orders_must_be_said_and_said_once(asked: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        OrdersToCancel.model_validate(asked)
