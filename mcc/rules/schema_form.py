"""Checks that a JSON Schema is valid, bounded and free of outside references.

The library `jsonschema` checks each part against draft 2020-12, one part at a time, and never resolves a reference.
"""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcc.contracts.similar import closest_name
from mcc.rules.errors import Fault, SchemaError
from mcc.rules.functions import searcher
from mcc.rules.kinds import JsonCopy

Schema = dict[str, Any] | bool

MAX_CHARACTERS = 200_000
"""Text in a schema."""
MAX_VALUES = 20_000
"""Texts, numbers, lists and objects in a schema, including those in `enum` and `default`."""
MAX_PARTS = 500
"""Schemas within a schema."""
MAX_LEVELS = 30

IN_OBJECTS = ("$defs", "definitions", "properties", "patternProperties", "dependentSchemas")
IN_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
ALONE = ("additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then")
"""Keywords whose value is an object of schemas, a list of schemas, and one schema."""

_SAME_VALUE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
_INSTEAD = {
    "$anchor": "name the part in $defs and write {$ref: '#/$defs/name'}",
    "$dynamicAnchor": "name the part in $defs and write {$ref: '#/$defs/name'}",
    "$dynamicRef": "write {$ref: '#/$defs/name'}",
    "$recursiveAnchor": "name the part in $defs and write {$ref: '#/$defs/name'}",
    "$recursiveRef": "write {$ref: '#'}",
    "additionalItems": "write prefixItems and items",
    "dependencies": "write dependentRequired or dependentSchemas",
    "unevaluatedItems": "write prefixItems and items: false",
    "unevaluatedProperties": "write additionalProperties: false",
}
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")


@dataclass(frozen=True, slots=True)
class Form:
    """A checked schema: its plain JSON, and the schema that each `$ref` in it points to."""

    root: Schema
    targets: Mapping[str, Schema] = field(default_factory=dict)


def checked_form(schema: object) -> Form:
    """Raises `SchemaError` for a schema that is not valid, refers to another document, or is too large."""
    try:
        root = JsonCopy(MAX_VALUES, MAX_CHARACTERS, finite=True).of(schema)
    except (Fault, RecursionError) as fault:
        raise SchemaError(f"this schema is too large, too deep or not JSON: {fault}") from fault
    if isinstance(root, dict):
        for key in ("$id", "$schema"):
            root.pop(key, None)
    parts = list(_parts(root))
    for place, part in parts:
        _check(part, place)
    targets = {}
    for place, part in parts:
        if isinstance(part, dict) and "$ref" in part:
            targets[part["$ref"]] = _target(root, part["$ref"], place)
    known = {id(part) for _, part in parts}
    for place, part in parts:
        ref = part.get("$ref") if isinstance(part, dict) else None
        if ref is not None and isinstance(targets[ref], dict) and id(targets[ref]) not in known:
            raise SchemaError(f"{ref!r} does not lead to a schema; put it under $defs", f"{place}$ref")
    _refuse_loops(parts, targets)
    return Form(root, targets)


def _parts(root: Schema) -> Iterator[tuple[str, Schema]]:
    """Every schema in `root`, itself included, with its path, which ends with a dot unless it is empty."""
    waiting: list[tuple[str, Any, int]] = [("", root, 0)]
    count = 0
    while waiting:
        place, part, level = waiting.pop()
        count += 1
        if count > MAX_PARTS:
            raise SchemaError(f"there are more than {MAX_PARTS} schemas in this schema; make it smaller")
        if level > MAX_LEVELS:
            raise SchemaError(f"this is nested deeper than {MAX_LEVELS} levels", place.rstrip("."))
        yield place, part
        if isinstance(part, dict):
            waiting.extend((f"{place}{at}.", below, level + 1) for at, below in _subschemas(part))


def _subschemas(part: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The direct subschemas of `part`, not yet checked, with their relative paths."""
    for key in IN_OBJECTS:
        if isinstance(part.get(key), dict):
            yield from ((f"{key}.{name}", below) for name, below in part[key].items())
    for key in IN_LISTS:
        if isinstance(part.get(key), list):
            yield from ((f"{key}[{index}]", below) for index, below in enumerate(part[key]))
    yield from ((key, part[key]) for key in ALONE if key in part)


def _check(part: Any, place: str) -> None:
    if isinstance(part, bool):
        return
    if not isinstance(part, dict):
        raise SchemaError("a schema must be an object, true or false", place.rstrip("."))
    for key, instead in _INSTEAD.items():
        if key in part:
            raise SchemaError(f"{key} is not available here; {instead}", f"{place}{key}")
    if "$id" in part:
        raise SchemaError("only the whole schema may have an $id; leave it out", f"{place}$id")
    _check_against_metaschema(part, place)
    _check_patterns(part, place)


def _check_against_metaschema(part: Mapping[str, Any], place: str) -> None:
    """Check one schema without its subschemas, which are replaced by `true` and checked by themselves."""
    flat = dict(part)
    for key in IN_OBJECTS:
        if isinstance(flat.get(key), dict):
            flat[key] = dict.fromkeys(flat[key], True)
    for key in IN_LISTS:
        if isinstance(flat.get(key), list):
            flat[key] = [True] * len(flat[key])
    flat.update((key, True) for key in ALONE if key in flat)
    for key in ("default", "const", "examples"):
        flat.pop(key, None)
    if isinstance(flat.get("enum"), list):
        flat["enum"] = []
    error = next(_metaschema().iter_errors(flat), None)
    if error is not None:
        at = ".".join(str(step) for step in error.absolute_path)
        raise SchemaError(_sentence(error), f"{place}{at}".rstrip("."))


@functools.cache
def _metaschema() -> Any:
    # Imported here because it takes 0.15 s, and most processes never check a schema.
    from jsonschema import Draft202012Validator
    from jsonschema_specifications import REGISTRY

    # Only the schemas that the library ships, because its default registry would fetch unknown ones from the network.
    return Draft202012Validator(Draft202012Validator.META_SCHEMA, registry=REGISTRY)


def _sentence(error: Any) -> str:
    if error.absolute_path and error.absolute_path[0] == "type":
        instances = error.instance if isinstance(error.instance, list) else [error.instance]
        unknown = next((str(instance) for instance in instances if instance not in _TYPES), "this list")
        near = closest_name(unknown, _TYPES)
        hint = f"did you mean {near!r}?" if near else f"there is: {', '.join(_TYPES)}"
        return f"{unknown[:60]!r} is not a type; {hint}"
    message = str(error.message)
    return message if len(message) <= 200 else message[:199] + "…"


def _check_patterns(part: Mapping[str, Any], place: str) -> None:
    patterns = [("pattern", part["pattern"])] if "pattern" in part else []
    patterns += [(f"patternProperties.{pattern}", pattern) for pattern in part.get("patternProperties", {})]
    for at, pattern in patterns:
        try:
            searcher(pattern)
        except Fault as fault:
            raise SchemaError(f"this {fault}", f"{place}{at}") from fault


def _target(root: Schema, ref: str, place: str) -> Schema:
    """The schema that `ref` points to within `root`; a reference to another document raises `SchemaError`."""
    if ref != "#" and not ref.startswith("#/"):
        raise SchemaError(
            f"{ref[:100]!r} leads out of this schema, and nothing is fetched; "
            "copy that schema under $defs and write {$ref: '#/$defs/name'} (only `report` is shipped)",
            f"{place}$ref",
        )
    target: Any = root
    for step in ref.split("/")[1:]:
        key = step.replace("%25", "%").replace("~1", "/").replace("~0", "~")
        if isinstance(target, list) and key.isdecimal() and int(key[:9]) < len(target):
            target = target[int(key[:9])]
        elif isinstance(target, dict) and key in target:
            target = target[key]
        else:
            raise SchemaError(f"{ref[:100]!r} leads nowhere: there is no {key[:60]!r}", f"{place}$ref")
    if not isinstance(target, dict | bool):
        raise SchemaError(f"{ref[:100]!r} does not lead to a schema; put it under $defs", f"{place}$ref")
    return target


def _refuse_loops(parts: list[tuple[str, Schema]], targets: Mapping[str, Schema]) -> None:
    """Refuse schemas that apply themselves to the same value, which would never end. Recursion through properties or
    items is allowed."""
    places = {id(part): place for place, part in parts}
    done: set[int] = set()
    for _, start in parts:
        _follow(start, targets, places, done, {})


def _follow(
    part: Schema, targets: Mapping[str, Schema], places: Mapping[int, str], done: set[int], path: dict[int, None]
) -> None:
    if not isinstance(part, dict) or id(part) in done:
        return
    if id(part) in path:
        place = places.get(id(part), "").rstrip(".")
        raise SchemaError("this $ref leads back to itself for the same value and would never end", place or "$ref")
    if len(path) >= MAX_LEVELS:
        raise SchemaError(f"more than {MAX_LEVELS} schemas lead from one to the next here; write them as one", "$ref")
    path[id(part)] = None
    for below in same_value_schemas(part, targets):
        _follow(below, targets, places, done, path)
    del path[id(part)]
    done.add(id(part))


def same_value_schemas(part: Mapping[str, Any], targets: Mapping[str, Schema]) -> Iterator[Schema]:
    """The schemas that `part` applies to the same value as itself."""
    if "$ref" in part:
        yield targets[part["$ref"]]
    for key in _SAME_VALUE:
        below = part.get(key)
        if key == "dependentSchemas" and isinstance(below, dict):
            yield from below.values()
        elif isinstance(below, list):
            yield from below
        elif isinstance(below, dict | bool):
            yield below
