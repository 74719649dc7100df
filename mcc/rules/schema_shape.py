"""What a JSON Schema says of values before there is one; where it leaves something open, that is open here."""

from collections.abc import Iterable, Mapping
from typing import Any

from mcc.rules.kinds import JSON, Kinds, Null
from mcc.rules.schema_form import Form, Schema
from mcc.rules.shape import Shape

_KINDS: Mapping[str, Kinds] = {
    "array": frozenset({list}),
    "boolean": frozenset({bool}),
    "integer": frozenset({int, float}),
    "null": frozenset({Null}),
    "number": frozenset({int, float}),
    "object": frozenset({dict}),
    "string": frozenset({str}),
}
_NUMBER: Kinds = frozenset({int, float})
_SAYING_NOTHING = frozenset({"title", "description", "default", "examples", "$comment", "$defs", "definitions"})
_ELSEWHERE = ("$ref", "allOf", "anyOf", "oneOf", "if", "then", "else", "not", "dependentSchemas", "patternProperties")
"""Keywords by which more may be said of an object's keys than its `properties` say."""


def schema_shape(form: Form) -> Shape:
    """The shape of what fits the schema, with null for each property that was not set."""
    return _Reading(form).shape((form.root,))


class _Reading:
    """Reads shapes off one schema; a place is the set of the parts that may describe it, each looked at once."""

    def __init__(self, form: Form) -> None:
        self._targets = form.targets

    def shape(self, schemas: Iterable[Schema], *, unset: bool = False) -> Shape:
        """Of a value that fits one of `schemas`; `unset`: or is null."""
        leaves = self._leaves(schemas)
        kinds: Kinds = frozenset({Null}) if unset else frozenset()
        for leaf in leaves:
            kinds |= _kinds(leaf)
        objects = [leaf for leaf in leaves if dict in _kinds(leaf)]
        lists = [leaf for leaf in leaves if list in _kinds(leaf)]
        return Shape(
            kinds,
            _texts([leaf for leaf in leaves if str in _kinds(leaf)]),
            names=_names(objects),
            key=lambda name: self._key(name, objects),
            item=lambda: self.shape([leaf.get("items", True) if "prefixItems" not in leaf else True for leaf in lists]),
        )

    def _leaves(self, schemas: Iterable[Schema]) -> list[Mapping[str, Any]]:
        """The parts that remain when references and alternatives are followed."""
        waiting, seen, leaves = list(schemas), set[int](), list[Mapping[str, Any]]()
        while waiting:
            schema = waiting.pop()
            if not isinstance(schema, dict):
                leaves.append({})
            elif id(schema) not in seen:
                seen.add(id(schema))
                further = self._further(schema)
                waiting.extend(further)
                if not further:
                    leaves.append(schema)
        return leaves

    def _further(self, schema: Mapping[str, Any]) -> list[Schema]:
        said = schema.keys() - _SAYING_NOTHING
        if said == {"$ref"}:
            return [self._targets[schema["$ref"]]]
        if len(said) == 1 and said <= {"anyOf", "oneOf"}:
            return list(schema[next(iter(said))])
        return []

    def _key(self, name: str, objects: list[Mapping[str, Any]]) -> Shape:
        described = [_of_key(name, leaf) for leaf in objects]
        found = [schema for schema in described if schema is not None]
        required = len(found) == len(objects) and all(name in leaf.get("required", ()) for leaf in objects)
        return self.shape(found or (True,), unset=not required)


def _of_key(name: str, leaf: Mapping[str, Any]) -> Schema | None:
    """What is said of the key; None where an object has no such key."""
    if name in leaf.get("properties", ()):
        described: Schema = leaf["properties"][name]
        return described
    if _closed(leaf):
        return None
    more = leaf.get("additionalProperties", True)
    return True if any(word in leaf for word in _ELSEWHERE) else more


def _closed(leaf: Mapping[str, Any]) -> bool:
    """Whether no key is to be expected but those of `properties`: others are absent more often than not."""
    if any(word in leaf for word in _ELSEWHERE):
        return False
    return leaf.get("additionalProperties") is False or (
        bool(leaf.get("properties")) and "additionalProperties" not in leaf
    )


def _names(objects: list[Mapping[str, Any]]) -> frozenset[str] | None:
    if not objects or not all(_closed(leaf) for leaf in objects):
        return None
    return frozenset(name for leaf in objects for name in leaf.get("properties", ()))


def _kinds(leaf: Mapping[str, Any]) -> Kinds:
    types = leaf.get("type")
    named = [types] if isinstance(types, str) else types
    kinds = JSON if named is None else frozenset(kind for one in named for kind in _KINDS[one])
    return kinds if (values := _values(leaf)) is None else kinds & _kinds_of(values)


def _kinds_of(values: Iterable[object]) -> Kinds:
    kinds: Kinds = frozenset(type(value) for value in values)
    return kinds | _NUMBER if kinds & _NUMBER else kinds


def _values(leaf: Mapping[str, Any]) -> list[Any] | None:
    """The only values, where they are listed."""
    return [leaf["const"]] if "const" in leaf else leaf.get("enum")


def _texts(leaves: list[Mapping[str, Any]]) -> frozenset[str] | None:
    listed = [_values(leaf) for leaf in leaves]
    if not listed or any(values is None for values in listed):
        return None
    return frozenset(value for values in listed for value in values or () if isinstance(value, str))
