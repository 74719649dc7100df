"""An order that kills drones runs alone, then ends as poison; losses by an outage do not count."""

import pytest

from mcc.contracts.fact import Fact
from mcc.contracts.git_delivery import DeliveryFinished, DeliveryStarted
from mcc.contracts.journal import AgentStep, Outcome
from mcc.contracts.model_facts import ModelStarted
from mcc.contracts.order_facts import OrderRequeued
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.store.rows.transitions import DOUBT_SECONDS, SOLO, TAKEOVERS
from mcc.store.rows.values import WorkspaceHold
from tests.conformance.store.scene import LEASE_SECONDS, Held, Scene, called, replied, returned, started


def lose(scene: Scene, order_id: str, *facts: Fact, token: str) -> None:
    """Let a drone claim the order, write these facts, and die."""
    held = scene.hold(order_id, token=token)
    assert not facts or not held.write(*facts).culprits
    scene.lose()


def killed_twice(scene: Scene) -> str:
    order = scene.place()
    for number in range(SOLO):
        lose(scene, order.id, token=f"barren-{number}")
    return order.id


def test_after_two_losses_without_progress_an_order_is_claimed_only_alone(scene: Scene) -> None:
    order_id = killed_twice(scene)
    [found] = scene.store.claims.claimable(["default"], 5)
    assert (found.order_id, found.alone) == (order_id, True)
    drone = scene.drone()
    claims = scene.store.claims
    assert claims.claim(order_id, incarnation=drone, claim_token="t", drone="d", alone=False) is None
    claim = claims.claim(order_id, incarnation=drone, claim_token="t", drone="d", alone=True)
    assert claim is not None
    assert claims.claim(order_id, incarnation=drone, claim_token="t", drone="d", alone=False) == claim
    ordinary = scene.place()
    held = claims.claim(ordinary.id, incarnation=scene.drone("other"), claim_token="t", drone="d", alone=False)
    assert held is not None


def test_a_third_loss_without_progress_is_poison_and_says_so(scene: Scene) -> None:
    order_id = killed_twice(scene)
    lose(scene, order_id, started(), token="last")
    order = scene.store.orders.get(order_id)
    assert (order.status, order.reason) == (OrderStatus.FAILED, FailureReason.POISON)
    assert order.detail and order.detail.startswith("3 drones in a row were lost")
    assert scene.kinds(order_id)[-2:] == ["agent.finished", "order.finished"]


def test_beginning_is_no_progress(scene: Scene) -> None:
    order = scene.place()
    record = Held(scene, order.id, 0, 1, 0, 0).origin.record_id or ""
    steps = (AgentStep(name="note", message="m"), ModelStarted(round=1, attempt=1, model="m"), called(record))
    lose(scene, order.id, started(), *steps, token="1")
    lose(scene, order.id, token="2")
    assert scene.store.claims.claimable(["default"], 1)[0].alone


@pytest.mark.parametrize("outcome", list(Outcome))
def test_only_a_call_that_was_made_is_progress(scene: Scene, outcome: Outcome) -> None:
    order_id = killed_twice(scene)
    record = Held(scene, order_id, 0, 1, 0, 0).origin.record_id or ""
    result = returned(record, content="x" * 100_000).model_copy(update={"outcome": outcome})
    lose(scene, order_id, started(), called(record), result, token="third")
    real = outcome in (Outcome.OK, Outcome.ERROR, Outcome.TIMEOUT)
    assert scene.status(order_id) is (OrderStatus.QUEUED if real else OrderStatus.FAILED)
    assert not real or not scene.store.claims.claimable(["default"], 1)[0].alone


@pytest.mark.parametrize("ok", [True, False])
def test_a_step_of_a_delivery_that_was_done_is_progress(scene: Scene, ok: bool) -> None:
    order_id = killed_twice(scene)
    begun = DeliveryStarted(step="push", forge="hub", project="p", branch="mcc/x", base="main", commit="a" * 40)
    lose(scene, order_id, started(), begun, DeliveryFinished(step="push", ok=ok, commit="a" * 40), token="third")
    assert scene.status(order_id) is (OrderStatus.QUEUED if ok else OrderStatus.FAILED)


def test_progress_makes_the_count_begin_anew(scene: Scene) -> None:
    order_id = killed_twice(scene)
    lose(scene, order_id, started(), replied(), token="progress")
    for number in range(SOLO):
        lose(scene, order_id, token=f"again-{number}")
    assert scene.status(order_id) is OrderStatus.QUEUED
    lose(scene, order_id, token="third in a row")
    assert scene.status(order_id) is OrderStatus.FAILED


def test_progress_of_an_earlier_holder_does_not_count_for_the_next(scene: Scene) -> None:
    order = scene.place()
    lose(scene, order.id, started(), replied(), token="progress")
    for number in range(SOLO):
        lose(scene, order.id, token=f"barren-{number}")
    assert scene.store.claims.claimable(["default"], 1)[0].alone


def test_handing_back_neither_counts_nor_makes_it_begin_anew(scene: Scene) -> None:
    order_id = killed_twice(scene)
    held = scene.hold(order_id, token="third")
    held.write(started(), replied())
    scene.store.claims.hand_back([(order_id, held.epoch)], drone="d", message="m")
    assert scene.store.claims.claimable(["default"], 1)[0].alone
    lose(scene, order_id, token="fourth")
    assert scene.status(order_id) is OrderStatus.FAILED


def test_a_drone_that_left_in_good_order_is_no_barren_loss(scene: Scene) -> None:
    order_id, drone = killed_twice(scene), scene.drone("leaver")
    scene.hold(order_id, drone, token="third")
    scene.store.leases.leave(drone)
    assert list(scene.store.sweeper.sweep(may_expire=False).requeued) == [order_id]
    assert scene.store.claims.claimable(["default"], 1)[0].alone


def cut_off(scene: Scene, order_id: str, token: str) -> None:
    """The database was unreachable for an hour; the sweeper has run again for three seconds."""
    scene.hold(order_id, token=token)
    scene.clock.advance(3_600)
    swept = scene.store.sweeper.sweep(may_expire=True, steady_seconds=3.0)
    assert list(swept.requeued) == [order_id] and len(swept.lost) == 1 and swept.cut == swept.lost


def test_a_drone_that_an_outage_cut_off_does_not_count_as_a_loss(scene: Scene) -> None:
    order_id = killed_twice(scene)
    for number in range(TAKEOVERS + 2):
        cut_off(scene, order_id, token=f"cut-{number}")
    last = scene.store.journal.read(order_id)[-1].data
    assert isinstance(last, OrderRequeued) and "database was away" in last.message
    [found] = scene.store.claims.claimable(["default"], 1)
    assert found.alone, "nor is it forgiven"


def test_a_drone_that_was_cut_off_never_renews_again(scene: Scene) -> None:
    drone = scene.drone()
    scene.hold(scene.place().id, drone)
    scene.clock.advance(3_600)
    scene.store.sweeper.sweep(may_expire=True, steady_seconds=3.0)
    assert not scene.store.leases.renew(drone, lease_seconds=12, active=0)
    assert scene.claim(scene.place().id, drone, token="x") is None


def test_a_drone_with_a_heartbeat_while_the_sweeper_ran_counts_as_killed(scene: Scene) -> None:
    scene.running()
    scene.clock.advance(LEASE_SECONDS + 0.1)
    swept = scene.store.sweeper.sweep(may_expire=True, steady_seconds=LEASE_SECONDS + 1)
    assert len(swept.lost) == 1 and not swept.cut


def test_a_sweeper_that_came_late_leaves_the_judgement_to_the_others_for_a_moment(scene: Scene) -> None:
    held = scene.running()
    scene.clock.advance(LEASE_SECONDS + 0.1)
    late = scene.store.sweeper.sweep(may_expire=True, steady_seconds=5.0)
    assert not late.lost and scene.status(held.order_id) is OrderStatus.RUNNING
    scene.clock.advance(DOUBT_SECONDS)
    late = scene.store.sweeper.sweep(may_expire=True, steady_seconds=5.0 + DOUBT_SECONDS)
    assert late.cut == late.lost and list(late.requeued) == [held.order_id]


def test_after_a_reboot_the_sweeper_does_not_wait(scene: Scene) -> None:
    held = scene.running()
    scene.clock.advance(60)
    scene.clock.reboot()
    swept = scene.store.sweeper.sweep(may_expire=True, steady_seconds=3.0)
    assert swept.cut == swept.lost and list(swept.requeued) == [held.order_id]


def test_drones_lost_while_an_order_waits_for_its_workspace_say_nothing_about_it(scene: Scene) -> None:
    tree = WorkspaceHold("key")
    first = scene.hold(scene.place().id, scene.drone("writer", lease_seconds=10_000 * LEASE_SECONDS), token="writer")
    assert scene.store.workspaces.acquire(first.order_id, first.epoch, tree) is None
    waits = scene.place().id
    for number in range(SOLO + 2):
        held = scene.hold(waits, token=f"waits-{number}")
        assert scene.store.workspaces.acquire(waits, held.epoch, tree) is not None
        scene.lose()
    assert scene.status(waits) is OrderStatus.QUEUED
    first.finish()
    for number in range(SOLO + 1):
        held = scene.hold(waits, token=f"writes-{number}")
        assert scene.store.workspaces.acquire(waits, held.epoch, tree) is None
        scene.lose()
    assert scene.status(waits) is OrderStatus.FAILED
