"""What an unfinished order waits for, as the database has it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.entry import Origin
from mcc.contracts.ids import child_record_id
from mcc.contracts.inbox_facts import QuestionAsked
from mcc.contracts.journal import AgentStep, ControlApplied
from mcc.contracts.model_facts import ModelRetried, ModelStarted
from mcc.contracts.order import NewOrder
from mcc.contracts.status import WaitingReason
from mcc.contracts.waits import WaitsFor
from mcc.store.rows.transitions import POSITIONS
from mcc.store.rows.values import BatchOrder, Parking, WorkspaceHold
from tests.conformance.store.scene import Held, Scene, started

WRITER = WorkspaceHold("key")
RETRIED = ModelRetried(round=1, attempt=3, model="a/b", error="refused at 127.0.0.1:18399", wait_seconds=8.0)


def waits(scene: Scene, order_id: str) -> WaitsFor | None:
    """What the order waits for; its detail says the same, and so does the part of the store that only reads this."""
    order = scene.store.orders.get(order_id)
    assert order.detail == (order.waits_for.message if order.waits_for else None)
    assert scene.store.orders.waits([order_id]) == {order_id: order.waits_for} or order.waits_for is None
    return order.waits_for


def claimed(scene: Scene, order_id: str, hold: WorkspaceHold) -> Held:
    claim = scene.store.claims.claim(
        order_id, incarnation=scene.drone(), claim_token="t", drone="d", alone=True, workspace=hold
    )
    assert claim is not None
    return Held(scene, order_id, claim.epoch, claim.attempt, claim.last_seq, claim.control_seq)


def test_without_a_drone_for_its_queue_an_order_waits_for_one(scene: Scene) -> None:
    scene.drone(queues=("gpu",))
    order = scene.place()
    told = waits(scene, order.id)
    assert told == WaitsFor(kind="drone", position=1, message="no drone takes orders of the queue default")
    scene.drone()
    assert waits(scene, order.id) == WaitsFor(
        kind="slot", position=1, message="1st in line on default: 0 of 4 slots are taken"
    )


def test_placing_an_order_tells_what_reading_it_tells(scene: Scene) -> None:
    """Its place counts what is more urgent or older, of its queue, and not what waits behind a turn; up to 200."""
    scene.drone(queues=("default", "gpu"))
    session = scene.place().session_id
    scene.place(session_id=session)
    places: tuple[tuple[dict[str, Any], int], ...] = (
        ({}, 2),
        ({"priority": 9}, 3),
        ({"priority": 1}, 1),
        ({"queue": "gpu"}, 1),
    )
    for fields, position in places:
        order = scene.place(**fields)
        assert order.queue_position == position
        assert (order.waits_for, order) == (waits(scene, order.id), scene.store.orders.get(order.id))
    scene.store.orders.place_all([BatchOrder(NewOrder(prompt="one of many"))] * 196, by=Actor("someone"))
    assert scene.place().queue_position == POSITIONS == 200
    beyond = scene.place()
    assert beyond.queue_position is None and beyond.waits_for == waits(scene, beyond.id)


def test_a_drone_that_leaves_takes_no_order_and_a_lost_one_is_none(scene: Scene) -> None:
    order, drone = scene.place(), scene.drone()
    scene.store.leases.renew(drone, lease_seconds=12, active=2, draining=True)
    told = waits(scene, order.id)
    assert told is not None and told.kind == "drone" and told.message.endswith("; 1 finish what they have and leave")
    scene.clock.advance(13)
    assert waits(scene, order.id) == WaitsFor(
        kind="drone", position=1, message="no drone takes orders of the queue default"
    )


def test_the_slots_of_all_drones_of_the_queue_count(scene: Scene) -> None:
    for name, busy in (("a", 4), ("b", 3)):
        scene.store.leases.renew(scene.drone(name), lease_seconds=12, active=busy)
    scene.store.leases.renew(scene.drone("c", queues=("gpu",)), lease_seconds=12, active=1)
    scene.place()
    second = waits(scene, scene.place().id)
    assert second == WaitsFor(kind="slot", position=2, message="2nd in line on default: 7 of 8 slots are taken")


def test_a_turn_waits_for_the_one_before_it_whatever_drones_there_are(scene: Scene) -> None:
    first = scene.place()
    second = scene.place(session_id=first.session_id)
    told = waits(scene, second.id)
    assert told is not None and (told.kind, told.order_id, told.position) == ("session", first.id, None)
    assert first.id[-12:] in told.message


def test_an_order_whose_workspace_another_one_writes_to_waits_for_that_one(scene: Scene) -> None:
    holder, waiting = (claimed(scene, scene.place().id, WRITER) for _ in range(2))
    for held in (holder, waiting):
        scene.store.workspaces.acquire(held.order_id, held.epoch, WRITER)
    assert waits(scene, holder.order_id) is None
    told = waits(scene, waiting.order_id)
    assert told is not None and (told.kind, told.order_id) == ("workspace", holder.order_id)
    assert told.message == f"waits for the workspace of order {holder.order_id[-12:]}"
    parking = Parking(
        waiting.order_id, waiting.epoch, waiting.last_seq, 0, WaitingReason.WORKSPACE, "it writes there", in_line=True
    )
    scene.store.claims.park(parking)
    told = waits(scene, waiting.order_id)
    assert told is not None and (told.kind, told.order_id) == ("workspace", holder.order_id)
    assert told.message == "it writes there"


def test_a_running_order_waits_while_its_model_is_asked_again_later(scene: Scene) -> None:
    held = scene.running()
    held.write(started(), ModelStarted(round=1, attempt=3, model="a/b"))
    assert waits(scene, held.order_id) is None
    at = scene.clock.now()
    held.write(RETRIED)
    assert waits(scene, held.order_id) == WaitsFor(
        kind="provider",
        until=at + timedelta(seconds=8),
        tries=4,
        message="asked again in 8 s (4th try): refused at 127.0.0.1:18399",
    )
    told = waits(scene, held.order_id)
    held.write(ModelStarted(round=1, attempt=4, model="a/b"))
    assert waits(scene, held.order_id) == told, "the next try is written down with the retry, and then waits"
    scene.clock.advance(9)
    assert waits(scene, held.order_id) is None, "the model is at work"


def test_an_order_goes_on_where_another_of_its_agents_does(scene: Scene) -> None:
    held = scene.running()
    held.write(started(), RETRIED, AgentStep(name="note", message="another agent's"))
    assert waits(scene, held.order_id) is None
    held.write(RETRIED)
    child = Origin(record_id=child_record_id(held.origin.record_id or ""), agent="explore", depth=1)
    held.write(ModelStarted(round=1, attempt=1, model="a/b"), origin=child)
    assert waits(scene, held.order_id) is None


def test_a_running_order_waits_for_a_person_or_a_resume(scene: Scene) -> None:
    held = scene.running()
    held.write(started(), QuestionAsked(question_id="q", call_id="c", question="Which one?"))
    assert waits(scene, held.order_id) == WaitsFor(kind="person", message="asks: Which one?")
    control = scene.store.controls.request(held.order_id, ControlKind.PAUSE, NewControl(), by=Actor("someone"))
    held.write(ControlApplied(control_id=control.id, control="pause", reason="lunch"))
    assert waits(scene, held.order_id) == WaitsFor(kind="paused", message="paused: lunch")


def test_a_parked_order_says_what_the_entry_says_that_parked_it(scene: Scene) -> None:
    held, until = scene.running(), scene.clock.now() + timedelta(hours=1)
    held.write(started())
    parking = Parking(held.order_id, held.epoch, held.last_seq, held.control_seq, WaitingReason.RATE_LIMIT, "429")
    scene.store.claims.park(replace(parking, until=until))
    assert waits(scene, held.order_id) == WaitsFor(kind="provider", until=until, message="429")


def test_an_order_for_later_says_when_and_an_ended_one_waits_for_nothing(scene: Scene) -> None:
    later = scene.clock.now() + timedelta(hours=1)
    told = waits(scene, scene.place(not_before=later).id)
    assert told == WaitsFor(kind="not_before", until=later, message=f"not before {later:%Y-%m-%d %H:%M:%S} UTC")
    held = scene.running()
    held.write(started())
    held.finish()
    assert scene.store.orders.get(held.order_id).waits_for is None
    assert scene.store.orders.waits([held.order_id]) == {}
