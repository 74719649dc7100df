"""Parser for front matter and blueprints: YAML 1.2 with its core schema.

Refused, with the line: aliases and anchors, tags beyond the core schema, duplicate keys, keys that are not text,
numbers that are not finite, and nesting beyond `MAX_NESTING`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from mcc.definitions.front_matter import Location, Parsed, YamlProblem
from mcc.rules.patterns import Pattern

MAX_NESTING = 32

_DIGITS = 100
"""Most digits of a whole number."""

_PREFIX = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class _Kind:
    """One type of plain scalar: the pattern that it matches, its possible first characters, and its conversion."""

    name: str
    pattern: Pattern
    first: str
    read: Callable[[str], Any]


def _integer(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError(text[:_DIGITS])
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    return int(text, base)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


_NULL = _Kind("null", Pattern(r"(?:~|null|Null|NULL|)\z"), "~nN", lambda text: None)
_BOOL = _Kind("bool", Pattern(r"(?:true|True|TRUE|false|False|FALSE)\z"), "tTfF", lambda text: text[0] in "tT")
_INT = _Kind("int", Pattern(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\z"), "-+0123456789", _integer)
_FLOAT = _Kind(
    "float",
    Pattern(
        r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\z"
    ),
    "-+.0123456789",
    lambda text: _finite(text.lower().replace(".inf", "inf").replace(".nan", "nan")),
)
_TEXT = _Kind("str", Pattern(r"(?s:.*)\z"), "", lambda text: text)
_KINDS: Mapping[str, _Kind] = {_PREFIX + kind.name: kind for kind in (_NULL, _BOOL, _INT, _FLOAT, _TEXT)}


class _Composer(yaml.SafeLoader):
    """PyYAML's composer, with the resolvers of the 1.2 core schema instead of those of YAML 1.1."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 the name and shape are PyYAML's
    depth = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        self._refuse_references()
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise YamlProblem(f"this is nested deeper than {MAX_NESTING} levels", self._line())
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1

    def fetch_flow_collection_start(self, token: type[yaml.Token]) -> None:
        """Refuse deep nesting already while scanning: the scanner visits every open level for each character."""
        if self.flow_level >= MAX_NESTING:
            raise YamlProblem(f"this is nested deeper than {MAX_NESTING} levels", int(self.line) + 1)
        super().fetch_flow_collection_start(token)

    def _refuse_references(self) -> None:
        event = self._next()
        if isinstance(event, yaml.AliasEvent):
            raise YamlProblem(
                f"*{event.anchor} is a YAML alias and is refused; quote text that begins with *", self._line()
            )
        if getattr(event, "anchor", None) is not None:
            raise YamlProblem(
                f"&{event.anchor} is a YAML anchor and is refused; quote text that begins with &", self._line()
            )

    def _line(self) -> int:
        return int(self._next().start_mark.line) + 1

    def _next(self) -> Any:
        return self.peek_event()  # type: ignore[no-untyped-call]


for _kind in (_NULL, _BOOL, _INT, _FLOAT):
    _Composer.add_implicit_resolver(
        _PREFIX + _kind.name, _kind.pattern, [*_kind.first, *([""] if _kind is _NULL else [])]
    )


def parse(text: str) -> Parsed:
    """The single document in `text` as None, booleans, numbers, text, lists and dicts. Raises `YamlProblem`."""
    lines: dict[Location, int] = {}
    try:
        composer = _Composer(text)
        try:
            node = composer.get_single_node()
        finally:
            composer.dispose()
    except yaml.YAMLError as error:
        raise _problem(error, text) from error
    return Parsed(None if node is None else _value(node, (), lines), lines)


def _value(node: Node, location: Location, lines: dict[Location, int]) -> Any:
    # The line of the key stands already, and is where a reader looks.
    lines.setdefault(location, _line_of(node))
    if isinstance(node, ScalarNode):
        return _scalar(node)
    if isinstance(node, SequenceNode) and node.tag == _PREFIX + "seq":
        return [_value(item, (*location, index), lines) for index, item in enumerate(node.value)]
    if isinstance(node, MappingNode) and node.tag == _PREFIX + "map":
        return _mapping(node, location, lines)
    raise _foreign_tag(node)


def _mapping(node: MappingNode, location: Location, lines: dict[Location, int]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = _scalar(key_node) if isinstance(key_node, ScalarNode) else None
        if not isinstance(key, str):
            raise YamlProblem("a key must be text; quote it", _line_of(key_node))
        # PyYAML would let the last one win, and a reader see the first.
        if key in mapping:
            raise YamlProblem(f"the key {key!r} stands here a second time; keep one of the two", _line_of(key_node))
        lines[(*location, key)] = _line_of(key_node)
        mapping[key] = _value(value_node, (*location, key), lines)
    return mapping


def _scalar(node: ScalarNode) -> Any:
    kind = _KINDS.get(node.tag)
    if kind is None:
        raise _foreign_tag(node)
    try:
        # An explicit tag such as `!!int` reaches this without its pattern having been tried.
        if not kind.pattern.match(node.value):
            raise ValueError(node.value)
        return kind.read(node.value)
    except ValueError as error:
        raise YamlProblem(
            f"{node.value[:40]!r} cannot be read as {kind.name}; quote it if it is text", _line_of(node)
        ) from error


def _foreign_tag(node: Node) -> YamlProblem:
    return YamlProblem(f"the tag {node.tag!r} is not read here; leave it out", _line_of(node))


def _line_of(node: Node) -> int:
    return int(node.start_mark.line) + 1


def _problem(error: yaml.YAMLError, text: str) -> YamlProblem:
    """PyYAML's error as a sentence with a hint."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        position, (first_line, *_) = getattr(error, "position", None), str(error).strip().split("\n", 1)
        line = None if position is None else text.count("\n", 0, position) + 1
        return YamlProblem(f"not readable as YAML: {first_line}", line)
    problem = str(getattr(error, "problem", "") or "not readable as YAML")
    return YamlProblem(f"not readable as YAML: {problem}{_hint(problem, text, mark.line)}", mark.line + 1)


def _hint(problem: str, text: str, index: int) -> str:
    lines = text.split("\n")
    line = lines[index] if index < len(lines) else ""
    if problem.startswith("mapping values are not allowed"):
        key, _, value = line.strip().removeprefix("- ").strip().partition(": ")
        plain = value.strip() and key and not any(mark in key for mark in " \t:#'\"")
        shown = f'{key[:60]}: "{value.strip()[:60]}"' if plain else '"…"'
        return f"; a value with a colon in it must be quoted: {shown}"
    if "'\\t'" in problem:
        return "; indent with spaces"
    if "cannot start any token" in problem:
        return "; quote the value"
    return ""
