"""Metadata of orders, and restrictions on their controls, on every store."""

import pytest
from pydantic import ValidationError

from mcc.contracts.callers import Actor
from mcc.contracts.control import Control, ControlKind, ControlOfBatch, NewControl
from mcc.contracts.entry import ORDER
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import ControlApplied
from mcc.contracts.order import NewFork, NewOrder
from mcc.contracts.status import OrderStatus
from mcc.store.database.errors import ControlNotTaken
from tests.conformance.store.scene import Held, Scene, started


def ask(scene: Scene, order_id: str, kind: ControlKind, **fields: object) -> Control:
    return scene.store.controls.request(order_id, kind, NewControl.model_validate(fields), by=Actor("someone"))


def set_by(control: Control) -> ControlApplied:
    return ControlApplied(control_id=control.id, control=control.kind.value, metadata=control.metadata)


def changed(scene: Scene, held: Held, **metadata: object) -> Control:
    control = ask(scene, held.order_id, ControlKind.SET_METADATA, metadata=metadata)
    held.write(set_by(control), origin=ORDER)
    return control


def test_an_order_has_the_metadata_that_it_was_placed_with(scene: Scene) -> None:
    order = scene.place(metadata={"ticket": "OPS-17", "none": None})
    assert order.metadata == {"ticket": "OPS-17"}
    assert scene.store.orders.get(order.id).metadata == order.metadata
    assert scene.place().metadata == {}


def test_metadata_of_a_control_is_merged_when_a_drone_applies_it_and_shown_in_the_record(scene: Scene) -> None:
    held = scene.running(metadata={"ticket": "OPS-17", "tries": 1})
    held.write(started())
    control = ask(scene, held.order_id, ControlKind.SET_METADATA, metadata={"tries": 2, "ticket": None, "by": {"a": 1}})
    assert scene.store.orders.get(held.order_id).metadata == {"ticket": "OPS-17", "tries": 1}
    assert scene.store.controls.pending({held.order_id: 0})[0].metadata == control.metadata
    held.write(set_by(control), origin=ORDER)
    now = {"tries": 2, "by": {"a": 1}}
    assert scene.store.orders.get(held.order_id).metadata == now
    record = scene.fold(held.order_id).record()
    assert record is not None and record.metadata == now
    (receipt,) = scene.store.controls.of_order(held.order_id)
    assert receipt.applied_seq is not None
    changed(scene, held, tries=3)
    held.finish()
    assert scene.store.orders.get(held.order_id).metadata == {"tries": 3, "by": {"a": 1}}
    kept = scene.store.orders.record(held.order_id)
    assert kept is not None and kept.metadata == {"tries": 3, "by": {"a": 1}}


def test_metadata_set_for_one_agent_does_not_change_the_orders(scene: Scene) -> None:
    held = scene.running(metadata={"ticket": "OPS-17"})
    held.write(started())
    control = ask(scene, held.order_id, ControlKind.SET_METADATA, metadata={"ticket": "OPS-18"}, record_id=fresh_id())
    held.write(set_by(control), origin=held.origin.model_copy(update={"record_id": control.record_id}))
    assert scene.store.orders.get(held.order_id).metadata == {"ticket": "OPS-17"}


def test_a_retry_and_a_fork_begin_with_the_final_metadata_of_their_source(scene: Scene) -> None:
    held = scene.running(metadata={"ticket": "OPS-17"})
    held.write(started())
    changed(scene, held, tries=1)
    changed(scene, held, tries=2)
    cut = held.last_seq - 1
    held.finish()
    forked = scene.store.orders.fork(held.order_id, NewFork(after=cut), by=Actor("someone")).order
    again = scene.store.orders.retry(held.order_id, by=Actor("someone")).order
    assert forked.metadata == again.metadata == {"ticket": "OPS-17", "tries": 2}
    assert scene.fold(forked.id).metadata == {"ticket": "OPS-17", "tries": 2}


def test_an_order_takes_the_controls_that_it_was_placed_with_and_refuses_the_others(scene: Scene) -> None:
    held = scene.running(controls=["set_metadata", "steer"])
    assert ask(scene, held.order_id, ControlKind.STEER, message="m").open
    for kind in (ControlKind.PAUSE, ControlKind.RESUME):
        with pytest.raises(ControlNotTaken, match=f"takes no {kind}.* allowed: set_metadata, steer"):
            ask(scene, held.order_id, kind)
    with pytest.raises(ControlNotTaken, match="takes no cancel"):
        ask(scene, held.order_id, ControlKind.CANCEL, record_id=fresh_id())
    assert len(scene.store.controls.of_order(held.order_id)) == 1
    assert ask(scene, held.order_id, ControlKind.CANCEL).open, "the whole order can always be cancelled"


def test_one_control_that_is_not_taken_refuses_all_of_a_batch(scene: Scene) -> None:
    held = scene.running(controls=["steer"])
    asked = [ControlOfBatch(kind=ControlKind.STEER, message="m"), ControlOfBatch(kind=ControlKind.PAUSE)]
    with pytest.raises(ControlNotTaken):
        scene.store.controls.request_all(held.order_id, asked, by=Actor("someone"))
    assert scene.store.controls.of_order(held.order_id) == []


def test_a_turn_that_would_steer_an_order_which_takes_no_steer_waits_its_turn(scene: Scene) -> None:
    held = scene.running(controls=[])
    session = scene.store.orders.get(held.order_id).session_id
    placed = scene.placed("and now", session_id=session, when_busy="steer")
    assert placed.created and placed.order.status is OrderStatus.QUEUED
    assert scene.store.controls.of_order(held.order_id) == []


def test_an_order_that_takes_a_pause_takes_a_resume() -> None:
    with pytest.raises(ValidationError, match="never go on"):
        NewOrder.model_validate({"prompt": "x", "controls": ["pause"]})


@pytest.mark.parametrize(
    "metadata", [{"k": "x" * 16_000}, {f"k{number}": 1 for number in range(65)}, {"": 1}, {"k" * 101: 1}, [1], "x"]
)
def test_metadata_is_small(metadata: object) -> None:
    for model, more in ((NewOrder, {"prompt": "x"}), (NewControl, {})):
        with pytest.raises(ValidationError):
            model.model_validate({"metadata": metadata, **more})
