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

    from mcc.contracts.answers import Listing, ModelCheck, Offer, PlacedOrder, RecordSetup
    from mcc.contracts.approvals import AnyItem, Grant, LateAnswer
    from mcc.contracts.cancelling import OrdersCancelled
    from mcc.contracts.control import Control, ControlOfBatch, Receipt
    from mcc.contracts.drones import Drone
    from mcc.contracts.entry import Entry
    from mcc.contracts.order import WorkOrder
    from mcc.contracts.record import ChatRecord
    from mcc.contracts.tool_tests import ToolsApproved, ToolTested

T = TypeVar("T")

API = "/api/v1"
RETRYABLE = frozenset({429, 502, 503, 504})
"""Statuses after which a repeatable call is retried."""
AWAY = frozenset({502, 503, 504})
"""Those that say that nobody is there to answer, as while a service restarts behind a proxy."""
TEST_SECONDS = 90.0
"""Timeout of a tool test, in which a drone connects to an MCP server and makes a call; the drone gives up earlier."""
TRIES = 4
"""Requests for a repeatable call. Calls are repeatable unless marked otherwise: reads change nothing, orders carry an
idempotency key, and a second pause, resume or cancel has no further effect."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request; `read` turns the answer's JSON into the caller's result."""

    method: str
    path: str
    read: "Callable[[Any], T]"
    query: Mapping[str, str | int] = field(default_factory=dict)
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


def query(**values: object) -> dict[str, str | int]:
    """Query parameters of a request, without those that are None."""
    return {
        name: value if isinstance(value, int) else str(value) for name, value in values.items() if value is not None
    }


def retry_wait(attempt: int, retry_after: str | None) -> float:
    """Seconds before the next try: the Retry-After of the answer (at most 60), else exponential backoff with jitter."""
    if retry_after is not None and retry_after.isdigit():
        return min(float(retry_after), 60.0)
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


def roll_back(order_id: str) -> "Call[WorkOrder]":
    return Call("POST", f"{_order_path(order_id)}/rollback", _order)


def get_order(order_id: str) -> "Call[WorkOrder]":
    return Call("GET", _order_path(order_id), _order)


def list_orders(**filters: object) -> "Call[Listing[WorkOrder]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.order import WorkOrder

    return Call("GET", "/orders", Listing[WorkOrder].model_validate, query(**filters))


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


def journal(order_id: str, after: int, limit: int) -> "Call[Listing[Entry]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.entry import Entry

    path = f"{_order_path(order_id)}/journal"
    return Call("GET", path, Listing[Entry].model_validate, query(after=after, limit=limit))


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


def inbox_items(path: str, **filters: object) -> "Call[Listing[AnyItem]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.approvals import AnyItem

    return Call("GET", path, Listing[AnyItem].model_validate, query(**filters))


def decide(item_id: str, decision: str, note: str | None, remember: str | None) -> "Call[AnyItem]":
    from mcc.contracts.shape import finite_json

    body = finite_json({"decision": decision, "note": note, "remember": remember})
    return Call("POST", f"/approvals/{quote(item_id, safe='')}", _inbox_item, body=body)


def answer_question(item_id: str, answer: str | Mapping[str, str]) -> "Call[AnyItem | LateAnswer]":
    from mcc.contracts.approvals import LateAnswer
    from mcc.contracts.shape import finite_json

    def parse(body: Any) -> "AnyItem | LateAnswer":
        return LateAnswer.model_validate(body) if "became" in body else _inbox_item(body)

    body = {"answer": answer} if isinstance(answer, str) else {"answers": dict(answer)}
    return Call("POST", f"/questions/{quote(item_id, safe='')}", parse, body=finite_json(body))


def decline_question(item_id: str) -> "Call[AnyItem]":
    from mcc.contracts.shape import finite_json

    return Call("POST", f"/questions/{quote(item_id, safe='')}", _inbox_item, body=finite_json({"decline": True}))


def list_grants(**filters: object) -> "Call[Listing[Grant]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.approvals import Grant

    return Call("GET", "/grants", Listing[Grant].model_validate, query(**filters))


def revoke_grant(grant_id: str) -> "Call[None]":
    return Call("DELETE", f"/grants/{quote(grant_id, safe='')}", lambda _: None)


def _inbox_item(body: object) -> "AnyItem":
    from mcc.contracts.approvals import ItemByKind

    return ItemByKind.model_validate(body).root


def list_drones(with_long_silent: bool) -> "Call[tuple[Drone, ...]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.drones import Drone

    asked = query(all="true") if with_long_silent else query()
    return Call("GET", "/drones", lambda body: Listing[Drone].model_validate(body).items, asked)


def agent(name: str) -> "Call[Offer]":
    from mcc.contracts.answers import Offer

    return Call("GET", f"/agents/{quote(name, safe='')}", Offer.model_validate)


def list_offers(kind: str) -> "Call[tuple[Offer, ...]]":
    from mcc.contracts.answers import Listing, Offer

    return Call("GET", f"/{kind}", lambda body: Listing[Offer].model_validate(body).items)


def test_tools(server: str, tool: str | None, arguments: Mapping[str, Any]) -> "Call[ToolTested]":
    """Not repeatable: the tool call may have effects that cannot be undone."""
    from mcc.contracts.shape import finite_json
    from mcc.contracts.tool_tests import ToolTested

    body = finite_json({"server": server, "tool": tool, "arguments": arguments})
    return Call("POST", "/tools/test", ToolTested.model_validate, body=body, repeatable=False, seconds=TEST_SECONDS)


def approve_tools(server: str, tool: str | None) -> "Call[ToolsApproved]":
    from mcc.contracts.shape import finite_json
    from mcc.contracts.tool_tests import ToolsApproved

    body = finite_json({"server": server, "tool": tool})
    return Call("POST", "/tools/approve", ToolsApproved.model_validate, body=body)


def check_models(names: Sequence[str]) -> "Call[tuple[ModelCheck, ...]]":
    """Not repeatable: each check pays for a call to every model."""
    from mcc.contracts.answers import MAX_CHECKED_MODELS, Listing, ModelCheck, longest_check
    from mcc.contracts.shape import finite_json

    return Call(
        "POST",
        "/models/check",
        lambda body: Listing[ModelCheck].model_validate(body).items,
        body=finite_json({"names": list(names)}),
        repeatable=False,
        seconds=longest_check(MAX_CHECKED_MODELS),
    )
