"""Many orders cancelled or repeated by their ids; what failed, and what was used, over HTTP."""

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from mcc.api.access.callers import Caller, CallerHere
from mcc.api.controls import announce, with_recipients_of_all
from mcc.api.orders import IdempotencyKey, check_again, check_document
from mcc.api.problems import Refusal, Unacceptable
from mcc.api.service import API, Service, ServiceHere, WindowHere, answer, answers, whole
from mcc.contracts.answers import Listing
from mcc.contracts.callers import AccessScope, Actor
from mcc.contracts.order_bulk import BulkItem, BulkRequest, BulkResult, Failure
from mcc.contracts.shape import Moment, now
from mcc.contracts.usage_days import MOST_DAYS, UsageKind, UsageReport
from mcc.store.database.errors import StoreRefused, StoreUnavailable
from mcc.store.lists.usage import UsageQuery
from mcc.store.people.owners import Thing
from mcc.store.rows.values import Placed
from mcc.store.work.cancelling import GROUP_ORDERS

router = APIRouter(prefix=API, tags=["orders"])

SINCE, LONGEST = timedelta(days=7), timedelta(days=90)
USAGE_SPAN = timedelta(days=29)
"""Before the last day; the days that are told if none is named."""


@router.post("/orders:bulk", responses=answers(BulkResult))
async def bulk(
    asked: BulkRequest, service: ServiceHere, caller: CallerHere, idempotency_key: IdempotencyKey = None
) -> Response:
    """Cancel these orders, or repeat those of them that have ended; each by itself, up to 1,000 a call.

    An item says what became of its order; that of somebody else is left as it is, unless the caller has the right
    `operate`. With an `Idempotency-Key`, an order is not repeated a second time.
    """
    reached = Thing.ORDER if asked.action == "cancel" else Thing.TURN
    refused = await service.ownership.refused(caller, reached, asked.ids)
    ids = [order_id for order_id in dict.fromkeys(asked.ids) if order_id not in refused]
    if asked.action == "cancel":
        items = await _cancelled(service, caller.actor, ids, service.redactor().model(asked).reason)
    else:
        items = {order_id: await _repeated(service, caller, order_id, idempotency_key) for order_id in ids}
    items = {**items, **{order_id: BulkItem(id=order_id, problem=str(why)) for order_id, why in refused.items()}}
    if ids and AccessScope.OPERATE in caller.scopes:
        detail = {"action": asked.action, "orders": len(ids)}
        await service.write(service.store.audit.note, "bulk", by=caller.actor, detail=detail)
    known = await service.offload(service.store.orders.some, list(items))
    told = {
        order_id: item.model_copy(update={"status": known[order_id].status if order_id in known else None})
        for order_id, item in items.items()
    }
    return answer(BulkResult(items=tuple(told[order_id] for order_id in asked.ids)))


async def _cancelled(service: Service, by: Actor, ids: list[str], reason: str | None) -> Mapping[str, BulkItem]:
    items: dict[str, BulkItem] = {}
    for start in range(0, len(ids), GROUP_ORDERS):
        # A group in each transaction, as many cancels of one request would hold up all other writers.
        group = ids[start : start + GROUP_ORDERS]
        try:
            results = await service.write(service.store.cancelling.each, group, reason=reason, by=by)
        except StoreUnavailable as problem:
            # What was done before stays done, and is told.
            items |= {order_id: BulkItem(id=order_id, problem=str(problem)) for order_id in group}
            continue
        refused = {order_id: result for order_id, result in results.items() if isinstance(result, StoreRefused)}
        controls = [result for result in results.values() if not isinstance(result, StoreRefused)]
        for told in await service.offload(with_recipients_of_all, service.store, controls):
            announce(service, told)
        problems = {order_id: str(problem) for order_id, problem in refused.items()}
        items |= {order_id: BulkItem(id=order_id, problem=problems.get(order_id)) for order_id in group}
    return items


async def _repeated(service: Service, caller: Caller, order_id: str, idempotency_key: str | None) -> BulkItem:
    key = None if idempotency_key is None else f"{idempotency_key}:{order_id}"

    def place() -> Placed:
        check_again(service, order_id)
        return service.store.orders.retry(order_id, by=caller.actor, idempotency_key=key)

    try:
        await check_document(service, caller, order_id)
        placed = await service.write(place)
    except (StoreRefused, StoreUnavailable, Refusal, Unacceptable) as problem:
        return BulkItem(id=order_id, problem=str(problem))
    if placed.created:
        service.notices.placed(placed.order, placed.entries)
    return BulkItem(id=order_id, order_id=placed.order.id)


@router.get("/failures", responses=answers(Listing[Failure]))
async def failures(service: ServiceHere, window: WindowHere, since: Moment | None = None) -> Response:
    """What failed since a time, a week ago if none is given, gathered by cause, the most frequent first.

    Of the newest 10,000 failures. Failures have one `fingerprint` where reason, agent and detail are the same but for
    ids, numbers, quotes, paths and addresses in it; `GET /orders?fingerprint=` finds them.
    """
    earliest = now() - LONGEST
    if since is not None and since < earliest:
        raise Unacceptable("since", f"failures are gathered for {LONGEST.days} days at most: name a later time.")
    return whole(await service.offload(service.store.failures.since, since or now() - SINCE), window)


@router.get("/usage", responses=answers(UsageReport))
async def usage(
    service: ServiceHere,
    by: UsageKind = "day",
    first: Annotated[date | None, Query(alias="from")] = None,
    last: Annotated[date | None, Query(alias="to")] = None,
) -> Response:
    """What the orders used that ended from one day to another (UTC, both included), by day and by what they have in
    common.

    If no day is named, of the last 30 days; 400 days at most. The largest keys are told, 200 at most and of many days
    fewer, and the others together as `…`. An order is counted once it has ended, a second later; `open` is what is not
    counted yet. An order with several labels counts for each of them, and once in `totals`.
    """
    last = last or (now().date() if first is None else min(now().date(), _later(first, timedelta(days=MOST_DAYS - 1))))
    first = first or _later(last, -USAGE_SPAN)
    if not timedelta(0) <= last - first < timedelta(days=MOST_DAYS):
        raise Unacceptable("from", f"usage is told of 1 to {MOST_DAYS} days: name an earlier day first.")
    return answer(await service.offload(service.store.usage.report, UsageQuery(by, first, last)))


def _later(day: date, span: timedelta) -> date:
    """A day so much later, as far as there are days."""
    try:
        return day + span
    except OverflowError:
        return date.max if span > timedelta(0) else date.min
