"""The request of each call and the parsing of its answer, without I/O: for both clients."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

from mcc.client.errors import Refused, Unreachable, refusal

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date, datetime

    from mcc.contracts.answers import PlacedOrder, RecordSetup
    from mcc.contracts.cancelling import OrdersCancelled
    from mcc.contracts.control import Control, ControlOfBatch, Receipt
    from mcc.contracts.order import WorkOrder
    from mcc.contracts.order_bulk import BulkResult, Failure
    from mcc.contracts.order_lists import OrderCount, OrderPage, SummaryPage
    from mcc.contracts.record import ChatRecord
    from mcc.contracts.usage_days import UsageReport

T = TypeVar("T")

API = "/api/v1"
RETRYABLE = frozenset({429, 502, 503, 504})
"""Statuses after which a repeatable call is retried."""
LONGEST_WAIT_SECONDS = 60.0
"""A service that wants a longer pause before the next try is not asked again."""
AWAY = frozenset({502, 503, 504})
"""Those that say that nobody is there to answer, as while a service restarts behind a proxy."""
TRIES = 4
"""Requests for a repeatable call. Calls are repeatable unless marked otherwise: reads change nothing, orders carry an
idempotency key, and a second pause, resume or cancel has no further effect."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request; `read` turns the answer's JSON into the caller's result."""

    method: str
    path: str
    read: "Callable[[Any], T]"
    query: Mapping[str, str | int | Sequence[str]] = field(default_factory=dict)
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    seconds: float | None = None
    """Timeout of this call; None = the connection's."""
    raw: bool = False
    """The answer is not JSON; `read` gets its bytes."""


def result_of(call: Call[T], status: int, content: bytes, url: str = "this address") -> T:
    """The caller's result from an answer. Raises `Refused` for an error status, `Unreachable` where the answer cannot
    be one of a control service."""
    if call.raw and status < 400:
        return call.read(content)
    if content.lstrip()[:1] == b"<" and (status < 400 or status in (404, 405)):
        raise Unreachable(f"{url} answers with a page ({status}): it is not the address of a control service.")
    try:
        body = json.loads(content) if content else None
    except ValueError:
        body = None
    if status >= 400:
        raise refusal(status, body)
    try:
        return call.read(body)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        reason = str(error).splitlines()[0]
        raise Unreachable(f"{url} answers, but not as a control service would ({call.path}: {reason}).") from error


def headers(call: Call[Any]) -> dict[str, str]:
    return {"Content-Type": "application/json", **call.headers} if call.body is not None else dict(call.headers)


def stream_is_over(status: int, content: bytes) -> bool:
    """Interpret a status other than 200 from the event stream: True for 204, the order is over and its last entry read.

    Raises `Unreachable` where a later try may succeed, else `Refused`.
    """
    if status == 204:
        return True
    if status in RETRYABLE or status >= 500:
        raise Unreachable(f"The control service answered with status {status}.")
    raise refused(status, content)


def refused(status: int, content: bytes) -> Refused:
    """The error for an answer with this status of 400 or more."""
    try:
        body = json.loads(content)
    except ValueError:
        body = None
    return refusal(status, body)


def query(**values: object) -> dict[str, str | int | tuple[str, ...]]:
    """Query parameters of a request, without those that are None. One with several values is repeated."""
    return {
        name: tuple(map(str, value))
        if isinstance(value, list | tuple)
        else value
        if isinstance(value, int)
        else str(value)
        for name, value in values.items()
        if value is not None
    }


def passes(status: int, retry_after: str | None) -> bool:
    """Whether the same call may succeed soon. A budget that is used up until tomorrow is told, not waited for."""
    is_long = retry_after is not None and retry_after.isdigit() and float(retry_after) > LONGEST_WAIT_SECONDS
    return status in RETRYABLE and not is_long


def retry_wait(attempt: int, retry_after: str | None) -> float:
    """Seconds before the next try: the Retry-After of the answer, else exponential backoff with jitter."""
    if retry_after is not None and retry_after.isdigit():
        return float(retry_after)
    # With jitter: what refused one client refuses many, and they must not come back together.
    return 0.2 * 2.0**attempt * random.uniform(0.5, 1.0)


def events_path(order_id: str) -> str:
    return f"{API}{_order_path(order_id)}/events"


def _order_path(order_id: str) -> str:
    return f"/orders/{quote(order_id, safe='')}"


def submit(
    prompt: str, fields: Mapping[str, Any], idempotency_key: str | None, attended: bool = False
) -> "Call[WorkOrder]":
    from mcc.contracts.ids import fresh_id
    from mcc.contracts.shape import finite_json

    body = finite_json(_order_fields({"prompt": prompt, **fields}))
    headers = {"Idempotency-Key": idempotency_key or fresh_id(), **({"MCC-Attended": "true"} if attended else {})}
    return Call("POST", "/orders", _order, body=body, headers=headers)


def _order_fields(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of an order as JSON values, without those that are None."""
    from pathlib import PurePath

    from mcc.contracts.limits import Limits

    stated = {name: value for name, value in fields.items() if value is not None}
    if isinstance(limits := stated.get("limits"), Limits):
        # Unset limits are left to the service: their defaults depend on the kind of the order.
        stated["limits"] = limits.model_dump(exclude_unset=True)
    return stated | {name: str(value) for name, value in stated.items() if isinstance(value, PurePath)}


def submit_many(orders: "Sequence[Mapping[str, Any]]") -> "Call[tuple[PlacedOrder, ...]]":
    from mcc.contracts.answers import Listing, PlacedOrder
    from mcc.contracts.ids import fresh_id
    from mcc.contracts.shape import finite_json

    batch = [{"idempotency_key": fresh_id(), **_order_fields(order)} for order in orders]
    return Call(
        "POST",
        "/orders:batch",
        lambda body: Listing[PlacedOrder].model_validate(body).items,
        body=finite_json({"orders": batch}),
    )


def _order(body: Any) -> "WorkOrder":
    from mcc.contracts.order import WorkOrder

    return WorkOrder.model_validate({name: value for name, value in body.items() if name != "receipt"})


def retry(order_id: str, idempotency_key: str | None) -> "Call[WorkOrder]":
    from mcc.contracts.ids import fresh_id

    headers = {"Idempotency-Key": idempotency_key or fresh_id()}
    return Call("POST", f"{_order_path(order_id)}/retry", _order, headers=headers)


def fork(order_id: str, after: int, prompt: str | None, idempotency_key: str | None) -> "Call[WorkOrder]":
    from mcc.contracts.ids import fresh_id
    from mcc.contracts.shape import finite_json

    headers = {"Idempotency-Key": idempotency_key or fresh_id()}
    body = finite_json({"after": after, "prompt": prompt})
    return Call("POST", f"{_order_path(order_id)}/fork", _order, body=body, headers=headers)


def revert(order_id: str, to: int | None, overwrite: bool, idempotency_key: str | None) -> "Call[WorkOrder]":
    from mcc.contracts.ids import fresh_id
    from mcc.contracts.shape import finite_json

    headers = {"Idempotency-Key": idempotency_key or fresh_id()}
    body = finite_json({"to": to, "overwrite": overwrite})
    return Call("POST", f"{_order_path(order_id)}/revert", _order, body=body, headers=headers)


def deliver(order_id: str, wish: Mapping[str, Any], idempotency_key: str | None, attended: bool) -> "Call[WorkOrder]":
    from mcc.contracts.ids import fresh_id
    from mcc.contracts.shape import finite_json

    headers = {"Idempotency-Key": idempotency_key or fresh_id(), **({"MCC-Attended": "true"} if attended else {})}
    body = finite_json(wish) if wish else None
    return Call("POST", f"{_order_path(order_id)}/deliver", _order, body=body, headers=headers)


def roll_back(order_id: str) -> "Call[WorkOrder]":
    return Call("POST", f"{_order_path(order_id)}/rollback", _order)


def get_order(order_id: str) -> "Call[WorkOrder]":
    return Call("GET", _order_path(order_id), _order)


def list_orders(**filters: object) -> "Call[OrderPage]":
    from mcc.contracts.order_lists import OrderPage

    return Call("GET", "/orders", OrderPage.model_validate, query(**filters))


def order_filters(given: Mapping[str, object]) -> dict[str, object]:
    """The filters of a list of orders as query parameters; times are aware."""
    return {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in given.items()}


def order_summaries(**filters: object) -> "Call[SummaryPage]":
    from mcc.contracts.order_lists import SummaryPage

    return Call("GET", "/orders", SummaryPage.model_validate, query(view="summary", **filters))


def count_orders() -> "Call[tuple[OrderCount, ...]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.order_lists import OrderCount

    return Call("GET", "/orders/counts", lambda body: Listing[OrderCount].model_validate(body).items)


def bulk(action: str, ids: Sequence[str], reason: str | None, idempotency_key: str | None) -> "Call[BulkResult]":
    from mcc.contracts.ids import fresh_id
    from mcc.contracts.order_bulk import BulkResult
    from mcc.contracts.shape import finite_json

    body = finite_json({"action": action, "ids": list(ids), "reason": reason})
    headers = {"Idempotency-Key": idempotency_key or fresh_id()}
    return Call("POST", "/orders:bulk", BulkResult.model_validate, body=body, headers=headers)


def list_failures(since: "datetime | None") -> "Call[tuple[Failure, ...]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.order_bulk import Failure

    asked = query(since=since and since.isoformat())
    return Call("GET", "/failures", lambda body: Listing[Failure].model_validate(body).items, asked)


def usage_report(by: str, **days: "date | None") -> "Call[UsageReport]":
    from mcc.contracts.usage_days import UsageReport

    asked = query(by=by, **{name: day and day.isoformat() for name, day in days.items()})
    return Call("GET", "/usage", UsageReport.model_validate, asked)


def cancel_orders(cursor: str | None, **asked: object) -> "Call[OrdersCancelled]":
    from mcc.contracts.cancelling import OrdersCancelled
    from mcc.contracts.shape import finite_json

    body = finite_json({name: value for name, value in asked.items() if value is not None})
    return Call("POST", "/orders:cancel", OrdersCancelled.model_validate, query(cursor=cursor), body)


def record(order_id: str) -> "Call[ChatRecord]":
    from mcc.contracts.record import ChatRecord

    return Call("GET", f"{_order_path(order_id)}/record", ChatRecord.model_validate)


def setup(order_id: str, record_id: str) -> "Call[RecordSetup]":
    from mcc.contracts.answers import RecordSetup

    return Call("GET", f"{_order_path(order_id)}/records/{quote(record_id, safe='')}/setup", RecordSetup.model_validate)


def artifact(order_id: str, artifact_id: str) -> "Call[str]":
    path = f"{_order_path(order_id)}/artifacts/{quote(artifact_id, safe='')}"
    return Call("GET", path, lambda body: str(body["content"]))


def control(order_id: str, kind: str, **fields: object) -> "Call[Receipt]":
    from mcc.contracts.control import Receipt
    from mcc.contracts.shape import finite_json

    body = finite_json({name: value for name, value in fields.items() if value is not None})
    return Call(
        "POST",
        f"{_order_path(order_id)}/{kind}",
        Receipt.model_validate,
        body=body,
        repeatable=kind not in ("steer", "metadata"),
    )


def steer(
    order_id: str,
    message: str | None,
    *,
    record_id: str | None,
    redirect: bool,
    remove_tools: Sequence[str],
    reason: str | None,
) -> "Call[Receipt]":
    return control(
        order_id,
        "steer",
        message=message,
        record_id=record_id,
        mode="redirect" if redirect else None,
        remove_tools=list(remove_tools) or None,
        reason=reason,
    )


def control_batch(order_id: str, controls: "Sequence[ControlOfBatch]") -> "Call[tuple[Receipt, ...]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.control import NewControls, Receipt

    return Call(
        "POST",
        f"{_order_path(order_id)}/controls:batch",
        lambda body: Listing[Receipt].model_validate(body).items,
        body=NewControls(controls=tuple(controls)).model_dump_json(exclude_defaults=True).encode(),
        repeatable=False,
    )


def controls(order_id: str) -> "Call[tuple[Control, ...]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.control import Control

    return Call("GET", f"{_order_path(order_id)}/controls", lambda body: Listing[Control].model_validate(body).items)
