"""This room is for orders over HTTP that come of others: retry and fork, and the turn that is taken back."""

from collections.abc import Callable

from fastapi import APIRouter
from starlette.responses import Response

from mcc.api.orders import IdempotencyKey, check_room
from mcc.api.service import API, PRINCIPAL, OrderId, Service, ServiceHere, answer, answers
from mcc.api.submission import checked
from mcc.contracts.order import NewFork, WorkOrder
from mcc.contracts.shape import now
from mcc.store.again import asked_again
from mcc.store.values import Placed

router = APIRouter(prefix=API, tags=["orders"])

PLACED = answers(WorkOrder, 201) | answers(WorkOrder)


@router.post("/orders/{order_id}/retry", status_code=201, responses=PLACED)
async def retry(order_id: OrderId, service: ServiceHere, idempotency_key: IdempotencyKey = None) -> Response:
    """A new order from the same input, as the next turn of the same session; 409 while the order has not ended."""

    def place() -> Placed:
        return service.store.orders.retry(order_id, principal=PRINCIPAL, idempotency_key=idempotency_key)

    return await _placed(service, order_id, place)


@router.post("/orders/{order_id}/fork", status_code=201, responses=PLACED)
async def fork(
    order_id: OrderId, asked: NewFork, service: ServiceHere, idempotency_key: IdempotencyKey = None
) -> Response:
    """A new order, in a session of its own, that begins with entries 1 to `after` of this one and goes on from there.

    The number is rounded down to where neither a model nor a tool was being called; `origin` says to which, and why.
    With a `prompt`, that is what its master hears next.
    """

    def place() -> Placed:
        return service.store.orders.fork(order_id, asked, principal=PRINCIPAL, idempotency_key=idempotency_key)

    return await _placed(service, order_id, place)


@router.post("/orders/{order_id}/rollback", responses=answers(WorkOrder))
async def roll_back(order_id: OrderId, service: ServiceHere) -> Response:
    """Leave a turn that has ended out of the context of its session's later turns; it stays in history.

    409 while it has not ended. Asking again changes nothing.
    """
    return answer(await service.write(service.store.orders.roll_back, order_id, principal=PRINCIPAL))


async def _placed(service: Service, order_id: str, place: Callable[[], Placed]) -> Response:
    placed = await service.write(_place, service, order_id, place)
    if placed.created:
        service.notices.placed(placed.order)
    location = {"Location": f"{API}/orders/{placed.order.id}"}
    return answer(placed.order, 201 if placed.created else 200, location)


def _place(service: Service, order_id: str, place: Callable[[], Placed]) -> Placed:
    """The input is looked at again: what was allowed and there when the order was placed may not be any more."""
    check_room(service)
    again = asked_again(service.store.orders.get(order_id), now())
    checked(again, service.settings, service.store.leases.registrations(), now())
    return place()
