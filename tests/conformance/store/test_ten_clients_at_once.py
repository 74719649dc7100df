"""Ten clients write to one session at once: `when_busy` decides about each as if they had come one after the other."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import cycle, islice

import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind
from mcc.contracts.order import WhenBusy, WorkOrder
from mcc.contracts.sessions import NewSession
from mcc.contracts.status import OrderStatus
from mcc.store.database.errors import SessionBusy
from mcc.store.rows.values import Placed
from tests.conformance.store.scene import Scene, at_once


def ten(scene: Scene, session_id: str, *ways: WhenBusy) -> tuple[list[Placed], int]:
    """What those of ten clients are answered that are not refused, and how many are refused; each goes one of these
    ways."""
    acts = [
        partial(scene.placed, f"say {number}", session_id=session_id, when_busy=way)
        for number, way in enumerate(islice(cycle(ways), 10))
    ]
    answers = at_once(*acts)
    placed = [answer for answer in answers if isinstance(answer, Placed)]
    refused = [answer for answer in answers if isinstance(answer, SessionBusy)]
    assert len(placed) + len(refused) == 10, answers
    return placed, len(refused)


def turns(scene: Scene, session_id: str) -> Sequence[WorkOrder]:
    """The turns of the session, oldest first."""
    orders = scene.store.sessions.turns(session_id).orders[::-1]
    assert [order.session_seq for order in orders] == [*range(1, len(orders) + 1)], "no number twice, none left out"
    return orders


def running(scene: Scene) -> WorkOrder:
    return scene.store.orders.get(scene.running("first").order_id)


def controls(scene: Scene, order: WorkOrder) -> Counter[ControlKind]:
    listed = scene.store.controls.of_order(order.id)
    assert [control.number for control in listed] == [*range(1, len(listed) + 1)]
    return Counter(control.kind for control in listed)


def test_in_an_idle_session_one_is_taken_and_nine_are_told_that_it_is_busy(scene: Scene) -> None:
    session = scene.store.sessions.open(NewSession(), by=Actor("someone"))
    placed, refused = ten(scene, session.id, WhenBusy.REJECT)
    assert (len(placed), refused) == (1, 9)
    assert [order.id for order in turns(scene, session.id)] == [placed[0].order.id]


@pytest.mark.parametrize("way", [WhenBusy.INTERRUPT, WhenBusy.ROLLBACK])
def test_in_an_idle_session_each_interrupts_the_one_before_it(scene: Scene, way: WhenBusy) -> None:
    session = scene.store.sessions.open(NewSession(), by=Actor("someone"))
    placed, _ = ten(scene, session.id, way)
    *earlier, last = turns(scene, session.id)
    assert last.status is OrderStatus.QUEUED and not last.left_out
    assert {order.status for order in earlier} == {OrderStatus.CANCELLED}
    assert {order.left_out for order in earlier} == {way is WhenBusy.ROLLBACK}
    assert {one.interrupted for one in placed} == {None, *(order.id for order in earlier)}


def test_behind_a_running_turn_ten_are_enqueued(scene: Scene) -> None:
    first = running(scene)
    placed, _ = ten(scene, first.session_id, WhenBusy.ENQUEUE)
    assert {one.order.id for one in placed} == {order.id for order in turns(scene, first.session_id)[1:]}
    assert len(turns(scene, first.session_id)) == 11 and not controls(scene, first)


def test_of_a_running_turn_ten_are_refused(scene: Scene) -> None:
    first = running(scene)
    assert ten(scene, first.session_id, WhenBusy.REJECT) == ([], 10)
    assert len(turns(scene, first.session_id)) == 1


def test_a_running_turn_is_steered_ten_times(scene: Scene) -> None:
    first = running(scene)
    placed, _ = ten(scene, first.session_id, WhenBusy.STEER)
    assert {(one.order.id, one.created) for one in placed} == {(first.id, False)}
    assert controls(scene, first) == {ControlKind.STEER: 10}
    told = {control.message for control in scene.store.controls.of_order(first.id)}
    assert told == {f"say {number}" for number in range(10)}
    assert len(turns(scene, first.session_id)) == 1


@pytest.mark.parametrize("way", [WhenBusy.INTERRUPT, WhenBusy.ROLLBACK])
def test_ten_that_interrupt_a_running_turn_cancel_it_once(scene: Scene, way: WhenBusy) -> None:
    first = running(scene)
    placed, _ = ten(scene, first.session_id, way)
    assert {one.interrupted for one in placed} == {first.id}
    assert controls(scene, first) == {ControlKind.CANCEL: 1}
    before, *rest = turns(scene, first.session_id)
    assert before.left_out is (way is WhenBusy.ROLLBACK)
    assert [order.status for order in rest] == [OrderStatus.QUEUED] * 10


def test_ten_of_all_kinds_are_each_taken_once_or_refused(scene: Scene) -> None:
    first = running(scene)
    placed, refused = ten(scene, first.session_id, *WhenBusy)
    made = [order.prompt for order in turns(scene, first.session_id)[1:]]
    told = [control.message for control in scene.store.controls.of_order(first.id) if control.message]
    assert refused == 2 and controls(scene, first)[ControlKind.CANCEL] == 1
    assert len({*made, *told}) == len(made) + len(told) == len(placed) == 8
