"""Orders are found by any filters together, page by page, and each page says how far it looked."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from mcc.contracts.answers import Needs
from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.inbox_facts import ApprovalRequested, QuestionAsked
from mcc.contracts.order_lists import OrderCriteria
from mcc.contracts.shape import now
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from mcc.store.database.errors import BadCursor
from mcc.store.database.tables import ORDERS
from mcc.store.lists import order_scan
from mcc.store.rows.values import Parking
from tests.conformance.store.scene import Held, Scene, replied, started


def found(scene: Scene, **filters: Any) -> list[str]:
    return [order.id for order in scene.store.order_lists.find(OrderCriteria(**filters)).items]


def ended(scene: Scene, reason: FailureReason | None = None, *, drone: str = "drone-1", **order: Any) -> str:
    held = scene.hold(scene.place(**order).id, scene.drone(drone))
    held.write(started(), replied())
    status = OrderStatus.SUCCEEDED if reason is None else OrderStatus.FAILED
    scene.store.claims.finish(held.ending(status, reason=reason))
    return held.order_id


def asking(scene: Scene) -> Held:
    held = scene.running()
    held.write(started(), replied())
    held.write(ApprovalRequested(approval_id=f"a-{held.order_id}", call_id="c", tool="git_commit", digest="d"))
    return held


def test_several_values_of_one_filter_are_either_and_several_filters_are_both(scene: Scene) -> None:
    one = scene.place(agent="review", labels=["nightly", "slow"], model="fast").id
    two = scene.place(agent="explore", labels=["nightly"]).id
    three = scene.place(agent="review").id
    assert found(scene) == [three, two, one]
    assert found(scene, agent=["review"]) == [three, one]
    assert found(scene, agent=["review", "explore"]) == [three, two, one]
    assert found(scene, agent=["review"], label=["nightly"]) == [one]
    # An order with both labels is listed once.
    assert found(scene, label=["nightly", "slow"]) == [two, one]
    assert found(scene, model=["fast"]) == [one]
    assert found(scene, who=["someone"]) == [three, two, one]
    assert found(scene, who=["somebody else"]) == []
    assert found(scene, status=["queued", "failed"], session_id=[scene.store.orders.get(two).session_id]) == [two]
    assert found(scene, part=one[-6:]) == [one]


def test_orders_are_found_by_the_drone_that_runs_them_or_ran_them_last(scene: Scene) -> None:
    done = ended(scene, drone="drone-2")
    running = scene.hold(scene.place().id, scene.drone("drone-2")).order_id
    scene.place()
    assert found(scene, drone=["drone-2"]) == [running, done]
    assert found(scene, drone=["drone-3"]) == []


def test_orders_are_found_by_the_time_at_which_they_were_placed(scene: Scene) -> None:
    # Ids have the time of the machine, by which a list bounds what it looks at.
    scene.clock.advance((now() - scene.clock.now()).total_seconds())
    first = scene.place()
    scene.clock.advance(60)
    second = scene.place()
    assert found(scene, since=second.created_at) == [second.id]
    assert found(scene, until=second.created_at) == [first.id]
    assert found(scene, since=first.created_at, until=second.created_at + timedelta(seconds=1)) == [second.id, first.id]


def test_the_earliest_and_the_latest_time_there_are_bound_a_list(scene: Scene) -> None:
    order = scene.place()
    assert found(scene, since="0001-01-01T00:00:00Z", until="9999-12-31T23:59:59Z") == [order.id]
    assert found(scene, until="0001-01-01T00:00:00Z") == found(scene, since="9999-12-31T23:59:59Z") == []


def test_failures_of_one_cause_are_found_by_their_fingerprint(scene: Scene) -> None:
    one, other = ended(scene, FailureReason.INTERNAL), ended(scene, FailureReason.GATE_FAILED)
    again = ended(scene, FailureReason.INTERNAL)
    row = sa.select(ORDERS.c.fingerprint).where(ORDERS.c.id == one)
    cause = scene.store.database.read(lambda connection: connection.scalar(row))
    assert found(scene, fingerprint=[cause]) == [again, one]
    assert other not in found(scene, fingerprint=[cause])


def test_each_order_is_in_one_of_the_groups(scene: Scene) -> None:
    asks = asking(scene)
    parked = scene.running()
    parked.write(started(), replied())
    scene.store.claims.park(
        Parking(parked.order_id, parked.epoch, parked.last_seq, parked.control_seq, WaitingReason.PAUSED, "it waits")
    )
    queued, running = scene.place().id, scene.running().order_id
    done = ended(scene)
    assert found(scene, group="needs_input") == [parked.order_id, asks.order_id]
    assert found(scene, group="working") == [running, queued]
    assert found(scene, group="done") == [done]
    assert found(scene, group="done", status=["failed"]) == []


def test_a_summary_says_who_is_waited_for_and_what_was_used(scene: Scene) -> None:
    held = asking(scene)
    question = QuestionAsked(question_id="q", call_id="c2", question="Which?")
    held.write(question)
    page = scene.store.order_lists.summaries(OrderCriteria())
    [summary] = page.items
    assert (summary.needs, summary.principal, page.searched_to) == (Needs(approvals=1, questions=1), "someone", None)
    usage = scene.store.orders.get(held.order_id).usage
    assert summary.tokens == usage.input_tokens + usage.output_tokens > 0
    assert summary.cost_usd == usage.cost_usd


def test_unfinished_orders_are_counted_by_status_and_reason(scene: Scene) -> None:
    scene.place()
    scene.place(not_before=scene.clock.now() + timedelta(hours=1))
    ended(scene)
    counts = [(count.status, count.reason, count.orders) for count in scene.store.order_lists.counts()]
    assert counts == [(OrderStatus.QUEUED, None, 1), (OrderStatus.WAITING, WaitingReason.NOT_BEFORE, 1)]


def _all_pages(scene: Scene, limit: int, **filters: Any) -> list[str]:
    ids: list[str] = []
    cursor: str | None = None
    for _ in range(50):
        page = scene.store.order_lists.find(OrderCriteria(**filters), cursor=cursor, limit=limit)
        ids += [order.id for order in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return ids
        assert page.searched_to is not None
    raise AssertionError("the pages do not end")


@pytest.mark.parametrize("limit", [1, 2, 50])
def test_pages_follow_each_other_without_gap_or_repetition(scene: Scene, limit: int) -> None:
    for number in range(7):
        scene.place(agent="review" if number % 3 else "explore", labels=["a", "b"] if number % 2 else ["b"])
    for filters in (
        {},
        {"agent": ["explore", "review"]},
        {"label": ["a", "b"]},
        {"kind": "chat"},
        {"group": "working"},
    ):
        everything = found(scene, **filters)
        assert len(everything) == 7
        assert _all_pages(scene, limit, **filters) == everything


def test_orders_of_a_workspace_and_a_kind_are_found(scene: Scene) -> None:
    here = scene.place(workspace="/here").id
    scene.place(workspace="/there")
    assert found(scene, workspace="/here") == [here]
    assert found(scene, workspace="/here", kind="chat") == [here]
    assert found(scene, kind="revert") == []


def test_a_list_by_what_is_not_filled_in_ends_there_and_says_so(scene: Scene) -> None:
    old = [scene.place(agent="review").id for _ in range(3)]
    scene.clock.advance(60)
    new = scene.place(agent="review").id
    empty = sa.update(ORDERS).where(ORDERS.c.id.in_(old)).values(agent=None)
    scene.store.database.write(lambda connection: connection.execute(empty))
    lists, filters = scene.store.order_lists, OrderCriteria(agent=("review",))
    page = lists.find(filters)
    assert [order.id for order in page.items] == [new]
    assert page.searched_to == scene.store.orders.get(old[-1]).created_at
    again = lists.find(filters, cursor=page.next_cursor)
    assert again.items == () and again.next_cursor == page.next_cursor
    scene.store.filling.advance()
    rest = lists.find(filters, cursor=page.next_cursor)
    assert [order.id for order in rest.items] == old[::-1] and rest.next_cursor is None


def test_a_request_looks_at_so_many_orders_and_the_next_goes_on_from_there(scene: Scene) -> None:
    first = scene.place("rare").id
    chunk, examined = 3, 6
    for _ in range(examined + 2):
        scene.place()
    with_bounds = order_scan.ScanBounds(examined=examined, chunk=chunk)
    filters = OrderCriteria(workspace=None, who=("someone",), drone=("nobody",))

    def scan(cursor: str | None) -> order_scan.Scanned:
        return scene.store.database.read(lambda connection: with_bounds.ids(connection, filters, cursor, 10))

    page = scan(None)
    assert not page.ids
    assert page.next_cursor is not None and page.searched_to is not None and page.next_cursor > first
    assert scan(page.next_cursor).next_cursor is None


@pytest.mark.parametrize("cursor", ["x", "\0", "01a1d430-364d-7000-8000-9cf7f3a86dc", "g"])
def test_a_cursor_of_another_list_is_refused(scene: Scene, cursor: str) -> None:
    with pytest.raises(BadCursor):
        scene.store.order_lists.find(OrderCriteria(), cursor=cursor)


def test_a_cancelled_order_is_done(scene: Scene) -> None:
    order = scene.place()
    scene.store.controls.request(order.id, ControlKind.CANCEL, NewControl(), by=Actor("operator"))
    assert found(scene, group="done") == [order.id]
