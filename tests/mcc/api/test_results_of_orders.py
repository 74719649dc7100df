"""Result schemas and rules of orders: stored with the order, or refused as invalid."""

from typing import Any

import httpx
import pytest

ORDERS = "/api/v1/orders"


async def test_an_order_keeps_its_schema_and_its_rules(api: httpx.AsyncClient) -> None:
    asked = {
        "prompt": "Review this",
        "result_schema": {"$ref": "report"},
        "rules": [{"cel": "size(result.findings) > 0", "message": "Find something."}, {"cel": "size(receipts) > 0"}],
    }
    placed = await api.post(ORDERS, json=asked)
    assert placed.status_code == 201, placed.text
    order = (await api.get(f"/api/v1/{placed.headers['location']}")).json()
    assert order["result_schema"] == {"$ref": "report"}
    assert [rule["cel"] for rule in order["rules"]] == ["size(result.findings) > 0", "size(receipts) > 0"]


async def test_an_order_keeps_who_verifies_it(api: httpx.AsyncClient) -> None:
    placed = await api.post(ORDERS, json={"prompt": "Explain", "verify": {"rubric": "Be short.", "max_revisions": 2}})
    assert placed.status_code == 201, placed.text
    order = (await api.get(f"/api/v1/{placed.headers['location']}")).json()
    assert order["verify"] == {"rubric": "Be short.", "agent": None, "max_revisions": 2}


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({"rules": [{"cel": "true"}, {"cel": "result.n >"}]}, "rules[1].cel", "line 1, column 11"),
        ({"rules": [{"cel": "resul.n > 1"}]}, "rules[0].cel", "did you mean 'result'?"),
        (
            {"result_schema": {"$ref": "report"}, "rules": [{"cel": "result.finding == null"}]},
            "rules[0].cel",
            "has no key 'finding'; did you mean 'findings'? (line 1, column 8",
        ),
        ({"rules": [{"cel": "receipts[0].tool == 'read_files'"}]}, "rules[0].cel", "did you mean 'read_file'?"),
        ({"rules": [{"cel": "(" * 10_000}]}, "rules[0].cel", "at most 4,000 can be checked"),
        ({"rules": [{"cel": "true || " * 450 + "true"}] * 6}, "rules", "more than 20,000 characters"),
        ({"result_schema": {"type": "objec"}}, "result_schema.type", "did you mean 'object'?"),
        (
            {"result_schema": {"properties": {"a": {"$ref": "http://127.0.0.1/x"}}}},
            "result_schema.properties.a.$ref",
            "nothing is fetched",
        ),
        ({"verify": {}}, "verify", "either a rubric or an agent"),
        ({"verify": {"rubric": "Be short.", "agent": "review"}}, "verify", "either a rubric or an agent"),
        ({"verify": {"rubric": " \n"}}, "verify.rubric", "is blank"),
        ({"verify": {"rubric": "x" * 20_001}}, "verify.rubric", "20000"),
        ({"verify": {"rubric": "Be short.", "max_revisions": 3}}, "verify.max_revisions", "less than or equal to 2"),
        ({"verify": {"rubrik": "Be short."}}, "verify.rubrik", "Nothing of this name"),
        ({"verify": "Be short."}, "verify", "should be a JSON object"),
        ({"result_schema": {"$ref": "#"}}, "result_schema.$ref", "never end"),
        ({"result_schema": {"enum": list(range(30_000))}}, "result_schema", "more than 20,000 values"),
    ],
)
async def test_what_cannot_be_checked_is_refused_and_named(
    api: httpx.AsyncClient, body: dict[str, Any], field: str, said: str
) -> None:
    answer = await api.post(ORDERS, json={"prompt": "x", **body})
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["field"] == field
    assert said in error["message"]
