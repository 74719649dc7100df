"""Controls and their receipts; `when_busy` for a turn of a busy session."""

from datetime import timedelta
from functools import partial

import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.control import Control, ControlKind, NewControl, SteerMode
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import ControlApplied
from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.store.database.errors import ControlsPending, SessionBusy, StoreError, StoreRefused
from mcc.store.rows.values import Placed
from tests.conformance.store.scene import Held, Scene, at_once, started


def ask(scene: Scene, order_id: str, kind: ControlKind = ControlKind.CANCEL, **fields: object) -> Control:
    return scene.store.controls.request(order_id, kind, NewControl.model_validate(fields), by=Actor("someone"))


def test_a_control_of_a_running_order_waits_for_its_drone(scene: Scene) -> None:
    held = scene.running()
    first = ask(scene, held.order_id, ControlKind.STEER, message="left \x00", record_id=None)
    second = ask(scene, held.order_id, reason="enough")
    assert (first.number, second.number) == (1, 2)
    assert first.open and first.delivered_at is None and first.requested_at == scene.clock.now()
    scene.clock.advance(1)
    found = scene.store.controls.pending({held.order_id: 0, "nonsense": 0})
    assert [(one.id, one.message, one.reason) for one in found] == [
        (first.id, "left \x00", None),
        (second.id, None, "enough"),
    ]
    assert {one.delivered_at for one in found} == {scene.clock.now()}
    assert scene.store.controls.pending({held.order_id: 1}) == found[1:]
    assert scene.store.controls.pending({held.order_id: 2}) == scene.store.controls.pending({}) == []
    assert scene.store.controls.of_order(held.order_id) == found


def test_a_refused_control_says_why_and_is_closed(scene: Scene) -> None:
    held = scene.running()
    control = ask(scene, held.order_id, ControlKind.STEER, message="m")
    scene.store.controls.refuse(control.id, "that record has ended \ud800")
    scene.store.controls.refuse(control.id, "another reason")
    scene.store.controls.refuse("nonsense", "nobody reads this")
    [receipt] = scene.store.controls.of_order(held.order_id)
    assert receipt.refused == "that record has ended \ud800" and not receipt.open
    assert scene.store.controls.pending({held.order_id: 0}) == []


def test_cancelling_a_queued_order_ends_it_at_once(scene: Scene) -> None:
    order = scene.place()
    control = ask(scene, order.id, reason="not needed")
    assert (control.applied_seq, control.applied_at) == (2, scene.clock.now())
    found = scene.store.orders.get(order.id)
    assert (found.status, found.detail, found.reason) == (OrderStatus.CANCELLED, "not needed", None)
    assert scene.kinds(order.id) == ["order.queued", "control.applied", "order.finished"]
    assert scene.claim(order.id, scene.drone()) is None


def test_cancelling_a_waiting_order_ends_it_at_once(scene: Scene) -> None:
    order = scene.place(not_before=scene.clock.now() + timedelta(hours=1))
    ask(scene, order.id)
    assert scene.status(order.id) is OrderStatus.CANCELLED


def test_cancelling_what_a_lost_drone_left_open_closes_it(scene: Scene) -> None:
    held = scene.running()
    held.write(started())
    scene.lose()
    assert scene.status(held.order_id) is OrderStatus.QUEUED
    ask(scene, held.order_id)
    assert scene.kinds(held.order_id)[-3:] == ["control.applied", "agent.finished", "order.finished"]
    record = scene.store.orders.record(held.order_id)
    assert record == scene.fold(held.order_id).record() and record and record.status == "cancelled"


def test_a_record_of_an_order_that_no_drone_has_begun_cannot_be_addressed(scene: Scene) -> None:
    order = scene.place()
    control = ask(scene, order.id, record_id="01890000-0000-7000-8000-000000000000")
    assert control.refused and scene.status(order.id) is OrderStatus.QUEUED
    assert scene.hold(order.id).control_seq == 1


@pytest.mark.parametrize("kind", list(ControlKind))
def test_what_is_asked_of_one_agent_between_two_holders_is_left_to_the_next(scene: Scene, kind: ControlKind) -> None:
    held = scene.running()
    held.write(started())
    scene.store.claims.hand_back([(held.order_id, held.epoch)], drone="d", message="m")
    record = "01890000-0000-7000-8000-000000000000"
    control = ask(scene, held.order_id, kind, record_id=record, message="m")
    assert control.open and control.delivered_at is None and scene.status(held.order_id) is OrderStatus.QUEUED
    heir = scene.hold(held.order_id, token="next")
    assert [one.id for one in scene.store.controls.pending({held.order_id: heir.control_seq})] == [control.id]


def test_a_pause_of_an_order_that_is_queued_or_waits_is_left_to_the_next_holder(scene: Scene) -> None:
    queued = scene.place()
    later = scene.place(not_before=scene.clock.now() + timedelta(hours=1))
    for order in (queued, later):
        control = ask(scene, order.id, ControlKind.PAUSE)
        assert control.open and scene.status(order.id) is order.status
    assert scene.hold(queued.id).control_seq == 0


def test_a_former_holder_refuses_nothing(scene: Scene) -> None:
    held = scene.running()
    control = ask(scene, held.order_id, ControlKind.STEER, message="m")
    scene.lose()
    assert not scene.store.controls.refuse(control.id, "the zombie says no", epoch=held.epoch)
    heir = scene.hold(held.order_id, token="next")
    assert not scene.store.controls.refuse(control.id, "the zombie says no", epoch=held.epoch)
    assert scene.store.controls.of_order(held.order_id)[0].open
    assert scene.store.controls.refuse(control.id, "it has ended", epoch=heir.epoch)
    assert not scene.store.controls.refuse(control.id, "again", epoch=heir.epoch)
    assert not scene.store.controls.refuse("01890000-0000-7000-8000-000000000000", "unknown", epoch=heir.epoch)
    assert scene.store.controls.of_order(held.order_id)[0].refused == "it has ended"


def test_how_a_steer_is_meant_and_what_it_takes_away_is_kept(scene: Scene) -> None:
    held = scene.running()
    record = "01890000-0000-7000-8000-000000000000"
    tools = ("workspace_write", "run_shell")
    redirect = ask(
        scene, held.order_id, ControlKind.STEER, message="m", mode="redirect", remove_tools=tools, record_id=record
    )
    plain = ask(scene, held.order_id, ControlKind.STEER, remove_tools=("git_add",))
    assert (redirect.mode, redirect.remove_tools, redirect.record_id) == (SteerMode.REDIRECT, tools, record)
    assert (plain.mode, plain.message, plain.remove_tools) == (SteerMode.INJECT, None, ("git_add",))
    assert ask(scene, held.order_id, ControlKind.PAUSE).remove_tools == ()
    found = scene.store.controls.pending({held.order_id: 0})
    assert [(one.mode, one.remove_tools) for one in found[:2]] == [
        (SteerMode.REDIRECT, tools),
        (SteerMode.INJECT, ("git_add",)),
    ]
    assert scene.store.controls.of_order(held.order_id) == found


def test_the_masters_record_stands_for_the_whole_order(scene: Scene) -> None:
    held = scene.running()
    master = root_record_id(held.order_id)
    assert ask(scene, held.order_id, ControlKind.PAUSE, record_id=master).record_id is None
    scene.lose()
    assert ask(scene, held.order_id, ControlKind.RESUME, record_id=master).open
    another = root_record_id(master)
    scene.hold(held.order_id, token="next")
    assert ask(scene, held.order_id, ControlKind.PAUSE, record_id=another).record_id == another


def test_a_cancel_of_the_master_beats_the_end_of_its_order(scene: Scene) -> None:
    held = scene.running()
    ask(scene, held.order_id, record_id=held.origin.record_id)
    with pytest.raises(ControlsPending):
        held.finish()
    held.control_seq = 1
    with pytest.raises(ControlsPending):
        held.finish()
    held.finish(OrderStatus.CANCELLED)
    (receipt,) = scene.store.controls.of_order(held.order_id)
    assert receipt.applied_seq is not None and receipt.refused is None


def test_a_refusal_and_an_entry_at_once_leave_a_receipt_with_one_outcome(scene: Scene) -> None:
    for _ in range(5):
        held = scene.running()
        control = ask(scene, held.order_id, ControlKind.STEER, message="m")
        at_once(
            partial(held.write, ControlApplied(control_id=control.id, control="steer")),
            partial(scene.store.controls.refuse, control.id, "it had ended"),
        )
        (receipt,) = scene.store.controls.of_order(held.order_id)
        assert (receipt.applied_seq is None) != (receipt.refused is None)


def test_a_resume_wakes_an_order_that_waits_for_its_time(scene: Scene) -> None:
    order = scene.place(not_before=scene.clock.now() + timedelta(hours=1))
    assert order.reason is WaitingReason.NOT_BEFORE
    control = ask(scene, order.id, ControlKind.RESUME)
    assert control.applied_seq == 2
    assert scene.kinds(order.id) == ["order.queued", "control.applied", "order.resumed"]
    assert scene.claim(order.id, scene.drone()) is not None


def test_a_control_that_nobody_applied_is_told_to_the_next_holder(scene: Scene) -> None:
    held = scene.running()
    ask(scene, held.order_id, ControlKind.STEER, message="a")
    done = ask(scene, held.order_id, ControlKind.STEER, message="b")
    scene.store.controls.pending({held.order_id: 0})
    held.write(ControlApplied(control_id=done.id, control="steer"))
    scene.lose()
    heir = scene.hold(held.order_id, token="next")
    assert heir.control_seq == 0
    assert [one.message for one in scene.store.controls.pending({held.order_id: heir.control_seq})] == ["a"]


def test_controls_asked_at_once_get_different_numbers(scene: Scene) -> None:
    held = scene.running()
    answers = at_once(*[lambda: ask(scene, held.order_id, ControlKind.STEER, message="m")] * 6)
    numbers = [answer.number for answer in answers if isinstance(answer, Control)]
    assert sorted(numbers) == [1, 2, 3, 4, 5, 6], answers


def test_an_end_and_a_cancel_at_once_leave_one_end_and_no_open_receipt(scene: Scene) -> None:
    for _ in range(5):
        held = scene.running()
        answers = at_once(held.finish, partial(ask, scene, held.order_id))
        ended, asked = answers
        assert isinstance(ended, StoreError) != isinstance(asked, StoreRefused), answers
        if isinstance(ended, StoreError):
            held.control_seq = 1
            held.finish(OrderStatus.CANCELLED)
        assert scene.kinds(held.order_id).count("order.finished") == 1
        assert not any(one.open for one in scene.store.controls.of_order(held.order_id))


def test_reject_refuses_a_busy_session_and_takes_a_free_one(scene: Scene) -> None:
    held = scene.running()
    session = scene.store.orders.get(held.order_id).session_id
    with pytest.raises(SessionBusy, match=held.order_id):
        scene.place(session_id=session, when_busy="reject")
    held.finish()
    assert scene.place(session_id=session, when_busy="reject").status is OrderStatus.QUEUED


def test_interrupt_asks_the_running_turn_to_stop_and_waits_behind_it(scene: Scene) -> None:
    held = scene.running()
    session = scene.store.orders.get(held.order_id).session_id
    placed = scene.placed(session_id=session, when_busy="interrupt")
    assert placed.created and placed.interrupted == held.order_id and placed.order.blocked_by == held.order_id
    [control] = scene.store.controls.pending({held.order_id: 0})
    assert (control.kind, control.record_id) == (ControlKind.CANCEL, None)
    scene.placed(session_id=session, when_busy="interrupt")
    assert len(scene.store.controls.of_order(held.order_id)) == 1, "one cancel is enough"
    assert not left_out(scene, held.order_id)


@pytest.mark.parametrize("when_busy", ["interrupt", "rollback"])
def test_a_turn_that_has_not_begun_is_ended_by_the_one_that_takes_its_place(scene: Scene, when_busy: str) -> None:
    first = scene.place()
    placed = scene.placed(session_id=first.session_id, when_busy=when_busy)
    assert placed.interrupted == first.id
    assert scene.status(first.id) is OrderStatus.CANCELLED
    assert (placed.order.blocked_by, placed.order.queue_position) == (None, 1)
    [receipt] = scene.store.controls.of_order(first.id)
    assert receipt.applied_seq == 2
    assert left_out(scene, first.id) == (when_busy == "rollback")


def test_rollback_leaves_the_interrupted_turn_out(scene: Scene) -> None:
    held = scene.running()
    session = scene.store.orders.get(held.order_id).session_id
    assert scene.placed(session_id=session, when_busy="rollback").interrupted == held.order_id
    assert left_out(scene, held.order_id)


def left_out(scene: Scene, order_id: str) -> bool:
    statement = f"SELECT left_out FROM orders WHERE id = '{order_id}'"
    return bool(scene.store.database.read(lambda one: one.exec_driver_sql(statement).scalar()))


def test_a_steer_is_given_to_the_running_turn(scene: Scene) -> None:
    held = scene.running()
    session = scene.store.orders.get(held.order_id).session_id
    prompt = "rather go left \x00 " + "x" * 100_000
    placed = scene.placed(prompt, session_id=session, when_busy="steer", key="k")
    assert not placed.created and placed.order.id == held.order_id and placed.receipt
    [control] = scene.store.controls.pending({held.order_id: 0})
    assert (control.id, control.kind, control.message) == (placed.receipt.id, ControlKind.STEER, prompt)
    again = scene.placed(prompt, session_id=session, when_busy="steer", key="k")
    assert again.receipt == placed.receipt and len(scene.store.controls.of_order(held.order_id)) == 1


def test_a_steer_of_a_session_where_nothing_runs_is_an_ordinary_turn(scene: Scene) -> None:
    first = scene.place()
    second = scene.placed(session_id=first.session_id, when_busy="steer")
    assert second.created and second.receipt is None and second.order.blocked_by == first.id


def test_a_session_has_one_running_turn_however_many_come_at_once(scene: Scene) -> None:
    held = scene.running()
    session = scene.store.orders.get(held.order_id).session_id
    ways = ["enqueue", "interrupt", "rollback", "steer"]
    answers = at_once(*[lambda way=way: scene.placed(session_id=session, when_busy=way) for way in ways])
    assert all(isinstance(answer, Placed) for answer in answers), answers
    running = [one for one in scene.store.orders.list(session_id=session).items if one.status is OrderStatus.RUNNING]
    assert [one.id for one in running] == [held.order_id]
    seqs = sorted(one.session_seq for one in scene.store.orders.list(session_id=session).items)
    assert seqs == list(range(1, len(seqs) + 1))


def test_an_interrupt_and_an_end_at_once_leave_the_new_turn_claimable(scene: Scene) -> None:
    for _ in range(5):
        held = scene.running()
        session = scene.store.orders.get(held.order_id).session_id
        _, placed = at_once(
            held.finish,
            partial(scene.placed, session_id=session, when_busy="interrupt"),
        )
        assert isinstance(placed, Placed), placed
        if scene.status(held.order_id) is OrderStatus.RUNNING:
            held.control_seq = 1
            held.finish(OrderStatus.CANCELLED)
        assert isinstance(scene.hold(placed.order.id, token="next"), Held)
