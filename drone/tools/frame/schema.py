"""The arguments of a tool: their JSON Schema, made from a function's signature, and the validation of calls."""

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails

from mcc.contracts.similar import close_matches
from mcc.rules.patterns import Pattern

_SECTIONS = Pattern(r"^(Args|Arguments|Parameters|Returns?|Yields?|Raises|Examples?|Notes?|Attributes):\s*$")
_ARGUMENT = Pattern(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_SHOWN = 80
_MOST_ERRORS = 8


class ToolDeclarationError(TypeError):
    """A function cannot be a tool; the message tells its author why."""


class BadArguments(Exception):
    """The arguments of a call are invalid; the message tells the model why."""


@dataclass(frozen=True, slots=True)
class Described:
    """A parsed docstring: the text before its first section, and the text for each argument."""

    description: str
    arguments: Mapping[str, str]


def described(function: Callable[..., object]) -> Described:
    """Parse the function's Google-style docstring."""
    lines = (inspect.getdoc(function) or "").splitlines()
    start = next((n for n, line in enumerate(lines) if _SECTIONS.match(line)), len(lines))
    paragraphs = "\n".join(lines[:start]).strip().split("\n\n")
    text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    return Described(text, _arguments(lines[start:]))


def _arguments(lines: Iterable[str]) -> dict[str, str]:
    sections: dict[str, list[str]] = {}
    inside, indent, name = False, None, ""
    for line in lines:
        if section := _SECTIONS.match(line):
            inside, indent, name = section[1] in ("Args", "Arguments", "Parameters"), None, ""
        elif inside and line.strip():
            depth = len(line) - len(line.lstrip())
            indent = depth if indent is None else indent
            if depth == indent and (named := _ARGUMENT.match(line.strip())):
                name = named[1]
                sections[name] = [named[2]]
            elif name:
                sections[name].append(line.strip())
    return {name: " ".join(part for part in parts if part) for name, parts in sections.items()}


class _Untitled(GenerateJsonSchema):
    """JSON Schema without the titles that pydantic derives from names: they would only cost tokens."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


class Arguments:
    """The arguments that a function takes from models: `schema` describes them, `checked` validates a call's.

    Parameters annotated with `injected` are filled in by the runtime; `injections` names them. Raises
    `ToolDeclarationError`.
    """

    def __init__(self, function: Callable[..., object], texts: Mapping[str, str], injected: type[object]) -> None:
        self._tool = getattr(function, "__name__", "tool")
        parameters, hints = _parameters(function, self._tool), _hints(function, self._tool)
        self.injections = tuple(name for name in parameters if hints.get(name) is injected)
        self._shown = {name: p for name, p in parameters.items() if name not in self.injections}
        # Fields are numbered, because pydantic forbids some names that parameters may have.
        self._by_field = {f"field_{number}": name for number, name in enumerate(self._shown)}
        self._model = self._argument_model(hints, texts)
        self.schema = _schema(self._model)

    def _argument_model(self, hints: Mapping[str, Any], texts: Mapping[str, str]) -> type[BaseModel]:
        fields: dict[str, Any] = {}
        for field, name in self._by_field.items():
            default = self._shown[name].default
            if default is inspect.Parameter.empty:
                default = ...
            fields[field] = (hints.get(name, Any), Field(default=default, alias=name, description=texts.get(name)))
        try:
            return create_model(self._tool, __config__=ConfigDict(extra="forbid"), **fields)
        except Exception as error:
            raise ToolDeclarationError(f"The tool {self._tool} cannot be described: {error}") from error

    def checked(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """The call's arguments, converted to the function's types; omitted ones stay omitted. Raises `BadArguments`."""
        try:
            model = self._model.model_validate(dict(arguments))
        except ValidationError as error:
            raise BadArguments(self._complaint(error.errors(include_url=False, include_context=False))) from error
        if misplaced := _misplaced_boolean(self.schema, arguments, self.schema.get("$defs", {})):
            where, wanted, value = misplaced
            raise BadArguments(f"`{where}`: input should be {wanted}, but it was {value}. {self.signature()}")
        return {
            self._by_field[field]: getattr(model, field) for field in self._by_field if field in model.model_fields_set
        }

    def _complaint(self, errors: Sequence[ErrorDetails]) -> str:
        sentences = " ".join(self._sentence(error) for error in errors[:_MOST_ERRORS])
        more = f" And {len(errors) - _MOST_ERRORS:,} more like these." if len(errors) > _MOST_ERRORS else ""
        return f"{sentences}{more} {self.signature()}"

    def _sentence(self, error: ErrorDetails) -> str:
        where = ".".join(str(part)[:_SHOWN] for part in error["loc"]) or "arguments"
        if error["type"] == "extra_forbidden" and len(error["loc"]) == 1:
            near = close_matches(where, self._shown, n=1)
            return f"`{where}` is not an argument." + (f" Did you mean `{near[0]}`?" if near else "")
        if error["type"] == "missing":
            return f"`{where}` is missing."
        shown = json.dumps(error["input"], default=repr)
        cut = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
        return f"`{where}`: {error['msg'][0].lower()}{error['msg'][1:]}, but it was {cut}."

    def signature(self) -> str:
        """One sentence: the arguments with their types, optional ones with a question mark."""
        properties: Mapping[str, Any] = self.schema.get("properties", {})
        if not properties:
            return f"{self._tool} takes no arguments."
        required = self.schema.get("required", ())
        listed = ", ".join(f"{n}{'' if n in required else '?'}: {_type_name(p)}" for n, p in properties.items())
        return f"{self._tool} takes {{{listed}}}."


def _parameters(function: Callable[..., object], tool: str) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(function).parameters
    for parameter in parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ToolDeclarationError(
                f"The tool {tool} takes {parameter}; a tool's arguments are named one by one, "
                "so *args, **kwargs and positional-only parameters cannot be shown to a model."
            )
    return dict(parameters)


def _hints(function: Callable[..., object], tool: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ToolDeclarationError(f"An annotation of the tool {tool} cannot be resolved: {error}.") from error


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    try:
        schema = model.model_json_schema(by_alias=True, schema_generator=_Untitled)
    except Exception as error:
        raise ToolDeclarationError(f"The arguments of {model.__name__} have no JSON Schema: {error}") from error
    schema.pop("title", None)
    schema["properties"] = {name: _without_null(spec) for name, spec in schema.get("properties", {}).items()}
    return schema


def _without_null(spec: dict[str, Any]) -> dict[str, Any]:
    """An optional argument's schema without null, which saves tokens; calls may still pass null for "omitted"."""
    kinds = [kind for kind in spec.get("anyOf", ()) if kind.get("type") != "null"]
    if "default" not in spec or spec["default"] is not None or len(kinds) != 1:
        return spec
    return {**kinds[0], **{key: value for key, value in spec.items() if key not in ("anyOf", "default")}}


def _misplaced_boolean(
    spec: Mapping[str, Any], value: object, definitions: Mapping[str, Any], where: str = ""
) -> tuple[str, str, str] | None:
    """A true or false where the schema wants something else: its path, the wanted type, and the value as JSON.

    Pydantic would convert them to 1 and 0; a model that passes `start_line: true` does not mean line 1.
    """
    spec = _resolved(spec, definitions)
    if options := spec.get("anyOf") or spec.get("oneOf"):
        resolved = [_resolved(option, definitions) for option in options]
        found = [
            _misplaced_boolean(option, value, definitions, where) for option in resolved if _may_match(option, value)
        ]
        return None if not found or None in found else found[0]
    if isinstance(value, bool):
        allowed = spec["enum"] if "enum" in spec else [spec["const"]] if "const" in spec else None
        fits = any(known is value for known in allowed) if allowed else spec.get("type", "boolean") == "boolean"
        return None if fits else (where, _type_name(spec), json.dumps(value))
    for key, inner, part in _parts(spec, value):
        if isinstance(inner, Mapping):
            below = f"{where}.{key}" if where else str(key)
            if misplaced := _misplaced_boolean(inner, part, definitions, below[-_SHOWN:]):
                return misplaced
    return None


def _resolved(spec: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """The definition that a schema refers to, or the schema itself."""
    resolved: Mapping[str, Any] = definitions.get(str(spec.get("$ref", "")).rpartition("/")[2], spec)
    return resolved


def _may_match(option: Mapping[str, Any], value: object) -> bool:
    """Whether the value's type fits the option of a schema; always True for values that are no list or object."""
    kind = "array" if isinstance(value, list | tuple) else "object" if isinstance(value, Mapping) else None
    return kind is None or option.get("type", kind) == kind


def _parts(spec: Mapping[str, Any], value: object) -> Iterable[tuple[object, object, object]]:
    """The elements of a list or an object: key or index, schema, value."""
    if isinstance(value, Mapping):
        named, others = spec.get("properties", {}), spec.get("additionalProperties")
        return ((key, named.get(key, others), part) for key, part in value.items())
    if isinstance(value, list | tuple):
        first, rest = spec.get("prefixItems", ()), spec.get("items")
        return ((index, first[index] if index < len(first) else rest, part) for index, part in enumerate(value))
    return ()


def _type_name(spec: Mapping[str, Any]) -> str:
    if "enum" in spec:
        return " | ".join(json.dumps(value) for value in spec["enum"])
    if "anyOf" in spec:
        return " | ".join(_type_name(option) for option in spec["anyOf"])
    if spec.get("type") == "array":
        return f"[{_type_name(spec.get('items', {}))}]"
    return str(spec.get("type") or str(spec.get("$ref", "any")).rpartition("/")[2])
