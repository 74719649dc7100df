"""Parsing of a blueprint's text (YAML 1.2 or JSON) into a checked spec, or into problems with line numbers."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mcc.contracts.blueprints import (
    MAX_COMPONENTS,
    MAX_FIELDS,
    SPEC_NAME,
    BlueprintRule,
    BlueprintSpec,
    ChildCount,
    Component,
    FieldSpec,
    ItemField,
    NodeAgent,
)
from mcc.contracts.shape import RepeatedKey, refuse_repeated_keys
from mcc.definitions.front_matter import Location, YamlProblem, suggestion
from mcc.definitions.yaml_text import parse
from mcc.documents.partial import Readable, readable, steps
from mcc.rules.mistakes import mistakes

MAX_BYTES = 256 * 1024
"""Most bytes of a blueprint's text in UTF-8."""

MAX_PROBLEMS = 200
"""Most problems reported for one blueprint."""

_LOOKED_AT = 1_000
"""Most validation errors that are turned into problems."""

_AT_THE_END = 1_000_000_000
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class BlueprintProblem:
    """`line` counts from 1 (None = unknown); `place` is a path such as `components.course.rules[0].cel`, empty for the
    whole blueprint."""

    line: int | None
    place: str
    message: str


class BlueprintError(ValueError):
    """An invalid blueprint. `str()` has one line per problem, each starting with the label `source`."""

    def __init__(self, problems: Iterable[BlueprintProblem], source: str) -> None:
        shown = sorted(dict.fromkeys(problems), key=lambda one: one.line or _AT_THE_END)
        if len(shown) > MAX_PROBLEMS:
            shown = [
                *shown[:MAX_PROBLEMS],
                BlueprintProblem(None, "", "There are more mistakes; they are reported once these are corrected"),
            ]
        self.problems = tuple(shown)
        self.source = source
        super().__init__("\n".join(map(self._sentence, shown)))

    def _sentence(self, problem: BlueprintProblem) -> str:
        where = self.source if problem.line is None else f"{self.source}:{problem.line}"
        return f"{where}: {problem.place}: {problem.message}" if problem.place else f"{where}: {problem.message}"


@dataclass(frozen=True)
class ParsedBlueprint:
    """The parsed content of a blueprint's text, and the line on which each part begins."""

    label: str
    text: str
    value: Any
    known_lines: Mapping[Location, int] | None = None

    @cached_property
    def lines(self) -> Mapping[Location, int]:
        """The line by location. For JSON they are only found when a problem needs them."""
        if self.known_lines is not None:
            return self.known_lines
        try:
            # JSON without its tabs (always plain white space) is YAML, whose parser knows the lines.
            return parse(self.text.replace("\t", " ")).lines
        except YamlProblem:
            return {}

    def problem(self, location: Location, message: str) -> BlueprintProblem:
        at = location
        while at and at not in self.lines:
            at = at[:-1]
        return BlueprintProblem(self.lines.get(at) if at or not location else None, shown(location), message)


def shown(location: Location) -> str:
    """The location as text, such as `components.course.rules[0].cel`."""
    text = ""
    for step in location:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step[:_SHOWN]}" if text else step[:_SHOWN]
    return text


def read(text: str, label: str) -> ParsedBlueprint:
    """The content of `text`. Raises `BlueprintError`."""
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise failed(label, f"A blueprint may have {MAX_BYTES // 1024} KB at most; this has more")
    text = text.removeprefix("\ufeff")
    if text.lstrip().startswith("{") and (blueprint_json := _json(text, label)) is not None:
        return blueprint_json
    try:
        parsed = parse(text)
    except YamlProblem as problem:
        raise failed(label, _sentence(problem.sentence), problem.line) from problem
    return _checked(ParsedBlueprint(label, text, parsed.value, parsed.lines))


def failed(label: str, message: str, line: int | None = None) -> BlueprintError:
    return BlueprintError((BlueprintProblem(line, "", message),), label)


def _checked(source: ParsedBlueprint) -> ParsedBlueprint:
    if not isinstance(source.value, dict):
        what = "empty" if source.value is None else "no mapping"
        raise failed(source.label, f"A blueprint is lines of `key: value`, the first `blueprint: NAME`; this is {what}")
    return source


def _json(text: str, label: str) -> ParsedBlueprint | None:
    """The content of JSON; None where the text is no JSON, as YAML may begin with a brace too."""
    try:
        value = json.loads(text, object_pairs_hook=refuse_repeated_keys, parse_constant=_no_number)
    except RepeatedKey as error:
        written = json.dumps(error.key, ensure_ascii=False).rstrip('…"')
        second = text.find(written, text.find(written) + 1)
        line = None if second < 0 else text.count("\n", 0, second) + 1
        raise failed(label, _sentence(str(error)), line) from error
    except (ValueError, RecursionError):
        return None
    return _checked(ParsedBlueprint(label, text, value))


def _no_number(word: str) -> float:
    raise ValueError(word)


def structure(source: ParsedBlueprint) -> tuple[Readable | None, list[BlueprintProblem]]:
    """The spec as far as it is valid (None where too little is), and the problems found."""
    try:
        return Readable(BlueprintSpec.model_validate(source.value, strict=True), True), []
    except ValidationError as error:
        found = [_problem(source, one) for one in error.errors(include_url=False)[:_LOOKED_AT]]
        return readable(source.value), found


def _tag(model: type[BaseModel]) -> str:
    """The value of `type` for a field model."""
    return str(get_args(model.model_fields["type"].annotation)[0])


_MODELS: Final[Mapping[str, type[BaseModel]]] = {
    "": BlueprintSpec,
    "agent": NodeAgent,
    "children": ChildCount,
    "rules": BlueprintRule,
}
_FIELDS: Final = {_tag(model): model for model in get_args(get_args(FieldSpec)[0])}
_ITEMS: Final = tuple(map(_tag, get_args(get_args(ItemField)[0])))


def _problem(source: ParsedBlueprint, error: ErrorDetails) -> BlueprintProblem:
    location = steps(source.value, error["loc"])
    if error["type"] == "union_tag_invalid":
        location = (*location, "type")
    message = _message(source.value, location, error)
    return source.problem(location, message)


def _message(value: Any, location: Location, error: ErrorDetails) -> str:
    kind, given_value = error["type"], error.get("input")
    if kind == "extra_forbidden":
        return f"Nothing of this name is known here{suggestion(str(location[-1]), _known(value, location))}"
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return _no_type(given_value, _ITEMS if "items" in location[-2:] else tuple(_FIELDS))
    if kind == "literal_error":
        words = [word.strip(" '") for word in str(error["ctx"]["expected"]).replace(" or ", ", ").split(",")]
        return f"{str(given_value)[:_SHOWN]!r} is not known here{suggestion(str(given_value), words)}"
    if kind == "string_pattern_mismatch" and error["ctx"]["pattern"] == SPEC_NAME:
        return f"{str(given_value)[:_SHOWN]!r} is no name; a name is lower case letters, digits and _, a letter first"
    if kind == "string_pattern_mismatch" and location == ("blueprint",):
        return "A blueprint's name is lower case letters, digits, _ and -, at most 64"
    if kind == "too_long" and location == ("components",):
        return f"A blueprint has {MAX_COMPONENTS} components at most"
    if kind == "too_long" and location[-1:] in (("metadata",), ("properties",)):
        return f"A component has {MAX_FIELDS} fields of one sort at most"
    if kind in ("mapping_type", "dict_type", "model_type", "model_attributes_type"):
        return "Names with their values belong here, one a line or in braces: `name: value`"
    if kind == "too_short" and location == ("components",):
        return "A blueprint has at least one component"
    if kind == "bool_type":
        return "Input should be true or false, without quotation marks"
    return mistakes([{**error, "loc": ("x",)}])[0].message.replace("Value should have", "List should have")


_OTHERS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("string", "str", "markdown", "textarea"), "text"),
    **dict.fromkeys(("integer", "int", "float", "decimal", "double"), "number"),
    **dict.fromkeys(("enum", "select", "option", "one_of"), "choice"),
    **dict.fromkeys(("bool", "flag"), "boolean"),
    **dict.fromkeys(("array", "tuple", "set"), "list"),
    **dict.fromkeys(("datetime", "day", "time"), "date"),
    **dict.fromkeys(("ref", "link", "node", "path"), "reference"),
}
"""Names that other systems use, with the field type meant."""


def _no_type(found: object, kinds: tuple[str, ...]) -> str:
    tag = found.get("type") if isinstance(found, Mapping) else None
    if tag is None:
        return f"A field has a `type`; there is: {', '.join(kinds)}"
    meant = _OTHERS.get(str(tag).lower())
    hint = f"; did you mean {meant!r}?" if meant in kinds else suggestion(str(tag), kinds)
    return f"{str(tag)[:_SHOWN]!r} is no type that a field has here{hint}"


def _known(value: Any, location: Location) -> list[str]:
    """The keys that the mapping above `place` may have."""
    above = location[:-1]
    model: type[BaseModel] | None = _MODELS.get(str(next((step for step in reversed(above) if step in _MODELS), "")))
    if len(above) == 2 and above[0] == "components":
        model = Component
    elif any(step in ("metadata", "properties") for step in above) and "rules" not in above:
        for step in above:
            value = value[step]
        model = _FIELDS.get(value.get("type"))
    return [] if model is None else [field.alias or name for name, field in model.model_fields.items()]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
