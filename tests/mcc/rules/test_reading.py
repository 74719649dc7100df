"""Near misses with one meaning are read, and whatever a schema admits as it is stays as it is."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcc.rules.reading import ValueReading, json_in, read_as

TEXTS = {"type": "array", "items": {"type": "string"}}
READ = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "paths": TEXTS, "start_line": {"type": "integer"}},
    "additionalProperties": False,
}


def of(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), **more}


@pytest.mark.parametrize(
    ("schema", "sent", "read"),
    [
        (READ, {"paths": '["a.txt", "b.txt"]'}, {"paths": ["a.txt", "b.txt"]}),
        (READ, {"paths": "```json\n['a.txt',]\n```"}, {"paths": ["a.txt"]}),
        (READ, {"path": "a.txt", "start_line": " 12 "}, {"path": "a.txt", "start_line": 12}),
        (READ, {"path": "a.txt", "start_line": "12.0"}, {"path": "a.txt", "start_line": 12}),
        (of({"x": {"type": "number"}}), {"x": "2.5"}, {"x": 2.5}),
        (of({"x": {"type": "boolean"}}), {"x": "True"}, {"x": True}),
        (of({"x": {"enum": [1, 2]}}), {"x": "2"}, {"x": 2}),
        (of({"x": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}), {"x": "3"}, {"x": 3}),
        (of({"x": {"type": ["array", "null"], "items": {"type": "integer"}}}), {"x": '["1", 2]'}, {"x": [1, 2]}),
        (of({"x": {"$ref": "#/$defs/P"}}, **{"$defs": {"P": of({"n": {"type": "integer"}})}}),
         {"x": '{"n": "2"}'}, {"x": {"n": 2}}),
        (of({"x": {"allOf": [{"type": "object"}, of({"n": {"type": "integer"}})]}}),
         {"x": {"n": "2"}}, {"x": {"n": 2}}),
        (of({"x": {"type": "array", "prefixItems": [{"type": "integer"}]}}), {"x": ["1", "1"]}, {"x": [1, "1"]}),
    ],
)  # fmt: skip
def test_a_text_where_only_another_type_is_admitted_is_what_it_spells(
    schema: dict[str, Any], sent: dict[str, Any], read: dict[str, Any]
) -> None:
    found = read_as(schema, sent)
    assert json.dumps(found.value) == json.dumps(read)
    assert found.notes and all("was sent as text" in note for note in found.notes)


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        (of({"x": {"type": ["string", "integer"]}}), {"x": "3"}),
        (of({"x": {"anyOf": [{"type": "string"}, TEXTS]}}), {"x": '["a"]'}),
        (of({"x": {}}), {"x": '["a"]'}),
        (of({"x": {"items": {"type": "string"}}}), {"x": '["a"]'}),
        (of({"x": {"enum": ["1", 2]}}), {"x": "2"}),
        (of({"x": TEXTS}), {"x": "a, b"}),
        (of({"x": TEXTS}), {"x": '{"a": 1}'}),
        (of({"x": {"type": "integer"}}), {"x": "3.5"}),
        (of({"x": {"type": "integer"}}), {"x": "1e999"}),
        (of({"x": {"type": "integer"}}), {"x": "true"}),
        (of({"x": {"type": "boolean"}}), {"x": "yes"}),
        (of({"x": {"type": "object"}}), {"x": '{"a": 1, "a": 2}'}),
        (of({"x": {"type": "object"}}), {"x": "[" * 500}),
        (of({"x": TEXTS}), {"x": '"[\\"a\\"]"'}),
        (of({"x": {"$ref": "https://example.org/s"}}), {"x": "[1]"}),
        (of({"x": {"anyOf": [of({"n": {"type": "integer"}}), of({"m": {"type": "integer"}})]}}), {"x": {"n": "1"}}),
        (of({"x": {"type": "string"}}, "x"), {"x": None}),
    ],
)
def test_a_value_with_no_reading_or_two_stays_as_it_is(schema: dict[str, Any], sent: dict[str, Any]) -> None:
    assert read_as(schema, sent) == ValueReading(sent)


def test_null_for_an_optional_property_is_left_out_without_a_word() -> None:
    assert read_as(READ, {"path": "a", "paths": None, "start_line": "null"}) == ValueReading({"path": "a"})
    nullable = of({"x": {"type": ["integer", "null"]}})
    assert read_as(nullable, {"x": None}) == ValueReading({"x": None})


@pytest.mark.parametrize(
    ("schema", "sent", "read"),
    [
        (READ, {"filePath": "a", "startLine": 3}, {"path": "a", "start_line": 3}),
        (READ, {"file_path": "a"}, {"path": "a"}),
        (READ, {"files": '["a"]'}, {"paths": ["a"]}),
        (of({"old": {"type": "string"}, "new": {"type": "string"}}, "old", "new"),
         {"old_string": "a", "newText": "b"}, {"old": "a", "new": "b"}),
        (of({"maxResults": {"type": "integer"}}), {"max_results": "5"}, {"maxResults": 5}),
        (of({"agents": {"type": "array", "items": of({"success_criteria": TEXTS}, additionalProperties=False)}}),
         {"agents": [{"successCriteria": ["a"]}]}, {"agents": [{"success_criteria": ["a"]}]}),
    ],
)  # fmt: skip
def test_a_name_in_another_spelling_or_another_tools_word_is_the_one_it_can_mean(
    schema: dict[str, Any], sent: dict[str, Any], read: dict[str, Any]
) -> None:
    found = read_as(schema, sent)
    assert found.value == read
    assert all(f"`{name}`" in " ".join(found.notes) for name in set(sent) - set(read))


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        (READ, {"path": "a", "file_path": "b"}),
        (READ, {"file": "a", "filename": "b"}),
        (READ, {"file": ["a"], "paths": ["b"]}),
        (of({"path": {"type": "string"}}), {"file": "a"}),
        (of({"max_results": {"type": "integer"}}, additionalProperties=True), {"maxResults": 5}),
        (of({"max_results": {"type": "integer"}}, patternProperties={"^m": True}), {"maxResults": 5}),
        (of({"a_b": {"type": "string"}, "aB": {"type": "string"}}, additionalProperties=False), {"ab": "x"}),
        (of({"timeout_seconds": {"type": "number"}}, additionalProperties=False), {"timeout": 5}),
    ],
)
def test_a_name_that_may_be_meant_or_means_two_stays(schema: dict[str, Any], sent: dict[str, Any]) -> None:
    assert read_as(schema, sent) == ValueReading(sent)


@pytest.mark.parametrize("wrapper", ["arguments", "input", "parameters", "params", "args", "toolInput", "read_file"])
@pytest.mark.parametrize("inner", [{"path": "a"}, '{"path": "a"}', {"filePath": "a"}])
def test_an_envelope_is_taken_off_and_named(wrapper: str, inner: object) -> None:
    found = read_as(READ, {wrapper: inner}, "read_file")
    assert found.value == {"path": "a"}
    assert f"`{wrapper}`" in found.notes[0]
    assert read_as(READ, {wrapper: inner, "start_line": 2}, "read_file").value == {"path": "a", "start_line": 2}


def test_a_whole_call_in_the_arguments_is_the_call() -> None:
    assert read_as(READ, {"name": "read_file", "arguments": {"path": "a"}}, "read_file").value == {"path": "a"}
    assert read_as(READ, {"name": "other", "arguments": {"path": "a"}}, "read_file").notes == ()


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        (of({"arguments": {"type": "object"}}), {"arguments": {"path": "a"}}),
        (of({}, additionalProperties=True), {"arguments": {"path": "a"}}),
        ({}, {"input": {"path": "a"}}),
        (of({"path": {"type": "string"}}, additionalProperties={"type": "object"}), {"input": {"path": "a"}}),
        (READ, {"arguments": {"path": "a"}, "path": "b"}),
        (READ, {"arguments": "a"}),
        (READ, {"arguments": {"path": "a"}, "input": {"path": "a"}}),
        (READ, {"result": {"path": "a"}}),
    ],
)
def test_what_may_be_no_envelope_stays(schema: dict[str, Any], sent: dict[str, Any]) -> None:
    assert read_as(schema, sent) == ValueReading(sent)


def test_a_result_may_come_in_its_own_envelopes() -> None:
    schema = of({"items": TEXTS}, "items", additionalProperties=False)
    for wrapper in ("result", "output", "report", "submit_result"):
        found = read_as(schema, {wrapper: {"items": '["a"]'}}, "submit_result", is_result=True)
        assert found.value == {"items": ["a"]} and f"`{wrapper}`" in found.notes[0]


def test_json_is_found_alone_or_in_a_fence_and_nowhere_else() -> None:
    assert json_in('```json\n{"a": 1}\n```') == {"a": 1}
    assert json_in(" [1] ") == [1]
    for text in ("Here: [1]", "[1] and more", '"a"', "1", "", "null", "[" * 100_000):
        assert json_in(text) is None


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["a", "1", "[1]", "true", '{"a": 1}']),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])


@st.composite
def schemas(draw: st.DrawFn, levels: int = 3) -> dict[str, Any]:
    kinds = draw(st.lists(TYPES, min_size=1, max_size=2, unique=True))
    schema: dict[str, Any] = {"type": kinds}
    if levels and "object" in kinds:
        schema["properties"] = {name: draw(schemas(levels - 1)) for name in draw(st.sets(st.sampled_from("abc")))}
    if levels and "array" in kinds:
        schema["items"] = draw(schemas(levels - 1))
    return schema


@given(schemas(), st.dictionaries(st.sampled_from("abc"), PLAIN, max_size=3))
def test_what_fits_stays_and_what_was_read_is_not_read_again(schema: dict[str, Any], value: dict[str, Any]) -> None:
    from jsonschema import Draft202012Validator

    schema = {**schema, "type": "object"}
    found = read_as(schema, value)
    if Draft202012Validator(schema).is_valid(value):
        assert found == ValueReading(value)
    assert read_as(schema, found.value) == ValueReading(found.value)


def test_a_hostile_schema_or_value_ends_soon() -> None:
    loop: dict[str, Any] = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}] * 50}}}
    wide = {f"k{n}": "[1]" for n in range(50_000)}
    assert read_as({**loop, "properties": {"x": {"$ref": "#/$defs/a"}}}, {"x": "[1]"}).value == {"x": "[1]"}
    assert len(read_as(of({"k_1": TEXTS}, additionalProperties=False), wide).value) == len(wide)
    assert len(read_as(of({"x": TEXTS}), {"x": ["1"] * 200_000}).value["x"]) == 200_000
    deep: Any = "1"
    for _ in range(5_000):
        deep = {"a": deep}
    nested = {"type": "object", "properties": {"a": {"$ref": "#"}}}
    assert read_as(nested, deep).value is not None
