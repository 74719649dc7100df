"""Unset properties: those that a schema names are null wherever a rule may look for them."""

from typing import Any

import pytest

from mcc.rules.schema import checked_schema

ITEM = {"type": "object", "properties": {"a": {}, "b": {"properties": {"c": {}}}}}


@pytest.mark.parametrize(
    ("schema", "value", "filled"),
    [
        (ITEM, {}, {"a": None, "b": None}),
        (ITEM, {"b": {}, "x": {}}, {"a": None, "b": {"c": None}, "x": {}}),
        (ITEM, {"a": False, "b": 3}, {"a": False, "b": 3}),
        (ITEM, [1], [1]),
        (ITEM, None, None),
        (True, {"a": {}}, {"a": {}}),
        ({"items": ITEM}, [{}, 1, {"b": {"c": 0}}], [{"a": None, "b": None}, 1, {"a": None, "b": {"c": 0}}]),
        ({"prefixItems": [True, ITEM], "items": False}, [{}, {}, {}], [{}, {"a": None, "b": None}, {}]),
        ({"contains": ITEM}, [{}], [{"a": None, "b": None}]),
        (
            {"additionalProperties": ITEM, "properties": {"k": True}},
            {"k": {}, "z": {}},
            {"k": {}, "z": {"a": None, "b": None}},
        ),
        ({"patternProperties": {"^z": ITEM}}, {"k": {}, "z": {}}, {"k": {}, "z": {"a": None, "b": None}}),
        ({"anyOf": [ITEM, {"properties": {"d": {}}}]}, {"a": 1}, {"a": 1, "b": None, "d": None}),
        ({"allOf": [{"$ref": "#/$defs/i"}], "$defs": {"i": ITEM}}, {}, {"a": None, "b": None}),
        ({"if": {"properties": {"t": {}}}, "then": ITEM}, {}, {"t": None, "a": None, "b": None}),
        ({"dependentSchemas": {"k": ITEM}}, {}, {"a": None, "b": None}),
        (
            {"properties": {"next": {"$ref": "#"}, "v": {}}},
            {"next": {"next": {"v": 1}}},
            {"v": None, "next": {"v": None, "next": {"v": 1, "next": None}}},
        ),
    ],
)
def test_named_properties_are_there(schema: Any, value: Any, filled: Any) -> None:
    assert checked_schema(schema).with_unset(value) == filled


def test_the_value_itself_is_left_alone() -> None:
    value: dict[str, Any] = {"b": {}}
    checked_schema(ITEM).with_unset(value)
    assert value == {"b": {}}


def test_what_is_too_large_to_fill_in_comes_back_without_harm() -> None:
    huge: list[object] = [{"b": {}}] * 30_000
    assert checked_schema({"items": ITEM}).with_unset(huge) is huge
    parts: dict[str, object] = {f"p{number}": {} for number in range(400)}
    filled = checked_schema({"items": {"properties": parts}}).with_unset([{}] * 2_000)
    assert len(filled[0]) == 400 and filled[1_999] == {}
