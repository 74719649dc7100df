"""The JSON Schema of a result: validation, repair of surplus properties, filling in nulls, and its CEL shape."""

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mcc.rules.errors import Fault, Frame, SchemaError, StepsExhausted
from mcc.rules.functions import searcher
from mcc.rules.kinds import JSON, JsonCopy, Kinds, Null, Shape
from mcc.rules.schema_form import Form, Schema, checked_form, same_value_schemas
from mcc.rules.surplus import Surplus
from mcc.rules.validation import violations

MAX_CHARACTERS = 1_000_000
"""Text in a result."""
MAX_VALUES = 50_000
"""Texts, numbers, lists and objects in a result."""

WRAPPED = "result"
"""The tool argument that carries a result which is not an object."""


class ResultSchema:
    """A checked JSON Schema (draft 2020-12). Safe to share between threads; holds no state of any value."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._wraps = not _accepts_only_objects(form)

    @property
    def schema(self) -> Schema:
        """The schema itself, as plain JSON. Do not modify it."""
        return self._form.root

    @functools.cached_property
    def shape(self) -> Shape:
        """The shape of a valid value after `with_unset`."""
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
        """The result in the arguments of a call made with `tool_parameters`, unwrapped.

        Null when the argument `result` is missing.
        """
        return arguments.get(WRAPPED) if self._wraps else dict(arguments)

    def fitted(self, value: object) -> tuple[Any, tuple[str, ...]]:
        """`value` with near misses repaired (`mcc.rules.surplus`), and a sentence for each repair.

        A value that is too large comes back unchanged. Blocks as long as `errors` does.
        """
        surplus = Surplus(self._form)
        try:
            repaired = surplus.repaired(JsonCopy(MAX_VALUES, MAX_CHARACTERS, finite=True).of(value))
        except (Fault, StepsExhausted, RecursionError):
            return value, ()
        return (repaired, tuple(surplus.messages)) if surplus.messages else (value, ())

    def errors(self, value: object) -> tuple[str, ...]:
        """At most ten sentences such as `findings[2].path: is required`; empty when `value` is valid. Never raises.

        Blocks for up to about 0.3 s on the worst value: call it in a worker thread when the value is large.
        """
        try:
            plain = JsonCopy(MAX_VALUES, MAX_CHARACTERS, finite=True).of(value)
        except Fault as fault:
            return (f"The result cannot be taken: {fault}; hand in less.",)
        except RecursionError:
            return ("The result cannot be taken: it is nested too deeply; hand in less.",)
        return violations(self._form, plain)

    def with_unset(self, value: Any) -> Any:
        """A copy of `value` with every property that the schema names; unset ones are null.

        Lets a rule ask `f.path == null`. Call it with a value that has no `errors`; one that is too large or not JSON
        comes back unchanged. If filling takes too many steps, the rest of the value stays as it is.
        """
        try:
            plain = JsonCopy(MAX_VALUES, MAX_CHARACTERS).of(value)
            filler = _NullFiller(self._form)
            return filler.filled(plain, filler.applicable((self._form.root,)))
        except (Fault, RecursionError):
            return value


def checked_schema(schema: object) -> ResultSchema:
    """Check `schema`, a JSON Schema as JSON (a mapping, true or false). Raises `SchemaError`.

    Nothing is ever fetched: a `$ref` must point into the same schema. Results are cached.
    """
    try:
        text = json.dumps(schema, default=dict)
    except (TypeError, ValueError, RecursionError) as error:
        raise SchemaError("this schema is not JSON, or nested too deeply") from error
    return _parsed_schema(text)


@functools.lru_cache(maxsize=128)
def _parsed_schema(text: str) -> ResultSchema:
    return ResultSchema(checked_form(json.loads(text)))


def _accepts_only_objects(form: Form) -> bool:
    """Whether every valid value is an object, which can serve as the arguments of a call without wrapping."""
    root = form.root
    if not isinstance(root, dict):
        return False
    return root.get("type") == "object" or (
        "type" not in root and "properties" in root and not any(key in root for key in ("enum", "const"))
    )


def _moved(schema: Any) -> Any:
    """`schema` with each `$ref` adapted to the schema's new place under `$defs` of the wrapping."""
    if isinstance(schema, list):
        return [_moved(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: f"#/$defs/{WRAPPED}{item[1:]}" if key == "$ref" and isinstance(item, str) else _moved(item)
        for key, item in schema.items()
    }


MAX_STEPS = 60_000
"""Step budget of filling in one value; a step takes up to five microseconds."""

Parts = tuple[Mapping[str, Any], ...]


class _NullFiller:
    """Walks through a value with all schemas that may apply to each place, whether the value fits them or not."""

    def __init__(self, form: Form) -> None:
        self._targets = form.targets
        self._frame = Frame([], MAX_STEPS)
        self._exhausted = False
        self._applicable: dict[tuple[int, ...], Parts] = {}

    def applicable(self, schemas: tuple[Schema, ...]) -> Parts:
        """`schemas` and all schemas that they apply to the same value, each once."""
        key = tuple(id(schema) for schema in schemas)
        self._spend(1 + len(key))
        if key not in self._applicable:
            self._applicable[key] = self._gathered(schemas)
        return self._applicable[key]

    def _gathered(self, schemas: tuple[Schema, ...]) -> Parts:
        parts_by_id: dict[int, Mapping[str, Any]] = {}
        waiting = list(reversed(schemas))
        while waiting:
            part = waiting.pop()
            if isinstance(part, dict) and id(part) not in parts_by_id:
                parts_by_id[id(part)] = part
                waiting.extend(reversed(list(same_value_schemas(part, self._targets))))
        self._spend(2 * len(parts_by_id))
        return tuple(parts_by_id.values())

    def filled(self, value: Any, parts: Parts) -> Any:
        if not parts or self._exhausted:
            return value
        if isinstance(value, dict):
            return self._object(value, parts)
        if isinstance(value, list):
            return [self.filled(item, self.applicable(_item_schemas(index, parts))) for index, item in enumerate(value)]
        return value

    def _object(self, value: Mapping[str, Any], parts: Parts) -> dict[str, Any]:
        named = [key for part in parts for key in part.get("properties", ())]
        self._spend(len(parts) + (len(named) >> 3))
        given = {
            key: self.filled(item, self.applicable(self._schemas_of_key(key, parts))) for key, item in value.items()
        }
        return {**given, **{key: None for key in named if key not in given}}

    def _schemas_of_key(self, key: str, parts: Parts) -> tuple[Schema, ...]:
        patterns = sum(len(part.get("patternProperties", ())) for part in parts)
        self._spend(len(parts) + patterns * (1 + (len(key) >> 3)))
        return () if self._exhausted else tuple(schema for part in parts for schema in _member_schemas(key, part))

    def _spend(self, steps: int) -> None:
        try:
            self._frame.spend(steps)
        except StepsExhausted:
            self._exhausted = True


def _member_schemas(key: str, part: Mapping[str, Any]) -> Iterator[Schema]:
    """The schemas that `part` applies to the member `key` of an object."""
    known = key in part.get("properties", ())
    if known:
        yield part["properties"][key]
    for pattern, schema in part.get("patternProperties", {}).items():
        if searcher(pattern).search(key.encode("utf-8", "replace")) is not None:
            known = True
            yield schema
    if not known and "additionalProperties" in part:
        yield part["additionalProperties"]


def _item_schemas(index: int, parts: Parts) -> tuple[Schema, ...]:
    """The schemas that `parts` apply to item `index` of a list."""
    schemas: list[Schema] = []
    for part in parts:
        prefix = part.get("prefixItems", ())
        if index < len(prefix):
            schemas.append(prefix[index])
        elif "items" in part:
            schemas.append(part["items"])
        if "contains" in part:
            schemas.append(part["contains"])
    return tuple(schemas)


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
_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "$comment", "$defs", "definitions"})
"""Keywords that do not restrict a value."""
_APPLICATORS = ("$ref", "allOf", "anyOf", "oneOf", "if", "then", "else", "not", "dependentSchemas", "patternProperties")
"""Keywords that may describe more keys of an object than its `properties` do."""


def schema_shape(form: Form) -> Shape:
    """The shape of a valid value in which unset properties are null."""
    return _ShapeReader(form).shape((form.root,))


class _ShapeReader:
    """Derives shapes from one schema. Each place in a value is described by a set of schema parts."""

    def __init__(self, form: Form) -> None:
        self._targets = form.targets

    def shape(self, schemas: Iterable[Schema], *, unset: bool = False) -> Shape:
        """The shape of a value that fits one of `schemas`, or is null if `unset`."""
        leaves = self._leaves(schemas)
        kinds: Kinds = frozenset({Null}) if unset else frozenset()
        for leaf in leaves:
            kinds |= _kinds(leaf)
        objects = [leaf for leaf in leaves if dict in _kinds(leaf)]
        lists = [leaf for leaf in leaves if list in _kinds(leaf)]
        return Shape(
            kinds,
            _texts([leaf for leaf in leaves if str in _kinds(leaf)]),
            names=_possible_keys(objects),
            key=lambda name: self._key(name, objects),
            item=lambda: self.shape([leaf.get("items", True) if "prefixItems" not in leaf else True for leaf in lists]),
        )

    def _leaves(self, schemas: Iterable[Schema]) -> list[Mapping[str, Any]]:
        """The schema parts reached by following references and alternatives, each once."""
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
        keywords = schema.keys() - _ANNOTATIONS
        if keywords == {"$ref"}:
            return [self._targets[schema["$ref"]]]
        if len(keywords) == 1 and keywords <= {"anyOf", "oneOf"}:
            return list(schema[next(iter(keywords))])
        return []

    def _key(self, name: str, objects: list[Mapping[str, Any]]) -> Shape:
        described = [_key_schema(name, leaf) for leaf in objects]
        found = [schema for schema in described if schema is not None]
        required = len(found) == len(objects) and all(name in leaf.get("required", ()) for leaf in objects)
        return self.shape(found or (True,), unset=not required)


def _key_schema(name: str, leaf: Mapping[str, Any]) -> Schema | None:
    """The schema of the member `name`; None when the object cannot have it."""
    if name in leaf.get("properties", ()):
        described: Schema = leaf["properties"][name]
        return described
    if _closed(leaf):
        return None
    more = leaf.get("additionalProperties", True)
    return True if any(keyword in leaf for keyword in _APPLICATORS) else more


def _closed(leaf: Mapping[str, Any]) -> bool:
    """Whether a rule should expect no keys beyond `properties`. They count as closed even where JSON Schema would allow
    more, because a rule that names another key is more likely mistaken."""
    if any(keyword in leaf for keyword in _APPLICATORS):
        return False
    return leaf.get("additionalProperties") is False or (
        bool(leaf.get("properties")) and "additionalProperties" not in leaf
    )


def _possible_keys(objects: list[Mapping[str, Any]]) -> frozenset[str] | None:
    if not objects or not all(_closed(leaf) for leaf in objects):
        return None
    return frozenset(name for leaf in objects for name in leaf.get("properties", ()))


def _kinds(leaf: Mapping[str, Any]) -> Kinds:
    types = leaf.get("type")
    named = [types] if isinstance(types, str) else types
    kinds = JSON if named is None else frozenset(kind for name in named for kind in _KINDS[name])
    if (values := _values(leaf)) is None:
        return kinds
    listed: Kinds = frozenset(type(value) for value in values)
    # JSON Schema does not distinguish 1 from 1.0, so a listed number allows both types.
    return kinds & (listed | _NUMBER if listed & _NUMBER else listed)


def _values(leaf: Mapping[str, Any]) -> list[Any] | None:
    """The only allowed values, if the schema lists them."""
    return [leaf["const"]] if "const" in leaf else leaf.get("enum")


def _texts(leaves: list[Mapping[str, Any]]) -> frozenset[str] | None:
    listed = [_values(leaf) for leaf in leaves]
    if not listed or any(values is None for values in listed):
        return None
    return frozenset(value for values in listed for value in values or () if isinstance(value, str))
