"""Webhooks over HTTP: endpoints and their secrets, what was delivered to them, and what is dead."""

from typing import Annotated

from fastapi import APIRouter, Body, Path, Query
from starlette.responses import Response

from mcc.addresses import AddressRefused
from mcc.api.access.callers import CallerHere
from mcc.api.problems import Unacceptable
from mcc.api.service import API, ERRORS, Cursor, Limit, Service, ServiceHere, WindowHere, answer, answers, page, whole
from mcc.api.webhooks import examples
from mcc.contracts.answers import Listing
from mcc.contracts.token_text import new_webhook_secret
from mcc.contracts.webhooks import (
    Delivery,
    DeliveryState,
    NewReplay,
    NewRotation,
    NewWebhook,
    Replayed,
    Webhook,
    WebhookChange,
    WebhookWithSecret,
)
from mcc.store.doors.delivery_lists import DeliveryFilter
from mcc.webhooks.sending import WebhookForm

router = APIRouter(prefix=API, tags=["webhooks"])

WebhookId = Annotated[str, Path(max_length=200)]


@router.get("/webhooks", responses=answers(Listing[Webhook]))
async def webhooks(service: ServiceHere, window: WindowHere) -> Response:
    """All endpoints by their names. `orders` is built in: it signs what goes to the `webhook_url` of orders."""
    return whole(await service.write(service.store.webhooks.endpoints.list), window)


@router.post("/webhooks", status_code=201, responses=answers(WebhookWithSecret, 201))
async def make(
    new: Annotated[NewWebhook, Body(openapi_examples=examples.NEW)], service: ServiceHere, caller: CallerHere
) -> Response:
    """Register an endpoint. It hears of what happens from now on. The answer has its `secret`, which nobody can read
    again: messages are signed by it as Standard Webhooks say.

    422 for an address that is not https, holds a login, or is not allowed by `[webhooks]` in mcc.toml.
    """
    _check(service, new.url)
    secret = new_webhook_secret()
    made = await service.write(service.store.webhooks.endpoints.make, new, secret, by=caller.actor)
    return answer(WebhookWithSecret(**dict(made), secret=secret), 201, {"Location": f"webhooks/{made.id}"})


@router.get("/webhooks/deliveries", responses=answers(Listing[Delivery]))
async def deliveries(
    service: ServiceHere,
    state: DeliveryState | None = None,
    endpoint: Annotated[str | None, Query(max_length=200)] = None,
    order_id: Annotated[str | None, Query(max_length=200)] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response:
    """What is to be delivered, was delivered within a week, or died within 30 days; the newest first."""
    wanted = DeliveryFilter(state, endpoint, order_id, cursor, limit)
    return page(await service.offload(service.store.webhooks.lists.find, wanted))


@router.post("/webhooks/deliveries:replay", status_code=202, responses=answers(Replayed, 202))
async def replay_all(
    wanted: Annotated[NewReplay, Body(openapi_examples=examples.REPLAY)], service: ServiceHere, caller: CallerHere
) -> Response:
    """Try all dead deliveries anew, or those of an `endpoint`, or that died `since` a time: with the same ids, from the
    first try on."""
    count = await service.write(service.store.webhooks.lists.replay_all, wanted, by=caller.actor)
    return answer(Replayed(count=count), 202)


@router.post("/webhooks/deliveries/{delivery_id}/replay", status_code=202, responses=answers(Delivery, 202))
async def replay(
    delivery_id: Annotated[str, Path(max_length=200)], service: ServiceHere, caller: CallerHere
) -> Response:
    """Try a dead delivery anew: with the same id, from the first try on. 409 where it is not dead."""
    return answer(await service.write(service.store.webhooks.lists.replay, delivery_id, by=caller.actor), 202)


@router.get("/webhooks/{webhook_id}", responses=answers(Webhook))
async def show(webhook_id: WebhookId, service: ServiceHere) -> Response:
    """One endpoint."""
    return answer(await service.write(service.store.webhooks.endpoints.get, webhook_id))


@router.patch("/webhooks/{webhook_id}", responses=answers(Webhook))
async def change(
    webhook_id: WebhookId,
    asked: Annotated[WebhookChange, Body(openapi_examples=examples.CHANGE)],
    service: ServiceHere,
    caller: CallerHere,
) -> Response:
    """Change what is given. While it is `off`, nothing is noted for it, and what waits for it waits on."""
    if asked.url is not None:
        _check(service, asked.url)
    return answer(await service.write(service.store.webhooks.endpoints.change, webhook_id, asked, by=caller.actor))


@router.delete("/webhooks/{webhook_id}", status_code=204, responses=dict(ERRORS))
async def remove(webhook_id: WebhookId, service: ServiceHere, caller: CallerHere) -> Response:
    """Remove an endpoint. What waits for it is dead."""
    await service.write(service.store.webhooks.endpoints.remove, webhook_id, by=caller.actor)
    return Response(status_code=204)


@router.post("/webhooks/{webhook_id}/rotate", responses=answers(WebhookWithSecret))
async def rotate(
    webhook_id: WebhookId,
    asked: Annotated[NewRotation, Body(openapi_examples=examples.ROTATION)],
    service: ServiceHere,
    caller: CallerHere,
) -> Response:
    """Give an endpoint a new `secret`, which nobody can read again. The present one signs too for `keep_seconds`, so
    that its receiver can change in peace. 409 while two sign already."""
    secret, keep_seconds = new_webhook_secret(), asked.keep_seconds
    rotating = service.store.webhooks.endpoints.rotate
    changed = await service.write(rotating, webhook_id, secret, keep_seconds, by=caller.actor)
    return answer(WebhookWithSecret(**dict(changed), secret=secret))


@router.post("/webhooks/{webhook_id}/test", status_code=202, responses=answers(Delivery, 202))
async def test(webhook_id: WebhookId, service: ServiceHere, caller: CallerHere) -> Response:
    """Send an endpoint a message of type `webhook.test`, whatever it hears of otherwise. What became of it is found
    among the deliveries. 409 while it is off."""
    return answer(await service.write(service.store.webhooks.lists.test, webhook_id, by=caller.actor), 202)


def _check(service: Service, url: str) -> None:
    """Raises `Unacceptable`."""
    try:
        WebhookForm(service.settings.webhooks).checked(url)
    except AddressRefused as error:
        raise Unacceptable("url", str(error)) from error
