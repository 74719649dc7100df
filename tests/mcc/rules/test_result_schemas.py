"""Schemas of results: which are refused, the errors of values, and bounds of time and memory for both."""

from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcc.rules.errors import SchemaError
from mcc.rules.schema import checked_schema

LOOP = {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}}
CHAIN = {"$ref": "#/$defs/0", "$defs": {str(n): {"$ref": f"#/$defs/{n + 1}"} for n in range(60)} | {"60": {}}}


def nested(levels: int, leaf: Any, key: str) -> Any:
    made = leaf
    for _ in range(levels):
        made = {key: made}
    return made


@pytest.mark.parametrize(
    ("schema", "place", "said"),
    [
        ([1], "", "must be an object, true or false"),
        ("report", "", "must be an object, true or false"),
        (None, "", "must be an object, true or false"),
        ({"type": "objec"}, "type", "did you mean 'object'?"),
        ({"properties": {"a": {"type": ["string", "nul"]}}}, "properties.a.type", "'nul' is not a type"),
        ({"properties": {"a": {"items": 3}}}, "properties.a.items", "must be an object, true or false"),
        ({"anyOf": [{}, {"minLength": -1}]}, "anyOf[1].minLength", "less than the minimum"),
        ({"required": "a"}, "required", "not of type 'array'"),
        ({"properties": []}, "properties", "not of type 'object'"),
        ({"multipleOf": 0}, "multipleOf", "0"),
        ({"items": [{}]}, "items", "must be an object, true or false"),
        ({"dependencies": {}}, "dependencies", "dependentRequired"),
        ({"additionalItems": False}, "additionalItems", "prefixItems"),
        ({"unevaluatedProperties": False}, "unevaluatedProperties", "additionalProperties: false"),
        ({"items": {"$id": "x"}}, "items.$id", "only the whole schema"),
        ({"$dynamicRef": "#a"}, "$dynamicRef", "not available here"),
        ({"pattern": "(?=x)"}, "pattern", "RE2 syntax"),
        ({"pattern": "a.{900}"}, "pattern", "too large"),
        ({"patternProperties": {"(": {}}}, "patternProperties.(", "RE2 syntax"),
        ({"$ref": "http://example.com/schema.json"}, "$ref", "nothing is fetched"),
        ({"items": {"$ref": "file:///etc/passwd"}}, "items.$ref", "nothing is fetched"),
        ({"$ref": "other.json#/a"}, "$ref", "nothing is fetched"),
        ({"$ref": "#/$defs/b", "$defs": {"a": {}}}, "$ref", "there is no 'b'"),
        ({"$ref": "#/required/0", "required": ["a"]}, "$ref", "does not lead to a schema"),
        ({"$ref": "#/properties", "properties": {"a": {}}}, "$ref", "does not lead to a schema"),
        ({"$ref": "#"}, "$ref", "never end"),
        (LOOP, "$defs.a", "never end"),
        (CHAIN, "$ref", "lead from one to the next"),
        ({"properties": {str(n): {} for n in range(501)}}, "", "more than 500 schemas"),
        (nested(31, {}, "items"), ".".join(["items"] * 31), "deeper than 30 levels"),
        (nested(5_000, {}, "items"), "", "nested too deeply"),
        ({"enum": list(range(20_001))}, "", "more than 20,000 values"),
        ({"description": "x" * 200_001}, "", "more than 200,000 characters"),
        ({"minimum": float("nan")}, "", "JSON does not have"),
        ({"default": {1, 2}}, "", "not JSON"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_with_its_place(schema: Any, place: str, said: str) -> None:
    with pytest.raises(SchemaError) as caught:
        checked_schema(schema)
    assert caught.value.place == place
    assert said in caught.value.sentence


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"$id": "https://example.com/x", "$schema": "http://json-schema.org/draft-07/schema#", "type": "string"},
        {"type": "object", "properties": {"next": {"$ref": "#"}}},
        {"$ref": "#/definitions/a~1b", "definitions": {"a/b": {"type": "string", "x-own": [1]}}},
        {"enum": [{"$ref": "http://example.com"}], "default": {"type": "objec"}},
    ],
)
def test_a_schema_closed_in_itself_is_taken(schema: Any) -> None:
    assert checked_schema(schema) is checked_schema(schema)


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
        "age": {"type": "integer", "minimum": 0, "exclusiveMaximum": 150, "multipleOf": 5},
        "kind": {"enum": ["a", None, 3, [1]]},
        "fixed": {"const": {"x": 1}},
        "pets": {"items": {"$ref": "#/$defs/pet"}, "minItems": 1, "maxItems": 2, "uniqueItems": True},
        "pair": {"prefixItems": [{"type": "string"}, {"type": "boolean"}], "items": False},
        "either": {"oneOf": [{"type": "string"}, {"required": ["a"], "type": "object"}]},
        "same": {"oneOf": [True, {"type": "null"}]},
        "not": {"not": {"type": "null"}},
        "some": {"contains": {"type": "integer"}, "minContains": 2, "maxContains": 3},
        "few": {"minProperties": 1, "maxProperties": 2, "propertyNames": {"maxLength": 2}},
        "when": {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}},
        "more": {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}}},
        "free": {"patternProperties": {"^x": {"type": "string"}}, "additionalProperties": {"type": "number"}},
        "never": False,
    },
    "required": ["name"],
    "additionalProperties": False,
    "$defs": {"pet": {"anyOf": [{"type": "string"}, {"type": "object", "properties": {"is": {"type": "string"}}}]}},
}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"name": "anna", "age": 30.0, "kind": None, "fixed": {"x": 1.0}, "pets": ["a", {"is": "cat"}]}, ()),
        ({"name": "anna", "pair": ["a", True], "either": "x", "not": 1, "some": [1, 2, "x"], "few": {"ab": 1}}, ()),
        ({"name": "anna", "free": {"xa": "s", "y": 1}, "when": {"a": 1, "b": 2}, "more": {"a": 1, "b": 2}}, ()),
        ([], ("must be an object, and is a list",)),
        ({}, ("name: is required",)),
        ({"name": "a"}, ("name: must have at least 2 characters, and has 1",)),
        ({"name": "abcdef"}, ("name: must have at most 5 characters, and has 6",)),
        ({"name": "ANNA"}, ('name: must match the pattern ^[a-z]+$, and is "ANNA"',)),
        ({"name": 3}, ("name: must be a text, and is a number",)),
        ({"name": "anna", "age": True}, ("age: must be a whole number, and is a truth value",)),
        ({"name": "anna", "age": -5}, ("age: must be at least 0, and is -5",)),
        ({"name": "anna", "age": 150}, ("age: must be less than 150, and is 150",)),
        ({"name": "anna", "age": 7}, ("age: must be a multiple of 5, and is 7",)),
        ({"name": "anna", "kind": "b"}, ('kind: must be one of "a", null, 3, a list, and is "b"',)),
        ({"name": "anna", "fixed": {"x": True}}, ("fixed: must be an object, and is an object",)),
        ({"name": "anna", "pets": []}, ("pets: must have at least 1 items, and has 0",)),
        ({"name": "anna", "pets": ["a", "a"]}, ("pets[1]: is the same as [0]; each may stand there once",)),
        ({"name": "anna", "pets": [{"is": 1}]}, ("pets[0].is: must be a text, and is a number",)),
        (
            {"name": "anna", "pets": [1]},
            (
                "pets[0]: fits none of the alternatives: it must be a text, and is a number; "
                "or it must be an object, and is a number",
            ),
        ),
        ({"name": "anna", "pair": ["a", 1]}, ("pair[1]: must be true or false, and is a number",)),
        ({"name": "anna", "pair": ["a", True, 1]}, ("pair[2]: nothing may stand here; leave it out",)),
        ({"name": "anna", "either": {}}, ("either.a: is required",)),
        ({"name": "anna", "same": None}, ("same: fits the alternatives 1 and 2, and must fit exactly one",)),
        ({"name": "anna", "not": None}, ("not: is what the schema excludes",)),
        ({"name": "anna", "some": [1]}, ("some: must contain 2 or more of the described items, and has 1",)),
        ({"name": "anna", "some": [1] * 4}, ("some: must contain 3 or fewer of the described items, and has 4",)),
        ({"name": "anna", "few": {}}, ("few: must have at least 1 properties, and has 0",)),
        (
            {"name": "anna", "few": {"abc": 1}},
            ("few.abc: cannot be the name of a property here: it must have at most 2 characters, and has 3",),
        ),
        ({"name": "anna", "when": {"a": 1}}, ("when.b: is required",)),
        ({"name": "anna", "when": {}}, ("when.c: is required",)),
        (
            {"name": "anna", "more": {"a": 1, "c": 1}},
            ("more.b: is required where a is given", "more.d: is required"),
        ),
        (
            {"name": "anna", "free": {"xa": 1, "y": "s"}},
            ("free.xa: must be a text, and is a number", "free.y: must be a number, and is a text"),
        ),
        ({"name": "anna", "never": 1}, ("never: nothing may stand here; leave it out",)),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(value: Any, said: tuple[str, ...]) -> None:
    assert checked_schema(PERSON).errors(value) == said


def test_a_property_that_is_unknown_is_told_with_those_that_are_known() -> None:
    schema = {"properties": {"title": {}, "path": {}}, "additionalProperties": False}
    assert checked_schema(schema).errors({"titel": 1}) == ("titel: is not a property here; there is: title, path",)


def test_at_most_ten_sentences_are_said() -> None:
    schema = checked_schema({"items": {"type": "string"}})
    assert len(schema.errors([1] * 50)) == 10
    assert schema.errors([1] * 50)[9] == "[9]: must be a text, and is a number"


BOMB = {
    "type": "object",
    "properties": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, "b": {"type": "string"}},
}


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        (True, nested(300, 1, "a"), "nested deeper than 100 levels"),
        (True, nested(100_000, 1, "a"), "deep"),
        (True, ["x" * 5_000_000], "more than 1,000,000 characters"),
        (True, [1] * 5_000_000, "more than 50,000 values"),
        (True, [float("nan")], "JSON does not have"),
        (True, float("-inf"), "JSON does not have"),
        (True, {1: 2}, "not a text"),
        (True, {"a": object()}, "not JSON"),
        (BOMB, nested(60, {"b": 1}, "a"), "too large or too deep to be checked"),
        ({"items": {"pattern": "[ab]*a[ab]{90}c$"}}, ["ab" * 4_000] * 9, "must match"),
        ({"items": {"pattern": "[ab]*a[ab]{90}c$|b$"}}, ["ab" * 40_000] * 9, "too large or too deep to be checked"),
        ({"items": {"enum": [[n] for n in range(900)]}}, [[-1]] * 900, "must be one of"),
        ({"items": {"not": {"enum": [[n] for n in range(900)]}}}, [[-1]] * 900, "too large or too deep"),
    ],
)
def test_no_value_takes_too_long_or_raises(schema: Any, value: Any, said: str) -> None:
    assert said in checked_schema(schema).errors(value)[0]


def test_huge_numbers_nul_and_lone_surrogates_are_values_like_others() -> None:
    schema = checked_schema({"items": {"type": ["integer", "string"], "maximum": 5, "multipleOf": 0.5, "maxLength": 3}})
    assert schema.errors(["a\x00\ud800", 10**400]) == (
        "[1]: must be at most 5, and is a number",
        "[1]: must be a multiple of 0.5, and is a number",
    )
    assert checked_schema({"pattern": "^a.b$"}).errors("a\ud800b") == ()


def test_a_schema_of_objects_is_the_parameters_of_a_tool_as_it_is() -> None:
    schema = checked_schema(PERSON)
    assert schema.tool_parameters == PERSON
    assert schema.handed_in({"name": "anna"}) == {"name": "anna"}


@pytest.mark.parametrize("inner", [True, {"type": "array", "items": {"type": "string"}}, {"enum": [1, 2]}, {}])
def test_any_other_schema_is_wrapped_as_parameters_and_unwrapped_again(inner: Any) -> None:
    schema = checked_schema(inner)
    assert schema.tool_parameters["properties"] == {"result": inner}
    assert schema.tool_parameters["required"] == ["result"]
    assert schema.handed_in({"result": ["a"]}) == ["a"]
    assert schema.handed_in({}) is None


def test_references_still_lead_to_the_same_parts_once_wrapped() -> None:
    tree = {
        "type": "array",
        "items": {"anyOf": [{"$ref": "#"}, {"$ref": "#/$defs/leaf"}]},
        "$defs": {"leaf": {"const": 1}},
    }
    wrapped = checked_schema(checked_schema(tree).tool_parameters)
    assert wrapped.errors({"result": [1, [1, [1]]]}) == ()
    assert wrapped.errors({"result": [1, [2]]}) != ()
    assert wrapped.errors({}) == ("result: is required",)


leaves = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, "", "a", "b", "ab", "é"])
json_values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
types = st.sampled_from(["array", "boolean", "integer", "null", "number", "object", "string"])


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    few, some = st.integers(0, 2), st.lists(inner, min_size=1, max_size=2)
    named = st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
    return st.lists(
        st.one_of(
            *(
                st.tuples(st.just(name), values)
                for name, values in {
                    "type": types | st.lists(types, min_size=1, max_size=2, unique=True),
                    "enum": st.lists(json_values, max_size=3),
                    "const": json_values,
                    "minimum": few,
                    "exclusiveMaximum": few,
                    "multipleOf": st.sampled_from([1, 2, 0.5]),
                    "minLength": few,
                    "maxLength": few,
                    "pattern": st.sampled_from(["a", "^b", "a|é$"]),
                    "minItems": few,
                    "maxItems": few,
                    "uniqueItems": st.booleans(),
                    "items": inner,
                    "prefixItems": some,
                    "contains": inner,
                    "minContains": few,
                    "properties": named,
                    "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
                    "additionalProperties": inner,
                    "patternProperties": st.dictionaries(st.sampled_from(["a", "^[bc]$"]), inner, max_size=2),
                    "propertyNames": inner,
                    "minProperties": few,
                    "dependentRequired": st.fixed_dictionaries({"a": st.just(["b"])}),
                    "dependentSchemas": named,
                    "allOf": some,
                    "anyOf": some,
                    "oneOf": some,
                    "not": inner,
                    "if": inner,
                    "then": inner,
                    "else": inner,
                }.items()
            )
        ),
        max_size=5,
    ).map(dict)


schemas = st.recursive(st.booleans() | keywords(st.booleans()), keywords, max_leaves=4)


@settings(max_examples=150, deadline=None)
@given(schemas, json_values)
def test_a_value_fits_here_exactly_when_it_does_by_the_library(schema: Any, value: Any) -> None:
    fits = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert (checked_schema(schema).errors(value) == ()) is fits


@settings(max_examples=100, deadline=None)
@given(schemas, json_values)
def test_filling_in_what_was_not_set_keeps_all_that_was(schema: Any, value: Any) -> None:
    filled = checked_schema(schema).with_unset(value)
    assert without(filled, value) == value


def without(filled: Any, value: Any) -> Any:
    """`filled` without the nulls that are not in `value`."""
    if isinstance(filled, dict):
        assert all(key in value or item is None for key, item in filled.items())
        return {key: without(item, value[key]) for key, item in filled.items() if key in value}
    if isinstance(filled, list):
        return [without(item, old) for item, old in zip(filled, value, strict=True)]
    return filled
