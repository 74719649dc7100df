"""Orders that deliver what another one did; the requests that sessions have opened at forges."""

from datetime import timedelta

import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.entry import Origin
from mcc.contracts.git_delivery import (
    DELIVER,
    LATER,
    Deliver,
    DeliveryFinished,
    DeliveryRequest,
    DeliveryStarted,
    GitDelivery,
    delivery_so_far,
)
from mcc.contracts.ids import delivery_record_id
from mcc.contracts.journal import AgentStep
from mcc.contracts.order import NewOrder, OrderKind, WorkOrder
from mcc.contracts.order_lists import OrderCriteria
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


def test_an_order_tells_of_its_delivery_before_it_has_ended(scene: Scene) -> None:
    held = scene.hold(placed(scene, workspace=ADDRESS, deliver={"pull_request": True}).id)
    held.write(started())
    get = scene.store.orders.get
    delivers = Origin(record_id=delivery_record_id(held.order_id), parent_id=held.origin.record_id, agent=DELIVER)
    assert get(held.order_id).delivery is None
    held.write(started(), origin=delivers)
    assert get(held.order_id).delivery is None
    held.write(AgentStep(name=LATER, message="busy"), origin=delivers)
    assert get(held.order_id).delivery == GitDelivery(why="busy")
    push = BEGUN.model_copy(update={"step": "push"})
    held.write(push, DeliveryFinished(step="push", ok=True, commit="c" * 40), origin=delivers)
    pushed = GitDelivery(forge="hub", project="team/shop", branch="mcc/1", base="main", commit="c" * 40)
    assert get(held.order_id).delivery == pushed
    waits = Parking(held.order_id, held.epoch, held.last_seq, 0, WaitingReason.DELIVERY, "busy", None, tries=2)
    scene.store.claims.park(waits)
    waiting = get(held.order_id)
    assert (waiting.status, waiting.delivery) == (OrderStatus.WAITING, pushed)
    (listed,) = scene.store.order_lists.find(OrderCriteria()).items
    assert listed.delivery == pushed


def test_steps_of_others_are_no_news_of_a_delivery(scene: Scene) -> None:
    held = scene.hold(placed(scene, workspace=ADDRESS, deliver={}).id)
    held.write(started())
    delivers = Origin(record_id=delivery_record_id(held.order_id), parent_id=held.origin.record_id, agent=DELIVER)
    held.write(started(), AgentStep(name="note", message="x"), origin=delivers)
    held.write(AgentStep(name=LATER, message="x"))
    assert scene.store.orders.get(held.order_id).delivery is None


def test_a_wish_reads_as_what_it_does() -> None:
    assert Deliver().in_words == "pushes the branch of its session"
    whole = Deliver(pull_request=True, base="next", branch="mcc/x", draft=True, title="T", close=7)
    assert whole.in_words == (
        "pushes mcc/x, opens or updates a request to merge it into next, as a draft, entitled 'T', which closes #7"
    )


def test_what_becomes_of_a_delivery_is_told_step_by_step() -> None:
    push, again = BEGUN.model_copy(update={"step": "push"}), BEGUN.model_copy(update={"branch": "mcc/1-2"})
    pushed = DeliveryFinished(step="push", ok=True, commit="c" * 40)
    refused = DeliveryFinished(step="request", ok=False, commit="c" * 40, why="no")
    assert delivery_so_far([]) is None
    committed = delivery_so_far([push, DeliveryFinished(step="commit", ok=True, commit="c" * 40)])
    assert committed is not None and committed.commit is None
    told = delivery_so_far([push, pushed, BEGUN, OPENED])
    assert told is not None and (told.commit, told.request, told.why) == ("c" * 40, OPENED.request, None)
    told = delivery_so_far([push, pushed, BEGUN, refused])
    assert told is not None and (told.commit, told.why) == ("c" * 40, "no")
    told = delivery_so_far([push, pushed, again])
    assert told is not None and (told.branch, told.commit) == ("mcc/1-2", None)
    told = delivery_so_far(["busy", push])
    assert told is not None and told.why is None


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
