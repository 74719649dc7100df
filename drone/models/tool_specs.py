"""Tools as providers take them: legal names, parameters with a plain object at the top and not too deep."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from mcc.rules.patterns import Pattern

Schema: TypeAlias = Mapping[str, Any]

MOST_LEVELS = 60
"""Mappings and lists within each other that are sent; what lies deeper is sent as "anything"."""

_CHOICES = ("anyOf", "oneOf")
_NOT_AT_THE_TOP = frozenset({*_CHOICES, "allOf", "enum", "const", "not", "if", "then", "else", "$ref", "$dynamicRef"})
_MOST_BRANCHES = 200
_NAME = Pattern(r"[A-Za-z0-9_.-]{1,64}")
_LEGAL = Pattern(r"[A-Za-z0-9_-]{1,64}")
_ILLEGAL = Pattern(r"[^A-Za-z0-9_-]+")


@lru_cache(maxsize=4096)
def legal(name: str) -> str:
    """`name`, or a legal one in its place that is as telling and differs for every name."""
    if _LEGAL.fullmatch(name):
        return name
    mark = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{_ILLEGAL.sub('_', name)[:55]}_{mark}"


def own_names(names: Iterable[str]) -> dict[str, str]:
    """The names as agents know them, by the names as the provider is sent them."""
    return {legal(name): name for name in names}


def sendable(parameters: Schema) -> Schema:
    """`parameters`, or a looser schema in their place that every provider takes.

    Choices and references at the top become one object with the properties of all branches. Whoever judges the
    arguments goes by the schema itself; it only says less to the model.
    """
    found = parameters
    if found.get("type") != "object" or not _NOT_AT_THE_TOP.isdisjoint(found):
        found = _plain(found)
    shallow = _shallow(found, MOST_LEVELS) if _is_deeper(found, MOST_LEVELS) else found
    return shallow if isinstance(shallow, Mapping) else {"type": "object"}


def unsendable(parameters: Schema) -> str | None:
    """Why a provider that is strict about names (Anthropic's is) refuses these parameters; None when it does not."""
    properties = sendable(parameters).get("properties")
    wrong = next((name for name in properties or () if not _NAME.fullmatch(name)), None)
    if wrong is None:
        return None
    return f"its parameter {wrong[:80]!r} must be named with 1 to 64 letters, digits, _, . or -; rename it"


def _plain(schema: Schema) -> Schema:
    own = {key: value for key, value in schema.items() if key not in _NOT_AT_THE_TOP}
    branches = list(_branches(schema, schema, 0))[:_MOST_BRANCHES]
    properties: dict[str, Any] = {}
    for branch in branches:
        for name, inner in _mapping(branch.get("properties")).items():
            properties[name] = inner if properties.setdefault(name, inner) == inner else {}
    if len(branches) > 1:
        own.pop("additionalProperties", None)
    return {**own, "type": "object", "properties": properties, "required": sorted(_required(schema, schema, 0))}


def _branches(schema: object, root: Schema, level: int) -> Iterator[Schema]:
    """The schema and everything that it refers to or is joined of, at its own place."""
    if not isinstance(schema, Mapping) or level > MOST_LEVELS:
        return
    yield schema
    if isinstance(schema.get("$ref"), str):
        yield from _branches(_referred(root, schema["$ref"]), root, level + 1)
    for key in ("allOf", *_CHOICES):
        for part in _listed(schema.get(key)):
            yield from _branches(part, root, level + 1)


def _required(schema: object, root: Schema, level: int) -> set[str]:
    """What every value must have: of choices only what all of them want."""
    if not isinstance(schema, Mapping) or level > MOST_LEVELS:
        return set()
    names = {name for name in _listed(schema.get("required")) if isinstance(name, str)}
    if isinstance(schema.get("$ref"), str):
        names |= _required(_referred(root, schema["$ref"]), root, level + 1)
    for part in _listed(schema.get("allOf")):
        names |= _required(part, root, level + 1)
    for key in _CHOICES:
        wanted = [_required(part, root, level + 1) for part in _listed(schema.get(key))]
        names |= set.intersection(*wanted) if wanted else set()
    return names


def _referred(root: Schema, reference: str) -> object:
    """What a reference within the schema leads to; None for any other."""
    place: object = root if reference.startswith("#") else None
    for step in filter(None, reference.removeprefix("#").split("/")):
        place = _mapping(place).get(step.replace("~1", "/").replace("~0", "~"))
    return place


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, Mapping | list | tuple):
        return False
    inner = value.values() if isinstance(value, Mapping) else value
    return levels == 0 or any(_is_deeper(one, levels - 1) for one in inner)


def _shallow(value: object, levels: int) -> object:
    if isinstance(value, Mapping):
        return {key: _shallow(inner, levels - 1) for key, inner in value.items()} if levels else {}
    if isinstance(value, list | tuple):
        return [_shallow(inner, levels - 1) for inner in value] if levels else []
    return value


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _listed(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()
