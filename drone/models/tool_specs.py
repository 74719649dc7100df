"""Tool definitions in a form that every provider accepts: legal names, and a shallow plain object as parameters."""

import hashlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from mcc.rules.patterns import Pattern

Schema: TypeAlias = Mapping[str, Any]

MOST_LEVELS = 60
"""How deeply mappings and lists may nest in what is sent; deeper values are sent as "anything"."""

_CHOICES = ("anyOf", "oneOf")
_NOT_AT_THE_TOP = frozenset({*_CHOICES, "allOf", "enum", "const", "not", "if", "then", "else", "$ref", "$dynamicRef"})
_MOST_BRANCHES = 200
_NAME = Pattern(r"[A-Za-z0-9_.-]{1,64}")
_LEGAL = Pattern(r"[A-Za-z0-9_-]{1,64}")
_ILLEGAL = Pattern(r"[^A-Za-z0-9_-]+")


@lru_cache(maxsize=4096)
def legal(name: str) -> str:
    """`name` if it is legal, else a legal name derived from it that stays readable and is unique per name."""
    if _LEGAL.fullmatch(name):
        return name
    mark = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{_ILLEGAL.sub('_', name)[:55]}_{mark}"


def agent_names(names: Iterable[str]) -> dict[str, str]:
    """The agent's tool names, keyed by the names sent to the provider."""
    return {legal(name): name for name in names}


_TRACE = Pattern(r"^(?:functions[.:/]|default_api[.:]|tools?[.:])|(?:<[|｜].*|:\d{1,4}|\s+)$", across=True)


def plain_name(name: str, known: Container[str]) -> str:
    """`name` if it is known, else without what a model's template leaves around a name where it is known then."""
    if name in known:
        return name
    plain = name
    for _ in range(3):
        plain = _TRACE.sub("", plain)
    return plain if plain in known else name


def sendable(parameters: Schema) -> Schema:
    """`parameters`, or a looser schema that every provider accepts.

    Choices and references at the top become one object with the properties of all branches. This only tells the model
    less: arguments are still validated against the original schema.
    """
    schema = parameters
    if schema.get("type") != "object" or not _NOT_AT_THE_TOP.isdisjoint(schema):
        schema = _merged_object(schema)
    shallow = _shallow(schema, MOST_LEVELS) if _exceeds(schema, MOST_LEVELS) else schema
    return shallow if isinstance(shallow, Mapping) else {"type": "object"}


def unsendable(parameters: Schema) -> str | None:
    """Why a provider with strict property names (Anthropic) refuses these parameters; None when it accepts them."""
    properties = sendable(parameters).get("properties")
    wrong = next((name for name in properties or () if not _NAME.fullmatch(name)), None)
    if wrong is None:
        return None
    return f"its parameter {wrong[:80]!r} must be named with 1 to 64 letters, digits, _, . or -; rename it"


def _merged_object(schema: Schema) -> Schema:
    kept = {key: value for key, value in schema.items() if key not in _NOT_AT_THE_TOP}
    branches = list(_branches(schema, schema, 0))[:_MOST_BRANCHES]
    properties: dict[str, Any] = {}
    for branch in branches:
        for name, inner in _mapping(branch.get("properties")).items():
            properties[name] = inner if properties.setdefault(name, inner) == inner else {}
    if len(branches) > 1:
        kept.pop("additionalProperties", None)
    return {**kept, "type": "object", "properties": properties, "required": sorted(_required(schema, schema, 0))}


def _branches(schema: object, root: Schema, level: int) -> Iterator[Schema]:
    """The schema and all schemas that apply to the same value: its references, `allOf` parts and alternatives."""
    if not isinstance(schema, Mapping) or level > MOST_LEVELS:
        return
    yield schema
    if isinstance(schema.get("$ref"), str):
        yield from _branches(_resolved(root, schema["$ref"]), root, level + 1)
    for key in ("allOf", *_CHOICES):
        for part in _listed(schema.get(key)):
            yield from _branches(part, root, level + 1)


def _required(schema: object, root: Schema, level: int) -> set[str]:
    """Names that every value must have; of alternatives only the names that all of them require."""
    if not isinstance(schema, Mapping) or level > MOST_LEVELS:
        return set()
    names = {name for name in _listed(schema.get("required")) if isinstance(name, str)}
    if isinstance(schema.get("$ref"), str):
        names |= _required(_resolved(root, schema["$ref"]), root, level + 1)
    for part in _listed(schema.get("allOf")):
        names |= _required(part, root, level + 1)
    for key in _CHOICES:
        wanted = [_required(part, root, level + 1) for part in _listed(schema.get(key))]
        names |= set.intersection(*wanted) if wanted else set()
    return names


def _resolved(root: Schema, reference: str) -> object:
    """The subschema that a reference within the schema points to; None for any other reference."""
    place: object = root if reference.startswith("#") else None
    for step in filter(None, reference.removeprefix("#").split("/")):
        place = _mapping(place).get(step.replace("~1", "/").replace("~0", "~"))
    return place


def _exceeds(value: object, levels: int) -> bool:
    if not isinstance(value, Mapping | list | tuple):
        return False
    inner = value.values() if isinstance(value, Mapping) else value
    return levels == 0 or any(_exceeds(one, levels - 1) for one in inner)


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
