"""The calls about webhooks, for both clients."""

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

from mcc.client.calls import Call, query

if TYPE_CHECKING:
    from mcc.contracts.answers import Listing
    from mcc.contracts.webhooks import Delivery, Replayed, Webhook, WebhookWithSecret


def webhooks() -> "Call[Listing[Webhook]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.webhooks import Webhook

    return Call("GET", "/webhooks", Listing[Webhook].model_validate)


def webhook(webhook_id: str) -> "Call[Webhook]":
    from mcc.contracts.webhooks import Webhook

    return Call("GET", _at(webhook_id), Webhook.model_validate)


def add(fields: Mapping[str, object]) -> "Call[WebhookWithSecret]":
    from mcc.contracts.shape import finite_json
    from mcc.contracts.webhooks import WebhookWithSecret

    return Call("POST", "/webhooks", WebhookWithSecret.model_validate, body=finite_json(fields), repeatable=False)


def change(webhook_id: str, changed: Mapping[str, object]) -> "Call[Webhook]":
    from mcc.contracts.shape import finite_json
    from mcc.contracts.webhooks import Webhook

    body = finite_json({name: value for name, value in changed.items() if value is not None})
    return Call("PATCH", _at(webhook_id), Webhook.model_validate, body=body)


def remove(webhook_id: str) -> "Call[None]":
    return Call("DELETE", _at(webhook_id), lambda _: None, repeatable=False)


def rotate(webhook_id: str, keep_seconds: int) -> "Call[WebhookWithSecret]":
    from mcc.contracts.shape import finite_json
    from mcc.contracts.webhooks import WebhookWithSecret

    body = finite_json({"keep_seconds": keep_seconds})
    return Call("POST", f"{_at(webhook_id)}/rotate", WebhookWithSecret.model_validate, body=body, repeatable=False)


def test(webhook_id: str) -> "Call[Delivery]":
    from mcc.contracts.webhooks import Delivery

    return Call("POST", f"{_at(webhook_id)}/test", Delivery.model_validate, body=b"{}", repeatable=False)


def deliveries(**filters: object) -> "Call[Listing[Delivery]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.webhooks import Delivery

    return Call("GET", "/webhooks/deliveries", Listing[Delivery].model_validate, query(**filters))


def replay(delivery_id: str) -> "Call[Delivery]":
    from mcc.contracts.webhooks import Delivery

    at = f"/webhooks/deliveries/{quote(delivery_id, safe='')}/replay"
    return Call("POST", at, Delivery.model_validate, body=b"{}", repeatable=False)


def replay_all(endpoint: str | None, since: str | None) -> "Call[Replayed]":
    from mcc.contracts.shape import finite_json
    from mcc.contracts.webhooks import Replayed

    body = finite_json({"endpoint": endpoint, "since": since})
    return Call("POST", "/webhooks/deliveries:replay", Replayed.model_validate, body=body)


def _at(webhook_id: str) -> str:
    return f"/webhooks/{quote(webhook_id, safe='')}"
