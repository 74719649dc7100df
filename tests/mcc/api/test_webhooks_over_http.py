"""Webhooks over HTTP: an endpoint from its registration to its removal."""

from typing import Any

import httpx
import pytest

from mcc.store.store import Store
from tests.mcc.api.signing import V1
from tests.mcc.api.test_answers_as_described import check
from tests.mcc.api.test_orders_over_http import ORDERS, is_problem

WEBHOOKS = f"{V1}/webhooks"
URL = "https://ci.example.com/hook?token=abc"


async def made(http: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    answer = await http.post(WEBHOOKS, json={"name": "ci", "url": URL, **fields})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def test_an_endpoint_is_registered_changed_and_removed(api: httpx.AsyncClient, document: dict[str, Any]) -> None:
    new = await made(api, types=["order.finished"], filters={"labels": ["nightly"]})
    assert new["secret"].startswith("whsec_") and new["url"] == "https://ci.example.com/hook?token=…"
    listed = await api.get(WEBHOOKS)
    check(document, listed, "/api/v1/webhooks")
    assert [each["name"] for each in listed.json()["items"]] == ["ci", "orders"]
    assert "secret" not in listed.json()["items"][0]
    at = f"{WEBHOOKS}/{new['id']}"
    changed = (await api.patch(at, json={"off": True})).json()
    assert (changed["off_why"], changed["filters"]["labels"]) == ("turned off on request", ["nightly"])
    rotated = (await api.post(f"{at}/rotate", json={})).json()
    assert rotated["secret"] != new["secret"] and rotated["former_until"] is not None
    is_problem(await api.post(f"{at}/rotate", json={}), 409)
    is_problem(await api.post(f"{at}/test"), 409)
    assert (await api.delete(at)).status_code == 204
    is_problem(await api.get(at), 404)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"url": "http://ci.example.com"}, "url"),
        ({"url": "https://me:word@ci.example.com"}, "url"),
        ({"url": ""}, "url"),
        ({"types": ["order.deleted"]}, "types"),
        ({"name": "a b"}, "name"),
        ({"filters": {"label": ["x"]}}, "filters"),
    ],
)
async def test_what_cannot_be_an_endpoint_is_refused(api: httpx.AsyncClient, body: dict[str, Any], field: str) -> None:
    assert field in is_problem(await api.post(WEBHOOKS, json={"name": "ci", "url": URL, **body}), 422)


async def test_what_is_dead_is_found_and_replayed(
    api: httpx.AsyncClient, document: dict[str, Any], store: Store
) -> None:
    new = await made(api)
    order = (await api.post(ORDERS, json={"prompt": "x"})).json()
    store.webhooks.fanning_out.advance()
    found = await api.get(f"{WEBHOOKS}/deliveries", params={"order_id": order["id"], "endpoint": new["id"]})
    check(document, found, "/api/v1/webhooks/deliveries")
    (delivery,) = found.json()["items"]
    assert (delivery["type"], delivery["state"]) == ("order.queued", "pending")
    is_problem(await api.post(f"{WEBHOOKS}/deliveries/{delivery['id']}/replay"), 409)
    assert (await api.get(f"{WEBHOOKS}/deliveries", params={"state": "dead"})).json()["items"] == []
    await api.delete(f"{WEBHOOKS}/{new['id']}")
    again = await api.post(f"{WEBHOOKS}/deliveries:replay", json={"endpoint": new["id"]})
    assert (again.status_code, again.json()) == (202, {"count": 1})


async def test_pages_of_deliveries_lead_from_one_to_the_next(api: httpx.AsyncClient, store: Store) -> None:
    await made(api)
    for _ in range(3):
        await api.post(ORDERS, json={"prompt": "x"})
    store.webhooks.fanning_out.advance()
    first = (await api.get(f"{WEBHOOKS}/deliveries", params={"limit": 2})).json()
    second = (await api.get(f"{WEBHOOKS}/deliveries", params={"cursor": first["next_cursor"]})).json()
    ids = [each["id"] for each in (*first["items"], *second["items"])]
    assert len(set(ids)) == 3 and second["next_cursor"] is None
    is_problem(await api.get(f"{WEBHOOKS}/deliveries", params={"cursor": "x"}), 400)
