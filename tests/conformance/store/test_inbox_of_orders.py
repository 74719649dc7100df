"""The inbox tells of orders that ended and of those that are stuck, and of each item whether it was seen."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from mcc.contracts.approvals import ITEM_KINDS, ORDER_ITEM_KINDS, InboxItem, NewDecision, OrderItem
from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.inbox_facts import ApprovalRequested
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.store.database.errors import ItemChanged
from mcc.store.database.tables import ORDERS, SEEN
from mcc.store.lists.inbox import SHOWN, InboxQuery
from tests.conformance.store.scene import Held, Scene, replied, started

ALL = ITEM_KINDS | ORDER_ITEM_KINDS


def inbox(scene: Scene, **asked: Any) -> list[InboxItem]:
    return [*scene.store.inbox.look(InboxQuery(**{"kinds": ALL, "viewer": "operator", **asked})).items]


def kinds(scene: Scene, **asked: Any) -> list[str]:
    return [item.kind for item in inbox(scene, **asked)]


def ended(scene: Scene, status: OrderStatus, reason: FailureReason | None = None, **order: Any) -> Held:
    held = scene.running(**order)
    held.write(started(), replied())
    scene.store.claims.finish(held.ending(status, reason=reason))
    scene.clock.advance(1)
    return held


def test_orders_that_failed_went_over_their_budget_or_are_ready_are_told_newest_first(scene: Scene) -> None:
    failed = ended(scene, OrderStatus.FAILED, FailureReason.GATE_FAILED, prompt="Mend the gate\nsoon")
    ended(scene, OrderStatus.FAILED, FailureReason.BUDGET_EXHAUSTED)
    ended(scene, OrderStatus.SUCCEEDED, on_ask="wait")
    assert kinds(scene) == ["ready", "budget", "failed"]
    item = inbox(scene)[-1]
    assert isinstance(item, OrderItem)
    assert (item.id, item.order_id) == (f"failed:{failed.order_id}", failed.order_id)
    assert (item.reason, item.agent, item.title) == (FailureReason.GATE_FAILED, "master", "Mend the gate soon")
    assert (item.owner, item.seen) == ("someone", False)
    assert kinds(scene, kinds=frozenset({"budget"})) == ["budget"]
    assert kinds(scene, kinds=ITEM_KINDS) == []
    assert kinds(scene, order_id=failed.order_id) == ["failed"]


def test_cancelled_orders_and_those_that_nobody_waits_for_are_not_told(scene: Scene) -> None:
    ended(scene, OrderStatus.SUCCEEDED)
    waits = scene.place(on_ask="wait")
    scene.store.controls.request(waits.id, ControlKind.CANCEL, NewControl(), by=Actor("operator"))
    assert scene.status(waits.id) is OrderStatus.CANCELLED
    assert inbox(scene) == []


def test_after_two_weeks_an_end_is_old_news(scene: Scene) -> None:
    ended(scene, OrderStatus.FAILED, FailureReason.INTERNAL)
    scene.clock.advance((SHOWN - timedelta(seconds=10)).total_seconds())
    assert kinds(scene) == ["failed"]
    scene.clock.advance(20)
    assert kinds(scene) == []


def test_a_page_ends_sooner_where_what_is_asked_is_large_and_nothing_is_left_out(scene: Scene) -> None:
    held = scene.running()
    held.write(started(), replied())
    for number in range(5):
        large: dict[str, Any] = {"content": "x" * 600_000}
        asked = ApprovalRequested(
            approval_id=f"approval-{number}", call_id=f"call-{number}", tool="write_file", digest="d", arguments=large
        )
        assert not held.write(asked).culprits
        scene.clock.advance(1)
    pages: list[list[str]] = []
    cursor: str | None = None
    while not pages or cursor is not None:
        page = scene.store.inbox.look(InboxQuery(kinds=ALL, cursor=cursor))
        pages.append([item.id for item in page.items])
        cursor = page.next_cursor
    assert pages == [["approval-4", "approval-3"], ["approval-2", "approval-1"], ["approval-0"]]


def test_pages_of_all_kinds_follow_each_other_without_gap_or_repetition(scene: Scene) -> None:
    for number in range(5):
        held = scene.running(prompt=f"order {number}")
        asked = ApprovalRequested(approval_id=f"approval-{number}", call_id="call", tool="git_commit", digest="d")
        held.write(started(), replied(), asked)
        ended(scene, OrderStatus.FAILED, FailureReason.INTERNAL)
    # Of one moment, so that ids alone tell them apart.
    scene.store.database.write(lambda connection: connection.execute(sa.update(ORDERS).values(finished_at=1)))
    stuck = [OrderItem(id=f"stuck:{held.order_id}", kind="stuck", order_id=held.order_id, at=scene.clock.now())]
    for_all = InboxQuery(kinds=ALL, stuck=stuck, limit=2)
    whole = [item.id for item in scene.store.inbox.look(InboxQuery(kinds=ALL, stuck=stuck)).items]
    ids: list[str] = []
    cursor: str | None = None
    for _ in range(10):
        page = scene.store.inbox.look(InboxQuery(kinds=ALL, stuck=stuck, limit=for_all.limit, cursor=cursor))
        ids += [item.id for item in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert ids == whole and len(ids) == len(set(ids)) == 6


def test_each_sees_the_inbox_of_its_own_orders(scene: Scene) -> None:
    ended(scene, OrderStatus.FAILED, FailureReason.INTERNAL)
    assert kinds(scene, owner="someone") == ["failed"]
    assert kinds(scene, owner="somebody else") == []
    held = scene.running()
    held.write(started(), replied(), ApprovalRequested(approval_id="a", call_id="c", tool="git_commit", digest="d"))
    stuck = [OrderItem(id=f"stuck:{held.order_id}", kind="stuck", order_id=held.order_id, at=scene.clock.now())]
    assert sorted(kinds(scene, owner="someone", stuck=stuck)) == ["approval", "failed", "stuck"]
    assert kinds(scene, owner="somebody else", stuck=stuck) == []


def test_what_was_seen_is_said_so_and_left_out_where_only_the_unseen_is_wanted(scene: Scene) -> None:
    ended(scene, OrderStatus.FAILED, FailureReason.INTERNAL)
    ended(scene, OrderStatus.SUCCEEDED, on_ask="wait")
    ready, failed = inbox(scene)
    scene.store.inbox.see("operator", ids=[failed.id, failed.id, "failed:unknown", "unknown", "\0"])
    assert [item.seen for item in inbox(scene)] == [False, True]
    assert [item.id for item in inbox(scene, unseen=True)] == [ready.id]
    assert [item.seen for item in inbox(scene, viewer="somebody else")] == [False, False]
    scene.store.inbox.see("operator", before=scene.clock.now() + timedelta(days=1))
    assert inbox(scene, unseen=True) == []
    # What the time named lies in the future is new all the same.
    scene.clock.advance(5)
    ended(scene, OrderStatus.FAILED, FailureReason.INTERNAL)
    assert kinds(scene, unseen=True) == ["failed"]


def test_what_was_seen_of_a_deleted_session_goes_with_it(scene: Scene) -> None:
    held = ended(scene, OrderStatus.FAILED, FailureReason.INTERNAL)
    scene.store.inbox.see("operator", ids=[f"failed:{held.order_id}"])
    scene.store.removal.begin(scene.store.orders.get(held.order_id).session_id, by=Actor("operator"))
    for _ in range(5):
        scene.store.removal.advance()
    assert scene.store.database.read(lambda connection: connection.execute(sa.select(SEEN)).all()) == []


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_a_decision_about_something_else_than_what_was_shown_decides_nothing(scene: Scene, decision: Any) -> None:
    held = scene.running()
    held.write(started(), replied(), ApprovalRequested(approval_id="a", call_id="c", tool="git_commit", digest="new"))
    decide = scene.store.approvals.decide
    with pytest.raises(ItemChanged):
        decide("a", NewDecision(decision=decision, digest="old"), by=Actor("operator"))
    assert scene.store.approvals.get("a").status == "pending"
    assert decide("a", NewDecision(decision=decision, digest="new"), by=Actor("operator")).changed


def test_orders_of_a_version_before_are_filled_in_newest_first(scene: Scene) -> None:
    failed = ended(scene, OrderStatus.FAILED, FailureReason.GATE_FAILED)
    cause = _facets(scene, failed.order_id)
    ready = ended(scene, OrderStatus.SUCCEEDED, on_ask="wait", model="fast")
    cancelled = scene.place(on_ask="wait")
    scene.store.controls.request(cancelled.id, ControlKind.CANCEL, NewControl(), by=Actor("operator"))
    queued = scene.place(agent="review", on_ask="wait")
    before = [_facets(scene, order_id) for order_id in (failed.order_id, ready.order_id, cancelled.id, queued.id)]
    empty = dict.fromkeys(("agent", "model", "fingerprint", "inbox", "last_drone"))
    scene.store.database.write(lambda connection: connection.execute(sa.update(ORDERS).values(empty)))
    assert kinds(scene) == []
    assert scene.store.filling.advance() == 4
    assert scene.store.filling.advance() == 0
    after = [_facets(scene, order_id) for order_id in (failed.order_id, ready.order_id, cancelled.id, queued.id)]
    # The model that a master began with is not in the order's row; it has the one that was asked for.
    assert [facets | {"model": None} for facets in after] == [facets | {"model": None} for facets in before]
    assert (after[0]["fingerprint"], after[1]["model"]) == (cause["fingerprint"], "fast")
    assert kinds(scene) == ["ready", "failed"]


def _facets(scene: Scene, order_id: str) -> dict[str, Any]:
    row = scene.store.database.read(
        lambda connection: connection.execute(sa.select(ORDERS).where(ORDERS.c.id == order_id)).mappings().one()
    )
    return {name: row[name] for name in ("agent", "model", "fingerprint", "inbox", "last_drone")}


def test_an_ended_order_keeps_the_model_and_the_drone_that_it_had(scene: Scene) -> None:
    held = ended(scene, OrderStatus.FAILED, FailureReason.INTERNAL, model="fast")
    facets = _facets(scene, held.order_id)
    assert (facets["agent"], facets["last_drone"], facets["inbox"]) == ("master", "drone-1", "failed")
    assert facets["model"] == scene.fold(held.order_id).record().model.effective  # type: ignore[union-attr]
