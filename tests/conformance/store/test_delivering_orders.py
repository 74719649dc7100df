"""Orders that deliver what another one did; the requests that sessions have opened at forges."""

from datetime import timedelta

import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.git_delivery import Deliver, DeliveryFinished, DeliveryRequest, DeliveryStarted
from mcc.contracts.order import NewOrder, OrderKind, WorkOrder
from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.store.database.errors import CannotFork, NotDeliverable, OrderIsUnfinished
from mcc.store.rows.values import Parking
from tests.conformance.store.scene import Scene, started

ADDRESS = "https://git.example.org/team/shop"
BY = Actor("ann")
BEGUN = DeliveryStarted(step="request", forge="hub", project="team/shop", branch="mcc/1", base="main", commit="c" * 40)
OPENED = DeliveryFinished(
    step="request", ok=True, request=DeliveryRequest(number=12, url="https://git.example.org/12", state="open")
)


def placed(scene: Scene, **fields: object) -> WorkOrder:
    new = NewOrder.model_validate({"prompt": "Mend it", **fields})
    return scene.store.orders.place(new, by=BY).order


def cancel(scene: Scene, order: WorkOrder) -> None:
    scene.store.controls.request(order.id, ControlKind.CANCEL, NewControl(), by=BY)


def test_a_delivery_is_the_next_turn_of_the_session_and_wishes_what_it_is_asked_for(scene: Scene) -> None:
    source = placed(scene, workspace=ADDRESS, ref="next", mode="build", deliver={"pull_request": True})
    orders = scene.store.orders
    with pytest.raises(OrderIsUnfinished):
        orders.deliver(source.id, None, by=BY)
    cancel(scene, source)
    first = orders.deliver(source.id, None, by=BY, on_ask="wait").order
    assert (first.kind, first.session_id, first.session_seq) == (OrderKind.DELIVER, source.session_id, 2)
    assert (first.workspace, first.ref, first.mode, first.on_ask) == (ADDRESS, "next", "build", "wait")
    assert first.deliver == source.deliver and first.origin is not None and first.origin.order_id == source.id
    cancel(scene, first)
    again = orders.deliver(first.id, Deliver(branch="mcc/mine"), by=BY).order
    assert again.deliver == Deliver(branch="mcc/mine")
    assert again.origin is not None and again.origin.order_id == source.id
    cancel(scene, again)
    with pytest.raises(CannotFork):
        orders.retry(again.id, by=BY)


def test_what_did_not_work_on_a_git_address_has_nothing_to_deliver(scene: Scene) -> None:
    source = placed(scene)
    cancel(scene, source)
    with pytest.raises(NotDeliverable):
        scene.store.orders.deliver(source.id, None, by=BY)


def test_a_person_has_an_order_that_waits_for_its_forge_go_on_at_once(scene: Scene) -> None:
    held = scene.running()
    later = scene.clock.now() + timedelta(hours=1)
    waits = Parking(held.order_id, held.epoch, held.last_seq, 0, WaitingReason.DELIVERY, "busy", later, tries=3)
    scene.store.claims.park(waits)
    waiting = scene.store.orders.get(held.order_id).waits_for
    assert waiting is not None and (waiting.kind, waiting.tries) == ("delivery", 3)
    scene.store.controls.request(held.order_id, ControlKind.RESUME, NewControl(), by=BY)
    assert scene.status(held.order_id) is OrderStatus.QUEUED


def test_a_request_is_known_as_that_of_its_session_until_the_session_is_deleted(scene: Scene) -> None:
    order, other = placed(scene), placed(scene)
    sessions = scene.store.sessions
    for turn in (order, other):
        held = scene.hold(turn.id, token=f"t-{turn.id}")
        held.write(started())
        held.write(BEGUN)
        held.write(OPENED)
        assert sessions.of_request("hub", "team/shop", 12) == turn.session_id
        held.finish()
    assert sessions.of_request("lab", "team/shop", 12) is None
    scene.store.removal.begin(other.session_id, by=BY)
    scene.store.removal.advance()
    assert sessions.of_request("hub", "team/shop", 12) is None
