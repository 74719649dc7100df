"""Schemas of any shape become parameters that providers accept, never stricter than the original."""

from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from drone.models.tool_specs import MOST_LEVELS, sendable, unsendable
from mcc.transcript.messages import ToolSpec

TEXT = {"type": "string"}
GOOD = {"type": "object", "properties": {"a": TEXT, "b": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"anyOf": [TEXT]}}}
PAIR = {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "required": ["a", "b"]}
OTHER = {"type": "object", "properties": {"a": TEXT, "c": {"type": "integer"}}, "required": ["a"]}


def test_an_acceptable_schema_is_sent_unchanged() -> None:
    assert sendable(GOOD) is GOOD


@pytest.mark.parametrize("key", ["anyOf", "oneOf"])
def test_a_choice_at_the_top_becomes_one_object_that_fits_every_choice(key: str) -> None:
    sent = sendable({key: [PAIR, OTHER], "description": "Either."})
    assert sent["properties"] == {"a": TEXT, "b": TEXT, "c": {"type": "integer"}}
    assert (sent["type"], sent["required"], sent["description"]) == ("object", ["a"], "Either.")
    assert key not in sent


def test_all_parts_joined_at_the_top_are_required() -> None:
    sent = sendable({"type": "object", "allOf": [PAIR, OTHER], "additionalProperties": False})
    assert set(sent["properties"]) == {"a", "b", "c"} and sent["required"] == ["a", "b"]
    assert "additionalProperties" not in sent


def test_a_reference_at_the_top_is_followed_and_its_definitions_stay() -> None:
    sent = sendable({"$ref": "#/$defs/pair", "$defs": {"pair": PAIR}})
    assert (sent["type"], set(sent["properties"]), sent["$defs"]) == ("object", {"a", "b"}, {"pair": PAIR})


def test_properties_that_differ_between_choices_may_be_anything() -> None:
    numbered = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert sendable({"anyOf": [PAIR, numbered]})["properties"]["a"] == {}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "string"},
        {"enum": [1, 2]},
        {"type": ["object", "null"]},
        {"$ref": "#"},
        {"$ref": "#/$defs/nowhere"},
        {"$ref": "https://elsewhere.test/schema"},
        {"allOf": [{"$ref": "#/allOf/0"}]},
        {"anyOf": []},
        {"anyOf": [True, None, 7]},
        {"properties": {"a": TEXT}},
    ],
    ids=repr,
)
def test_any_schema_becomes_an_object(schema: Mapping[str, Any]) -> None:
    sent = sendable(schema)
    assert sent["type"] == "object" and isinstance(sent["properties"], dict)
    assert not {"anyOf", "oneOf", "allOf", "enum", "$ref"} & set(sent)


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"in": schema}}
    return schema


def depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 0


def test_three_hundred_levels_are_cut_at_the_bound() -> None:
    assert depth(sendable(nested(300))) <= MOST_LEVELS + 1
    assert sendable(nested(10)) == nested(10)


@pytest.mark.parametrize("form", ["openai", "anthropic"])
@pytest.mark.parametrize("schema", [{"anyOf": [PAIR, OTHER]}, nested(300)], ids=["a choice", "deep"])
async def test_both_formats_send_them_so(bench: Any, form: str, schema: Mapping[str, Any]) -> None:
    chat = bench.streamed(bench.sse(bench.chunk("stop", content="x")))
    message = {"content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn"}
    provider = bench.Provider(chat if form == "openai" else _json(message))
    await getattr(bench, form)(provider).ask(bench.asking(tools=[ToolSpec("t", "T.", schema)]), bench.listener)
    [tool] = provider.body["tools"]
    sent = tool["function"]["parameters"] if form == "openai" else tool["input_schema"]
    assert sent["type"] == "object" and "anyOf" not in sent


async def test_a_name_that_anthropic_refuses_is_reported_before_sending(bench: Any) -> None:
    provider = bench.Provider(_json({}))
    odd = ToolSpec("measure", "M.", {"type": "object", "properties": {"größe": TEXT}})
    error = await bench.refused(bench.anthropic(provider), bench.asking(tools=[odd]))
    assert "measure" in str(error) and "größe" in str(error) and not error.retryable
    assert provider.requests == []
    assert unsendable(odd.parameters) is not None and unsendable(GOOD) is None


def _json(body: object) -> Any:
    return httpx.Response(200, json=body)
