"""Controls of an order under way over HTTP: each is a row with a receipt, and a wake-up for the drone concerned."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from fastapi import APIRouter
from starlette.responses import Response

from mcc.api.problems import Unacceptable
from mcc.api.service import API, PRINCIPAL, OrderId, Service, ServiceHere, answer, answers, whole
from mcc.contracts.answers import Listing
from mcc.contracts.control import Control, ControlKind, ControlOfBatch, NewControl, NewControls, Receipt, SteerMode
from mcc.contracts.drones import DroneStatus, Registration
from mcc.contracts.order import WorkOrder
from mcc.contracts.status import OrderStatus
from mcc.definitions.rights import TOOL_GROUPS, expanded, known_names
from mcc.rules.errors import nearest
from mcc.store.errors import StoreError
from mcc.store.store import Store

router = APIRouter(prefix=API, tags=["controls"])

WAKING = frozenset({ControlKind.RESUME, ControlKind.CANCEL})
"""Controls that may let a waiting order go on."""

Asked = TypeVar("Asked", bound=NewControl)

RECEIPT = answers(Receipt, 202)

_BELONGS = {
    "mode": ControlKind.STEER,
    "remove_tools": ControlKind.STEER,
    "metadata": ControlKind.SET_METADATA,
}
"""What only one kind of control carries."""

_FINISH = expanded(["finish"]) | {"finish"}
"""An agent hands in its result by these, so they stay."""


@dataclass(frozen=True, slots=True)
class Requested:
    """A control that is kept. `order` and `incarnations` (of the drone that runs it) are empty when unknown."""

    control: Control
    order: WorkOrder | None
    incarnations: Sequence[str]


@router.post("/orders/{order_id}/cancel", status_code=202, responses=RECEIPT)
async def cancel(order_id: OrderId, service: ServiceHere, asked: NewControl | None = None) -> Response:
    """Stop the order, or with a `record_id` one agent of it with all below it; the others go on."""
    return await _request(service, order_id, ControlKind.CANCEL, asked)


@router.post("/orders/{order_id}/pause", status_code=202, responses=RECEIPT)
async def pause(order_id: OrderId, service: ServiceHere, asked: NewControl | None = None) -> Response:
    """Begin no further model or tool call until it is resumed: of the order, or with a `record_id` of one agent and all
    below it. An order that only rests waits without a slot after a while, and no time limit runs meanwhile."""
    return await _request(service, order_id, ControlKind.PAUSE, asked)


@router.post("/orders/{order_id}/resume", status_code=202, responses=RECEIPT)
async def resume(order_id: OrderId, service: ServiceHere, asked: NewControl | None = None) -> Response:
    """Go on after a pause; who waits until a provider wants to be asked again asks it now."""
    return await _request(service, order_id, ControlKind.RESUME, asked)


@router.post("/orders/{order_id}/steer", status_code=202, responses=RECEIPT)
async def steer(order_id: OrderId, service: ServiceHere, asked: NewControl) -> Response:
    """Say something to the master, or with a `record_id` to one agent, before its next model call; or take tools away.

    With `mode` "redirect" the message is the agent's task from now on. The tools and groups in `remove_tools` are gone
    for the agent and all below it at once, and for good. Names that no agent of the order has change nothing.
    """
    return await _request(service, order_id, ControlKind.STEER, asked)


@router.post("/orders/{order_id}/metadata", status_code=202, responses=RECEIPT)
async def set_metadata(order_id: OrderId, service: ServiceHere, asked: NewControl) -> Response:
    """Merge `metadata` into that of the order, or with a `record_id` into that of one agent; null takes a key away.

    Tools see it, models do not. A queued or waiting order has it once it goes on.
    """
    return await _request(service, order_id, ControlKind.SET_METADATA, asked)


@router.post("/orders/{order_id}/controls:batch", status_code=202, responses=answers(Listing[Receipt], 202))
async def batch(order_id: OrderId, service: ServiceHere, asked: NewControls) -> Response:
    """Several controls at once, kept in their order: all of them or, when one is not acceptable, none. They reach the
    drone together. A cancel of the whole order wins: the others are refused. One receipt for each."""
    redacted = service.redactor().model(asked)
    made = await service.write(_keep_all, service.store, order_id, redacted.controls)
    for requested in made:
        announce(service, requested)
    receipts = (Receipt(id=one.control.id, requested_at=one.control.requested_at, order_id=order_id) for one in made)
    return answer(Listing(items=tuple(receipts)), 202)


@router.get("/orders/{order_id}/controls", responses=answers(Listing[Control]))
async def controls(order_id: OrderId, service: ServiceHere) -> Response:
    """What was requested of this order and what became of it."""
    return whole(await service.offload(service.store.controls.of_order, order_id))


async def _request(service: Service, order_id: str, kind: ControlKind, asked: NewControl | None) -> Response:
    # The words are redacted here and not by a drone alone: an order that no drone runs is ended with these words.
    redacted = service.redactor().model(asked or NewControl())
    requested = await service.write(_keep, service.store, order_id, kind, redacted)
    announce(service, requested)
    control = requested.control
    return answer(Receipt(id=control.id, requested_at=control.requested_at, order_id=order_id), 202)


def announce(service: Service, requested: Requested) -> None:
    """Wake the drone; nudge or hint too, as the control itself may have ended the order or let it go on."""
    service.notices.controlled(requested.control.order_id, requested.control.number, requested.incarnations)
    if requested.order is None:
        return
    if requested.order.status is OrderStatus.QUEUED and requested.control.kind in WAKING:
        service.notices.placed(requested.order)
    else:
        service.notices.moved(requested.order)


def _keep(store: Store, order_id: str, kind: ControlKind, asked: NewControl) -> Requested:
    asked = _checked(kind, asked, store.leases.registrations() if asked.remove_tools else ())
    return traced(store, store.controls.request(order_id, kind, asked, principal=PRINCIPAL))


def _keep_all(store: Store, order_id: str, asked: Sequence[ControlOfBatch]) -> Sequence[Requested]:
    drones = store.leases.registrations() if any(one.remove_tools for one in asked) else ()
    checked: list[ControlOfBatch] = []
    for place, one in enumerate(asked):
        try:
            checked.append(_checked(one.kind, one, drones))
        except Unacceptable as error:
            raise Unacceptable(f"controls.{place}.{error.field}", str(error)) from error
    return [traced(store, one) for one in store.controls.request_all(order_id, checked, principal=PRINCIPAL)]


def traced(store: Store, control: Control) -> Requested:
    """The control with its order and the drone processes to wake; both empty when the database cannot say it now."""
    try:
        order = store.orders.get(control.order_id)
        drones = store.leases.drones() if order.drone else ()
    except StoreError:
        return Requested(control, None, ())
    live = (drone for drone in drones if drone.status is not DroneStatus.SILENT)
    return Requested(control, order, [drone.incarnation for drone in live if drone.name == order.drone])


def _checked(kind: ControlKind, asked: Asked, drones: Sequence[Registration]) -> Asked:
    """`asked` without a blank message. Raises `Unacceptable`.

    Names of tools must be those of groups, of this version's tools or of tools of `drones`; without drones any will do.
    """
    if kind is ControlKind.DECIDE:
        raise Unacceptable("kind", "decide an item of the inbox where it stands: POST /approvals/ID or /questions/ID.")
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
            problem = f"there is no tool and no group {name!r}{nearest(name, known)}; leave it out."
            raise Unacceptable("remove_tools", problem)
