"""Orders that generate documents, over HTTP: placed together with their document, or refused."""

from typing import Any

import httpx
import pytest

from mcc.contracts.order import WorkOrder
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone
from tests.mcc.api.test_answers_as_described import check
from tests.mcc.api.test_documents_over_http import COURSE, DOCUMENT, DOCUMENTS, LESSON, changed
from tests.mcc.api.test_orders_over_http import NOBODY, ORDERS, is_problem

GENERATE = {"kind": "generate", "blueprint": "short_course", "generation": {"metadata": {"topic": "Light"}}}


@pytest.fixture(autouse=True)
async def blueprint(api: httpx.AsyncClient) -> None:
    assert (await api.post("/api/v1/blueprints", json={"text": COURSE})).status_code == 201


async def placed(api: httpx.AsyncClient, **more: Any) -> dict[str, Any]:
    answer = await api.post(ORDERS, json={**GENERATE, **more})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def test_an_order_for_a_blueprint_makes_its_document(
    api: httpx.AsyncClient, document: dict[str, Any], nudges: Any
) -> None:
    answer = await api.post(ORDERS, json=GENERATE)
    check(document, answer, ORDERS)
    order = answer.json()
    assert WorkOrder.model_validate(order).document_id == order["session_id"] == order["document_id"]
    assert (order["kind"], order["limits"]["spawns"], order["limits"]["concurrency"]) == ("generate", 20_000, 8)
    made = (await api.get(f"{DOCUMENTS}/{order['document_id']}")).json()
    assert (made["order_id"], made["nodes"][0]["metadata"]["topic"]) == (order["id"], "Light")
    assert await nudges.until(1) == [(order["id"], "default", 5)]
    assert (await api.get(f"{ORDERS}/{order['id']}")).json() == order


async def test_an_order_for_a_document_sets_its_metadata_and_waits_for_the_one_before(api: httpx.AsyncClient) -> None:
    first = await placed(api)
    body = {"kind": "generate", "document_id": first["document_id"], "generation": {"metadata": {"grade": 9}}}
    second = (await api.post(ORDERS, json=body)).json()
    assert (second["document_id"], second["session_seq"], second["blocked_by"]) == (
        first["document_id"],
        2,
        first["id"],
    )
    root = (await api.get(f"{DOCUMENTS}/{first['document_id']}")).json()["nodes"][0]
    assert root["metadata"] == {"topic": "Light", "grade": 9}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({**GENERATE, "blueprint": "shrot_course"}, 404, "short_course"),
        ({**GENERATE, "blueprint": "short_course:000000000000"}, 404, "000000000000"),
        ({**GENERATE, "document_id": NOBODY}, 422, "exactly one"),
        ({"kind": "generate"}, 422, "exactly one"),
        ({"kind": "generate", "document_id": NOBODY}, 404, NOBODY),
        ({**GENERATE, "generation": {"metadata": {"topik": "x"}}}, 422, "metadata.topic"),
        ({**GENERATE, "generation": {"concurency": 3}}, 422, "concurency"),
        ({**GENERATE, "generation": {"concurrency": 201}}, 422, "generation.concurrency"),
        ({**GENERATE, "rules": [{"cel": "true"}]}, 422, "rules of its blueprint"),
        ({"prompt": "x", "document_id": NOBODY}, 404, NOBODY),
        ({"prompt": "x", "blueprint": "short_course"}, 422, "blueprint"),
    ],
)
async def test_what_cannot_be_generated_is_refused_and_nothing_is_made(
    api: httpx.AsyncClient, body: dict[str, Any], status: int, words: str
) -> None:
    answer = await api.post(ORDERS, json=body)
    is_problem(answer, status)
    assert words in answer.text
    for path in (ORDERS, DOCUMENTS):
        assert (await api.get(path)).json()["items"] == []


async def test_the_same_key_makes_one_order_and_one_document(api: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "k"}
    first, second = [await api.post(ORDERS, json=GENERATE, headers=key) for _ in range(2)]
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["document_id"] == second.json()["document_id"]
    assert len((await api.get(DOCUMENTS)).json()["items"]) == 1


async def test_the_order_of_a_deleted_document_is_cancelled(api: httpx.AsyncClient, store: Store) -> None:
    queued, running = await placed(api), await placed(api)
    held = HandDrone(store).claim(running["id"])
    for order in (queued, running):
        assert (await api.delete(f"{DOCUMENTS}/{order['document_id']}")).status_code == 204
    assert (await api.get(f"{ORDERS}/{queued['id']}")).json()["status"] == "cancelled"
    [control] = (await api.get(f"{ORDERS}/{held.id}/controls")).json()["items"]
    assert (control["kind"], control["reason"]) == ("cancel", "its document was deleted")


async def test_a_document_goes_on_with_another_content_of_its_blueprint(
    api: httpx.AsyncClient, document: dict[str, Any]
) -> None:
    made = (await api.post(DOCUMENTS, json={"blueprint": "short_course", "metadata": {"topic": "Light"}})).json()
    await changed(api, made["id"], LESSON, {"command": "set_value", "node": "/", "values": {"title": "Light"}})
    other = COURSE.replace("      title: {type: text, required: true, min_length: 5}\n", "      name: {type: text}\n")
    digest = (await api.post("/api/v1/blueprints", json={"text": other})).json()["digest"]
    path = f"{DOCUMENTS}/{made['id']}/blueprint"
    answer = await api.post(path, json={"blueprint": f"short_course:{digest[7:19]}"})
    check(document, answer, f"{DOCUMENT}/blueprint")
    assert answer.json() == {"stale": ["/"], "dropped": ["/ props.title"], "version": 3}
    now = (await api.get(f"{DOCUMENTS}/{made['id']}")).json()
    assert now["blueprint"]["digest"] == digest and set(now["nodes"][0]["props"]) == {"name"}
    then = (await api.get(f"{DOCUMENTS}/{made['id']}", params={"version": 2})).json()
    assert then["blueprint"] == made["blueprint"] and then["nodes"][0]["props"] == {"title": "Light"}


async def test_the_blueprint_stays_while_an_order_generates_the_document(api: httpx.AsyncClient) -> None:
    order = await placed(api)
    answer = await api.post(f"{DOCUMENTS}/{order['document_id']}/blueprint", json={"blueprint": "short_course"})
    assert order["id"] in is_problem(answer, 409)
