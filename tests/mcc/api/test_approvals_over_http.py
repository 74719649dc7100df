"""Outlines that wait for a person: listed in the inbox, approved or denied once."""

from typing import Any

import httpx
import pytest

from mcc.contracts.ids import derived_id
from mcc.contracts.inbox_facts import ApprovalDecided, ApprovalRequested, QuestionAsked
from mcc.contracts.permission import SavedRule
from mcc.contracts.questions import OneQuestion
from mcc.contracts.status import WaitingReason
from mcc.store.rows.values import Parking
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone
from tests.mcc.api.test_answers_as_described import check
from tests.mcc.api.test_documents_over_http import COURSE
from tests.mcc.api.test_generate_orders_over_http import GENERATE
from tests.mcc.api.test_orders_over_http import ORDERS, is_problem

INBOX, APPROVAL = "/api/v1/inbox", "/api/v1/approvals/{approval_id}"


@pytest.fixture
async def order(api: httpx.AsyncClient, store: Store) -> dict[str, Any]:
    """An order whose outline waits for a decision."""
    await api.post("/api/v1/blueprints", json={"text": COURSE})
    placed: dict[str, Any] = (await api.post(ORDERS, json={**GENERATE, "generation": {"outline": True}})).json()
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


async def test_a_call_and_a_question_of_a_running_order_are_decided_and_an_approval_can_stand(
    api: httpx.AsyncClient, store: Store, document: dict[str, Any]
) -> None:
    placed = (await api.post(ORDERS, json={"prompt": "Go."})).json()
    held = HandDrone(store).claim(placed["id"])
    held.start("Go.")
    call: dict[str, Any] = {"call_id": "c1", "tool": "git_commit", "arguments": {"message": "x"}, "digest": "sha256:0"}
    held.write(
        ApprovalRequested(approval_id="a1", would_save=SavedRule(key="git_commit"), **call),
        QuestionAsked(question_id="q1", call_id="c2", question="Which?"),
    )
    inbox = await api.get(INBOX, params={"order_id": placed["id"], "limit": 1})
    check(document, inbox, INBOX)
    assert inbox.json()["next_cursor"] is not None
    [question] = (await api.get("/api/v1/questions")).json()["items"]
    [approval] = (await api.get("/api/v1/approvals")).json()["items"]
    assert (question["question"], approval["tool"], approval["kind"]) == ("Which?", "git_commit", "approval")
    is_problem(await decided(api, "q1", "approve"), 404)
    is_problem(await decided(api, "a1", "deny", remember="order"), 422)
    answer = await decided(api, "a1", "approve", remember="order")
    check(document, answer, APPROVAL)
    assert (answer.json()["status"], answer.json()["remember"]) == ("approved", "order")
    replied = await api.post("/api/v1/questions/q1", json={"answer": "That one"})
    check(document, replied, "/api/v1/questions/{question_id}")
    assert (replied.json()["status"], replied.json()["answer"]) == ("answered", "That one")
    is_problem(await api.post("/api/v1/questions/q1", json={"answer": "Another"}), 409)
    controls = (await api.get(f"{ORDERS}/{placed['id']}/controls")).json()["items"]
    assert [one["kind"] for one in controls] == ["decide", "decide"]
    is_problem(await api.post(f"{ORDERS}/{placed['id']}/controls:batch", json={"controls": [{"kind": "decide"}]}), 422)
    [grant] = (await api.get("/api/v1/grants")).json()["items"]
    assert (grant["key"], grant["scope"], grant["scope_id"]) == ("git_commit", "order", placed["id"])
    assert (await api.delete(f"/api/v1/grants/{grant['id']}")).status_code == 204
    is_problem(await api.delete(f"/api/v1/grants/{grant['id']}"), 404)


QUESTION = "/api/v1/questions/{question_id}"
ASKED = QuestionAsked(
    question_id="q1",
    call_id="c2",
    question="Which database?",
    questions=(
        OneQuestion(id="db", question="Which database?", choices=("SQLite", "PostgreSQL"), free=False),
        OneQuestion(id="port", question="Which port?", default="8420"),
    ),
)


async def asked_of(api: httpx.AsyncClient, store: Store, **more: Any) -> dict[str, Any]:
    """A running order that has asked its questions."""
    placed: dict[str, Any] = (await api.post(ORDERS, json={"prompt": "Go.", **more})).json()
    held = HandDrone(store).claim(placed["id"])
    held.start("Go.")
    held.write(ASKED)
    return placed


async def answered(api: httpx.AsyncClient, body: object) -> httpx.Response:
    return await api.post(QUESTION.format(question_id="q1"), json=body)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "answer"),
        ({"answer": "SQLite"}, "answer"),
        ({"answer": ""}, "answer"),
        ({"answers": {"db": "SQLite"}}, "answers"),
        ({"answers": {"db": "MySQL", "port": "1"}}, "answers.db"),
        ({"answers": {"db": "SQLite", "port": "1", "name": "x"}}, "answers"),
        ({"answers": {"db": "SQLite", "port": "x" * 20_001}}, "answers.port"),
        ({"answers": {"db": "SQLite", "port": "1"}, "decline": True}, "answer"),
        ({"decline": False}, "answer"),
    ],
)
async def test_an_answer_that_does_not_fit_the_questions_is_told_what_would(
    api: httpx.AsyncClient, store: Store, body: dict[str, Any], field: str
) -> None:
    await asked_of(api, store)
    answer = await answered(api, body)
    is_problem(answer, 422)
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert store.approvals.get("q1").status == "pending"


async def test_several_questions_are_answered_or_declined_once(
    api: httpx.AsyncClient, store: Store, document: dict[str, Any]
) -> None:
    await asked_of(api, store)
    whole = {"answers": {"db": "SQLite", "port": "80"}}
    first, again = await answered(api, whole), await answered(api, whole)
    check(document, first, QUESTION)
    assert (first.status_code, again.status_code, first.json()) == (200, 200, again.json())
    assert [one["answer"] for one in first.json()["answers"]] == ["SQLite", "80"]
    assert [one["id"] for one in first.json()["questions"]] == ["db", "port"]
    is_problem(await answered(api, {"answers": {"db": "SQLite", "port": "81"}}), 409)
    is_problem(await answered(api, {"decline": True}), 409)


async def test_an_answer_to_a_dead_orders_question_is_told_what_became_of_it(
    api: httpx.AsyncClient, store: Store, document: dict[str, Any]
) -> None:
    placed = await asked_of(api, store)
    path, whole = f"{ORDERS}/{placed['id']}", {"answers": {"db": "SQLite", "port": "80"}}
    last = store.orders.get(placed["id"]).last_seq
    store.claims.park(Parking(placed["id"], 1, last, 0, WaitingReason.QUESTION, "it asks"))
    await api.post(f"{path}/cancel")
    assert (await api.get(path)).json()["status"] == "cancelled"
    late = await answered(api, whole)
    check(document, late, QUESTION)
    assert (late.status_code, late.json()) == (202, {"became": "next_turn", "order_id": None})
    assert (await answered(api, whole)).json() == late.json()
    is_problem(await answered(api, {"decline": True}), 410)
    following = (await api.post(ORDERS, json={"prompt": "On.", "session_id": placed["session_id"]})).json()
    assert [(one["question"], one["text"]) for one in following["words"]] == [
        ("Which database?", "SQLite"),
        ("Which port?", "80"),
    ]
    again = await answered(api, whole)
    assert (again.status_code, again.json()) == (202, {"became": "next_turn", "order_id": following["id"]})
