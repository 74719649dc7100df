"""Fills a JSON Schema with facts, matched by names and types of its properties."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from drone.models.offline.facts import Facts, Finding

Schema: TypeAlias = Mapping[str, Any]
Scope: TypeAlias = Mapping[str, object]
"""Known values at one place of the form, by normalized name (`normalized`)."""

UNKNOWN = "not determined"
_DEEPEST = 12
_SYNONYMS: Mapping[str, Sequence[str]] = {
    "info": ("info", "note", "low", "minor", "none"),
    "warning": ("warning", "medium", "moderate", "minor"),
    "error": ("error", "high", "critical", "major"),
    "completed": ("completed", "complete", "done", "success", "succeeded", "ok"),
    "blocked": ("blocked", "partial", "incomplete", "failed", "error"),
}
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Form:
    """`everything`: fill optional properties too. `without`: property names that a check refused.

    A required property without a matching fact gets the smallest value that its schema allows.
    """

    schema: Schema
    everything: bool = True
    without: frozenset[str] = frozenset()

    def filled(self, facts: Facts) -> dict[str, object]:
        value = self._value(self.schema, dict(_known_values(facts)), "", True, 0)
        return value if isinstance(value, dict) else {}

    def _value(self, schema: object, scope: Scope, name: str, required: bool, depth: int) -> Any:
        """The value for one place; `_NOTHING` if it is unknown and not required."""
        plain = self._plain(schema)
        if depth > _DEEPEST:
            return _NOTHING
        if "const" in plain:
            return plain["const"]
        known = scope.get(normalized(name), _NOTHING) if name else scope
        if options := plain.get("enum"):
            return _choice(list(options), known, required)
        kind = _type_of(plain, known)
        found = self._of_type(kind, plain, known, name, scope, depth)
        if found is not _NOTHING or not required:
            return found
        if "null" in _types(plain):
            return None
        return _smallest_value(kind, plain)

    def _of_type(self, kind: str, schema: Schema, known: Any, name: str, scope: Scope, depth: int) -> Any:
        match kind:
            case "object":
                return self._object(schema, known if isinstance(known, Mapping) else scope, depth)
            case "array":
                return self._array(schema, known, depth)
            case "string":
                text = "" if known is _NOTHING else _as_text(known, name)
                return _fitted(text, schema) if text else _NOTHING
            case "boolean":
                return bool(known) if known is not _NOTHING else _NOTHING
            case "integer" | "number":
                return _as_number(known)
        return _NOTHING

    def _object(self, schema: Schema, scope: Scope, depth: int) -> dict[str, object]:
        required = schema.get("required")
        must = set(required) if isinstance(required, list | tuple) else set()
        filled: dict[str, object] = {}
        properties = schema.get("properties")
        for name, inner in properties.items() if isinstance(properties, Mapping) else ():
            if name not in must and (name in self.without or not self.everything):
                continue
            value = self._value(inner, scope, name, name in must, depth + 1)
            if value is not _NOTHING:
                filled[name] = value
        return filled

    def _array(self, schema: Schema, known: Any, depth: int) -> Any:
        if known is _NOTHING:
            return _NOTHING
        listed = list(known) if isinstance(known, Sequence) and not isinstance(known, str) else [known]
        most = schema.get("maxItems")
        inner = schema.get("items", {})
        values = (self._item(inner, one, depth) for one in listed[: most if isinstance(most, int) else None])
        kept = [value for value in values if value is not _NOTHING]
        least = schema.get("minItems")
        return kept if not isinstance(least, int) or len(kept) >= least else _NOTHING

    def _item(self, schema: object, one: object, depth: int) -> Any:
        if isinstance(one, Mapping):
            plain = self._plain(schema)
            if _type_of(plain, one) == "object":
                return self._value(plain, one, "", True, depth + 1)
            one = one.get("text", _NOTHING)
        return self._value(schema, {"": one, "item": one}, "item", False, depth + 1)

    def _plain(self, schema: object) -> Schema:
        """The schema behind references and choices, with the parts of `allOf` merged."""
        for _ in range(_DEEPEST):
            if not isinstance(schema, Mapping):
                return {}
            if isinstance(reference := schema.get("$ref"), str):
                schema = self._referred(reference)
            elif isinstance(options := schema.get("anyOf") or schema.get("oneOf"), list | tuple) and options:
                rest = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}
                schema = {**rest, **self._plain(_first_non_null(options))}
            elif isinstance(parts := schema.get("allOf"), list | tuple) and parts:
                schema = _merged([{**schema, "allOf": None}, *map(self._plain, parts)])
            else:
                return schema
        return {}

    def _referred(self, reference: str) -> object:
        place: object = self.schema
        for step in reference.removeprefix("#").strip("/").split("/"):
            place = place.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(place, Mapping) else None
        return place


def _choice(options: list[Any], known: object, required: bool) -> Any:
    if known in options:
        return known
    words = {str(option).lower(): option for option in options}
    for word in _SYNONYMS.get(str(known), ()):
        if word in words:
            return words[word]
    if not required:
        return _NOTHING
    return next((words[word] for word in ("unknown", "other", "none", "n/a") if word in words), options[0])


def normalized(name: str) -> str:
    """A property name without case, separators and plural: `recommended_next_actions` becomes
    `recommendednextaction`."""
    return "".join(one for one in name.lower() if one.isascii() and one.isalnum()).removesuffix("s")


def _first_non_null(options: Sequence[object]) -> object:
    """The first choice that is not null."""
    return next((one for one in options if not (isinstance(one, Mapping) and one.get("type") == "null")), options[0])


def _merged(parts: Sequence[Schema]) -> Schema:
    properties = {name: inner for part in parts for name, inner in (part.get("properties") or {}).items()}
    required = [name for part in parts for name in part.get("required") or ()]
    return {key: value for part in parts for key, value in part.items() if value is not None} | {
        "properties": properties,
        "required": required,
    }


def _types(schema: Schema) -> tuple[str, ...]:
    kind = schema.get("type")
    return (kind,) if isinstance(kind, str) else tuple(kind) if isinstance(kind, list | tuple) else ()


def _type_of(schema: Schema, known: object) -> str:
    kind = next((kind for kind in _types(schema) if kind != "null"), "")
    if kind:
        return kind
    if "properties" in schema:
        return "object"
    return "array" if "items" in schema or isinstance(known, list | tuple) else "string"


def _smallest_value(kind: str, schema: Schema) -> object:
    match kind:
        case "string":
            return _fitted(UNKNOWN, schema)
        case "integer" | "number":
            least = schema.get("minimum", 0)
            return least if isinstance(least, int | float) else 0
        case "boolean":
            return False
        case "array":
            return []
    return {}


def _fitted(text: str, schema: Schema) -> str:
    most = schema.get("maxLength")
    return text if not isinstance(most, int) or len(text) <= most else text[: max(0, most - 1)] + "…"[:most]


def _as_text(known: object, name: str) -> str:
    """Of several texts all for a plural name, else the first."""
    if isinstance(known, list | tuple):
        texts = [_as_text(one, name) for one in known]
        return ", ".join(texts) if name.endswith("s") else next(iter(texts), "")
    return str(known.get("text", "")) if isinstance(known, Mapping) else str(known)


def _as_number(known: object) -> Any:
    if isinstance(known, list | tuple):
        return len(known)
    return known if isinstance(known, int | float) and not isinstance(known, bool) else _NOTHING


_Aspect: TypeAlias = Callable[[Facts], object]
_NAMES: Sequence[tuple[str, _Aspect]] = (
    ("status state outcome verdict", lambda facts: facts.status),
    ("summary answer text description overview conclusion message explanation detail", lambda facts: facts.summary),
    ("result report markdown body content", lambda facts: facts.report),
    ("name title project project_name repository package", lambda facts: facts.name or _NOTHING),
    ("finding issue risk problem item observation", lambda facts: list(map(_finding, facts.findings))),
    ("step", lambda facts: [_step(number, text) for number, text in enumerate(facts.steps, 1)]),
    ("artifact attachment", lambda facts: [_artifact(facts)] if facts.report else []),
    (
        "recommended_next_action next_action next_step recommendation action todo open_question",
        lambda facts: list(facts.next_actions),
    ),
    ("path file files_read read source evidence", lambda facts: list(facts.read)),
    ("file_count number_of_files total_files", lambda facts: _NOTHING if facts.files is None else facts.files),
    ("language", lambda facts: list(facts.languages)),
    ("entry_point start command", lambda facts: list(facts.entry_points)),
    ("test test_file has_tests", lambda facts: list(facts.tests)),
)


def _known_values(facts: Facts) -> Iterator[tuple[str, object]]:
    for names, aspect in _NAMES:
        value = aspect(facts)
        if value is not _NOTHING:
            yield from _named(names, value).items()


def _named(names: str, value: object) -> dict[str, object]:
    return dict.fromkeys(map(normalized, names.split()), value)


def _finding(one: Finding) -> Scope:
    return {
        **_named("title name topic claim finding", one.title),
        **_named("evidence quote detail description message content summary explanation proof", one.evidence),
        **_named("severity level priority impact", one.severity),
        **_named("path file source reference", list(one.paths)),
        **_named("text", f"{one.title}: {one.evidence}"),
        **({} if one.place is None else _named("line start_line", one.place[1])),
    }


def _step(number: int, text: str) -> Scope:
    return {**_named("id", str(number)), **_named("title name text detail", text), **_named("status", "completed")}


def _artifact(facts: Facts) -> Scope:
    return {
        **_named("kind type", "report"),
        **_named("title", "The whole report"),
        **_named("id name path file", "report.md"),
        **_named("mime mime_type media_type", "text/markdown"),
        **_named("content text", facts.report),
    }
