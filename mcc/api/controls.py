"""Cancel, pause, resume, steer and metadata over HTTP: each control is stored as a row and wakes the order's drone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from fastapi import APIRouter
from starlette.responses import Response

from mcc.api.access.callers import Caller, CallerHere
from mcc.api.problems import Unacceptable
from mcc.api.service import API, OrderId, Service, ServiceHere, WindowHere, answer, answers, whole
from mcc.contracts.answers import Listing
from mcc.contracts.callers import Actor
from mcc.contracts.control import Control, ControlKind, ControlOfBatch, NewControl, NewControls, Receipt, SteerMode
from mcc.contracts.drones import DroneStatus, Registration
from mcc.contracts.order import WorkOrder
from mcc.contracts.similar import did_you_mean
from mcc.contracts.status import OrderStatus
from mcc.definitions.rights import TOOL_GROUPS, expanded, known_names
from mcc.store.database.errors import StoreError
from mcc.store.store import Store

router = APIRouter(prefix=API, tags=["controls"])

WAKING = frozenset({ControlKind.RESUME, ControlKind.CANCEL})
"""Controls that may requeue a waiting order."""

Asked = TypeVar("Asked", bound=NewControl)

RECEIPT = answers(Receipt, 202)

_BELONGS = {
    "mode": ControlKind.STEER,
    "remove_tools": ControlKind.STEER,
    "metadata": ControlKind.SET_METADATA,
}
"""Fields that belong to one kind of control."""

_FINISH = expanded(["finish"]) | {"finish"}
"""Tools that cannot be removed, because an agent submits its result with them."""


@dataclass(frozen=True, slots=True)
class Requested:
    """A stored control, its order (None when unknown), and the incarnations of the drone that runs the order."""

    control: Control
    order: WorkOrder | None
    incarnations: Sequence[str]


@router.post("/orders/{order_id}/cancel", status_code=202, responses=RECEIPT)
async def cancel(
    order_id: OrderId, service: ServiceHere, caller: CallerHere, asked: NewControl | None = None
) -> Response:
    """Stop the order, or with a `record_id` one of its agents with all agents below it; the others continue."""
    return await _request(service, caller, order_id, ControlKind.CANCEL, asked)


@router.post("/orders/{order_id}/pause", status_code=202, responses=RECEIPT)
async def pause(
    order_id: OrderId, service: ServiceHere, caller: CallerHere, asked: NewControl | None = None
) -> Response:
    """Start no further model or tool call until resumed, in the whole order, or with a `record_id` in one agent and
    all below it. A fully paused order gives up its slot after a while, and its time limits are suspended."""
    return await _request(service, caller, order_id, ControlKind.PAUSE, asked)


@router.post("/orders/{order_id}/resume", status_code=202, responses=RECEIPT)
async def resume(
    order_id: OrderId, service: ServiceHere, caller: CallerHere, asked: NewControl | None = None
) -> Response:
    """Continue after a pause. Agents that wait for a busy provider ask it again at once."""
    return await _request(service, caller, order_id, ControlKind.RESUME, asked)


@router.post("/orders/{order_id}/steer", status_code=202, responses=RECEIPT)
async def steer(order_id: OrderId, service: ServiceHere, caller: CallerHere, asked: NewControl) -> Response:
    """Send a message to the master, or with a `record_id` to one agent, before its next model call; or remove tools.

    With `mode` "redirect" the message replaces the agent's task. The tools and groups in `remove_tools` are removed at
    once and permanently from the agent and all below it. Names that no agent of the order has are ignored.
    """
    return await _request(service, caller, order_id, ControlKind.STEER, asked)


@router.post("/orders/{order_id}/metadata", status_code=202, responses=RECEIPT)
async def set_metadata(order_id: OrderId, service: ServiceHere, caller: CallerHere, asked: NewControl) -> Response:
    """Merge `metadata` into that of the order, or with a `record_id` into that of one agent; null removes a key.

    Tools see metadata, models do not. In a queued or waiting order it takes effect once the order continues.
    """
    return await _request(service, caller, order_id, ControlKind.SET_METADATA, asked)


@router.post("/orders/{order_id}/controls:batch", status_code=202, responses=answers(Listing[Receipt], 202))
async def batch(order_id: OrderId, service: ServiceHere, caller: CallerHere, asked: NewControls) -> Response:
    """Place several controls in sequence: all of them or, if one is not acceptable, none. They reach the drone
    together. A cancel of the whole order wins over the others, which are refused. One receipt for each."""
    redacted = service.redactor().model(asked)
    made = await service.write(_keep_all, service.store, order_id, redacted.controls, caller.actor)
    for requested in made:
        announce(service, requested)
    controls = (delivered.control for delivered in made)
    receipts = (Receipt(id=each.id, requested_at=each.requested_at, order_id=order_id) for each in controls)
    return answer(Listing(items=tuple(receipts)), 202)


@router.get("/orders/{order_id}/controls", responses=answers(Listing[Control]))
async def controls(order_id: OrderId, service: ServiceHere, window: WindowHere) -> Response:
    """The controls requested of this order, and what became of them."""
    return whole(await service.offload(service.store.controls.of_order, order_id), window)


async def _request(
    service: Service, caller: Caller, order_id: str, kind: ControlKind, asked: NewControl | None
) -> Response:
    # Redacted here and not only by the drone: the text may end an order that no drone runs.
    redacted = service.redactor().model(asked or NewControl())
    requested = await service.write(_keep, service.store, order_id, kind, redacted, caller.actor)
    announce(service, requested)
    control = requested.control
    return answer(Receipt(id=control.id, requested_at=control.requested_at, order_id=order_id), 202)


def announce(service: Service, requested: Requested) -> None:
    """Wake the order's drone, and announce its status, as the control itself may have ended or requeued the order."""
    service.notices.controlled(requested.control.order_id, requested.control.number, requested.incarnations)
    if requested.order is None:
        return
    if requested.order.status is OrderStatus.QUEUED and requested.control.kind in WAKING:
        service.notices.placed(requested.order)
    else:
        service.notices.status_changed(requested.order)


def _keep(store: Store, order_id: str, kind: ControlKind, asked: NewControl, by: Actor) -> Requested:
    asked = _checked(kind, asked, store.leases.registrations() if asked.remove_tools else ())
    return with_recipients(store, store.controls.request(order_id, kind, asked, by=by))


def _keep_all(store: Store, order_id: str, asked: Sequence[ControlOfBatch], by: Actor) -> Sequence[Requested]:
    drones = store.leases.registrations() if any(control.remove_tools for control in asked) else ()
    checked: list[ControlOfBatch] = []
    for place, control in enumerate(asked):
        try:
            checked.append(_checked(control.kind, control, drones))
        except Unacceptable as error:
            raise Unacceptable(f"controls.{place}.{error.field}", str(error)) from error
    return [with_recipients(store, control) for control in store.controls.request_all(order_id, checked, by=by)]


def with_recipients(store: Store, control: Control) -> Requested:
    """The control with its order and the drone processes to wake; both empty when the database cannot be read now."""
    return with_recipients_of_all(store, [control])[0]


def with_recipients_of_all(store: Store, controls: Sequence[Control]) -> Sequence[Requested]:
    """As `with_recipients`, of controls of several orders."""
    try:
        orders = store.orders.some([control.order_id for control in controls])
        drones = store.leases.drones() if any(order.drone for order in orders.values()) else ()
    except StoreError:
        return [Requested(control, None, ()) for control in controls]
    live = [drone for drone in drones if drone.status is not DroneStatus.SILENT]
    by_name = {drone.name: [each.incarnation for each in live if each.name == drone.name] for drone in live}
    pairs = [(control, orders.get(control.order_id)) for control in controls]
    return [Requested(control, order, by_name.get(order.drone or "", ()) if order else ()) for control, order in pairs]


def _checked(kind: ControlKind, asked: Asked, drones: Sequence[Registration]) -> Asked:
    """`asked`, with a blank message replaced by None. Raises `Unacceptable`.

    Tool names must be groups, tools of this version or tools of `drones`. Without drones, any name is accepted.
    """
    if kind is ControlKind.DECIDE:
        raise Unacceptable("kind", "decide an item of the inbox at its address: POST /approvals/ID or /questions/ID.")
    if kind is ControlKind.SET_METADATA and not asked.metadata:
        raise Unacceptable("metadata", 'say what is to be set: {"metadata": {"ticket": "OPS-17"}}.')
    for field, owner in _BELONGS.items():
        if getattr(asked, field) and kind is not owner:
            raise Unacceptable(field, f"{field} belongs to a {owner}; leave it out of a {kind}.")
    if kind is not ControlKind.STEER:
        return asked
    if not (asked.message or "").strip():
        asked = asked.model_copy(update={"message": None})
    if asked.message is None and asked.mode is SteerMode.REDIRECT:
        raise Unacceptable("message", "a redirect needs a message: the task from now on.")
    if asked.message is None and not asked.remove_tools:
        raise Unacceptable("message", "a steer needs a message, or tools to remove: what should the agent be told?")
    _check_tools(asked.remove_tools, drones)
    return asked


def _check_tools(names: Sequence[str], drones: Sequence[Registration]) -> None:
    known = known_names(TOOL_GROUPS) | {tool.name for drone in drones for tool in drone.tools}
    for name in names:
        if name in _FINISH:
            problem = f"{name} cannot be taken away: an agent needs it to hand in its result. To stop it, cancel it."
            raise Unacceptable("remove_tools", problem)
        if drones and name not in known:
            problem = f"there is no tool and no group {name!r}{did_you_mean(name, known)}; leave it out."
            raise Unacceptable("remove_tools", problem)
