"""Parked orders, and how a person, the clock or another drone resumes them."""

from dataclasses import replace
from datetime import timedelta

import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.control import Control, ControlKind, NewControl
from mcc.contracts.ids import child_record_id
from mcc.contracts.journal import AgentStep, ControlApplied
from mcc.contracts.order_facts import OrderWaiting
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from mcc.store.database.errors import ControlsPending, StoreFenced
from mcc.store.rows.transitions import RESUMABLE, WAITING_HOURS
from mcc.store.rows.values import Parking, Waiting
from tests.conformance.store.scene import Held, Scene, replied, started

CHILD = child_record_id("00000000-0000-5000-8000-000000000001")
WHOLE = NewControl()
ONE_AGENT = NewControl(record_id=CHILD)


def parking(held: Held, reason: WaitingReason = WaitingReason.PAUSED, **fields: object) -> Parking:
    made = Parking(held.order_id, held.epoch, held.last_seq, held.control_seq, reason, "a person paused it")
    return replace(made, **fields)  # type: ignore[arg-type]


def parked(scene: Scene, reason: WaitingReason = WaitingReason.PAUSED, **fields: object) -> Held:
    """A waiting order, as its last holder knows it."""
    held = scene.running()
    held.write(started(), replied())
    scene.store.claims.park(parking(held, reason, **fields))
    return held


def ask(scene: Scene, held: Held, kind: ControlKind, asked: NewControl = WHOLE) -> Control:
    return scene.store.controls.request(held.order_id, kind, asked, by=Actor("someone"))


def test_a_parked_order_waits_without_a_holder_and_says_why(scene: Scene) -> None:
    held = scene.running()
    held.write(started())
    assert scene.store.claims.park(parking(held)) == 4
    order = scene.store.orders.get(held.order_id)
    assert (order.status, order.reason, order.detail) == (
        OrderStatus.WAITING,
        WaitingReason.PAUSED,
        "a person paused it",
    )
    assert (order.drone, order.last_seq, order.attempt) == (None, 4, 1)
    assert scene.store.orders.list(status=OrderStatus.WAITING).items == [order]
    last = scene.store.journal.read(held.order_id)[-1].data
    assert last == OrderWaiting(reason=WaitingReason.PAUSED, message="a person paused it")
    assert held.write(AgentStep(name="late", message="zombie")).fenced == {held.order_id}
    assert scene.store.claims.claimable(["default"], 10) == []
    assert scene.claim(held.order_id, scene.drone(), token="x") is None


def test_a_long_reason_is_shown_in_full(scene: Scene) -> None:
    held = parked(scene, message="why \x00\ud800 " + "x" * 80_000)
    assert scene.store.orders.get(held.order_id).detail == "why \x00\ud800 " + "x" * 80_000
    scene.store.claims.resume(held.order_id, WaitingReason.PAUSED, "m")
    assert "why" not in (scene.store.orders.get(held.order_id).detail or "")


def test_the_next_holder_of_a_parked_order_continues_its_journal(scene: Scene) -> None:
    held = parked(scene)
    assert scene.store.claims.resume(held.order_id, WaitingReason.PAUSED, "go on")
    heir = scene.hold(held.order_id, token="next")
    assert (heir.epoch, heir.attempt) == (4, 2), "park, wake and claim each raise the epoch"
    assert not heir.write(replied(round_number=2)).culprits
    assert scene.fold(held.order_id).record() is not None


def test_the_same_parking_again_gives_the_same_answer_whatever_came_after_it(scene: Scene) -> None:
    held = scene.running()
    asked = parking(held)
    number = scene.store.claims.park(asked)
    assert scene.store.claims.park(asked) == number
    scene.store.claims.resume(held.order_id, WaitingReason.PAUSED, "m")
    assert scene.store.claims.park(asked) == number
    scene.hold(held.order_id, token="next").write(started())
    assert scene.store.claims.park(asked) == number
    assert scene.kinds(held.order_id).count("order.waiting") == 1


def test_a_wrong_number_or_an_old_epoch_cannot_park_the_order(scene: Scene) -> None:
    held = scene.running()
    asked = parking(held)
    held.write(started())
    for stale in (asked, replace(asked, order_id="nonsense"), parking(held, epoch=held.epoch + 1)):
        with pytest.raises(StoreFenced):
            scene.store.claims.park(stale)
    asked = parking(held)
    scene.lose()
    with pytest.raises(StoreFenced):
        scene.store.claims.park(asked)
    assert "order.waiting" not in scene.kinds(held.order_id)


def test_a_control_that_came_meanwhile_must_be_read_before_the_order_waits(scene: Scene) -> None:
    held = scene.running()
    steer = ask(scene, held, ControlKind.STEER, NewControl(message="left"))
    with pytest.raises(ControlsPending):
        scene.store.claims.park(parking(held))
    held.control_seq = steer.number
    scene.store.claims.park(parking(held))
    assert scene.store.controls.of_order(held.order_id)[0].open, "it is read by the next holder"


@pytest.mark.parametrize("kind", [ControlKind.CANCEL, ControlKind.RESUME])
def test_an_order_is_not_parked_while_a_control_that_would_resume_or_end_it_is_open(
    scene: Scene, kind: ControlKind
) -> None:
    held = scene.running()
    held.control_seq = ask(scene, held, kind).number
    with pytest.raises(ControlsPending):
        scene.store.claims.park(parking(held))
    assert scene.status(held.order_id) is OrderStatus.RUNNING


def test_an_open_control_for_one_agent_does_not_prevent_parking(scene: Scene) -> None:
    held = scene.running()
    held.control_seq = ask(scene, held, ControlKind.CANCEL, ONE_AGENT).number
    scene.store.claims.park(parking(held))
    assert scene.status(held.order_id) is OrderStatus.WAITING


@pytest.mark.parametrize(
    "reason",
    [
        WaitingReason.RATE_LIMIT,
        WaitingReason.DISK,
        WaitingReason.MEMORY,
        WaitingReason.NOT_BEFORE,
        WaitingReason.WORKSPACE,
    ],
)
def test_an_order_that_waits_for_a_time_resumes_at_that_time(scene: Scene, reason: WaitingReason) -> None:
    held = parked(scene, reason, until=scene.clock.now() + timedelta(seconds=300))
    scene.clock.advance(299)
    assert not scene.store.sweeper.sweep(may_expire=True).resumed
    scene.clock.advance(2)
    swept = scene.store.sweeper.sweep(may_expire=False)
    assert list(swept.resumed) == [held.order_id]
    assert scene.kinds(held.order_id)[-2:] == ["order.waiting", "order.resumed"]
    assert scene.hold(held.order_id, token="next").attempt == 2


def test_an_order_without_a_time_waits_until_it_expires(scene: Scene) -> None:
    held = parked(scene)
    scene.clock.advance(WAITING_HOURS * 3_600 - 1)
    swept = scene.store.sweeper.sweep(may_expire=False)
    assert not swept.resumed and not swept.ended
    scene.clock.advance(2)
    assert list(scene.store.sweeper.sweep(may_expire=False).ended) == [held.order_id]
    order = scene.store.orders.get(held.order_id)
    assert (order.status, order.reason) == (OrderStatus.FAILED, FailureReason.EXPIRED)
    assert scene.kinds(held.order_id)[-2:] == ["agent.finished", "order.finished"]


def test_the_expiry_counts_from_the_time_that_is_waited_for(scene: Scene) -> None:
    held = parked(scene, WaitingReason.RATE_LIMIT, until=scene.clock.now() + timedelta(hours=WAITING_HOURS + 1))
    scene.clock.advance((WAITING_HOURS + 1) * 3_600)
    swept = scene.store.sweeper.sweep(may_expire=False)
    assert (list(swept.ended), list(swept.resumed)) == ([], [held.order_id])


def test_an_order_that_names_its_expiry_waits_until_then(scene: Scene) -> None:
    held = scene.hold(scene.place(expires_at=scene.clock.now() + timedelta(hours=48)).id)
    scene.store.claims.park(parking(held))
    scene.clock.advance(47 * 3_600)
    assert not scene.store.sweeper.sweep(may_expire=False).ended
    scene.clock.advance(2 * 3_600)
    assert list(scene.store.sweeper.sweep(may_expire=False).ended) == [held.order_id]


def test_parkings_do_not_count_as_lost_drones(scene: Scene) -> None:
    order, drone = scene.place(), scene.drone()
    for number in range(14):
        held = scene.hold(order.id, drone, token=str(number))
        scene.store.claims.park(parking(held))
        assert scene.store.claims.resume(order.id, WaitingReason.PAUSED, "m")
    assert scene.status(order.id) is OrderStatus.QUEUED
    assert not scene.store.claims.claimable(["default"], 1)[0].alone


def test_orders_that_wait_for_a_workspace_are_found_and_resumed_by_a_drone_that_sees_it(scene: Scene) -> None:
    drone = scene.drone()
    held = [scene.hold(scene.place(workspace=f"/srv/{name}").id, drone, token=name) for name in "abc"]
    for one in held:
        scene.clock.advance(1)
        scene.store.claims.park(parking(one, WaitingReason.WORKSPACE))
    parked(scene, WaitingReason.DISK)
    found = scene.store.claims.waiting(WaitingReason.WORKSPACE, 2)
    assert [one.workspace for one in found] == ["/srv/a", "/srv/b"]
    assert found[1] == Waiting(held[1].order_id, "/srv/b", scene.clock.now() - timedelta(seconds=1))
    rest = scene.store.claims.waiting(WaitingReason.WORKSPACE, 2, after=found[-1].order_id)
    assert [one.workspace for one in rest] == ["/srv/c"]
    assert scene.store.claims.resume(held[0].order_id, WaitingReason.WORKSPACE, "drone-2 sees /srv/a")
    assert not scene.store.claims.resume(held[0].order_id, WaitingReason.WORKSPACE, "again")
    assert not scene.store.claims.resume(held[1].order_id, WaitingReason.DISK, "for another reason")
    assert not scene.store.claims.resume("nonsense", WaitingReason.DISK, "m")
    assert scene.kinds(held[0].order_id)[-1] == "order.resumed"
    assert scene.status(held[1].order_id) is OrderStatus.WAITING
    assert scene.hold(held[0].order_id, drone, token="next").attempt == 2


def test_orders_that_wait_for_their_time_are_found_too(scene: Scene) -> None:
    order = scene.place(not_before=scene.clock.now() + timedelta(hours=1))
    assert scene.store.claims.waiting(WaitingReason.NOT_BEFORE, 5) == [Waiting(order.id, None, order.created_at)]


def test_the_workspace_that_an_order_names_is_one_small_read(scene: Scene) -> None:
    assert scene.store.orders.workspace(scene.place(workspace="/srv/a").id) == "/srv/a"
    assert scene.store.orders.workspace(scene.place().id) is None
    assert scene.store.orders.workspace("nonsense") is None


def test_a_cancel_ends_a_waiting_order_and_closes_its_open_calls(scene: Scene) -> None:
    held = parked(scene)
    assert ask(scene, held, ControlKind.CANCEL).applied_seq == 6
    assert scene.status(held.order_id) is OrderStatus.CANCELLED
    assert scene.kinds(held.order_id)[-3:] == ["control.applied", "agent.finished", "order.finished"]


@pytest.mark.parametrize("reason", sorted(RESUMABLE - {WaitingReason.PAUSED}))
def test_a_resume_of_the_whole_order_is_applied_at_once(scene: Scene, reason: WaitingReason) -> None:
    held = parked(scene, reason, until=scene.clock.now() + timedelta(hours=1))
    receipt = ask(scene, held, ControlKind.RESUME)
    assert receipt.applied_seq == 6 and scene.status(held.order_id) is OrderStatus.QUEUED
    assert scene.kinds(held.order_id)[-2:] == ["control.applied", "order.resumed"]
    assert scene.hold(held.order_id, token="next").control_seq == receipt.number


def test_a_resume_of_a_paused_order_queues_it_and_is_left_to_the_next_holder(scene: Scene) -> None:
    held = parked(scene)
    receipt = ask(scene, held, ControlKind.RESUME)
    assert receipt.open and scene.kinds(held.order_id)[-1] == "order.resumed"
    heir = scene.hold(held.order_id, token="next")
    [found] = scene.store.controls.pending({held.order_id: heir.control_seq})
    heir.write(ControlApplied(control_id=found.id, control="resume"))
    [settled] = scene.store.controls.of_order(held.order_id)
    assert (settled.id, settled.applied_seq) == (receipt.id, heir.last_seq)


def test_a_resume_that_takes_a_pause_back_leaves_the_time_that_an_order_waits_for(scene: Scene) -> None:
    order = scene.place(not_before=scene.clock.now() + timedelta(hours=1))
    pause = scene.store.controls.request(order.id, ControlKind.PAUSE, WHOLE, by=Actor("x"))
    resume = scene.store.controls.request(order.id, ControlKind.RESUME, WHOLE, by=Actor("x"))
    assert pause.open and resume.open and scene.status(order.id) is OrderStatus.WAITING
    scene.clock.advance(3_601)
    assert list(scene.store.sweeper.sweep(may_expire=False).resumed) == [order.id]
    held = scene.hold(order.id)
    assert [one.id for one in scene.store.controls.pending({order.id: held.control_seq})] == [pause.id, resume.id]


@pytest.mark.parametrize("reason", list(WaitingReason))
def test_a_resume_of_one_agent_queues_an_order_that_waits_for_no_answer(scene: Scene, reason: WaitingReason) -> None:
    held = parked(scene, reason)
    receipt = ask(scene, held, ControlKind.RESUME, ONE_AGENT)
    assert receipt.open
    assert scene.status(held.order_id) is (OrderStatus.QUEUED if reason in RESUMABLE else OrderStatus.WAITING)


@pytest.mark.parametrize("reason", list(WaitingReason))
def test_the_cancel_of_one_agent_queues_the_order_whatever_it_waits_for(scene: Scene, reason: WaitingReason) -> None:
    held = parked(scene, reason)
    receipt = ask(scene, held, ControlKind.CANCEL, ONE_AGENT)
    assert receipt.open and scene.status(held.order_id) is OrderStatus.QUEUED
    heir = scene.hold(held.order_id, token="next")
    assert [one.id for one in scene.store.controls.pending({held.order_id: heir.control_seq})] == [receipt.id]


@pytest.mark.parametrize("reason", list(WaitingReason))
@pytest.mark.parametrize("kind", [ControlKind.STEER, ControlKind.PAUSE])
def test_a_steer_of_a_waiting_order_does_not_resume_it_and_is_read_later(
    scene: Scene, reason: WaitingReason, kind: ControlKind
) -> None:
    held = parked(scene, reason)
    for asked in (NewControl(message="m"), NewControl(message="m", record_id=CHILD)):
        assert ask(scene, held, kind, asked).open
    assert scene.status(held.order_id) is OrderStatus.WAITING
    assert scene.kinds(held.order_id)[-1] == "order.waiting"


def test_an_answer_that_is_owed_is_not_given_by_a_resume(scene: Scene) -> None:
    held = parked(scene, WaitingReason.APPROVAL)
    assert ask(scene, held, ControlKind.RESUME).open
    assert scene.status(held.order_id) is OrderStatus.WAITING


def test_the_next_turn_of_a_session_waits_behind_a_parked_one(scene: Scene) -> None:
    held = parked(scene)
    session = scene.store.orders.get(held.order_id).session_id
    after = scene.place(session_id=session)
    assert after.blocked_by == held.order_id
    assert scene.claim(after.id, scene.drone(), token="x") is None
    scene.store.claims.resume(held.order_id, WaitingReason.PAUSED, "m")
    assert [one.order_id for one in scene.store.claims.claimable(["default"], 5)] == [held.order_id]
