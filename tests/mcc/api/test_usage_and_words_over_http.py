"""What was used, and orders found by their words, over HTTP."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.order import NewOrder
from mcc.contracts.usage import Usage
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone

USAGE, ORDERS = "/api/v1/usage", "/api/v1/orders"


def done(store: Store, **fields: Any) -> str:
    order = store.orders.place(NewOrder(prompt="Mend the fence", **fields), by=Actor("operator")).order
    held = HandDrone(store).claim(order.id)
    held.start()
    used = Usage(input_tokens=10, output_tokens=2, model_calls=1, cost_usd=0.25)
    held.write(ModelReplied(blocks=(), round=1, attempt=1, model="offline", finish_reason="stop", usage=used))
    held.finish("It stands.")
    return order.id


async def told(api: httpx.AsyncClient, **query: Any) -> Any:
    answer = await api.get(USAGE, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_usage_is_told_by_day_and_key(api: httpx.AsyncClient, store: Store) -> None:
    done(store, labels=("nightly",))
    today = datetime.now(UTC).date().isoformat()
    open_before = (await told(api))["open"]
    assert (open_before["orders"], open_before["succeeded"], open_before["cost_usd"]) == (1, 1, 0.25)
    store.tallying.advance()
    report = await told(api, by="label")
    assert [(row["day"], row["key"], row["orders"]) for row in report["days"]] == [(today, "nightly", 1)]
    assert report["totals"] == (await told(api))["totals"]
    assert report["totals"]["cost_usd"] == 0.25 and report["open"]["orders"] == 0
    assert (report["by"], report["since"]) == ("label", None)
    assert (await told(api, by="person"))["days"][0]["key"] == "operator"
    yesterday = (datetime.now(UTC) - timedelta(days=1)).date().isoformat()
    assert (await told(api, to=yesterday))["days"] == []
    assert (await told(api, **{"from": today}))["totals"]["orders"] == 1


@pytest.mark.parametrize(
    "query",
    [
        {"by": "weather"},
        {"from": "yesterday"},
        {"from": "2026-01-02", "to": "2026-01-01"},
        {"from": "2020-01-01", "to": "2021-02-04"},
        {"from": "0001-01-01", "to": "9999-12-31"},
    ],
)
async def test_a_span_that_cannot_be_told_is_refused(api: httpx.AsyncClient, query: dict[str, str]) -> None:
    assert (await api.get(USAGE, params=query)).status_code == 422


@pytest.mark.parametrize("query", [{"from": "9999-12-31"}, {"to": "0001-01-01"}, {"from": "0001-01-01"}])
async def test_the_first_and_the_last_day_that_there_are_can_be_named(
    api: httpx.AsyncClient, query: dict[str, str]
) -> None:
    assert (await api.get(USAGE, params=query)).status_code in (200, 422)


async def test_400_days_are_told(api: httpx.AsyncClient) -> None:
    assert (await told(api, **{"from": "2020-01-01", "to": "2021-02-03"}))["days"] == []


async def test_orders_are_found_by_words_beside_other_filters(api: httpx.AsyncClient, store: Store) -> None:
    order_id = done(store)
    store.tallying.advance()

    async def found(**query: Any) -> list[str]:
        answer = await api.get(ORDERS, params=query)
        assert answer.status_code == 200, answer.text
        return [item["id"] for item in answer.json()["items"]]

    assert await found(text="fences") == await found(text="fence stands", view="summary") == [order_id]
    assert await found(text="fence", status="failed") == await found(text="roof") == []


@pytest.mark.parametrize(
    "text", ["'", '"', "%00", "\x00a", "\ud7ff\ufffd", "a" * 10_000, "(" * 10_000, "NOT AND OR :*"]
)
async def test_any_text_is_answered(api: httpx.AsyncClient, text: str) -> None:
    assert (await api.get(ORDERS, params={"text": text})).status_code == 200


@pytest.mark.parametrize("raw", ["%ff%fe", "%ed%a0%80", "", "x" * 10_001])
async def test_bytes_that_are_no_text_are_answered_or_refused(api: httpx.AsyncClient, raw: str) -> None:
    assert (await api.get(f"{ORDERS}?text={raw}")).status_code in (200, 422)
