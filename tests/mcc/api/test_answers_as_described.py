"""The OpenAPI document is true: answers and errors are valid under the schema of their status and media type."""

from typing import Any

import httpx
import jsonschema
import pytest

from mcc.contracts.entry import Entry
from mcc.contracts.fact import Fact
from mcc.contracts.journal import FACTS
from mcc.contracts.shape import to_json
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone
from tests.mcc.contracts import samples

ORDERS = "/api/v1/orders"
NOBODY = "01900000-0000-7000-8000-000000000000"


def check(document: dict[str, Any], answer: httpx.Response, path: str) -> None:
    """Validate an answer. `path` is written as in the OpenAPI document. Raises when the answer does not match it."""
    told = document["paths"][path][answer.request.method.lower()]["responses"]
    content = told.get(str(answer.status_code), told["default"])["content"]
    schema = content[answer.headers["content-type"].partition(";")[0]]["schema"]
    jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(answer.json())


async def test_an_order_its_record_and_its_journal_are_what_the_description_says(
    api: httpx.AsyncClient, store: Store, document: dict[str, Any]
) -> None:
    placed = await api.post(ORDERS, json={"prompt": "x", "rules": [{"cel": "true", "message": "m"}]})
    check(document, placed, ORDERS)
    held = HandDrone(store).claim(placed.json()["id"])
    held.start("x")
    paths = ("/orders", "/orders/{order_id}", "/orders/{order_id}/record", "/orders/{order_id}/journal", "/drones")
    for path in paths:
        check(document, await api.get(f"/api/v1{path.format(order_id=held.id)}"), f"/api/v1{path}")
    check(document, await api.post(f"{ORDERS}/{held.id}/pause"), f"{ORDERS}/{{order_id}}/pause")
    check(document, await api.get(f"{ORDERS}/{held.id}/controls"), f"{ORDERS}/{{order_id}}/controls")


async def test_a_steered_order_is_what_the_description_says(
    api: httpx.AsyncClient, store: Store, document: dict[str, Any]
) -> None:
    first = (await api.post(ORDERS, json={"prompt": "x"})).json()
    HandDrone(store).claim(first["id"])
    steer = {"prompt": "y", "session_id": first["session_id"], "when_busy": "steer"}
    steered = await api.post(ORDERS, json=steer)
    assert "receipt" in steered.json()
    check(document, steered, ORDERS)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", f"{ORDERS}/{{order_id}}", None, 404),
        ("POST", ORDERS, {"prompt": ""}, 422),
        ("POST", ORDERS, {"prompt": "x", "rules": [{"cel": "1 +", "message": "m"}]}, 422),
        ("POST", f"{ORDERS}/{{order_id}}/steer", {}, 422),
        ("GET", f"{ORDERS}/{{order_id}}/events", None, 404),
        ("GET", "/api/v1/agents/{name}", None, 404),
    ],
)
async def test_an_error_is_the_problem_that_the_description_says(
    api: httpx.AsyncClient, document: dict[str, Any], method: str, path: str, body: object, status: int
) -> None:
    answer = await api.request(method, path.format(order_id=NOBODY, name="nobody"), json=body)
    assert answer.status_code == status
    check(document, answer, path)


async def test_every_error_under_the_api_is_described_as_a_problem(document: dict[str, Any]) -> None:
    told = {
        (method, path): operation["responses"].get("default", {}).get("content", {})
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if path.startswith("/api/v1/")
    }
    assert [where for where, content in told.items() if list(content) != ["application/problem+json"]] == []


@pytest.mark.parametrize("fact", samples.FACTS, ids=lambda fact: str(fact.kind))
def test_an_entry_of_every_kind_is_what_the_description_says(fact: Fact, document: dict[str, Any]) -> None:
    shape = {"$ref": "#/components/schemas/Entry", "components": document["components"]}
    entry = httpx.Response(200, content=to_json(samples.entry(fact))).json()
    validator = jsonschema.Draft202012Validator(shape)
    validator.validate(entry)
    assert not validator.is_valid({**entry, "data": {**entry["data"], "nobody's": 1}})


def test_the_description_of_an_entry_names_every_kind_of_fact() -> None:
    shapes = Entry.model_json_schema(mode="serialization")["$defs"]
    named = {one["$ref"].rpartition("/")[2] for one in shapes["FactByKind"]["anyOf"]}
    assert named == {fact.__name__ for fact in FACTS.values()}
