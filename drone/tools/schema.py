"""The arguments of a tool: a JSON Schema out of a signature, and the check of a call by it."""

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails

from mcc.rules.errors import alike
from mcc.rules.patterns import Pattern

_SECTIONS = Pattern(r"^(Args|Arguments|Parameters|Returns?|Yields?|Raises|Examples?|Notes?|Attributes):\s*$")
_ARGUMENT = Pattern(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_SHOWN = 80
_MOST_ERRORS = 8


class ToolDeclarationError(TypeError):
    """A function cannot be a tool as it stands; a sentence for whoever wrote it."""


class BadArguments(Exception):
    """The arguments of a call do not fit; sentences for the model that wrote them."""


@dataclass(frozen=True, slots=True)
class Described:
    """What a docstring says: everything before its first section, and the text for each argument."""

    description: str
    arguments: Mapping[str, str]


def described(function: Callable[..., object]) -> Described:
    """Read a Google-style docstring."""
    lines = (inspect.getdoc(function) or "").splitlines()
    start = next((n for n, line in enumerate(lines) if _SECTIONS.match(line)), len(lines))
    paragraphs = "\n".join(lines[:start]).strip().split("\n\n")
    text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    return Described(text, _arguments(lines[start:]))


def _arguments(lines: Iterable[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    inside, indent, name = False, None, ""
    for line in lines:
        if section := _SECTIONS.match(line):
            inside, indent, name = section[1] in ("Args", "Arguments", "Parameters"), None, ""
        elif inside and line.strip():
            depth = len(line) - len(line.lstrip())
            indent = depth if indent is None else indent
            if depth == indent and (named := _ARGUMENT.match(line.strip())):
                name = named[1]
                found[name] = [named[2]]
            elif name:
                found[name].append(line.strip())
    return {name: " ".join(part for part in parts if part) for name, parts in found.items()}


class _Plain(GenerateJsonSchema):
    """JSON Schema without the titles that pydantic derives from names: they would only cost tokens."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


class Arguments:
    """The arguments one function takes from a model: `schema` to show, `checked` to hold a call against.

    Parameters annotated with one of `injected` are not the model's; `injections` names them.
    """

    def __init__(self, function: Callable[..., object], texts: Mapping[str, str], injected: type[object]) -> None:
        self._tool = getattr(function, "__name__", "tool")
        parameters, hints = _parameters(function, self._tool), _hints(function, self._tool)
        self.injections = tuple(name for name in parameters if hints.get(name) is injected)
        self._shown = {name: p for name, p in parameters.items() if name not in self.injections}
        self._by_field = {f"field_{number}": name for number, name in enumerate(self._shown)}
        self._model = self._built(hints, texts)
        self.schema = _schema(self._model)

    def _built(self, hints: Mapping[str, Any], texts: Mapping[str, str]) -> type[BaseModel]:
        fields: dict[str, Any] = {}
        for field, name in self._by_field.items():
            default = self._shown[name].default
            shown = ... if default is inspect.Parameter.empty else default
            fields[field] = (hints.get(name, Any), Field(default=shown, alias=name, description=texts.get(name)))
        try:
            return create_model(self._tool, __config__=ConfigDict(extra="forbid"), **fields)
        except Exception as error:
            raise ToolDeclarationError(f"The tool {self._tool} cannot be described: {error}") from error

    def checked(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """The call's arguments as the function wants them; what was left out is left out. Raises `BadArguments`."""
        try:
            model = self._model.model_validate(dict(arguments))
        except ValidationError as error:
            raise BadArguments(self._complaint(error.errors(include_url=False, include_context=False))) from error
        if misplaced := _misplaced(self.schema, arguments, self.schema.get("$defs", {})):
            where, wanted, said = misplaced
            raise BadArguments(f"`{where}`: input should be {wanted}, but it was {said}. {self.signature()}")
        return {
            self._by_field[field]: getattr(model, field) for field in self._by_field if field in model.model_fields_set
        }

    def _complaint(self, errors: Sequence[ErrorDetails]) -> str:
        said = " ".join(self._sentence(error) for error in errors[:_MOST_ERRORS])
        more = f" And {len(errors) - _MOST_ERRORS:,} more like these." if len(errors) > _MOST_ERRORS else ""
        return f"{said}{more} {self.signature()}"

    def _sentence(self, error: ErrorDetails) -> str:
        where = ".".join(str(part)[:_SHOWN] for part in error["loc"]) or "arguments"
        if error["type"] == "extra_forbidden" and len(error["loc"]) == 1:
            near = alike(where, self._shown, n=1)
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
        listed = ", ".join(f"{n}{'' if n in required else '?'}: {_kind(p)}" for n, p in properties.items())
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
        schema = model.model_json_schema(by_alias=True, schema_generator=_Plain)
    except Exception as error:
        raise ToolDeclarationError(f"The arguments of {model.__name__} have no JSON Schema: {error}") from error
    schema.pop("title", None)
    schema["properties"] = {name: _without_null(spec) for name, spec in schema.get("properties", {}).items()}
    return schema


def _without_null(spec: dict[str, Any]) -> dict[str, Any]:
    """An optional argument shown by its own type; null is still taken for "left out"."""
    kinds = [kind for kind in spec.get("anyOf", ()) if kind.get("type") != "null"]
    if "default" not in spec or spec["default"] is not None or len(kinds) != 1:
        return spec
    return {**kinds[0], **{key: value for key, value in spec.items() if key not in ("anyOf", "default")}}


def _misplaced(
    spec: Mapping[str, Any], value: object, definitions: Mapping[str, Any], where: str = ""
) -> tuple[str, str, str] | None:
    """Where true or false stands for something else, what should stand there, and which of them it was.

    Pydantic takes them for 1 and 0; a model that says `start_line: true` did not mean line 1.
    """
    spec = _meant(spec, definitions)
    if options := spec.get("anyOf") or spec.get("oneOf"):
        meant = [_meant(option, definitions) for option in options]
        found = [_misplaced(option, value, definitions, where) for option in meant if _may_hold(option, value)]
        return None if not found or None in found else found[0]
    if isinstance(value, bool):
        listed = spec["enum"] if "enum" in spec else [spec["const"]] if "const" in spec else None
        fits = any(one is value for one in listed) if listed else spec.get("type", "boolean") == "boolean"
        return None if fits else (where, _kind(spec), json.dumps(value))
    for key, inner, part in _parts(spec, value):
        if isinstance(inner, Mapping):
            below = f"{where}.{key}" if where else str(key)
            if misplaced := _misplaced(inner, part, definitions, below[-_SHOWN:]):
                return misplaced
    return None


def _meant(spec: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """The definition that a schema refers to, or the schema itself."""
    meant: Mapping[str, Any] = definitions.get(str(spec.get("$ref", "")).rpartition("/")[2], spec)
    return meant


def _may_hold(option: Mapping[str, Any], value: object) -> bool:
    """Whether a list or an object may stand where the schema has `option`; what is neither is looked at in any case."""
    kind = "array" if isinstance(value, list | tuple) else "object" if isinstance(value, Mapping) else None
    return kind is None or option.get("type", kind) == kind


def _parts(spec: Mapping[str, Any], value: object) -> Iterable[tuple[object, object, object]]:
    """What a list or an object consists of: the place, its schema, the value there."""
    if isinstance(value, Mapping):
        named, others = spec.get("properties", {}), spec.get("additionalProperties")
        return ((key, named.get(key, others), part) for key, part in value.items())
    if isinstance(value, list | tuple):
        first, rest = spec.get("prefixItems", ()), spec.get("items")
        return ((place, first[place] if place < len(first) else rest, part) for place, part in enumerate(value))
    return ()


def _kind(spec: Mapping[str, Any]) -> str:
    if "enum" in spec:
        return " | ".join(json.dumps(value) for value in spec["enum"])
    if "anyOf" in spec:
        return " | ".join(_kind(kind) for kind in spec["anyOf"])
    if spec.get("type") == "array":
        return f"[{_kind(spec.get('items', {}))}]"
    return str(spec.get("type") or str(spec.get("$ref", "any")).rpartition("/")[2])
