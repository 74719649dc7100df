"""Many orders in one request: accepted all or none, and cancelled."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Annotated

from fastapi import APIRouter, Body
from fastapi.openapi.models import Example
from starlette.responses import Response

from mcc.api.access.callers import Caller, CallerHere
from mcc.api.catalogue import UnlistedBlueprint
from mcc.api.controls import Requested, announce, with_recipients_of_all
from mcc.api.orders import as_asked, check_disk, controls_by_placing, with_defaults
from mcc.api.problems import Unacceptable, mistake_in, problem
from mcc.api.service import API, Cursor, Service, ServiceHere, answer, answers
from mcc.api.submission import checked_together
from mcc.contracts.answers import Listing, PlacedOrder
from mcc.contracts.callers import AccessScope
from mcc.contracts.cancelling import OrdersCancelled, OrdersToCancel
from mcc.contracts.order import NewOrders
from mcc.contracts.shape import now
from mcc.contracts.status import FINAL
from mcc.documents.reading import BlueprintError
from mcc.store.database.errors import SomeRefused
from mcc.store.rows.values import BatchOrder, Placed

EXAMPLE: dict[str, Example] = {
    "questions": {
        "summary": "Two questions, each with a key of its own",
        "value": {
            "orders": [
                {"prompt": "Which functions have no test?", "workspace": "/path/to/it", "idempotency_key": "tests-1"},
                {"prompt": "Which of its links are dead?", "workspace": "/path/to/it", "idempotency_key": "links-1"},
            ]
        },
    }
}

CANCEL_EXAMPLE: dict[str, Example] = {
    "nightly": {"summary": "What is left of a batch", "value": {"label": "nightly", "reason": "superseded"}}
}

router = APIRouter(prefix=API, tags=["orders"])


@router.post("/orders:batch", status_code=201, responses=answers(Listing[PlacedOrder], 201))
async def place_together(
    asked: Annotated[NewOrders, Body(openapi_examples=EXAMPLE)], service: ServiceHere, caller: CallerHere
) -> Response:
    """Accept up to 1,000 orders in one transaction: 201 with one result for each, in the same sequence, or 422 and
    none is accepted.

    The `errors` of a 422 name each unacceptable order by its `index`, with the `status` that it would get on its own;
    the others can be sent again without those. An `idempotency_key` works like the header of that name for a single
    order: an order accepted under it before is answered with `created: false`. If neither an order nor the operator
    sets `on_ask`, tool calls that need a person's approval are denied.
    """
    if foreign := await service.ownership.refused_places(caller, asked.orders):
        return _refused(foreign, len(asked.orders))
    try:
        placed, requested = await service.write(_place, service, asked, caller)
    except SomeRefused as refused:
        return _refused(refused.refused, len(asked.orders))
    service.notices.placed_together([order for order in placed if order.created])
    for order in requested:
        announce(service, order)
    return answer(Listing(items=tuple(map(_result, placed))), 201)


@router.post("/orders:cancel", status_code=202, responses=answers(OrdersCancelled, 202))
async def cancel_together(
    asked: Annotated[OrdersToCancel, Body(openapi_examples=CANCEL_EXAMPLE)],
    service: ServiceHere,
    caller: CallerHere,
    cursor: Cursor = None,
) -> Response:
    """Cancel the unfinished orders that fit all that is given, or `all` of them; up to 1,000 a call, newest first.

    `requested` of them were told to end, `ended` of these at once. With a `next_cursor` there may be more: send the
    same body again with it as `cursor`. An order that has just ended is passed over, as are those of others where the
    caller lacks the right `operate`.
    """
    redacted = service.redactor().model(asked)
    owner = None if AccessScope.OPERATE in caller.scopes else caller.principal
    cancel = service.store.cancelling.cancel
    cancels = await service.write(cancel, redacted, by=caller.actor, cursor=cursor, owner=owner)
    orders = await service.offload(with_recipients_of_all, service.store, cancels.controls)
    for told in orders:
        announce(service, told)
    ended = sum(told.order is not None and told.order.status in FINAL for told in orders)
    return answer(OrdersCancelled(requested=len(orders), ended=ended, next_cursor=cancels.next_cursor), 202)


def _result(placed: Placed) -> PlacedOrder:
    order = placed.order
    return PlacedOrder(
        id=order.id,
        session_id=order.session_id,
        session_seq=order.session_seq,
        status=order.status,
        created=placed.created,
        receipt=placed.receipt,
    )


def _place(service: Service, asked: NewOrders, caller: Caller) -> tuple[Sequence[Placed], Sequence[Requested]]:
    store = service.store
    check_disk(service)
    placed = store.orders.place_all(
        _accepted(service, asked),
        by=replace(caller.actor, door="batch"),
        on_ask=service.settings.approvals.on_ask or "deny",
        anybodys=AccessScope.OPERATE in caller.scopes,
    )
    return placed, controls_by_placing(store, placed)


def _accepted(service: Service, asked: NewOrders) -> Sequence[BatchOrder]:
    """Check every order and look up its blueprint. Raises `SomeRefused` with all errors by index."""
    drones, requested = service.store.leases.registrations(), [entry.order for entry in asked.orders]
    orders = with_defaults(service.store, *requested)
    accepted: list[BatchOrder] = []
    refused: dict[int, Exception] = {}
    for index, checked in enumerate(checked_together(orders, service.settings, drones, now())):
        if isinstance(checked, Unacceptable):
            refused[index] = checked
            continue
        try:
            blueprint = service.catalogue.find(checked.blueprint).blueprint if checked.blueprint else None
        except (UnlistedBlueprint, BlueprintError) as error:
            refused[index] = error
            continue
        key, request = asked.orders[index].idempotency_key, as_asked(requested[index], orders[index], checked)
        accepted.append(BatchOrder(checked, key, blueprint, request))
    if refused:
        raise SomeRefused(refused)
    return accepted


def _refused(refused: Mapping[int, Exception], count: int) -> Response:
    mistakes = {index: mistake_in(error) for index, error in sorted(refused.items())}
    errors = [
        {**asdict(mistake), "field": ".".join(filter(None, ("orders", str(index), mistake.field))), "index": index}
        | {"status": status}
        for index, (status, mistake) in mistakes.items()
    ]
    several = "One of these orders" if len(mistakes) == 1 else f"{len(mistakes):,} of these {count:,} orders"
    detail = f"{several} cannot be accepted, so none was. {errors[0]['field']}: {errors[0]['message']}"
    return problem(422, detail, errors=errors)
