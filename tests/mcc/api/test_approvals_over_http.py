"""Outlines that wait for a person: listed in the inbox, approved or denied once."""

from typing import Any

import httpx
import pytest

from mcc.contracts.ids import derived_id
from mcc.contracts.inbox_facts import ApprovalDecided, ApprovalRequested
from mcc.contracts.status import WaitingReason
from mcc.store.store import Store
from mcc.store.values import Parking
from mcc.testing.hand_drone import HandDrone
from tests.mcc.api.test_answers_as_described import check
from tests.mcc.api.test_documents_over_http import COURSE
from tests.mcc.api.test_generate_orders_over_http import GENERATE
from tests.mcc.api.test_orders_over_http import ORDERS, is_problem

INBOX, APPROVAL = "/api/v1/inbox", "/api/v1/approvals/{approval_id}"


@pytest.fixture
async def order(api: httpx.AsyncClient, store: Store) -> dict[str, Any]:
    """One whose outline waits."""
    await api.post("/api/v1/blueprints", json={"text": COURSE})
    placed = (await api.post(ORDERS, json={**GENERATE, "generation": {"outline": True}})).json()
    held = HandDrone(store).claim(placed["id"])
    held.start("generate")
    asked = ApprovalRequested(
        approval_id=derived_id(held.id, "outline"),
        call_id="",
        tool="outline",
        digest="sha256:0",
    )
    held.write(asked)
    why = "the outline waits for a person's approval"
    parking = Parking(held.id, held.claim.epoch, held.seq, held.claim.control_seq, WaitingReason.APPROVAL, why)
    store.claims.park(parking)
    return placed


async def decided(api: httpx.AsyncClient, id: str, decision: str, **more: Any) -> httpx.Response:
    return await api.post(APPROVAL.format(approval_id=id), json={"decision": decision, **more})


async def test_an_outline_waits_in_the_inbox(
    api: httpx.AsyncClient, order: dict[str, Any], document: dict[str, Any]
) -> None:
    for path in (INBOX, "/api/v1/approvals"):
        answer = await api.get(path, params={"status": "pending"})
        check(document, answer, path)
        [item] = answer.json()["items"]
        assert (item["kind"], item["status"], item["decision"]) == ("outline", "pending", None)
        assert (item["order_id"], item["document_id"]) == (order["id"], order["document_id"])
    assert (await api.get(INBOX, params={"status": "approved"})).json()["items"] == []


@pytest.mark.parametrize(("decision", "status"), [("approve", "approved"), ("deny", "denied")])
async def test_a_decision_is_kept_in_the_journal_and_the_order_goes_on(
    api: httpx.AsyncClient,
    store: Store,
    nudges: Any,
    order: dict[str, Any],
    document: dict[str, Any],
    decision: str,
    status: str,
) -> None:
    [item] = (await api.get(INBOX)).json()["items"]
    answer = await decided(api, item["id"], decision, note="Why not")
    check(document, answer, APPROVAL)
    assert (answer.json()["status"], answer.json()["by"], answer.json()["note"]) == (status, "operator", "Why not")
    left = (await api.get(f"{ORDERS}/{order['id']}")).json()
    assert left["status"] == "queued"
    *_, told, resumed = store.journal.read(order["id"], limit=100)
    assert isinstance(told.data, ApprovalDecided) and told.data.decision == decision
    assert (told.record_id, resumed.kind) == (item["record_id"], "order.resumed")
    assert len(await nudges.until(2)) == 2
    assert (await api.get(INBOX, params={"status": "pending"})).json()["items"] == []
    assert [one["id"] for one in (await api.get(INBOX, params={"status": status})).json()["items"]] == [item["id"]]


async def test_it_is_decided_once(api: httpx.AsyncClient, store: Store, order: dict[str, Any]) -> None:
    [item] = (await api.get(INBOX)).json()["items"]
    assert (await decided(api, item["id"], "approve")).status_code == 200
    last = store.orders.get(order["id"]).last_seq
    assert (await decided(api, item["id"], "approve")).status_code == 200
    assert store.orders.get(order["id"]).last_seq == last
    is_problem(await decided(api, item["id"], "deny"), 409)


async def test_what_cannot_be_decided_is_refused(api: httpx.AsyncClient, order: dict[str, Any]) -> None:
    [item] = (await api.get(INBOX)).json()["items"]
    is_problem(await decided(api, "another", "approve"), 404)
    is_problem(await decided(api, item["id"], "perhaps"), 422)
    await api.post(f"{ORDERS}/{order['id']}/cancel")
    assert (await api.get(f"{ORDERS}/{order['id']}")).json()["status"] == "cancelled"
    is_problem(await decided(api, item["id"], "approve"), 410)
    assert [one["status"] for one in (await api.get(INBOX)).json()["items"]] == ["void"]
