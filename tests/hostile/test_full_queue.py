"""A caller that places orders without end: the queue has a bound, which is told as such."""

from pathlib import Path

import httpx

from mcc.api.app import build_app
from mcc.settings import ServiceSettings, load
from mcc.testing import temporary_store
from mcc.testing.served import TOKEN

ORDERS = "/api/v1/orders"


async def test_past_the_bound_a_caller_is_asked_to_wait_and_a_known_key_still_answered(tmp_path: Path) -> None:
    store = temporary_store(max_queued=2)
    app = build_app(ServiceSettings(data_dir=tmp_path), store, token=TOKEN)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
        for number in range(2):
            key = {"Idempotency-Key": f"key-{number}"}
            assert (await client.post(ORDERS, json={"prompt": f"p{number}"}, headers=key)).status_code == 201
        refused = await client.post(ORDERS, json={"prompt": "p2"}, headers={"Idempotency-Key": "key-2"})
        again = await client.post(ORDERS, json={"prompt": "p0"}, headers={"Idempotency-Key": "key-0"})
    assert refused.status_code == 429 and int(refused.headers["retry-after"]) > 0
    assert refused.headers["content-type"] == "application/problem+json"
    assert "MCC_MAX_QUEUED_ORDERS" in refused.json()["detail"]
    assert again.status_code == 200
    assert len(store.orders.list().items) == 2


def test_the_bound_is_a_hundred_thousand_unless_said_otherwise(tmp_path: Path) -> None:
    said = {"MCC_DATA_DIR": str(tmp_path)}
    assert load(said).max_queued_orders == 100_000
    assert load({**said, "MCC_MAX_QUEUED_ORDERS": "7"}).max_queued_orders == 7
