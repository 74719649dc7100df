"""Where deliveries come in: `POST /hooks/PATH`, without a credential, by signature alone."""

import asyncio
import time
from http import HTTPStatus

from fastapi import APIRouter, Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from mcc.api.access.scopes import HOOKS
from mcc.api.health import Metrics
from mcc.api.orders import check_disk
from mcc.api.problems import Refusal
from mcc.api.service import ERRORS, Service, ServiceHere, answer
from mcc.api.triggers.taking import UnsignedDelivery
from mcc.contracts.triggers import TriggerAnswer
from mcc.triggers.signatures import Received

router = APIRouter(tags=["triggers"])

BODY_SECONDS = 30.0
BODY_MB = 5.0
"""Largest body at a path that is unknown, as of a trigger that says nothing: whoever asks learns no difference."""

UNKNOWN = "unknown"
"""How deliveries without a trigger or a signature are counted."""
UNREADABLE = "unreadable"
"""How those are counted whose body is no JSON or too large."""

_CLOSE = {"Connection": "close"}
_STATUS = {"placed": HTTPStatus.ACCEPTED, "refused": HTTPStatus.UNPROCESSABLE_ENTITY}
_BODY = {"requestBody": {"required": True, "content": {"application/json": {"schema": {}}}}}


@router.post(
    HOOKS + "{path:path}",
    responses={200: {"model": TriggerAnswer}, 202: {"model": TriggerAnswer}, 422: {"model": TriggerAnswer}, **ERRORS},
    openapi_extra=_BODY,
)
async def deliver(path: str, request: Request, service: ServiceHere) -> Response:
    """A delivery to the trigger of this path, signed as its table in `mcc.toml` says. 202: it has placed an order; 422:
    it was refused, and `why`; 200: it places none. An unknown path and a wrong or old signature are the same 404."""
    metrics: Metrics = request.app.state.metrics
    try:
        received = Received(_headers(request), await _body(request, service, path), time.time())
        return await _answered(service, metrics, path, received)
    except UnsignedDelivery:
        return _nothing(metrics)
    except Refusal as refused:
        if refused.status in (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY):
            metrics.delivered(UNREADABLE)
        raise


async def _answered(service: Service, metrics: Metrics, path: str, received: Received) -> Response:
    """Raises `UnsignedDelivery`, `Refusal`, `StoreError`."""
    door = service.triggers
    trigger = await service.offload(door.signed, path, received)
    read = await door.read(trigger, received)
    if read.outcome == "challenge":
        return answer({"challenge": read.why})
    await service.write(check_disk, service)
    taken = await service.write(door.take, trigger, received, read)
    metrics.delivered(taken.verdict)
    if taken.created and taken.order_id is not None:
        service.notices.placed(await service.offload(service.store.orders.get, taken.order_id))
    if trigger.table.scheme == "slack":
        return Response(status_code=HTTPStatus.OK)
    told = TriggerAnswer(verdict=taken.verdict, order_id=taken.order_id, why=taken.why or None)
    return answer(told.model_dump(exclude_none=True), _STATUS.get(taken.verdict, HTTPStatus.OK))


class OtherMethods:
    """Answers whatever is not a delivery below `HOOKS`, as an ASGI application."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _nothing(scope["app"].state.metrics)(scope, receive, send)


router.routes.append(Route(HOOKS + "{path:path}", OtherMethods(), include_in_schema=False))


def _nothing(metrics: Metrics) -> Response:
    metrics.delivered(UNKNOWN)
    return Response(status_code=HTTPStatus.NOT_FOUND)


def _headers(request: Request) -> dict[str, str]:
    """By name in lower case; several of one name with commas between, so that a second signature makes the first one
    wrong."""
    headers: dict[str, str] = {}
    for name, value in request.headers.items():
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


async def _body(request: Request, service: Service, path: str) -> bytes:
    """Raises `Refusal`: 413 too large, unread where its length is told; 408 too slow."""
    trigger = service.triggers.ready.get(path)
    megabytes = trigger.table.max_body_mb if trigger else BODY_MB
    most = int(megabytes * 1_000_000)
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > most:
        raise _too_large(megabytes)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise _too_large(megabytes)
                parts.append(part)
    except TimeoutError:
        raise Refusal(408, f"The delivery did not arrive within {BODY_SECONDS:g} s.", _CLOSE) from None
    except ClientDisconnect:
        raise Refusal(400, "The connection ended before the delivery did.") from None
    return b"".join(parts)


def _too_large(megabytes: float) -> Refusal:
    return Refusal(413, f"A delivery here has at most {megabytes:g} MB (max_body_mb).", _CLOSE)
