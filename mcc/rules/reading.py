"""Reads values that nearly fit a JSON Schema as the one value that they can mean: lists and objects as JSON text,
numbers and truth values as text, null for what is left out, names in another spelling, envelopes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mcc.rules.argument_names import (
    ENVELOPES,
    NAMES_OF_THE_TOOL,
    RESULT_ENVELOPES,
    mean_the_same,
    plain_name,
)
from mcc.rules.near_json import MOST_REPAIRED, repaired, strict, too_deep

MAX_NOTES = 10
MAX_STEPS = 50_000
"""Values and schemas looked at in one reading; what lies behind them stays as it is."""

MOST_ENVELOPES = 3
"""Envelopes within one another that are opened."""

_OTHERS = ("patternProperties", "dependentSchemas", "if", "unevaluatedProperties", "propertyNames")
_ALL = frozenset({"string", "number", "integer", "boolean", "null", "array", "object"})
_WORDS: Mapping[str, object] = {"true": True, "false": False}
_NULLS = ("null", "None")
_MOST_EXACT = 2**53
"""Whole numbers up to here are exact as floating point."""

_LONGEST_NUMBER = 400
_MOST_NAMES = 50
"""Unknown names in one object that are compared with known ones."""

_MISSING = object()
_IN_WORDS = {"array": "list", "object": "object", "boolean": "truth value", "integer": "number", "number": "number"}

Schemas = tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class ValueReading:
    """`value` as it was read; `notes`: a sentence for each thing that was read as something else than was sent. Null
    for an optional property counts as left out and makes no note."""

    value: Any
    notes: tuple[str, ...] = ()


def read_as(schema: object, value: Mapping[str, Any], tool: str = "", *, is_result: bool = False) -> ValueReading:
    """An object as its schema, plain JSON of any origin, admits it.

    Only what the schema does not admit is read differently, and only where one reading is left: a text stays a text
    wherever one is admitted. `tool`: the tool's name, which an envelope may name. `is_result`: the envelopes of results
    are opened too. Never raises.
    """
    reader = _Reader(schema, knows_words=not is_result)  # a result's words are read with its rules
    envelopes = ENVELOPES | (RESULT_ENVELOPES if is_result else frozenset())
    opened = value
    try:
        for _ in range(MOST_ENVELOPES):
            opened = reader.opened(opened, tool, envelopes)
        read = reader.read(opened, schema, "")
    except RecursionError:
        return ValueReading(value)
    return ValueReading(read, tuple(reader.notes[:MAX_NOTES]))


def json_in(text: str) -> object:
    """The list or object that `text` spells, also in a code fence or as a near miss; None for any other text."""
    plain = text.strip()
    if not plain.startswith(("[", "{", "```")) or len(plain) > MOST_REPAIRED or too_deep(plain):
        return None
    parsed = strict(plain)
    if parsed is None and not too_deep(near := repaired(plain)):
        parsed = strict(near)
    return parsed if isinstance(parsed, list | dict) else None


def kinds_of(schema: object) -> frozenset[str]:
    """The JSON types that a schema may admit; all of them where it does not say."""
    return _Reader(schema).kinds(schema)


class _Reader:
    def __init__(self, root: object, *, knows_words: bool = True) -> None:
        self._root = root
        self._knows_words = knows_words
        self._steps = MAX_STEPS
        # The schemas are kept beside their kinds: the id of one that is gone could come back as another's.
        self._kinds: dict[int, tuple[Mapping[str, Any], frozenset[str]]] = {}
        self.notes: list[str] = []

    def opened(self, value: Mapping[str, Any], tool: str, envelopes: frozenset[str]) -> Mapping[str, Any]:
        """The object in an envelope, together with the arguments beside it; any other value unchanged."""
        form = _Form(self.parts(self._root, "object", value))
        unknown = [name for name in value if name not in form.known]
        wrappers = [name for name in unknown if plain_name(name) in envelopes or (tool and name == tool)]
        named = [name for name in unknown if plain_name(name) in NAMES_OF_THE_TOOL and value[name] == tool]
        named += [name for name in value if name in form.known and plain_name(name) == "name" and value[name] == tool]
        if len(wrappers) != 1 or {*unknown} - {*wrappers, *named}:
            return value
        inner = value[wrappers[0]]
        inner = json_in(inner) if isinstance(inner, str) else inner
        beside = {name: item for name, item in value.items() if name not in (*wrappers, *named)}
        if not isinstance(inner, Mapping) or beside.keys() & inner.keys() or not form.means(inner, wrappers[0], value):
            return value
        self.notes.append(f"the wrapper `{wrappers[0]}` was taken off")
        return {**inner, **beside}

    def read(self, value: Any, schema: object, at: str) -> Any:
        self._steps -= 1
        if self._steps < 0 or not isinstance(schema, Mapping):
            return value
        if isinstance(value, str):
            return self._text(value, schema, at)
        if isinstance(value, Mapping):
            return self._object(value, self.parts(schema, "object", value), at)
        if isinstance(value, list | tuple):
            parts = self.parts(schema, "array")
            read = [self.read(item, _item_schema(parts, index), f"{at}.{index}") for index, item in enumerate(value)]
            return value if all(before is after for before, after in zip(value, read, strict=True)) else read
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self._number(value, schema, at)
        return value

    def _number(self, value: float, schema: Mapping[str, Any], at: str) -> Any:
        """A whole number where only those are admitted, and the word of a list that is written as this number."""
        kinds = self.kinds(schema)
        if isinstance(value, float):
            is_whole = value.is_integer() and abs(value) <= _MOST_EXACT and "integer" in kinds and "number" not in kinds
            return int(value) if is_whole else value
        if kinds & {"integer", "number"} or str(value) not in self._listed(schema):
            return value
        self.notes.append(f"`{at}` was sent as a number and was read as the word `{value}`")
        return str(value)

    def _listed(self, schema: Mapping[str, Any]) -> list[str]:
        """The words of the list that a text must be from; empty where there is none."""
        lists = [part["enum"] for part in self.parts(schema, "string") if isinstance(part.get("enum"), list | tuple)]
        return [word for word in lists[0] if isinstance(word, str)] if len(lists) == 1 else []

    def _word(self, text: str, schema: Mapping[str, Any], at: str) -> str:
        """The only word of a list that `text` differs from in capitals and blanks alone."""
        listed = self._listed(schema) if self._knows_words else []
        same = [word for word in listed if word.casefold() == text.strip().casefold()]
        if len(same) != 1 or text in listed:
            return text
        self.notes.append(f"`{at}` was read as the word `{same[0]}` of its list")
        return same[0]

    def _text(self, text: str, schema: Mapping[str, Any], at: str) -> Any:
        kinds = self.kinds(schema)
        if "string" in kinds or not kinds:
            return self._word(text, schema, at)
        if "null" in kinds and text in _NULLS:
            return None
        parsed = json_in(text) if kinds & {"array", "object"} else None
        if parsed is None:
            parsed = _plain_value(text, kinds)
        if (kind := _kind(parsed)) not in kinds:
            return text
        self.notes.append(f"`{at}` was sent as text and was read as the {_IN_WORDS[kind]} in it")
        return self.read(parsed, schema, at)

    def _object(self, value: Mapping[str, Any], parts: Schemas, at: str) -> Mapping[str, Any]:
        form = _Form(parts)
        if not form.known and form.others is True:
            return value
        names = self._names(value, form)
        read: dict[str, Any] = {}
        changed = False
        for name, item in value.items():
            known = names.get(name, name)
            below = f"{at}.{known}" if at else known
            schema = form.schema_of(known)
            if form.is_optional(known) and self._is_null(item, schema):
                changed = True
                continue
            if known != name:
                self.notes.append(f"`{f'{at}.{name}' if at else name}` was read as `{known}`")
            read[known] = self.read(item, schema, below)
            changed = changed or known != name or read[known] is not item
        return read if changed else value

    def _is_null(self, item: object, schema: object) -> bool:
        """Whether null is given where the schema does not admit it, as itself or as text."""
        kinds = self.kinds(schema)
        if "null" in kinds:
            return False
        return item is None or (isinstance(item, str) and item in _NULLS and "string" not in kinds)

    def _names(self, value: Mapping[str, Any], form: "_Form") -> dict[str, str]:
        """The known names that unknown ones stand for, where there is exactly one for each and it is not given."""
        known_names: dict[str, str] = {}
        unset = {known: plain_name(known) for known in form.unset(value)}
        for name in [name for name in value if name not in form.known][:_MOST_NAMES]:
            plain = plain_name(str(name))
            same = [known for known in unset if unset[known] == plain and form.may_mean(known, by_spelling=True)]
            same = same or [known for known in unset if mean_the_same(plain, unset[known]) and form.may_mean(known)]
            fits = [known for known in same if self._fits(value[name], form.schema_of(known))]
            # A guess between several would put a value where its sender did not mean it.
            if len(fits) == 1:
                known_names[name] = fits[0]
        taken = [*known_names.values()]
        return {name: known for name, known in known_names.items() if taken.count(known) == 1}

    def _fits(self, item: Any, schema: object) -> bool:
        # A reader of its own: what is only tried must leave no note and use few of the steps.
        quiet = _Reader(self._root)
        quiet._steps = min(self._steps, 1_000)
        return _kind(quiet.read(item, schema, "")) in self.kinds(schema)

    def kinds(self, schema: object) -> frozenset[str]:
        """As `kinds_of`, for a part of the schema."""
        if not isinstance(schema, Mapping):
            return frozenset() if schema is False else _ALL
        if (known := self._kinds.get(id(schema))) is not None:
            return known[1]
        self._kinds[id(schema)] = schema, _ALL  # a schema that refers to itself says nothing
        self._steps -= 1
        possible = _own_kinds(schema) if self._steps > 0 else _ALL
        for part in self._required_too(schema):
            possible &= self.kinds(part)
        for options in _options(schema):
            possible &= frozenset[str]().union(*(self.kinds(option) for option in options))
        self._kinds[id(schema)] = schema, possible
        return possible

    def parts(self, schema: object, kind: str, value: Mapping[str, Any] | None = None) -> Schemas:
        """The schemas that all apply to a value of this type; of alternatives, the only one for it, or for the words
        that `value` has. The last part is `_OPEN` where several are for it."""
        parts_by_id: dict[int, Mapping[str, Any]] = {}
        waiting = [schema]
        while waiting and self._steps > 0:
            part = waiting.pop()
            self._steps -= 1
            if not isinstance(part, Mapping) or id(part) in parts_by_id:
                continue
            parts_by_id[id(part)] = part
            waiting.extend(self._required_too(part))
            for options in _options(part):
                able = [option for option in options if kind in self.kinds(option)]
                if value is not None and len(able) > 1:
                    able = [option for option in able if not self._contradicts(option, value)]
                waiting.extend(able if len(able) == 1 else [_OPEN])
        return tuple(parts_by_id.values())

    def _contradicts(self, option: object, value: Mapping[str, Any]) -> bool:
        """Whether an alternative demands another word of a property than `value` has."""
        target = self._target(option["$ref"]) if isinstance(option, Mapping) and "$ref" in option else option
        properties = target.get("properties") if isinstance(target, Mapping) else None
        for name, wanted in properties.items() if isinstance(properties, Mapping) else ():
            said = value.get(name)
            if isinstance(said, str) and isinstance(wanted, Mapping) and ("const" in wanted or "enum" in wanted):
                listed = [wanted["const"]] if "const" in wanted else wanted["enum"]
                if isinstance(listed, list | tuple) and said not in listed:
                    return True
        return False

    def _required_too(self, schema: Mapping[str, Any]) -> Iterable[object]:
        """The schemas that hold wherever `schema` does."""
        everything = schema.get("allOf")
        parts = list(everything) if isinstance(everything, list | tuple) else []
        return [*parts, self._target(schema["$ref"])] if "$ref" in schema else parts

    def _target(self, ref: object) -> object:
        """The schema that a reference within the whole one leads to; True, which says nothing, for any other."""
        if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
            return True
        target: Any = self._root
        for step in ref.split("/")[1:]:
            key = step.replace("%25", "%").replace("~1", "/").replace("~0", "~")
            if isinstance(target, Mapping):
                target = target.get(key, True)
            elif isinstance(target, list | tuple) and key.isdecimal() and int(key[:6]) < len(target):
                target = target[int(key[:6])]
            else:
                return True
        return target


_OPEN: Mapping[str, Any] = {"additionalProperties": True}


class _Form:
    """What schemas that all apply to one object say about its properties."""

    def __init__(self, parts: Schemas) -> None:
        self._parts = [part for part in parts if isinstance(part.get("properties", {}), Mapping)]
        self.known: dict[str, None] = {str(name): None for part in self._parts for name in part.get("properties", {})}
        required = (part.get("required") for part in parts)
        self.required = {name for names in required if isinstance(names, list | tuple) for name in names}
        self._closed = any(part.get("additionalProperties") is False and not _has_others(part) for part in parts)
        self._open = any(part.get("additionalProperties", False) is not False or _has_others(part) for part in parts)

        others = [
            part["additionalProperties"] for part in parts if isinstance(part.get("additionalProperties"), Mapping)
        ]
        self.others: object = others[0] if len(others) == len(parts) == 1 and not _has_others(parts[0]) else True

    def schema_of(self, name: str) -> object:
        found = [part["properties"][name] for part in self._parts if name in part.get("properties", {})]
        return (found[0] if len(found) == 1 else {"allOf": found}) if found else self.others

    def is_optional(self, name: str) -> bool:
        return name in self.known and name not in self.required

    def unset(self, value: Mapping[str, Any]) -> list[str]:
        return [name for name in self.known if value.get(name) is None]

    def may_mean(self, known: str, *, by_spelling: bool = False) -> bool:
        """Whether an unknown name can only mean this one: unknown names are forbidden, or this one has to be there. One
        that differs in its spelling alone means it unless the schema speaks of further names."""
        return self._closed or known in self.required or (by_spelling and not self._open)

    def means(self, inner: Mapping[str, Any], wrapper: str, value: Mapping[str, Any]) -> bool:
        """Whether an object in `wrapper` can only be meant as the whole value."""
        if self._closed:
            return True
        plain = {plain_name(name) for name in self.known}
        named = bool(inner) and all(plain_name(str(name)) in plain for name in inner)
        lacking = self.required - value.keys()
        return named and lacking <= inner.keys() and bool(lacking) if self._open else named or bool(lacking)


def _has_others(part: Mapping[str, Any]) -> bool:
    return any(keyword in part for keyword in _OTHERS)


def _options(schema: Mapping[str, Any]) -> Iterable[list[object]]:
    """The alternatives of a schema; each list holds those of one keyword."""
    found = (schema.get(keyword) for keyword in ("anyOf", "oneOf"))
    return [list(options) for options in found if isinstance(options, list | tuple) and options]


def _own_kinds(schema: Mapping[str, Any]) -> frozenset[str]:
    """The types that the keywords `type`, `enum` and `const` leave."""
    kinds, types = _ALL, schema.get("type")
    named = {types} if isinstance(types, str) else set(map(str, types)) if isinstance(types, list | tuple) else _ALL
    if named <= _ALL:
        kinds = frozenset(named | ({"integer"} if "number" in named else set()))
    if schema.get("nullable") is True:
        kinds |= {"null"}
    listed = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(listed, list | tuple):
        kinds &= {_kind(option) for option in listed}
    return kinds


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case Mapping():
            return "object"
        case _:
            return "array"


def _plain_value(text: str, kinds: frozenset[str]) -> object:
    """The number or truth value that `text` spells; the text itself where it spells none of these types."""
    plain = text.strip()
    if "boolean" in kinds and (word := _WORDS.get(plain.lower(), _MISSING)) is not _MISSING:
        return word
    number = strict(plain) if len(plain) <= _LONGEST_NUMBER else None
    if isinstance(number, bool) or not isinstance(number, int | float):
        return text
    return int(number) if "number" not in kinds and isinstance(number, float) and number.is_integer() else number


def _item_schema(parts: Schemas, index: int) -> object:
    """The schema of one item of a list."""
    schemas = []
    for part in parts:
        rest = part.get("items", True)
        first = rest if isinstance(rest, list | tuple) else part.get("prefixItems", ())
        if isinstance(first, list | tuple) and index < len(first):
            schemas.append(first[index])
        elif isinstance(rest, Mapping):
            schemas.append(rest)
    return (schemas[0] if len(schemas) == 1 else {"allOf": schemas}) if schemas else True
