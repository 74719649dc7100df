"""Budgets of a day over HTTP: set, told, and refused by."""

from typing import Any

import httpx
import pytest

from mcc.contracts.budgets import DayBudget
from mcc.contracts.callers import OPERATOR, Actor
from mcc.contracts.token_text import new_token
from mcc.store.store import Store
from tests.mcc.api.people_scene import ORDERS, PEOPLE, TOKENS, added, browser_of, client_by, token_of
from tests.mcc.api.signing import V1
from tests.mcc.api.test_answers_as_described import check
from tests.mcc.api.test_orders_over_http import is_problem


async def with_budget(api: httpx.AsyncClient, **budget: Any) -> tuple[httpx.AsyncClient, dict[str, Any]]:
    """A program of a new person with this budget."""
    person = await added(api, "Ann", "member")
    changed = await api.patch(f"{PEOPLE}/{person['id']}", json={"budget": budget})
    assert changed.status_code == 200, changed.text
    made = await token_of(await browser_of(api, person), "read", "write")
    return client_by(api, made["token"]), dict(changed.json())


async def test_an_order_beyond_the_budget_is_told_what_is_left_and_when_it_begins_anew(
    api: httpx.AsyncClient, document: dict[str, Any]
) -> None:
    ann, person = await with_budget(api, usd=1)
    assert person["budget"] == {"usd": 1, "orders": None, "order_usd": None}
    placed = await ann.post(ORDERS, json={"prompt": "x", "limits": {"cost_usd": 0.75}})
    assert placed.status_code == 201 and placed.json()["limits"]["unknown_price"] == "refuse"
    check(document, placed, "/api/v1/orders")
    assert placed.json()["requested_limits"] == {"cost_usd": 0.75}
    refused = await ann.post(ORDERS, json={"prompt": "x", "limits": {"cost_usd": 0.5}})
    assert "does not suffice" in is_problem(refused, 429)
    check(document, refused, "/api/v1/orders")
    left = refused.json()["budget"]
    assert left["owner"] == person["principal"] and left["orders"] is None
    assert left["usd"] == {"limit": 1, "spent": 0, "reserved": 0.75}
    assert 1 <= int(refused.headers["Retry-After"]) <= 86_400
    me = await ann.get(f"{V1}/me")
    check(document, me, "/api/v1/me")
    assert me.json()["budget"] == left
    together = await ann.post(f"{ORDERS}:batch", json={"orders": [{"prompt": "x"}] * 4})
    assert together.status_code == 429 and together.json()["budget"] == left
    assert (await api.get(f"{V1}/me")).json()["budget"] is None


async def test_a_budget_that_is_left_out_of_a_change_stays_and_null_is_that_of_everybody(
    api: httpx.AsyncClient, store: Store
) -> None:
    store.budgets.make_usual(DayBudget(orders=1), "UTC", by=Actor(OPERATOR))
    ann, person = await with_budget(api, orders=2)
    path = f"{PEOPLE}/{person['id']}"
    # With a secret in it, which makes the redactor build the change anew.
    renamed = await api.patch(path, json={"name": f"Ann {(secret := new_token('personal'))}"})
    assert renamed.json()["budget"]["orders"] == 2 and secret not in renamed.text
    for status in (201, 201, 429):
        assert (await ann.post(ORDERS, json={"prompt": "x"})).status_code == status
    assert (await api.patch(path, json={"budget": None})).json()["budget"] is None
    assert (await ann.get(f"{V1}/me")).json()["budget"]["orders"] == {"limit": 1, "used": 2}
    kinds = [note["kind"] for note in (await api.get(f"{V1}/audit", params={"kind": "budget.set"})).json()["items"]]
    assert kinds == ["budget.set"] * 3


async def test_a_token_has_a_budget_besides_its_person(api: httpx.AsyncClient) -> None:
    person = await added(api, "Ann", "member")
    browser = await browser_of(api, person)
    asked = {"name": "ci", "scopes": ["read", "write"], "budget": {"usd": 1, "order_usd": 1}}
    made = (await browser.http.post(TOKENS, json=asked, headers=browser.changing)).json()
    assert made["budget"] == {"usd": 1, "orders": None, "order_usd": 1}
    by_token = client_by(api, made["token"])
    assert [(await by_token.post(ORDERS, json={"prompt": "x"})).status_code for _ in range(2)] == [201, 429]
    assert (await by_token.get(f"{V1}/me")).json()["budget"]["owner"] == f"token:{made['id']}"
    by_hand = await browser.http.post(ORDERS, json={"prompt": "x"}, headers=browser.changing)
    assert by_hand.status_code == 201 and by_hand.json()["limits"] is None


@pytest.mark.parametrize("wrong", [{"usd": -1}, {"usd": "NaN"}, {"orders": 1.5}, {"order_usd": 0}, {"euro": 5}, 5])
async def test_a_budget_that_is_none_is_refused(api: httpx.AsyncClient, wrong: object) -> None:
    person = await added(api, "Ann", "member")
    assert (await api.patch(f"{PEOPLE}/{person['id']}", json={"budget": wrong})).status_code == 422
