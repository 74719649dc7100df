"""Leases: a lost incarnation stays lost, and its orders are requeued."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.drones import Capability, DroneCounters, DroneStatus
from mcc.contracts.journal import AgentStep, ControlApplied
from mcc.contracts.order_facts import OrderRequeued
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from mcc.store.database.clock import micros
from mcc.store.database.tables import DRONES
from mcc.store.rows.order_rows import OrderState, lock
from mcc.store.rows.transitions import TAKEOVERS
from mcc.store.rows.values import Parking, Swept
from mcc.store.work.sweep import _expire
from tests.conformance.store.scene import LEASE_SECONDS, Scene, at_once, ended, replied, started


def test_a_drone_is_shown_as_it_registered(scene: Scene) -> None:
    models = (Capability(name="fast", description="\x00", problem="no key \ud800"),)
    incarnation = scene.drone("alpha", queues=("default", "slow"), sandbox="none", models=models)
    [drone] = scene.store.leases.drones()
    assert (drone.name, drone.incarnation, drone.queues) == ("alpha", incarnation, ("default", "slow"))
    assert (drone.status, drone.active, drone.started_at) == (DroneStatus.UP, 0, scene.clock.now())
    [registration] = scene.store.leases.registrations()
    assert registration.models == models


def test_renewals_tell_how_full_a_drone_is(scene: Scene) -> None:
    incarnation = scene.drone()
    scene.clock.advance(5)
    assert scene.store.leases.renew(incarnation, lease_seconds=12, active=3, draining=True)
    [drone] = scene.store.leases.drones()
    assert (drone.status, drone.active, drone.last_heartbeat_at) == (DroneStatus.DRAINING, 3, scene.clock.now())
    assert len(scene.store.leases.registrations()) == 1


def test_renewals_tell_how_many_messages_a_drone_refused(scene: Scene) -> None:
    incarnation = scene.drone()
    assert scene.store.leases.drones()[0].refused_messages == 0
    for refused in (2, 3_000_000_000):
        assert scene.store.leases.renew(
            incarnation, lease_seconds=12, active=0, counters=DroneCounters(refused_messages=refused)
        )
        assert scene.store.leases.drones()[0].refused_messages == refused
        assert scene.store.examiner.look().drones[0].counters.refused_messages == refused


def test_an_incarnation_registers_once(scene: Scene) -> None:
    incarnation = scene.drone()
    with pytest.raises(ValueError, match="every start has a new one"):
        scene.drone(incarnation=incarnation)


def test_a_drone_whose_lease_ran_out_is_silent_and_may_still_come_back(scene: Scene) -> None:
    incarnation = scene.drone()
    scene.clock.advance(LEASE_SECONDS + 1)
    [drone] = scene.store.leases.drones()
    assert drone.status is DroneStatus.SILENT and scene.store.leases.registrations() == []
    assert scene.store.leases.renew(incarnation, lease_seconds=12, active=0), "nobody declared it lost"
    assert scene.store.leases.drones()[0].status is DroneStatus.UP


def test_a_drone_that_was_declared_lost_never_renews_again(scene: Scene) -> None:
    incarnation = scene.drone()
    scene.clock.advance(LEASE_SECONDS + 1)
    assert list(scene.store.sweeper.sweep(may_expire=True).lost) == [incarnation]
    assert not scene.store.leases.renew(incarnation, lease_seconds=12, active=0)
    assert not scene.store.leases.renew("never seen", lease_seconds=12, active=0)
    assert scene.claim(scene.place().id, incarnation) is None
    assert scene.store.leases.drones()[0].status is DroneStatus.SILENT


def test_a_drone_that_is_silent_for_long_is_shown_only_to_those_who_ask_for_all(scene: Scene) -> None:
    scene.drone("silent")
    scene.clock.advance(590)
    assert [drone.name for drone in scene.store.leases.drones()] == ["silent"]
    scene.clock.advance(20)
    assert not scene.store.leases.drones()
    assert [drone.name for drone in scene.store.leases.drones(with_long_silent=True)] == ["silent"]


def test_drones_that_left_or_were_silent_for_a_day_are_not_shown(scene: Scene) -> None:
    left = scene.drone("left")
    scene.drone("silent")
    scene.store.leases.leave(left)
    assert [drone.name for drone in scene.store.leases.drones()] == ["silent"]
    scene.clock.advance(86_401)
    assert scene.store.leases.drones(with_long_silent=True) == []


def test_orders_of_a_lost_drone_are_requeued_and_taken_over(scene: Scene) -> None:
    held, other = scene.running(), scene.place()
    held.write(started())
    scene.clock.advance(LEASE_SECONDS + 1)
    swept = scene.store.sweeper.sweep(may_expire=True)
    assert (len(swept.lost), list(swept.requeued), list(swept.ended)) == (1, [held.order_id], [])
    order = scene.store.orders.get(held.order_id)
    assert (order.status, order.attempt, order.drone) == (OrderStatus.QUEUED, 1, None)
    last = scene.store.journal.read(held.order_id)[-1].data
    assert isinstance(last, OrderRequeued) and (last.epoch, last.lost) == (2, "drone-1")
    assert held.write(AgentStep(name="late", message="zombie")).fenced == {held.order_id}
    heir = scene.hold(held.order_id, token="next")
    assert (heir.epoch, heir.attempt) == (3, 2)
    assert scene.status(other.id) is OrderStatus.QUEUED
    assert scene.store.sweeper.sweep(may_expire=True) == Swept()


def test_a_sweeper_that_may_not_expire_declares_no_drone_lost(scene: Scene) -> None:
    held = scene.running()
    scene.clock.advance(LEASE_SECONDS + 1)
    swept = scene.store.sweeper.sweep(may_expire=False)
    assert not swept.lost and not swept.requeued
    assert not held.write(AgentStep(name="a", message="still here")).fenced


def test_orders_of_a_drone_that_left_are_requeued(scene: Scene) -> None:
    drone = scene.drone()
    held = scene.hold(scene.place().id, drone)
    scene.store.leases.leave(drone)
    assert list(scene.store.sweeper.sweep(may_expire=False).requeued) == [held.order_id]


@pytest.mark.parametrize("scene", ["sqlite"], indirect=True)
def test_a_wall_clock_that_is_set_does_not_touch_leases(scene: Scene) -> None:
    held = scene.running()
    scene.clock.turn_back(3_600)
    assert not scene.store.sweeper.sweep(may_expire=True).lost
    scene.clock.turn_back(-7_200)
    assert not scene.store.sweeper.sweep(may_expire=True).lost
    assert scene.status(held.order_id) is OrderStatus.RUNNING


def test_after_another_boot_every_lease_has_run_out(scene: Scene) -> None:
    held = scene.running()
    scene.clock.reboot()
    assert list(scene.store.sweeper.sweep(may_expire=True).requeued) == [held.order_id]


def test_a_cancelled_order_of_a_lost_drone_ends_instead_of_going_on(scene: Scene) -> None:
    held = scene.running()
    held.write(started())
    scene.store.controls.request(held.order_id, ControlKind.CANCEL, NewControl(reason="stop"), by=Actor("x"))
    scene.clock.advance(LEASE_SECONDS + 1)
    swept = scene.store.sweeper.sweep(may_expire=True)
    assert (list(swept.requeued), list(swept.ended)) == ([], [held.order_id])
    assert scene.status(held.order_id) is OrderStatus.CANCELLED
    assert scene.kinds(held.order_id)[-3:] == ["control.applied", "agent.finished", "order.finished"]
    [receipt] = scene.store.controls.of_order(held.order_id)
    assert receipt.applied_seq == 4
    record = scene.store.orders.record(held.order_id)
    assert record and record == scene.fold(held.order_id).record()


def test_a_cancelled_order_that_is_handed_back_ends(scene: Scene) -> None:
    held = scene.running()
    scene.store.controls.request(held.order_id, ControlKind.CANCEL, NewControl(), by=Actor("x"))
    answer = scene.store.claims.hand_back([(held.order_id, held.epoch)], drone="d", message="m")
    assert list(answer) == [held.order_id] and scene.status(held.order_id) is OrderStatus.CANCELLED


def test_an_order_that_loses_too_many_drones_is_poison(scene: Scene) -> None:
    order = scene.place()
    for number in range(TAKEOVERS):
        held = scene.hold(order.id, token=str(number))
        held.write(*([started()] if number == 0 else []), replied(round_number=number + 1))
        scene.lose()
        assert scene.status(order.id) is OrderStatus.QUEUED
    scene.hold(order.id, token="last").write(replied(round_number=TAKEOVERS + 1))
    scene.lose()
    found = scene.store.orders.get(order.id)
    assert (found.status, found.reason, found.attempt) == (OrderStatus.FAILED, FailureReason.POISON, TAKEOVERS + 1)
    assert found.detail and "11" in found.detail
    assert scene.fold(order.id).finished is not None


def test_orders_that_are_handed_back_are_not_counted_as_lost(scene: Scene) -> None:
    order, drone = scene.place(), scene.drone()
    for number in range(TAKEOVERS + 2):
        held = scene.hold(order.id, drone, token=str(number))
        scene.store.claims.hand_back([(order.id, held.epoch)], drone="d", message="m")
    assert scene.status(order.id) is OrderStatus.QUEUED


def test_many_sweepers_at_once_requeue_an_order_once(scene: Scene) -> None:
    held = [scene.running() for _ in range(5)]
    scene.clock.advance(LEASE_SECONDS + 1)
    answers = at_once(*[lambda: scene.store.sweeper.sweep(may_expire=True)] * 4)
    swept = [answer for answer in answers if isinstance(answer, Swept)]
    assert len(swept) == 4, answers
    scene.store.sweeper.sweep(may_expire=True)
    for one in held:
        assert scene.kinds(one.order_id).count("order.requeued") == 1
        assert scene.status(one.order_id) is OrderStatus.QUEUED
    assert sum(len(one.requeued) for one in swept) <= 5


def test_a_sweep_and_an_end_at_once_leave_one_of_them(scene: Scene) -> None:
    for number in range(5):
        held = scene.running()
        held.write(started())
        scene.clock.advance(LEASE_SECONDS + 1)
        at_once(held.finish, lambda: scene.store.sweeper.sweep(may_expire=True))
        kinds = scene.kinds(held.order_id)
        assert (kinds[-1] == "order.finished") != (kinds[-1] == "order.requeued"), (number, kinds)
        scene.fold(held.order_id)


def test_a_beat_is_one_small_write(scene: Scene) -> None:
    scene.store.sweeper.beat("mcc-1")
    scene.store.sweeper.beat("mcc-1")
    scene.store.sweeper.beat("mcc-2")
    assert scene.store.schema_problem() is None


def test_a_drone_that_was_declared_lost_cannot_say_that_it_left(scene: Scene) -> None:
    incarnation = scene.drone()
    scene.clock.advance(LEASE_SECONDS + 1)
    scene.store.sweeper.sweep(may_expire=True)
    scene.store.leases.leave(incarnation)
    assert [drone.incarnation for drone in scene.store.leases.drones()] == [incarnation]


def test_an_order_with_a_malformed_journal_still_ends_and_stops_no_sweep(scene: Scene) -> None:
    broken, sound = scene.running(), scene.running()
    broken.write(ended())
    for held in (broken, sound):
        scene.store.controls.request(held.order_id, ControlKind.CANCEL, NewControl(), by=Actor("x"))
    scene.clock.advance(LEASE_SECONDS + 1)
    swept = scene.store.sweeper.sweep(may_expire=True)
    assert set(swept.ended) == {broken.order_id, sound.order_id} and not swept.failures
    assert scene.status(broken.order_id) is OrderStatus.CANCELLED
    assert scene.kinds(broken.order_id)[-3:] == ["agent.finished", "control.applied", "order.finished"]
    assert scene.store.orders.record(broken.order_id) is None
    assert not any(one.open for one in scene.store.controls.of_order(broken.order_id))


def test_an_order_that_cannot_be_handled_is_named_and_stops_no_sweep(scene: Scene) -> None:
    orders = [scene.place(expires_at=scene.clock.now() + timedelta(seconds=1)) for _ in range(2)]
    statement = (
        "INSERT INTO chat_records (order_id, position, record_id, record_json)"
        f" SELECT id, 0, 'r', '{{}}' FROM orders WHERE id = '{orders[0].id}'"
    )
    kind = "INSERT INTO journal (order_id, seq, epoch, at, kind, depth, data_json) VALUES ('{}', 2, 0, 0, 'x', 0, '')"
    database = scene.store.database
    database.write(lambda one: one.exec_driver_sql(statement))
    database.write(lambda one: one.exec_driver_sql(kind.format(orders[0].id)))
    scene.clock.advance(2)
    swept = scene.store.sweeper.sweep(may_expire=True)
    assert list(swept.failures) == [orders[0].id] and list(swept.ended) == [orders[1].id]
    assert scene.status(orders[0].id) is OrderStatus.QUEUED


def test_an_order_that_has_begun_runs_beyond_its_expiry(scene: Scene) -> None:
    order = scene.place(expires_at=scene.clock.now() + timedelta(seconds=5))
    held = scene.hold(order.id)
    scene.clock.advance(LEASE_SECONDS + 1)
    assert list(scene.store.sweeper.sweep(may_expire=True).requeued) == [order.id]
    again = scene.hold(order.id, token="next")
    assert again.attempt == held.attempt + 1
    scene.store.claims.park(
        Parking(order.id, again.epoch, again.last_seq, 0, WaitingReason.PAUSED, "a person paused it")
    )
    assert not scene.store.sweeper.sweep(may_expire=True).ended
    scene.clock.advance(25 * 3_600)
    assert list(scene.store.sweeper.sweep(may_expire=True).ended) == [order.id]


def test_a_lost_drone_holds_nothing_and_is_shown_until_a_later_one_has_its_name(scene: Scene) -> None:
    first = scene.drone("alpha")
    scene.store.leases.renew(first, lease_seconds=LEASE_SECONDS, active=3)
    scene.lose()
    [lost] = scene.store.leases.drones()
    assert (lost.incarnation, lost.status, lost.active) == (first, DroneStatus.SILENT, 0)
    scene.drone("beta")
    assert len(scene.store.leases.drones()) == 2
    scene.clock.advance(1)
    later = scene.drone("alpha")
    assert [drone.incarnation for drone in scene.store.leases.drones() if drone.name == "alpha"] == [later]


def test_an_order_whose_drone_has_no_row_is_taken_back_as_lost(scene: Scene) -> None:
    """As after a restore, or where somebody mended the database by hand."""
    held_by = scene.drone()
    held = scene.hold(scene.place().id, held_by)
    scene.store.database.write(lambda link: link.execute(sa.delete(DRONES)))
    swept = scene.store.sweeper.sweep(may_expire=True)
    assert (swept.requeued, dict(swept.failures)) == ((held.order_id,), {})
    last = scene.store.journal.read(held.order_id)[-1].data
    assert isinstance(last, OrderRequeued) and last.lost == held_by


def test_an_order_whose_cancel_was_applied_is_requeued_and_not_cancelled_again(scene: Scene) -> None:
    held = scene.running()
    control = scene.store.controls.request(held.order_id, ControlKind.CANCEL, NewControl(), by=Actor("x"))
    held.write(ControlApplied(control_id=control.id, control="cancel"))
    scene.lose()
    assert scene.status(held.order_id) is OrderStatus.QUEUED


def test_an_order_that_is_no_longer_late_under_its_lock_is_not_ended(scene: Scene) -> None:
    """It was prolonged between the sweep's look and its lock."""
    at = scene.clock.now()
    order = scene.place(expires_at=at + timedelta(seconds=60))

    def sweep(link: sa.Connection) -> OrderState | None:
        state = lock(link, order.id)
        assert state is not None
        return _expire(link, state, at, micros(scene.clock.now()))

    assert scene.store.database.write(sweep) is None and scene.status(order.id) is OrderStatus.QUEUED
    scene.clock.advance(61)
    assert scene.store.database.write(sweep) is not None
    assert scene.store.orders.get(order.id).reason is FailureReason.EXPIRED
