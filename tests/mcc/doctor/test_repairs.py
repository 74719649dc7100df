"""Repairs: what they do, what they note in the audit log, and what they leave alone."""

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from mcc.contracts.status import OrderStatus
from mcc.dispatch.broker import RedisAt
from mcc.dispatch.sweep import STEADY_SECONDS
from mcc.doctor.examination import judge
from mcc.doctor.repairs import Broker, Repair, RepairContext, repair
from mcc.findings.finding import Fix
from mcc.findings.snapshot import Thresholds, take_snapshot
from mcc.store.database.tables import WORKSPACE_LOCKS
from mcc.testing import FakeClock, temporary_store
from tests.conformance.store.scene import LEASE_SECONDS, Scene, called, started
from tests.mcc.doctor.snapshots import node

EVERYTHING: frozenset[Fix] = frozenset({"sweep", "nudge", "messages", "locks", "receipts"})
NOWHERE = "unix:///tmp/nobody-listens-here.sock"


@pytest.fixture
def scene() -> Iterator[Scene]:
    clock = FakeClock()
    scene = Scene(temporary_store(clock), clock, "sqlite")
    yield scene
    scene.store.close()


class Time:
    """A clock that advances only in `pause`, and the store's clock with it."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.paused = 0.0

    def pause(self, seconds: float) -> None:
        self.paused += seconds
        self.scene.clock.advance(seconds)

    def now(self) -> float:
        return self.paused


def mended(scene: Scene, *fixes: Fix, redis_url: str = "", time: Time | None = None) -> list[Repair]:
    snapshot = take_snapshot(scene.store, None, Thresholds(lease_seconds=LEASE_SECONDS), host="here")
    going = time or Time(scene)
    broker = Broker(RedisAt(redis_url), ("default",), seconds=0.2) if redis_url else None
    return repair(fixes or EVERYTHING, snapshot, RepairContext(scene.store, broker, going.pause, going.now))


def test_a_well_store_needs_no_repair(scene: Scene) -> None:
    held = scene.running()
    assert mended(scene) == []
    assert scene.status(held.order_id) is OrderStatus.RUNNING and scene.store.audit.list() == []


def test_a_ghost_is_taken_back_and_noted(scene: Scene) -> None:
    held = scene.running()
    scene.store.leases.leave(scene.store.examiner.look().drones[0].incarnation)
    [done] = mended(scene, "sweep")
    assert (done.fix, done.order_id, done.done) == ("sweep", held.order_id, True)
    assert scene.status(held.order_id) is OrderStatus.QUEUED
    [note] = scene.store.audit.of_order(held.order_id)
    assert (note.kind, note.principal, note.detail) == ("doctor.sweep", "doctor", {"did": done.detail})


def test_an_order_that_a_live_drone_holds_is_never_touched(scene: Scene) -> None:
    held = scene.running()
    held.write(started(), called(held.origin.record_id or ""))
    before = scene.store.orders.get(held.order_id)
    assert mended(scene) == []
    assert scene.store.orders.get(held.order_id) == before
    assert held.finish() > 0


def test_a_lease_that_ran_out_is_declared_lost_only_after_steady_heartbeats_of_our_own(scene: Scene) -> None:
    held = scene.running()
    scene.clock.advance(LEASE_SECONDS + 10)
    time = Time(scene)
    lost, requeued = mended(scene, "sweep", time=time)
    assert time.paused >= STEADY_SECONDS
    assert "declared incarnation" in lost.detail and requeued.order_id == held.order_id
    assert scene.status(held.order_id) is OrderStatus.QUEUED


def test_without_such_leases_nobody_waits(scene: Scene) -> None:
    time = Time(scene)
    scene.running()
    assert mended(scene, "sweep", time=time) == [] and time.paused == 0


def test_an_expired_order_is_ended_and_noted(scene: Scene) -> None:
    late = scene.place(expires_at=scene.clock.now().replace(year=2027))
    scene.clock.advance(400 * 86_400)
    [done] = mended(scene, "sweep")
    assert (done.order_id, done.detail) == (late.id, "ended it")
    assert scene.status(late.id) is OrderStatus.FAILED


def test_only_what_was_asked_for_is_repaired(scene: Scene) -> None:
    held = scene.running()
    scene.store.leases.leave(scene.store.examiner.look().drones[0].incarnation)
    assert mended(scene, "locks", "receipts") == []
    assert scene.status(held.order_id) is OrderStatus.RUNNING


def test_a_repair_that_fails_says_so_and_the_others_are_made(scene: Scene) -> None:
    held = scene.running()
    scene.store.leases.leave(scene.store.examiner.look().drones[0].incarnation)
    failed, done = mended(scene, "messages", "sweep", redis_url=NOWHERE)
    assert (failed.fix, failed.done, done.order_id) == ("messages", False, held.order_id)
    assert "could not be done" in failed.detail
    assert {note.kind for note in scene.store.audit.list()} == {"doctor.sweep", "installation.named"}


def test_stale_locks_are_removed_and_noted(scene: Scene) -> None:
    held = scene.running()
    row = {"workspace_key": "root", "order_id": held.order_id, "epoch": held.epoch - 1, "exclusive": True}
    scene.store.database.write(lambda link: link.execute(sa.insert(WORKSPACE_LOCKS), row))
    [done] = mended(scene, "locks")
    assert (done.order_id, done.fix) == (held.order_id, "locks") and "workspace root" in done.detail
    assert [note.kind for note in scene.store.audit.of_order(held.order_id)] == ["doctor.locks"]
    assert scene.store.examiner.look().locks == []


def test_a_snapshot_of_a_real_store_is_judged_well(scene: Scene) -> None:
    held = scene.running()
    snapshot = take_snapshot(scene.store, [node(pid=7)], Thresholds(), host="elsewhere")
    [finding] = judge(snapshot)
    assert (
        finding.state == "ok" and snapshot.known == {} and held.order_id in {one.id for one in snapshot.examined.orders}
    )


def test_a_silent_order_of_a_real_store_is_told_with_its_open_call(scene: Scene) -> None:
    incarnation = scene.drone()
    held = scene.hold(scene.place().id, incarnation)
    held.write(started(), called(held.origin.record_id or ""))
    scene.clock.advance(200)
    scene.store.leases.renew(incarnation, lease_seconds=LEASE_SECONDS, active=1)
    found = judge(take_snapshot(scene.store, None, Thresholds(), host="elsewhere"))
    [stuck] = [finding for finding in found if finding.what == "stuck"]
    assert "the tool call read_file of master has been open for 3 min" in stuck.detail
