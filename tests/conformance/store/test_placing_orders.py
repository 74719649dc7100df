"""Placing orders once per idempotency key, finding them, showing them."""

from dataclasses import replace
from datetime import timedelta

import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.order import NewOrder, OrderOutcome
from mcc.contracts.sessions import NewSession
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from mcc.store.database.errors import BadCursor, IdempotencyConflict, UnknownOrder, UnknownSession
from mcc.store.rows.values import Placed
from mcc.store.work.session_search import SessionFilter
from tests.conformance.store.scene import Scene, at_once, ended, replied, started

NOWHERE = "01890000-0000-7000-8000-000000000000"


def test_a_placed_order_is_queued_with_its_first_entry(scene: Scene) -> None:
    placed = scene.placed("Explain this\n  repository", labels=("a", "b"), priority=2)
    order = placed.order
    assert placed.created and placed.receipt is None and placed.interrupted is None
    assert (order.status, order.last_seq, order.attempt, order.session_seq) == (OrderStatus.QUEUED, 1, 0, 1)
    assert (order.prompt, order.labels, order.priority) == ("Explain this\n  repository", ("a", "b"), 2)
    assert order.created_at == scene.clock.now() and order.started_at is None
    assert scene.store.orders.get(order.id) == order
    [entry] = scene.store.journal.read(order.id)
    assert (entry.seq, entry.kind, entry.at) == (1, "order.queued", scene.clock.now())


def test_an_order_without_a_session_opens_one_named_after_its_prompt(scene: Scene) -> None:
    order = scene.place("  Explain\tthis\n\nrepository " + "x" * 100)
    session = scene.store.sessions.get(order.session_id)
    assert session.title == ("Explain this repository " + "x" * 100)[:60]
    assert (session.turns, session.last_order_id) == (1, order.id)


def test_every_field_of_an_order_survives(scene: Scene) -> None:
    fields = {
        "agent": "review",
        "model": "openai/x",
        "workspace": "/srv/a b",
        "ref": "main",
        "limits": {"rounds": 3},
        "queue": "slow",
        "when_busy": "steer",
        "labels": ["one", "ein Käse"],
        "result_schema": {"type": "object", "x\ud800": ["\x00", 1e400, None]},
        "rules": [{"cel": "true", "message": "no"}],
        "webhook_url": "https://example.org/hook",
    }
    order = scene.place("pro\x00mpt 🙂", **fields)
    found = scene.store.orders.get(order.id)
    assert found.prompt == "pro\x00mpt 🙂"
    assert found.limits and found.limits.rounds == 3
    assert found.rules[0].cel == "true"
    assert found.result_schema == {"type": "object", "x\ud800": ["\x00", None, None]}
    assert (found.agent, found.workspace, found.ref) == ("review", "/srv/a b", "main")
    assert (found.queue, found.labels, found.webhook_url) == ("slow", ("one", "ein Käse"), "https://example.org/hook")


def test_the_same_key_and_body_again_give_the_same_order(scene: Scene) -> None:
    first = scene.placed("a", key="k")
    again = scene.placed("a", key="k")
    assert first.created and not again.created
    assert again.order.id == first.order.id


def test_a_key_with_another_body_is_refused(scene: Scene) -> None:
    scene.placed("a", key="k")
    with pytest.raises(IdempotencyConflict):
        scene.placed("b", key="k")


def test_an_idempotency_key_belongs_to_its_principal(scene: Scene) -> None:
    first = scene.placed("a", key="k")
    other = scene.store.orders.place(NewOrder(prompt="a"), by=Actor("else"), idempotency_key="k")
    assert other.created and other.order.id != first.order.id


def test_a_key_is_forgotten_after_a_day(scene: Scene) -> None:
    first = scene.placed("a", key="k")
    scene.clock.advance(24 * 3600 + 1)
    assert scene.placed("b", key="k").order.id != first.order.id


def test_a_key_may_be_any_header_value(scene: Scene) -> None:
    key = "é\x00" + "x" * 5_000
    assert scene.placed("a", key=key).created
    assert not scene.placed("a", key=key).created


def test_one_key_used_by_many_at_once_makes_one_order(scene: Scene) -> None:
    answers = at_once(*[lambda: scene.placed("a", key="k")] * 6)
    placed = [answer for answer in answers if isinstance(answer, Placed)]
    assert len(placed) == 6, answers
    assert len({one.order.id for one in placed}) == 1
    assert sum(one.created for one in placed) == 1
    assert len(scene.store.orders.list().items) == 1


def test_an_unknown_session_is_named(scene: Scene) -> None:
    with pytest.raises(UnknownSession, match=NOWHERE):
        scene.place(session_id=NOWHERE)


@pytest.mark.parametrize("order_id", [NOWHERE, "nonsense", "", "\x00", "\ud800"])
def test_an_unknown_order_is_unknown_everywhere(scene: Scene, order_id: str) -> None:
    for ask in (
        scene.store.orders.get,
        scene.store.orders.record,
        scene.store.journal.read,
        scene.store.controls.of_order,
        lambda one: scene.store.controls.request(one, ControlKind.CANCEL, NewControl(), by=Actor("x")),
    ):
        with pytest.raises(UnknownOrder):
            ask(order_id)
    assert scene.store.journal.reached([order_id]) == {}
    assert scene.claim(order_id, scene.drone()) is None


def test_turns_of_a_session_are_numbered_and_wait_for_each_other(scene: Scene) -> None:
    session = scene.store.sessions.open(NewSession(title="talk"), by=Actor("someone"))
    first, second, third = (scene.place(str(n), session_id=session.id) for n in range(3))
    assert [order.session_seq for order in (first, second, third)] == [1, 2, 3]
    assert (first.blocked_by, second.blocked_by, third.blocked_by) == (None, first.id, first.id)
    assert (first.queue_position, second.queue_position) == (1, None)
    assert [one.order_id for one in scene.store.claims.claimable(["default"], 10)] == [first.id]
    assert scene.store.sessions.get(session.id).turns == 3


def test_turns_placed_at_once_get_different_numbers(scene: Scene) -> None:
    session = scene.store.sessions.open(NewSession(), by=Actor("someone"))
    answers = at_once(*[lambda: scene.placed(session_id=session.id)] * 6)
    placed = [answer for answer in answers if isinstance(answer, Placed)]
    assert sorted(one.order.session_seq for one in placed) == [1, 2, 3, 4, 5, 6], answers


def test_places_in_the_queue_follow_priority_then_age(scene: Scene) -> None:
    late, early, urgent = scene.place(priority=5), scene.place(priority=5), scene.place(priority=0)
    other = scene.place(queue="slow")
    places = {order.id: order.queue_position for order in scene.store.orders.list().items}
    assert places == {urgent.id: 1, late.id: 2, early.id: 3, other.id: 1}
    assert [one.order_id for one in scene.store.claims.claimable(["default", "slow"], 3)] == [
        urgent.id,
        late.id,
        early.id,
    ]
    assert [one.order_id for one in scene.store.claims.claimable(["slow"], 3)] == [other.id]


def test_an_order_for_later_waits_and_is_queued_when_due(scene: Scene) -> None:
    order = scene.place(not_before=scene.clock.now() + timedelta(hours=1))
    assert (order.status, order.reason) == (OrderStatus.WAITING, WaitingReason.NOT_BEFORE)
    assert scene.store.claims.claimable(["default"], 10) == []
    assert not scene.store.sweeper.sweep(may_expire=True).resumed
    scene.clock.advance(3601)
    assert list(scene.store.sweeper.sweep(may_expire=True).resumed) == [order.id]
    assert scene.kinds(order.id) == ["order.queued", "order.resumed"]
    assert scene.status(order.id) is OrderStatus.QUEUED
    assert scene.claim(order.id, scene.drone()) is not None


def test_an_order_for_later_behind_another_is_queued_and_not_claimable_before_its_time(scene: Scene) -> None:
    held = scene.running()
    session = scene.store.orders.get(held.order_id).session_id
    later = scene.place(session_id=session, not_before=scene.clock.now() + timedelta(seconds=5))
    assert later.status is OrderStatus.QUEUED
    held.finish()
    assert scene.store.claims.claimable(["default"], 10) == []
    assert scene.claim(later.id, scene.drone()) is None
    scene.clock.advance(6)
    assert scene.claim(later.id, scene.drone()) is not None


def test_a_time_that_has_passed_delays_nothing(scene: Scene) -> None:
    assert scene.place(not_before=scene.clock.now() - timedelta(days=1)).status is OrderStatus.QUEUED


def test_a_queued_order_expires(scene: Scene) -> None:
    order = scene.place(expires_at=scene.clock.now() + timedelta(seconds=10))
    scene.clock.advance(11)
    assert scene.claim(order.id, scene.drone()) is None
    assert list(scene.store.sweeper.sweep(may_expire=False).ended) == [order.id]
    found = scene.store.orders.get(order.id)
    assert (found.status, found.reason) == (OrderStatus.FAILED, FailureReason.EXPIRED)
    assert found.detail and found.finished_at == scene.clock.now()
    assert scene.kinds(order.id) == ["order.queued", "order.finished"]


def test_a_waiting_order_expires_a_day_after_its_time_when_it_names_none(scene: Scene) -> None:
    order = scene.place(not_before=scene.clock.now() + timedelta(hours=1))
    scene.clock.advance(25 * 3600 + 1)
    assert list(scene.store.sweeper.sweep(may_expire=True).ended) == [order.id]
    assert scene.store.orders.get(order.id).reason is FailureReason.EXPIRED


def test_lists_are_paged_newest_first_and_filtered(scene: Scene) -> None:
    orders = [scene.place(str(number), labels=("odd",) if number % 2 else ()) for number in range(5)]
    newest = [order.id for order in reversed(orders)]
    page = scene.store.orders.list(limit=2)
    rest = scene.store.orders.list(limit=10, cursor=page.next_cursor)
    assert [order.id for order in (*page.items, *rest.items)] == newest
    assert page.next_cursor and rest.next_cursor is None
    assert [order.id for order in scene.store.orders.list(label="odd").items] == [orders[3].id, orders[1].id]
    assert [one.id for one in scene.store.orders.list(session_id=orders[2].session_id).items] == [orders[2].id]
    scene.hold(orders[0].id)
    assert [one.id for one in scene.store.orders.list(status=OrderStatus.RUNNING).items] == [orders[0].id]
    assert not scene.store.orders.list(label="no\x00ne").items
    assert not scene.store.orders.list(session_id="?\x00").items
    assert scene.store.orders.counts() == {OrderStatus.RUNNING: 1, OrderStatus.QUEUED: 4}


@pytest.mark.parametrize("cursor", ["", "nonsense", "\x00", "1 OR 1=1"])
def test_a_cursor_that_no_page_gave_is_refused(scene: Scene, cursor: str) -> None:
    with pytest.raises(BadCursor):
        scene.store.orders.list(cursor=cursor)
    with pytest.raises(BadCursor):
        scene.store.sessions.list(SessionFilter(cursor=cursor))


def test_sessions_are_listed_newest_first(scene: Scene) -> None:
    opened = [scene.store.sessions.open(NewSession(title=f"t{n}\x00"), by=Actor("someone")) for n in range(3)]
    page = scene.store.sessions.list(limit=2)
    rest = scene.store.sessions.list(SessionFilter(cursor=page.next_cursor))
    assert [*page.items, *rest.items] == list(reversed(opened))
    with pytest.raises(UnknownSession):
        scene.store.sessions.get(NOWHERE)


def test_a_running_order_shows_its_drone_and_its_usage(scene: Scene) -> None:
    order = scene.place()
    held = scene.hold(order.id, scene.drone("alpha"))
    held.write(started(), replied(tokens=3), replied(tokens=4, round_number=2))
    found = scene.store.orders.get(order.id)
    assert (found.status, found.drone, found.attempt, found.last_seq) == (OrderStatus.RUNNING, "alpha", 1, 5)
    assert (found.usage.input_tokens, found.usage.model_calls, found.usage.cost_usd) == (7, 2, 1.0)
    assert found.started_at == scene.clock.now() and found.queue_position is None
    assert scene.store.orders.record(order.id) is None


def test_an_ended_order_shows_its_result(scene: Scene) -> None:
    held = scene.running()
    held.write(started(), replied("the text"))
    ending = held.ending(OrderStatus.SUCCEEDED, ended())
    outcome = OrderOutcome(
        status=OrderStatus.SUCCEEDED,
        answer="an answer\x00\ud800",
        result={"a\x00": ["\ud800", 1.5]},
        detail="d\x00",
        usage=ending.outcome.usage,
    )
    last = scene.store.claims.finish(replace(ending, outcome=outcome))
    order = scene.store.orders.get(held.order_id)
    assert (order.status, order.last_seq, order.drone) == (OrderStatus.SUCCEEDED, last, "drone-1")
    assert (order.answer, order.result, order.detail) == ("an answer\x00\ud800", {"a\x00": ["\ud800", 1.5]}, "d\x00")
    assert order.usage == ending.outcome.usage and order.finished_at == scene.clock.now()
    assert scene.store.orders.record(held.order_id) == scene.fold(held.order_id).record() == ending.record


def test_orders_are_found_by_either_end_of_their_ids(scene: Scene) -> None:
    first, second = scene.place(), scene.place()
    for part in (first.id[-8:], first.id[:-1], first.id):
        assert [one.id for one in scene.store.orders.list(part=part).items] == [first.id]
    assert [one.id for one in scene.store.orders.list(part=first.id[:4]).items] == [second.id, first.id]
    assert not scene.store.orders.list(part="%").items
