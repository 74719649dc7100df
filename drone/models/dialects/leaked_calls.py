"""Thinking and calls that a server leaves in the text in its model's template syntax; thinking is separated while
streaming."""

import ast
import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias

from drone.agent.messages import ToolSpec
from drone.models.json_text import arguments
from mcc.rules.patterns import Pattern

Kind: TypeAlias = Literal["text", "thinking"]

THINKING = {"<think>": "</think>", "<thinking>": "</thinking>", "<thought>": "</thought>"}
CALLS = ("<tool_call>", "<function=", "[TOOL_CALLS]")
_MOST_BLANKS = 1_000
_LONGEST = max(map(len, (*THINKING, *THINKING.values(), *CALLS)))


class TagSplitter:
    """Separates thinking from the text of one streamed reply; it can only stand at the very beginning. From the
    first call mark at the start of a line, everything goes into `held`: whether it is a call shows only once it is
    complete."""

    def __init__(self) -> None:
        self.held: list[str] = []
        self._closing = ""
        self._begun = False
        self._after_thinking = False
        self._line_begins = True
        self._rest = ""

    def feed(self, piece: str) -> Iterator[tuple[Kind, str]]:
        """The (kind, text) pieces that are certain so far."""
        if self.held:
            self.held.append(piece)
            return
        text, self._rest = self._rest + piece, ""
        if not self._begun:
            text = self._after_opening(text)
        if self._closing:
            thought, text = self._thinking(text)
            if thought:
                yield "thinking", thought
        if text and not self._closing and self._begun and (words := self._answer(text)):
            yield "text", words

    def end(self) -> Iterator[tuple[Kind, str]]:
        """The text kept back as a possible start of a mark; `held` is left to the caller, who knows the tools."""
        rest, self._rest = self._rest, ""
        if rest:
            yield ("thinking" if self._closing else "text"), rest

    def _after_opening(self, text: str) -> str:
        """Handle the opening tag. Returns the text after it, or an empty string while more text is needed to decide."""
        start = text.lstrip()
        if any(tag.startswith(start) for tag in THINKING) and len(text) < _MOST_BLANKS:
            self._rest = text
            return ""
        self._begun = True
        tag = next((tag for tag in THINKING if start.startswith(tag)), "")
        if not tag:
            return text
        self._closing = THINKING[tag]
        return start[len(tag) :].lstrip("\n")

    def _thinking(self, text: str) -> tuple[str, str]:
        """The thinking in `text`, and the text after it."""
        inside, closed, after = text.partition(self._closing)
        if closed:
            self._closing, self._after_thinking = "", True
            return inside, after
        cut = _start_of_mark(text, (self._closing,))
        self._rest = text[cut:]
        return text[:cut], ""

    def _answer(self, text: str) -> str:
        if self._after_thinking:
            text = text.lstrip()
            if not text:
                return ""
            self._after_thinking = False
        begin = self._first_call(text)
        if begin is not None:
            self.held.append(text[begin:])
            return text[:begin]
        cut = _start_of_mark(text, CALLS)
        if cut < len(text) and self._begins_a_line(text, cut):
            self._rest, text = text[cut:], text[:cut]
        if text:
            self._line_begins = self._begins_a_line(text, len(text))
        return text

    def _first_call(self, text: str) -> int | None:
        line = 0 if self._line_begins else text.find("\n") + 1
        while line or self._line_begins:
            place = line
            while text.startswith((" ", "\t"), place):
                place += 1
            if text.startswith(CALLS, place):
                return place
            line = text.find("\n", place) + 1
            if not line:
                return None
        return None

    def _begins_a_line(self, text: str, place: int) -> bool:
        """Whether only blanks precede this place in its line."""
        line = text.rfind("\n", 0, place) + 1
        return not text[line:place].strip() and (line > 0 or self._line_begins)


def _start_of_mark(text: str, marks: tuple[str, ...]) -> int:
    """Index from which the end of `text` may be an incomplete mark; its length if there is none."""
    begun = _prefixes(marks)
    for cut in range(max(0, len(text) - _LONGEST + 1), len(text)):
        if text[cut:] in begun:
            return cut
    return len(text)


@cache
def _prefixes(marks: tuple[str, ...]) -> frozenset[str]:
    return frozenset(mark[:end] for mark in marks for end in range(1, len(mark) + 1))


def without_opening(text: str) -> tuple[str, str] | None:
    """Thinking and answer of a text whose opening tag was part of the prompt, so that only the closing tag arrived, on
    a line of its own. None for other texts."""
    for opening, closing in THINKING.items():
        before, found, after = text.partition(closing)
        alone = before.endswith("\n") and (not after or after.startswith(("\n", "\r\n")))
        if found and alone and opening not in before:
            return before.rstrip(), after.lstrip()
    return None


Tools: TypeAlias = Mapping[str, ToolSpec]
"""The offered tools, by the names sent to the model."""

MOST_CHARACTERS = 200_000
MOST_CALLS = 64
_MOST_OF_PYTHON = 20_000

_ARGUMENTS = ("arguments", "parameters")
_PYTHON = Pattern(r"\[\s*\w+\s*\(")
_NAME = Pattern(r"\s*([\w.-]{1,200})")


class LeakedCall(NamedTuple):
    name: str
    arguments: Mapping[str, object]


class _NotACall(Exception):
    """The text is not a call in this syntax."""


def leaked_calls(text: str, tools: Tools) -> tuple[LeakedCall, ...]:
    """The calls that `text` consists of entirely; empty if any part is something else or names a tool that was not
    offered."""
    plain = text.strip()
    read = next((read for mark, read in _READERS.items() if plain.startswith(mark)), None)
    if read is None or len(plain) > MOST_CHARACTERS:
        return ()
    try:
        calls = tuple(islice(read(plain, tools), MOST_CALLS + 1))
    except _NotACall:
        return ()
    return calls if len(calls) <= MOST_CALLS and all(call.name in tools for call in calls) else ()


def _tool_calls(text: str, tools: Tools) -> Iterator[LeakedCall]:
    """`<tool_call>…</tool_call>`, repeated; the last one may be unclosed."""
    while text:
        if not text.startswith("<tool_call>"):
            raise _NotACall
        inside = text[len("<tool_call>") :].lstrip()
        if inside.startswith("<function="):
            call, rest = _function(inside, tools)
        elif inside.startswith("{"):
            value, rest = _object(inside, "</tool_call>")
            call = _call_in(value)
        else:
            call, rest = _keys(inside, tools)
        yield call
        text = rest.lstrip().removeprefix("</tool_call>").lstrip()


def _functions(text: str, tools: Tools) -> Iterator[LeakedCall]:
    """`<function=name>…</function>`, repeated."""
    while text:
        call, rest = _function(text, tools)
        yield call
        text = rest.lstrip()


def _function(text: str, tools: Tools) -> tuple[LeakedCall, str]:
    """One function, with arguments as JSON or as `<parameter=name>` each; and the text after it."""
    if not text.startswith("<function="):
        raise _NotACall
    name, opened, inside = text[len("<function=") :].partition(">")
    if not opened:
        raise _NotACall
    inside = inside.lstrip()
    if inside.startswith("{"):
        given, rest = _object(inside, "</function>")
    else:
        given, rest = {}, inside
        while rest.startswith("<parameter="):
            key, _, rest = rest[len("<parameter=") :].partition(">")
            value, closed, rest = rest.partition("</parameter>")
            if not closed:
                raise _NotACall
            given[key] = _typed(value.removeprefix("\n").removesuffix("\n"), tools.get(name), key)
            rest = rest.lstrip()
    rest = rest.lstrip()
    if rest and not rest.startswith("</function>"):
        raise _NotACall
    return LeakedCall(name, given), rest.removeprefix("</function>")


def _keys(text: str, tools: Tools) -> tuple[LeakedCall, str]:
    """`name<arg_key>key</arg_key><arg_value>value</arg_value>…`, and the text after it."""
    found = _NAME.match(text)
    if found is None:
        raise _NotACall
    name, rest, given = found[1], text[found.end() :].lstrip(), dict[str, object]()
    while rest.startswith("<arg_key>"):
        key, _, rest = rest[len("<arg_key>") :].partition("</arg_key>")
        rest = rest.lstrip()
        if not rest.startswith("<arg_value>"):
            raise _NotACall
        value, closed, rest = rest[len("<arg_value>") :].partition("</arg_value>")
        if not closed:
            raise _NotACall
        given[key] = _typed(value, tools.get(name), key)
        rest = rest.lstrip()
    if not rest.startswith("</tool_call>"):
        raise _NotACall
    return LeakedCall(name, given), rest


def _marked(text: str, tools: Tools) -> Iterator[LeakedCall]:
    """`[TOOL_CALLS]` before a list of calls, or before each `name{…}` with or without `[ARGS]` and an id between."""
    for part in text.split("[TOOL_CALLS]")[1:]:
        rest_of_text = part.strip()
        if rest_of_text.startswith(("[", "{")):
            yield from _written(rest_of_text, tools)
            continue
        while rest_of_text:
            found = _NAME.match(rest_of_text)
            if found is None:
                raise _NotACall
            between, brace, rest = rest_of_text[found.end() :].partition("{")
            if between and not (between.startswith(("[ARGS]", "[CALL_ID]")) and between.endswith("[ARGS]")):
                raise _NotACall
            given, rest_of_text = _object(brace + rest, "[TOOL_CALLS]")
            rest_of_text = rest_of_text.strip()
            yield LeakedCall(found[1], given)


def _listed(text: str, tools: Tools) -> Iterator[LeakedCall]:
    return _python(text) if _PYTHON.match(text) else _written(text, tools)


def _python(text: str) -> Iterator[LeakedCall]:
    """`[name(key="value", …), …]`."""
    if len(text) > _MOST_OF_PYTHON:
        raise _NotACall
    try:
        comma_separated = ast.parse(text, mode="eval").body
        calls = comma_separated.elts if isinstance(comma_separated, ast.List) else []
        for call in calls:
            if not isinstance(call, ast.Call) or call.args or not isinstance(call.func, ast.Name):
                raise _NotACall
            given = {one.arg: ast.literal_eval(one.value) for one in call.keywords if one.arg}
            if len(given) < len(call.keywords):
                raise _NotACall
            yield LeakedCall(call.func.id, _as_json(given))
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise _NotACall from error


def _written(text: str, tools: Tools) -> Iterator[LeakedCall]:
    """One call, or a list of calls, as JSON."""
    if text.startswith("{"):
        given = arguments(text)
        if isinstance(given, str):
            raise _NotACall
        yield _call_in(given)
        return
    inside = arguments('{"calls":' + text + "}")
    calls = None if isinstance(inside, str) else inside.get("calls")
    if not isinstance(calls, list) or not calls:
        raise _NotACall
    yield from map(_call_in, calls)


def _object(text: str, closing: str) -> tuple[dict[str, object], str]:
    """The JSON object at the start, and the text after it; an object that is not quite JSON ends at `closing`."""
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        end = text.find(closing)
        end = len(text) if end < 0 else end
    given = arguments(text[:end])
    if isinstance(given, str):
        raise _NotACall
    return dict(given), text[end:]


def _call_in(value: object) -> LeakedCall:
    """`{"name": …, "arguments": {…}}` with no other key than an id."""
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        raise _NotACall
    key = next((key for key in _ARGUMENTS if key in value), None)
    if key is None or not value.keys() <= {"name", "id", "type", key}:
        raise _NotACall
    given = arguments(value[key]) if isinstance(value[key], str) else value[key]
    if not isinstance(given, Mapping):
        raise _NotACall
    return LeakedCall(value["name"], given)


def _typed(text: str, tool: ToolSpec | None, key: str) -> object:
    """A value given as bare text: kept as text if the tool's schema wants text, else parsed as JSON."""
    properties = tool.parameters.get("properties") if tool is not None else None
    wanted = properties.get(key) if isinstance(properties, Mapping) else None
    if isinstance(wanted, Mapping) and wanted.get("type") == "string":
        return text
    inside = arguments('{"value":' + text + "}")
    return text if isinstance(inside, str) else inside.get("value", text)


def _as_json(given: object) -> Mapping[str, object]:
    """A Python literal as JSON values. Raises ValueError for values that JSON lacks."""
    read: Mapping[str, object] = json.loads(json.dumps(given, allow_nan=False))
    return read


_READERS: Mapping[str, Callable[[str, Tools], Iterator[LeakedCall]]] = {
    "<tool_call>": _tool_calls,
    "<function=": _functions,
    "[TOOL_CALLS]": _marked,
    "[": _listed,
    "{": _written,
}
