"""Ending several orders in one transaction: same results as one by one; failures stay isolated."""

from dataclasses import replace

from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.status import OrderStatus
from mcc.store.database.errors import BadEntry, ControlsPending, StoreFenced
from mcc.store.rows.values import EndedOrder
from tests.conformance.store.scene import Held, Scene, called, ended, replied, returned, started


def running(scene: Scene, count: int) -> list[Held]:
    held = [scene.running() for _ in range(count)]
    for one in held:
        one.write(started(), replied())
    return held


def test_they_end_in_the_order_in_which_they_were_asked_for(scene: Scene) -> None:
    held = running(scene, 3)
    endings = [one.ending(OrderStatus.SUCCEEDED, ended()) for one in reversed(held)]
    answers = scene.store.claims.finish_together(endings)
    assert answers == [EndedOrder(one.last_seq + len(one.drafts)) for one in endings]
    for one, ending in zip(reversed(held), endings, strict=True):
        assert scene.status(one.order_id) is OrderStatus.SUCCEEDED
        assert scene.store.orders.record(one.order_id) == ending.record == scene.fold(one.order_id).record()
    assert list(scene.store.claims.finish_together(endings)) == answers, "the answer was lost, and they are sent again"


def test_a_fenced_order_and_one_with_controls_do_not_affect_the_others(scene: Scene) -> None:
    lost, asked, good = running(scene, 3)
    endings = [one.ending(OrderStatus.SUCCEEDED, ended()) for one in (lost, asked, good)]
    scene.store.claims.hand_back([(lost.order_id, lost.epoch)], drone="drone-1", message="gone")
    scene.store.controls.request(asked.order_id, ControlKind.CANCEL, NewControl(), by=Actor("somebody"))
    answers = scene.store.claims.finish_together(endings)
    assert [type(answer) for answer in answers] == [StoreFenced, ControlsPending, EndedOrder]
    assert [scene.status(one.order_id) for one in (lost, asked, good)] == [
        OrderStatus.QUEUED,
        OrderStatus.RUNNING,
        OrderStatus.SUCCEEDED,
    ]


def test_one_whose_entries_the_database_refuses_keeps_no_other_back(scene: Scene) -> None:
    first, bad, last = running(scene, 3)
    record = bad.origin.record_id or ""
    bad.write(called(record), returned(record))
    endings = [one.ending(OrderStatus.SUCCEEDED, ended()) for one in (first, bad, last)]
    twice = [replace(endings[1].drafts[0], data=returned(record)), *endings[1].drafts]
    endings[1] = replace(endings[1], drafts=twice)
    answers = scene.store.claims.finish_together(endings)
    assert [type(answer) for answer in answers] == [EndedOrder, BadEntry, EndedOrder]
    assert scene.kinds(bad.order_id)[-1] == "tool.finished"
    assert scene.status(bad.order_id) is OrderStatus.RUNNING
    assert all(scene.kinds(one.order_id).count("order.finished") == 1 for one in (first, last))
