"""Only the holder of an order writes to it, until the order ends or another drone claims it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.journal import AgentStep
from mcc.contracts.order import OrderOutcome
from mcc.contracts.order_facts import OrderFinished
from mcc.contracts.record import RecordStatus
from mcc.contracts.status import FINAL, FailureReason, OrderStatus
from mcc.store.database.errors import BadEntry, ControlsPending, OrderIsFinal, StoreFenced, StoreUnavailable
from mcc.store.rows.values import Claim
from mcc.store.store import open_store
from mcc.testing import FakeClock
from tests.conformance.store.scene import Scene, at_once, called, ended, replied, returned, started


def test_a_claim_raises_epoch_and_attempt_and_tells_of_it(scene: Scene) -> None:
    order, drone = scene.place(), scene.drone("alpha")
    claim = scene.claim(order.id, drone)
    assert claim is not None
    assert (claim.epoch, claim.attempt, claim.last_seq, claim.control_seq) == (1, 1, 2, 0)
    assert (claim.order.status, claim.order.drone, claim.order.started_at) == (
        OrderStatus.RUNNING,
        "alpha",
        scene.clock.now(),
    )
    entry = scene.store.journal.read(order.id)[1]
    assert (entry.kind, entry.data.model_dump()) == (
        "order.claimed",
        {"attempt": 1, "epoch": 1, "drone": "drone-1", "incarnation": drone},
    )


def test_the_same_token_again_gives_the_same_claim(scene: Scene) -> None:
    order, drone = scene.place(), scene.drone()
    assert scene.claim(order.id, drone) == scene.claim(order.id, drone)
    assert scene.kinds(order.id) == ["order.queued", "order.claimed"]


def test_a_held_order_cannot_be_claimed_by_another_drone(scene: Scene) -> None:
    held = scene.running()
    assert scene.claim(held.order_id, scene.drone("other")) is None
    assert scene.claim(held.order_id, scene.drone("other"), token="t2") is None
    assert scene.store.claims.claimable(["default"], 10) == []


def test_of_eight_that_claim_at_once_one_wins(scene: Scene) -> None:
    order = scene.place()
    drones = [scene.drone(f"drone-{number}") for number in range(8)]

    def claiming(drone: str) -> Callable[[], Claim | None]:
        return lambda: scene.claim(order.id, drone, token=drone)

    answers = at_once(*(claiming(drone) for drone in drones))
    won = [answer for answer in answers if isinstance(answer, Claim)]
    assert len(won) == 1 and answers.count(None) == 7, answers
    assert scene.kinds(order.id) == ["order.queued", "order.claimed"]


def test_two_concurrent_claims_of_one_drone_give_one_claim(scene: Scene) -> None:
    order, drone = scene.place(), scene.drone()
    answers = at_once(*[lambda: scene.claim(order.id, drone)] * 4)
    assert all(isinstance(answer, Claim) and answer.epoch == 1 for answer in answers), answers


def test_turns_of_one_session_are_claimed_one_after_the_other(scene: Scene) -> None:
    first = scene.place("1")
    second = scene.place("2", session_id=first.session_id)
    drone = scene.drone()
    assert scene.claim(second.id, drone) is None
    held = scene.hold(first.id, drone)
    assert scene.claim(second.id, drone) is None
    held.finish()
    assert scene.store.orders.get(second.id).queue_position == 1
    assert scene.claim(second.id, drone) is not None


def test_a_claim_of_an_unregistered_drone_is_refused(scene: Scene) -> None:
    with pytest.raises(ValueError, match="registers before it claims"):
        scene.claim(scene.place().id, "nobody")


def test_a_drone_whose_lease_ran_out_claims_nothing(scene: Scene) -> None:
    order, drone = scene.place(), scene.drone()
    scene.clock.advance(13)
    assert scene.claim(order.id, drone) is None
    assert scene.store.leases.renew(drone, lease_seconds=12, active=0)
    assert scene.claim(order.id, drone) is not None


def test_orders_are_handed_back_with_their_calls_open(scene: Scene) -> None:
    held = scene.running()
    record = held.origin.record_id or ""
    held.write(started(), replied(), called(record))
    answer = scene.store.claims.hand_back([(held.order_id, held.epoch)], drone="drone-1", message="going home")
    assert list(answer) == [held.order_id]
    assert scene.kinds(held.order_id)[-2:] == ["tool.started", "order.handed_back"]
    shown = scene.fold(held.order_id).record()
    assert shown and shown.status is RecordStatus.RUNNING
    order = scene.store.orders.get(held.order_id)
    assert (order.status, order.drone, order.queue_position) == (OrderStatus.QUEUED, None, 1)
    again = scene.hold(held.order_id, token="next")
    assert (again.epoch, again.attempt) == (3, 2)
    assert not again.write(returned(record), ended()).culprits, "its next holder goes on with it"


def test_only_orders_that_are_still_held_are_handed_back(scene: Scene) -> None:
    held, done = scene.running(), scene.running()
    done.finish()
    pairs = [(held.order_id, held.epoch + 1), (done.order_id, done.epoch), ("nonsense", 1)]
    assert list(scene.store.claims.hand_back(pairs, drone="d", message="m")) == []
    assert scene.status(held.order_id) is OrderStatus.RUNNING


def test_a_finished_order_still_names_the_drone_that_did_it(scene: Scene) -> None:
    held = scene.running()
    held.write(started())
    scene.store.claims.finish(held.ending(OrderStatus.SUCCEEDED, ended()))
    assert scene.store.orders.get(held.order_id).drone == "drone-1"


def test_a_finished_order_stays_as_it_is(scene: Scene) -> None:
    held = scene.running()
    held.write(started())
    ending = held.ending(OrderStatus.SUCCEEDED, ended())
    last = scene.store.claims.finish(ending)
    assert scene.kinds(held.order_id)[-2:] == ["agent.finished", "order.finished"]
    assert scene.store.claims.finish(ending) == last, "the answer was lost, the very same ending is sent again"
    with pytest.raises(StoreFenced):
        scene.store.claims.finish(replace(ending, last_seq=last))
    assert held.write(AgentStep(name="late", message="late")).fenced == {held.order_id}
    held.last_seq = last
    assert held.write(AgentStep(name="late", message="counted right")).fenced == {held.order_id}
    with pytest.raises(OrderIsFinal):
        scene.store.controls.request(held.order_id, ControlKind.CANCEL, NewControl(), by=Actor("x"))
    assert scene.kinds(held.order_id).count("order.finished") == 1


def test_an_ending_says_one_thing_and_says_it_last(scene: Scene) -> None:
    held = scene.running()
    ending = held.ending()
    for wrong in (
        replace(ending, drafts=[]),
        replace(ending, drafts=[*ending.drafts, *ending.drafts]),
        replace(ending, outcome=OrderOutcome(status=OrderStatus.FAILED, reason=FailureReason.INTERNAL)),
    ):
        with pytest.raises(ValueError, match=r"order\.finished"):
            scene.store.claims.finish(wrong)
    assert isinstance(ending.drafts[-1].data, OrderFinished)
    assert scene.status(held.order_id) is OrderStatus.RUNNING


def test_a_wrong_number_or_an_old_epoch_cannot_end_the_order(scene: Scene) -> None:
    held = scene.running()
    ending = held.ending()
    scene.lose()
    for stale in (ending, replace(ending, epoch=ending.epoch + 1), replace(ending, order_id="nonsense")):
        with pytest.raises(StoreFenced):
            scene.store.claims.finish(stale)
    held = scene.hold(held.order_id, token="next")
    with pytest.raises(StoreFenced):
        scene.store.claims.finish(replace(held.ending(), last_seq=held.last_seq - 1))


def test_two_that_end_it_at_once_end_it_once(scene: Scene) -> None:
    held = scene.running()
    good, bad = held.ending(), held.ending(OrderStatus.FAILED, reason=FailureReason.INTERNAL)
    bad = replace(bad, drafts=[*held.ending(OrderStatus.FAILED).drafts[:-1], *bad.drafts[-1:]])
    at_once(lambda: scene.store.claims.finish(good), lambda: scene.store.claims.finish(bad))
    assert scene.status(held.order_id) in FINAL
    assert scene.kinds(held.order_id).count("order.finished") == 1
    assert scene.fold(held.order_id).finished is not None


def test_an_ending_with_a_second_result_of_a_call_is_refused_and_changes_nothing(scene: Scene) -> None:
    held = scene.running()
    record = held.origin.record_id or ""
    held.write(started(), called(record), returned(record))
    ending = held.ending()
    doubled = [replace(ending.drafts[0], data=returned(record)), *ending.drafts]
    with pytest.raises(BadEntry):
        scene.store.claims.finish(replace(ending, drafts=doubled))
    assert scene.status(held.order_id) is OrderStatus.RUNNING
    assert held.write(AgentStep(name="goes", message="on")).fenced == frozenset()


def test_a_record_tree_is_read_back_unchanged(scene: Scene) -> None:
    held = scene.running()
    record = held.origin.record_id or ""
    held.write(started("big " + "p" * 50_000), replied("one"))
    for number in range(3):
        child = held.origin.model_copy(update={"record_id": _id(number), "parent_id": record, "depth": 1})
        grandchild = child.model_copy(update={"record_id": _id(number + 10), "parent_id": _id(number), "depth": 2})
        held.write(started(f"child {number}"), origin=child)
        held.write(started(f"grandchild \x00\ud800 {number}"), ended("y" * 70_000), origin=grandchild)
        held.write(ended(), origin=child)
    ending = held.ending(OrderStatus.SUCCEEDED, ended())
    scene.store.claims.finish(ending)
    found = scene.store.orders.record(held.order_id)
    assert found == ending.record == scene.fold(held.order_id).record()
    assert found and [child.prompt for child in found.subagent_history] == ["child 0", "child 1", "child 2"]


def _id(number: int) -> str:
    return f"00000000-0000-5000-8000-{number:012d}"


def test_a_control_that_came_meanwhile_must_be_read_before_the_end(scene: Scene) -> None:
    held = scene.running()
    control = scene.store.controls.request(held.order_id, ControlKind.STEER, NewControl(message="left"), by=Actor("x"))
    with pytest.raises(ControlsPending):
        held.finish()
    assert [one.id for one in scene.store.controls.pending({held.order_id: held.control_seq})] == [control.id]
    held.control_seq = control.number
    held.finish()
    [receipt] = scene.store.controls.of_order(held.order_id)
    assert receipt.refused and receipt.applied_seq is None and not receipt.open


def test_a_cancel_that_was_not_applied_beats_the_end(scene: Scene) -> None:
    held = scene.running()
    held.control_seq = scene.store.controls.request(
        held.order_id, ControlKind.CANCEL, NewControl(), by=Actor("x")
    ).number
    with pytest.raises(ControlsPending):
        held.finish()
    held.finish(OrderStatus.CANCELLED)
    [receipt] = scene.store.controls.of_order(held.order_id)
    assert receipt.applied_seq == scene.store.orders.get(held.order_id).last_seq


def test_a_control_that_was_settled_without_the_holder_does_not_keep_it_from_ending(scene: Scene) -> None:
    order = scene.place()
    node = NewControl(record_id="01890000-0000-7000-8000-000000000000")
    scene.store.controls.request(order.id, ControlKind.PAUSE, NewControl(), by=Actor("x"))
    assert scene.store.controls.request(order.id, ControlKind.STEER, node, by=Actor("x")).refused
    held = scene.hold(order.id)
    assert held.control_seq == 0
    held.control_seq = max(one.number for one in scene.store.controls.pending({order.id: 0}))
    held.finish()
    assert scene.status(order.id) is OrderStatus.SUCCEEDED


def test_a_locked_row_makes_the_store_unavailable_and_loses_nothing(database_url: str, clock: FakeClock) -> None:
    scene = Scene(open_store(database_url, clock=clock, patience_seconds=0.1), clock, "sql")
    other = open_store(database_url, clock=clock)
    held = scene.running()
    with other.database.engine.begin() as blocking:
        blocking.exec_driver_sql("UPDATE order_state SET priority = priority")
        with pytest.raises(StoreUnavailable, match=r"lock|busy"):
            held.write(AgentStep(name="a", message="b"))
        with pytest.raises(StoreUnavailable):
            held.finish()
    assert not held.write(AgentStep(name="a", message="b")).fenced
    assert scene.kinds(held.order_id) == ["order.queued", "order.claimed", "agent.step"]
    other.close()
    scene.store.close()


def test_expiry_does_not_touch_a_running_order(scene: Scene) -> None:
    held = scene.running(expires_at=scene.clock.now() + timedelta(seconds=1))
    scene.clock.advance(2)
    assert list(scene.store.sweeper.sweep(may_expire=True).ended) == []
    assert scene.status(held.order_id) is OrderStatus.RUNNING
