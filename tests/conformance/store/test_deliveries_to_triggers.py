"""Deliveries to triggers: known by id and body, placed once with their row, turns of sessions that triggers made."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.ids import named_session_id
from mcc.contracts.order import NewOrder, WhenBusy
from mcc.contracts.sessions import NewSession
from mcc.contracts.status import OrderStatus
from mcc.contracts.triggers import KEPT_DAYS
from mcc.store.doors.trigger_deliveries import (
    KnownDelivery,
    TakenDelivery,
    TriggerDeliveryStore,
    TriggeredOrder,
)
from mcc.store.work.orders import OrderStore, QueueBound
from mcc.store.work.session_changes import new_row, open_session
from tests.conformance.store.scene import Scene, at_once

BY = Actor("trigger:issues", "trigger/issues")


def known(key: str, body: str | None = None, trigger: str = "issues") -> KnownDelivery:
    return KnownDelivery(trigger, key, body)


def order(prompt: str = "Look", session: str | None = None, *, by: Actor = BY, turns: int = 20) -> TriggeredOrder:
    return TriggeredOrder(NewOrder(prompt=prompt), by, session, turns)


def placed(scene: Scene, key: str, asked: TriggeredOrder | None = None, body: str | None = None) -> TakenDelivery:
    return scene.store.trigger_deliveries.place(known(key, body or f"body of {key}"), asked or order())


def all_at_once(*acts: Callable[[], TakenDelivery]) -> Sequence[TakenDelivery]:
    """What each has done; none of them fails."""
    answers = at_once(*acts)
    taken = [each for each in answers if isinstance(each, TakenDelivery)]
    assert len(taken) == len(acts), answers
    return taken


def test_a_delivery_places_its_order_as_whom_and_by_which_door_it_came(scene: Scene) -> None:
    taken = placed(scene, "1")
    assert taken.verdict == "placed" and taken.created and taken.order_id is not None
    new = scene.store.orders.get(taken.order_id)
    assert (new.principal, new.door, new.on_ask, new.status) == (BY.principal, BY.door, "deny", OrderStatus.QUEUED)
    (row,) = scene.store.trigger_deliveries.list("issues")
    assert (row.key, row.verdict, row.order_id, row.at) == ("1", "placed", new.id, scene.clock.now())
    assert scene.store.trigger_deliveries.list("others") == []


@pytest.mark.parametrize(("key", "body"), [("1", "another body"), ("2", "body of 1")])
def test_the_same_id_and_the_same_body_place_nothing_again(scene: Scene, key: str, body: str) -> None:
    first = placed(scene, "1")
    again = placed(scene, key, body=body)
    assert (again.verdict, again.order_id, again.created) == ("repeated", first.order_id, False)
    assert len(scene.store.orders.list().items) == 1
    assert scene.store.trigger_deliveries.place(known(key, body, "others"), order()).verdict == "placed"


def test_where_the_id_is_signed_the_same_body_may_come_again(scene: Scene) -> None:
    for key in ("1", "2"):
        assert scene.store.trigger_deliveries.place(known(key), order()).verdict == "placed"


def test_what_placed_nothing_is_remembered_as_well(scene: Scene) -> None:
    deliveries = scene.store.trigger_deliveries
    assert deliveries.note(known("1", "b"), "no_match", "when does not hold.").verdict == "no_match"
    assert placed(scene, "1", body="b").verdict == "repeated"
    assert deliveries.list("issues")[0].why == "when does not hold."


def test_two_deliveries_at_once_place_one_order(scene: Scene) -> None:
    taken = all_at_once(*[lambda: placed(scene, "1")] * 4)
    assert sorted(each.verdict for each in taken) == ["placed", "repeated", "repeated", "repeated"]
    assert len(scene.store.orders.list().items) == 1
    assert len({each.order_id for each in taken}) == 1


def test_one_body_under_two_ids_at_once_places_one_order(scene: Scene) -> None:
    taken = all_at_once(lambda: placed(scene, "1", body="b"), lambda: placed(scene, "2", body="b"))
    assert sorted(each.verdict for each in taken) == ["placed", "repeated"]
    assert len(scene.store.orders.list().items) == 1


def test_a_delivery_is_forgotten_after_its_time(scene: Scene) -> None:
    placed(scene, "1")
    scene.clock.advance(timedelta(days=KEPT_DAYS).total_seconds() - 1)
    assert placed(scene, "1").verdict == "repeated"
    scene.clock.advance(2)
    assert placed(scene, "1").verdict == "placed"


class Killed(OrderStore):
    """Places, and comes no further."""

    def place_within(self, *arguments: Any) -> Any:
        super().place_within(*arguments)
        raise KeyboardInterrupt


def test_whoever_is_killed_before_the_commit_has_neither_placed_nor_remembered_it(scene: Scene) -> None:
    store = scene.store
    killed = Killed(store.database, QueueBound(None, scene.clock), store.documents)
    with pytest.raises(KeyboardInterrupt):
        TriggerDeliveryStore(store.database, killed, store.documents).place(known("1"), order(session="a"))
    assert not store.orders.list().items and not store.sessions.list().items
    assert store.trigger_deliveries.list("issues") == []
    assert placed(scene, "1").verdict == "placed"


def test_what_is_refused_leaves_nothing_but_its_row_and_may_come_again(scene: Scene) -> None:
    unknown = replace(order(), new=NewOrder(prompt="x", session_id="01900000-0000-7000-8000-000000000000"))
    refused = placed(scene, "1", unknown)
    assert refused.verdict == "refused" and "there is no session" in refused.why
    assert not scene.store.orders.list().items
    (row,) = scene.store.trigger_deliveries.list("issues")
    assert (row.verdict, row.why) == ("refused", refused.why)
    again = placed(scene, "1")
    assert again.verdict == "placed" and again.order_id
    assert [each.verdict for each in scene.store.trigger_deliveries.list("issues")] == ["placed"]


def test_deliveries_of_one_text_are_turns_of_one_session_whichever_trigger_they_come_to(scene: Scene) -> None:
    first = placed(scene, "1", order(session="team/app#7"))
    other = Actor("trigger:comments", "trigger/comments")
    second = scene.store.trigger_deliveries.place(
        known("9", trigger="comments"), order("Go on", "team/app#7", by=other)
    )
    orders = [scene.store.orders.get(str(each.order_id)) for each in (first, second)]
    assert [(each.session_id, each.session_seq) for each in orders] == [
        (named_session_id("team/app#7"), 1),
        (named_session_id("team/app#7"), 2),
    ]
    assert scene.store.sessions.get(orders[0].session_id).title == "Look"
    assert {each.id for each in scene.store.orders.list().items} == {each.id for each in orders}


def test_two_that_make_a_session_at_once_are_two_turns_of_it(scene: Scene) -> None:
    taken = all_at_once(*(lambda key=key: placed(scene, key, order(session="a")) for key in "12"))
    turns = sorted(scene.store.orders.get(str(each.order_id)).session_seq for each in taken)
    assert turns == [1, 2]


def test_a_session_that_no_trigger_made_takes_no_turn_of_one(scene: Scene) -> None:
    mine = {**new_row(NewSession(), Actor("operator", "api"), 1), "id": named_session_id("a")}
    scene.store.database.write(lambda connection: open_session(connection, mine))
    refused = placed(scene, "1", order(session="a"))
    assert refused.verdict == "refused" and "was not made by a trigger" in refused.why


def test_a_session_takes_so_many_turns_an_hour(scene: Scene) -> None:
    for key in "12":
        assert placed(scene, key, order(session="a", turns=2)).verdict == "placed"
    refused = placed(scene, "3", order(session="a", turns=2))
    assert refused.verdict == "refused" and "turns_an_hour" in refused.why
    assert placed(scene, "4", order(session="b", turns=2)).verdict == "placed"
    scene.clock.advance(3_601)
    assert placed(scene, "3", order(session="a", turns=2)).verdict == "placed"


def test_what_steers_a_turn_counts_as_one(scene: Scene) -> None:
    first = placed(scene, "1", order(session="a", turns=3))
    assert first.order_id is not None
    scene.hold(first.order_id)
    steering = replace(order(session="a", turns=3), new=NewOrder(prompt="Also there", when_busy=WhenBusy.STEER))
    assert [placed(scene, key, steering).verdict for key in "2345"] == ["placed", "placed", "refused", "refused"]
    assert placed(scene, "6", order(session="a", turns=3)).verdict == "refused"
    scene.clock.advance(3_601)
    assert placed(scene, "4", steering).verdict == "placed"


def test_deliveries_are_counted_by_trigger_and_what_they_came_to(scene: Scene) -> None:
    deliveries = scene.store.trigger_deliveries
    since = scene.clock.now()
    for key in "12":
        deliveries.note(known(key), "refused", "no")
    deliveries.note(known("3", trigger="others"), "no_match", "no")
    assert deliveries.counts(["issues", "others"], since) == {"issues": {"refused": 2}, "others": {"no_match": 1}}
    assert deliveries.counts(["issues"], since) == {"issues": {"refused": 2}}
    assert deliveries.counts(["issues"], since + timedelta(seconds=1)) == {"issues": {}}


def test_a_turn_that_another_trigger_placed_is_steered_and_one_of_a_person_is_not(scene: Scene) -> None:
    first = placed(scene, "1", order(session="a#1"))
    assert first.order_id is not None
    held = scene.hold(first.order_id)
    steering = order(session="a#1", by=Actor("trigger:comments", "trigger/comments"))
    steering = replace(steering, new=NewOrder(prompt="Also there", when_busy=WhenBusy.STEER))
    steered = placed(scene, "2", steering)
    assert (steered.verdict, steered.order_id, steered.created) == ("placed", first.order_id, False)
    theirs = scene.place(session_id=named_session_id("a#1"))
    assert placed(scene, "3", steering).order_id == first.order_id
    replace(held, control_seq=2).finish()
    scene.hold(theirs.id)
    assert "needs the right 'operate'" in placed(scene, "4", steering).why
    assert placed(scene, "5", replace(steering, anybodys=True)).order_id == theirs.id
