"""JSON Schema of a result: checked once, held against values, and filled in with null where a property was not set."""

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mcc.rules.errors import Exhausted, Fault, Frame, SchemaError
from mcc.rules.functions import searcher
from mcc.rules.kinds import JSON, Kinds, Null, Plain, Shape
from mcc.rules.schema_form import Form, Schema, formed, same_value
from mcc.rules.surplus import Surplus
from mcc.rules.validation import violations

MAX_CHARACTERS = 1_000_000
"""Text in a result."""
MAX_VALUES = 50_000
"""Texts, numbers, lists and objects in a result."""

WRAPPED = "result"
"""The argument that carries a result which is not an object."""


class ResultSchema:
    """A JSON Schema (draft 2020-12) that was checked. Shared by threads; keeps nothing of any value."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._wraps = not _is_of_objects(form)

    @property
    def schema(self) -> Schema:
        """The schema itself, as plain JSON; not to be changed."""
        return self._form.root

    @functools.cached_property
    def shape(self) -> Shape:
        """What is known of a value that fits, once `with_unset` has filled it in."""
        return schema_shape(self._form)

    @property
    def tool_parameters(self) -> Mapping[str, Any]:
        """The schema as parameters of a tool: itself when it describes an object, else wrapped as `{"result": …}`."""
        root = self._form.root
        if not self._wraps and isinstance(root, dict):
            return root
        wrapping = {"type": "object", "required": [WRAPPED], "additionalProperties": False}
        if not self._form.targets:
            return {**wrapping, "properties": {WRAPPED: root}}
        moved = {"$defs": {WRAPPED: _moved(root)}, "properties": {WRAPPED: {"$ref": f"#/$defs/{WRAPPED}"}}}
        return {**wrapping, **moved}

    def handed_in(self, arguments: Mapping[str, Any]) -> Any:
        """The value in the arguments of a call made with `tool_parameters`: the way back from the wrapping.

        Null when the argument `result` is missing.
        """
        return arguments.get(WRAPPED) if self._wraps else dict(arguments)

    def fitted(self, value: object) -> tuple[Any, tuple[str, ...]]:
        """`value` without properties that the schema forbids, and a sentence for each; as it is where that is too much.

        Blocks as `errors` does.
        """
        surplus = Surplus(self._form)
        try:
            kept = surplus.without(Plain(MAX_VALUES, MAX_CHARACTERS, finite=True).of(value))
        except (Fault, Exhausted, RecursionError):
            return value, ()
        return (kept, tuple(surplus.dropped)) if surplus.dropped else (value, ())

    def errors(self, value: object) -> tuple[str, ...]:
        """At most ten sentences such as `findings[2].path: is required`; empty when `value` fits. Never raises.

        Blocks for up to about 0.3 s on the worst value: call it in a worker thread when the value is large.
        """
        try:
            plain = Plain(MAX_VALUES, MAX_CHARACTERS, finite=True).of(value)
        except Fault as fault:
            return (f"The result cannot be taken: {fault}; hand in less.",)
        except RecursionError:
            return ("The result cannot be taken: it is nested too deeply; hand in less.",)
        return violations(self._form, plain)

    def with_unset(self, value: Any) -> Any:
        """A copy of `value` in which each property that the schema names is present, null where it was not set.

        Call it with what has no `errors`; what is too large or no JSON comes back as it is.
        """
        try:
            return _with_unset(self._form, Plain(MAX_VALUES, MAX_CHARACTERS).of(value))
        except (Fault, RecursionError):
            return value


def checked_schema(schema: object) -> ResultSchema:
    """`schema` (JSON Schema as JSON: a mapping, or true/false) ready for use. Raises `SchemaError`.

    Nothing is ever fetched: a `$ref` leads to a place in the same schema. Kept for reuse.
    """
    try:
        text = json.dumps(schema, default=dict)
    except (TypeError, ValueError, RecursionError) as error:
        raise SchemaError("this schema is not JSON, or nested too deeply") from error
    return _kept(text)


@functools.lru_cache(maxsize=128)
def _kept(text: str) -> ResultSchema:
    return ResultSchema(formed(json.loads(text)))


def _is_of_objects(form: Form) -> bool:
    """Whether every value that fits is an object: then it can be the arguments of a call as it is."""
    root = form.root
    if not isinstance(root, dict):
        return False
    return root.get("type") == "object" or (
        "type" not in root and "properties" in root and not any(key in root for key in ("enum", "const"))
    )


def _moved(schema: Any) -> Any:
    """`schema` with each `$ref` leading to where it stands once it is wrapped."""
    if isinstance(schema, list):
        return [_moved(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: f"#/$defs/{WRAPPED}{item[1:]}" if key == "$ref" and isinstance(item, str) else _moved(item)
        for key, item in schema.items()
    }


MAX_STEPS = 60_000
"""Steps of filling in one value; one is up to five microseconds."""

Parts = tuple[Mapping[str, Any], ...]


def _with_unset(form: Form, value: Any) -> Any:
    """A copy of `value` (plain JSON of a bounded size) for rules that ask `f.path == null`; what was there stays.

    Where the work would be too much, the rest of the value stays as it is.
    """
    filling = _Filling(form)
    return filling.filled(value, filling.alike((form.root,)))


class _Filling:
    """One walk through a value, with all the schemas that may speak about each place, whichever of them fits."""

    def __init__(self, form: Form) -> None:
        self._targets = form.targets
        self._frame = Frame([], MAX_STEPS)
        self._spent = False
        self._alike: dict[tuple[int, ...], Parts] = {}

    def alike(self, schemas: tuple[Schema, ...]) -> Parts:
        """`schemas` and all that they hold against the same value, each once."""
        key = tuple(id(schema) for schema in schemas)
        self._pay(1 + len(key))
        if key not in self._alike:
            self._alike[key] = self._gathered(schemas)
        return self._alike[key]

    def _gathered(self, schemas: tuple[Schema, ...]) -> Parts:
        found: dict[int, Mapping[str, Any]] = {}
        waiting = list(reversed(schemas))
        while waiting:
            part = waiting.pop()
            if isinstance(part, dict) and id(part) not in found:
                found[id(part)] = part
                waiting.extend(reversed(list(same_value(part, self._targets))))
        self._pay(2 * len(found))
        return tuple(found.values())

    def filled(self, value: Any, parts: Parts) -> Any:
        if not parts or self._spent:
            return value
        if isinstance(value, dict):
            return self._object(value, parts)
        if isinstance(value, list):
            return [self.filled(item, self.alike(_of_index(index, parts))) for index, item in enumerate(value)]
        return value

    def _object(self, value: Mapping[str, Any], parts: Parts) -> dict[str, Any]:
        named = [key for part in parts for key in part.get("properties", ())]
        self._pay(len(parts) + (len(named) >> 3))
        kept = {key: self.filled(item, self.alike(self._of_key(key, parts))) for key, item in value.items()}
        return {**kept, **{key: None for key in named if key not in kept}}

    def _of_key(self, key: str, parts: Parts) -> tuple[Schema, ...]:
        patterns = sum(len(part.get("patternProperties", ())) for part in parts)
        self._pay(len(parts) + patterns * (1 + (len(key) >> 3)))
        return () if self._spent else tuple(schema for part in parts for schema in _speaking_of(key, part))

    def _pay(self, steps: int) -> None:
        try:
            self._frame.spend(steps)
        except Exhausted:
            self._spent = True


def _speaking_of(key: str, part: Mapping[str, Any]) -> Iterator[Schema]:
    known = key in part.get("properties", ())
    if known:
        yield part["properties"][key]
    for pattern, schema in part.get("patternProperties", {}).items():
        if searcher(pattern).search(key.encode("utf-8", "replace")) is not None:
            known = True
            yield schema
    if not known and "additionalProperties" in part:
        yield part["additionalProperties"]


def _of_index(index: int, parts: Parts) -> tuple[Schema, ...]:
    found: list[Schema] = []
    for part in parts:
        prefix = part.get("prefixItems", ())
        if index < len(prefix):
            found.append(prefix[index])
        elif "items" in part:
            found.append(part["items"])
        if "contains" in part:
            found.append(part["contains"])
    return tuple(found)


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
        keywords = schema.keys() - _SAYING_NOTHING
        if keywords == {"$ref"}:
            return [self._targets[schema["$ref"]]]
        if len(keywords) == 1 and keywords <= {"anyOf", "oneOf"}:
            return list(schema[next(iter(keywords))])
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
