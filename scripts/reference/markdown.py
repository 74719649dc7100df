"""The shapes of JSON Schema as words, and for tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

UUID = "^[0-9a-f]{8}-"
"""How the pattern of an id begins."""

BOUNDS = (("minimum", "≥ {}"), ("exclusiveMinimum", "> {}"), ("maximum", "≤ {}"), ("exclusiveMaximum", "< {}"))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table; what a cell holds stays in its cell."""
    yield _row(head)
    yield _row(["---"] * len(head))
    yield from map(_row, rows)
    yield ""


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def code(value: object) -> str:
    return f"`{value}`"


def link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def shape(schema: Mapping[str, Any], known: Iterable[str] = ()) -> str:
    """What a value may be; shapes that are `known` are linked to their own section."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return link(name) if name in known else name
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(shape(one, known) for one in schema["anyOf"]))
    if "enum" in schema:
        return ", ".join("null" if one is None else code(one) for one in schema["enum"])
    if "const" in schema:
        return code(schema["const"])
    match schema.get("type"):
        case list(kinds):
            return " or ".join(shape({**schema, "type": kind}, known) for kind in kinds)
        case "array":
            items = shape(schema.get("items", {}), known)
            return f"list of {items}{_bounds(schema, 'Items')}"
        case "object":
            inside = schema.get("additionalProperties")
            return f"object of {shape(inside, known)}" if isinstance(inside, Mapping) and inside else "object"
        case "string":
            return _text(schema)
        case "null":
            return "null"
        case None:
            return "anything"
        case kind:
            return f"{kind}{_numbers(schema)}"


def _text(schema: Mapping[str, Any]) -> str:
    if str(schema.get("pattern", "")).startswith(UUID):
        return "id"
    return {"date-time": "time", "path": "path", "password": "secret"}.get(
        schema.get("format", ""), f"text{_bounds(schema, 'Length')}"
    )


def _numbers(schema: Mapping[str, Any]) -> str:
    said = [words.format(_number(schema[key])) for key, words in BOUNDS if key in schema]
    return f" {', '.join(said)}" if said else ""


def _bounds(schema: Mapping[str, Any], of: str) -> str:
    most, what = schema.get(f"max{of}"), "" if of == "Items" else " characters"
    return f" (≤ {_number(most)}{what})" if most is not None else ""


def _number(value: float) -> str:
    return f"{int(value):,}" if float(value).is_integer() else f"{value:g}"


def properties(schema: Mapping[str, Any], known: Iterable[str] = ()) -> Iterator[tuple[str, str, str]]:
    """Name, what it may be, and the default (`–` where one must be given) of each property."""
    required = schema.get("required", ())
    for name, inside in schema.get("properties", {}).items():
        default = "–" if name in required else shown(inside.get("default"))
        yield code(name), shape(inside, known), default


def shown(value: object) -> str:
    """A default as people write it."""
    match value:
        case None | "":
            return "none"
        case bool():
            return code(str(value).lower())
        case float() if value.is_integer():
            return code(int(value))
        case list() | tuple():
            return ", ".join(map(code, value)) or "none"
        case dict():
            return "its defaults" if value else "none"
    return code(value)
