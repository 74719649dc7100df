"""The inbox over HTTP: orders that ended or are stuck, what was seen, decisions by digest."""

from typing import Any

import httpx

from mcc.api.stuck import StuckOrders, stuck_orders
from mcc.contracts.inbox_facts import ApprovalRequested
from mcc.contracts.status import WaitingReason
from mcc.store.database.tables import STATE
from mcc.store.rows.values import Parking
from mcc.store.store import BoundedOffload, Store
from mcc.testing.hand_drone import HandDrone, HeldOrder
from tests.mcc.api.test_answers_as_described import check
from tests.mcc.api.test_orders_over_http import ORDERS, is_problem

INBOX, SEEN = "/api/v1/inbox", "/api/v1/inbox/seen"


async def ready(api: httpx.AsyncClient, store: Store, prompt: str = "Look around") -> str:
    placed = (await api.post(ORDERS, json={"prompt": prompt, "on_ask": "wait"})).json()
    held = HandDrone(store).claim(placed["id"])
    held.start()
    held.finish()
    return str(placed["id"])


def asking(store: Store, order_id: str) -> HeldOrder:
    held = HandDrone(store).claim(order_id)
    held.start()
    held.write(ApprovalRequested(approval_id="approval", call_id="call", tool="git_commit", digest="sha256:1"))
    return held


async def test_orders_that_ended_are_told_when_they_are_asked_for(
    api: httpx.AsyncClient, store: Store, document: dict[str, Any]
) -> None:
    order_id = await ready(api, store)
    assert (await api.get(INBOX)).json()["items"] == []
    for asked in ({"kinds": "all"}, {"kinds": ["ready", "failed"]}, {"kinds": "all", "scope": "mine"}):
        answer = await api.get(INBOX, params=asked)
        check(document, answer, INBOX)
        [item] = answer.json()["items"]
        assert (item["id"], item["kind"], item["title"]) == (f"ready:{order_id}", "ready", "Look around")
        assert (item["owner"], item["seen"], item["agent"]) == ("operator", False, "master")
    assert is_problem(await api.get(INBOX, params={"kinds": "others"}), 422)


async def test_what_was_seen_is_marked_by_id_or_up_to_a_time(api: httpx.AsyncClient, store: Store) -> None:
    order_id = await ready(api, store)
    everything = {"kinds": "all", "unseen": "true"}
    assert (await api.post(SEEN, json={"ids": [f"ready:{order_id}", "nothing"]})).status_code == 204
    assert (await api.get(INBOX, params=everything)).json()["items"] == []
    await ready(api, store)
    assert len((await api.get(INBOX, params=everything)).json()["items"]) == 1
    assert (await api.post(SEEN, json={"before": "2100-01-01T00:00:00Z"})).status_code == 204
    assert (await api.get(INBOX, params=everything)).json()["items"] == []
    wrong: dict[str, Any]
    for wrong in ({}, {"ids": []}, {"ids": ["a"], "before": "2100-01-01T00:00:00Z"}, {"ids": ["a"] * 1_001}):
        assert is_problem(await api.post(SEEN, json=wrong), 422)


async def test_a_decision_names_what_it_is_about_and_is_refused_about_anything_else(
    api: httpx.AsyncClient, store: Store
) -> None:
    placed = (await api.post(ORDERS, json={"prompt": "x", "on_ask": "wait"})).json()
    asking(store, placed["id"])
    path = "/api/v1/approvals/approval"
    refused = await api.post(path, json={"decision": "approve", "digest": "sha256:2"})
    assert is_problem(refused, 409) and "not what was shown" in refused.text
    assert (await api.post(path, json={"decision": "approve", "digest": "sha256:1"})).status_code == 200
    assert (await api.post(path, json={"decision": "approve", "digest": "sha256:1"})).status_code == 200


async def test_an_order_that_waits_without_an_end_is_stuck(store: Store, api: httpx.AsyncClient) -> None:
    placed = (await api.post(ORDERS, json={"prompt": "x"})).json()
    held = HandDrone(store).claim(placed["id"])
    held.start()
    claim = held.claim
    why = WaitingReason.PROVIDER
    store.claims.park(Parking(held.id, claim.epoch, held.seq, claim.control_seq, why, "it waits"))
    assert stuck_orders(store) == []
    _wait_for_ever(store, held.id)
    [item] = stuck_orders(store)
    assert (item.id, item.kind) == (f"stuck:{held.id}", "stuck") and "without an end" in (item.detail or "")
    [told] = (await api.get(INBOX, params={"kinds": "stuck"})).json()["items"]
    assert (told["id"], told["agent"], told["owner"]) == (item.id, "master", "operator")


def _wait_for_ever(store: Store, order_id: str) -> None:
    statement = STATE.update().where(STATE.c.order_id == order_id).values(waits_until=None, expires_at=None)
    store.database.write(lambda connection: connection.execute(statement))


async def test_stuck_orders_are_looked_for_every_ten_seconds_however_many_ask(store: Store) -> None:
    now = 0.0
    offload = BoundedOffload(1, "stuck")
    looked = StuckOrders(store, offload, lambda: now)
    first = await looked.items()
    assert await looked.items() is first
    now = 10.0
    assert await looked.items() is not first
    offload.close()
