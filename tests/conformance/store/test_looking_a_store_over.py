"""Examination of orders, drones and leftovers, and repair of leftovers, on every store."""

from datetime import timedelta
from functools import partial
from uuid import uuid4

import pytest
import sqlalchemy as sa

from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.limits import Limits
from mcc.contracts.status import OrderStatus
from mcc.store.database.tables import CONTROLS, STATE, SWEEPERS, WORKSPACE_LOCKS
from mcc.store.rows.values import DOCTOR, StaleLock
from mcc.store.store import open_store
from mcc.testing import temporary_store
from tests.conformance.store.scene import LEASE_SECONDS, Scene, started


def test_an_empty_store_has_nothing_to_tell(scene: Scene) -> None:
    seen = scene.store.examiner.look()
    assert [*seen.drones, *seen.orders, *seen.locks, *seen.receipts] == [] and seen.whole
    assert seen.now == scene.clock.now() and seen.swept_at is None


def test_a_running_order_is_shown_with_its_holder_and_its_newest_entry(scene: Scene) -> None:
    held = scene.running(limits={"tool_seconds": 7})
    claimed = scene.clock.now()
    scene.clock.advance(3)
    held.write(started())
    [order] = scene.store.examiner.look().orders
    assert (order.id, order.status, order.epoch, order.last_seq) == (held.order_id, OrderStatus.RUNNING, held.epoch, 3)
    assert order.moved_at == claimed and order.last_entry_at == scene.clock.now()
    assert order.limits == Limits(tool_seconds=7) and not order.claimable
    assert [drone.incarnation for drone in scene.store.examiner.look().drones] == [order.incarnation]


def test_a_queued_order_says_whether_it_can_be_claimed_and_what_is_before_it(scene: Scene) -> None:
    first = scene.place()
    second = scene.place(session_id=first.session_id)
    third = scene.place(session_id=first.session_id, queue="slow", priority=2)
    seen = {order.id: order for order in scene.store.examiner.look().orders}
    assert [seen[one.id].claimable for one in (first, second, third)] == [True, False, False]
    assert [seen[one.id].blocked_by for one in (first, second, third)] == [None, first.id, first.id]
    assert (seen[third.id].queue, seen[third.id].priority) == ("slow", 2)


def test_a_waiting_order_says_until_when(scene: Scene) -> None:
    due = scene.clock.now() + timedelta(hours=1)
    waiting = scene.place(not_before=due)
    [order] = scene.store.examiner.look().orders
    assert (order.id, order.status, order.reason, order.not_before) == (
        waiting.id,
        OrderStatus.WAITING,
        "not_before",
        due,
    )
    assert order.waits_until is not None and order.waits_until > due


def test_held_orders_come_first_and_omissions_are_stated(scene: Scene) -> None:
    scene.place()
    scene.place()
    held = scene.running()
    seen = scene.store.examiner.look(limit=2)
    assert seen.orders[0].id == held.order_id
    assert seen.counts == {OrderStatus.RUNNING: 1, OrderStatus.QUEUED: 2} and seen.queued == {"default": 2}


def test_suspicious_orders_are_found_behind_any_number_of_healthy_ones(scene: Scene) -> None:
    soon, later = (scene.clock.now() + timedelta(seconds=seconds) for seconds in (60, 9_000))
    for _ in range(4):
        scene.place()
    late = scene.place(expires_at=soon)
    due = scene.place(not_before=soon)
    head = scene.place(not_before=later)
    scene.place(session_id=head.session_id)
    urgent = scene.place(priority=0)
    old = scene.place(queue="slow")
    unreadable, endless = scene.place(), scene.place(not_before=later)
    for order, change in ((unreadable, {"journal_version": 999}), (endless, {"waits_until": None})):
        changed = sa.update(STATE).where(STATE.c.order_id == order.id).values(change)
        scene.store.database.write(partial(sa.Connection.execute, statement=changed))
    scene.clock.advance(61)
    seen = scene.store.examiner.look(limit=2)
    found = {order.id for order in seen.orders}
    assert found >= {one.id for one in (late, due, head, urgent, old, unreadable, endless)}
    assert (seen.whole, seen.held_up) == (True, {head.id: 1})
    assert sum(seen.counts.values()) == 12 and seen.queued == {"default": 8, "slow": 1}
    assert not scene.store.examiner.look(limit=1).whole


def test_ended_orders_are_shown_only_when_named(scene: Scene) -> None:
    held = scene.running()
    scene.clock.advance(5)
    held.finish()
    assert scene.store.examiner.look().orders == []
    known = scene.store.examiner.orders([held.order_id, str(uuid4()), "no id"])
    assert list(known) == [held.order_id]
    assert known[held.order_id].status is OrderStatus.SUCCEEDED
    assert known[held.order_id].moved_at == scene.clock.now() and known[held.order_id].incarnation is None


def test_a_requeued_order_moved_when_it_was_taken_back(scene: Scene) -> None:
    held = scene.running()
    scene.lose()
    known = scene.store.examiner.orders([held.order_id])[held.order_id]
    assert (known.status, known.moved_at) == (OrderStatus.QUEUED, scene.clock.now())
    assert known.incarnation is None and known.claimable


def test_drones_are_shown_with_state_and_lease_separately(scene: Scene) -> None:
    scene.drone("gone")
    left = scene.drone("left")
    scene.store.leases.leave(left)
    scene.lose()
    scene.drone("late", queues=("slow",), pid=77)
    scene.clock.advance(LEASE_SECONDS + 1)
    scene.drone("up")
    seen = {drone.name: drone for drone in scene.store.examiner.look().drones}
    assert {name: (one.state == "live", one.in_time, one.up) for name, one in seen.items()} == {
        "gone": (False, False, False),
        "left": (False, False, False),
        "late": (True, False, False),
        "up": (True, True, True),
    }
    assert seen["left"].state == "left"
    assert (seen["late"].queues, seen["late"].pid, seen["late"].host) == (("slow",), 77, "here")


def test_controls_of_an_unfinished_order_are_not_settled(scene: Scene) -> None:
    held = scene.running()
    control = scene.store.controls.request(held.order_id, ControlKind.PAUSE, NewControl(), by=Actor("someone"))
    assert scene.store.examiner.look().receipts == []
    assert scene.store.mender.settle(held.order_id) == 0
    assert scene.store.mender.settle("no id") == 0
    assert scene.store.controls.of_order(held.order_id) == [control]


def test_a_lock_that_is_not_there_cannot_be_taken_away(scene: Scene) -> None:
    held = scene.running()
    assert scene.store.mender.unlock(StaleLock("key", held.order_id, held.epoch, True)) is False


def test_an_open_receipt_of_a_final_order_is_found_and_settled(scene: Scene) -> None:
    held = scene.running()
    control = scene.store.controls.request(held.order_id, ControlKind.STEER, NewControl(message="x"), by=Actor("p"))
    held.control_seq = 1
    held.finish()
    reopen = sa.update(CONTROLS).values(refused_json=None, applied_seq=None)
    scene.store.database.write(lambda connection: connection.execute(reopen))
    [late] = scene.store.examiner.look().receipts
    assert (late.control_id, late.order_id, late.kind) == (control.id, held.order_id, "steer")
    assert scene.store.mender.settle(held.order_id) == 1
    assert scene.store.examiner.look().receipts == []
    assert scene.store.controls.of_order(held.order_id)[0].refused


def test_a_lock_counts_only_under_the_epoch_that_runs(scene: Scene) -> None:
    held = scene.running()
    rows = [
        {"workspace_key": key, "order_id": held.order_id, "epoch": epoch, "exclusive": True}
        for key, epoch in (("kept", held.epoch), ("stale", held.epoch - 1))
    ]
    scene.store.database.write(lambda connection: connection.execute(sa.insert(WORKSPACE_LOCKS), rows))
    [stale] = scene.store.examiner.look().locks
    assert stale == StaleLock("stale", held.order_id, held.epoch - 1, True)
    assert scene.store.mender.unlock(StaleLock("kept", held.order_id, held.epoch, True)) is False
    assert scene.store.mender.unlock(stale) is True
    assert scene.store.mender.unlock(stale) is False
    left = scene.store.database.read(
        lambda connection: connection.execute(sa.select(WORKSPACE_LOCKS.c.workspace_key)).scalars().all()
    )
    assert left == ["kept"]


def test_the_newest_heartbeat_of_a_sweeper_other_than_the_doctor_is_shown(scene: Scene) -> None:
    scene.store.sweeper.beat("one")
    scene.clock.advance(9)
    scene.store.sweeper.beat("other")
    heard = scene.clock.now()
    scene.clock.advance(9)
    scene.store.sweeper.beat(DOCTOR)
    assert scene.store.examiner.look().swept_at == heard
    scene.store.database.write(lambda connection: connection.execute(sa.delete(SWEEPERS)))
    assert scene.store.examiner.look().swept_at is None


def test_a_healthy_database_has_no_problems(scene: Scene) -> None:
    health = scene.store.examiner.health(seconds=30)
    assert (list(health.idle), list(health.problems), health.checked) == ([], [], True)


def test_the_check_of_a_file_is_given_up_in_time() -> None:
    store = temporary_store()
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000) "
    fill = many + "INSERT INTO blobs SELECT 'digest ' || i, '\"text\"', i FROM n"
    store.database.write(lambda connection: connection.exec_driver_sql(fill))
    assert store.examiner.health(seconds=-1).checked is False
    assert store.examiner.health(seconds=60).checked is True
    store.close()


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_an_idle_transaction_is_named_with_the_number_of_those_it_blocks(database_url: str) -> None:
    store = open_store(database_url)
    with store.database.engine.connect() as idle:
        idle.execute(sa.text("SELECT 1"))
        [found] = store.examiner.health(seconds=1).idle
        assert found.pid == idle.execute(sa.text("SELECT pg_backend_pid()")).scalar()
        assert (found.program, found.blocks) == ("mcc", 0) and found.seconds >= 0
        idle.rollback()
    assert list(store.examiner.health(seconds=1).idle) == []
    store.close()
