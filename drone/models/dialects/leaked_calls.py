"""Calls that a server leaves in the text in its model's template syntax, read back where they have one meaning."""

import ast
import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple, TypeAlias

from drone.models.json_text import arguments
from drone.models.tool_specs import plain_name
from mcc.rules.patterns import Pattern
from mcc.transcript.messages import ToolSpec

Tools: TypeAlias = Mapping[str, ToolSpec]
"""The offered tools, by the names sent to the model."""

MOST_CHARACTERS = 200_000
MOST_CALLS = 64
MOST_MARKS = 8 * MOST_CALLS
_LONGEST_MARK = 500
"""Characters of a mark at most. A pattern is given no more: it reads all that it is given, at every step."""

_MOST_OF_PYTHON = 20_000

_NAMES = ("name", "tool_name")
_ARGUMENTS = ("arguments", "parameters")
_BESIDE = frozenset({"id", "type", "tool_call_id", "index"})

_WRAPPER = Pattern(
    r"[<][|｜][^<>|｜\n]{1,60}[|｜]>"
    r"|</?(?:[a-z_]{1,20}:|[|｜]\s?DSML\s?[|｜])?(?:tool_?calls?|function_?calls?|tool_?code|tool_?use)>"
    r"|\[/?TOOL_CALLS?\]|functools(?:\[)",
    ignore_case=True,
)
"""What stands around calls: special tokens in bars of either kind, tags and bracketed marks."""

_NAME = Pattern(r"\s*([\w.:-]+)")
_CALL_ID = Pattern(r"\[CALL_ID\][\w-]+")
_PREFIX = r"(?:[a-z_]{1,20}:|[|｜]\s?DSML\s?[|｜])?"
_INVOKE = Pattern(rf"<{_PREFIX}invoke\s+name=[\"']?([\w.:-]+)[\"']?\s*>", ignore_case=True)
_INVOKE_END = Pattern(rf"\s*</{_PREFIX}invoke>", ignore_case=True)
_PARAMETER = Pattern(
    rf"\s*<{_PREFIX}parameter\s+name=[\"']?([^\"'<>\n]{{1,200}})[\"']?(?:\s+string=\"(\w+)\")?\s*>", ignore_case=True
)
_PARAMETER_END = Pattern(rf"</{_PREFIX}parameter>", ignore_case=True)
_FENCED = Pattern(r"```(?:json|tool_?(?:code|calls?))?[ \t]*\n([\s\S]*?)\n?```\s*", ignore_case=True)
_PYTHON = Pattern(r"(?:\[\s*)?(?:print\(\s*)?[A-Za-z_][\w.]*\s*\(")
_BARE_PYTHON = Pattern(r"\[\s*\w+\s*\(")
_ROUTED = Pattern(r"(?:(?:assistant)?analysis[\s\S]*?)?(?:assistant)?commentary\s+to=([\w.:-]+?)\s*(?:json|code)?\s*\{")


class LeakedCall(NamedTuple):
    name: str
    arguments: Mapping[str, object]


class Leaked(NamedTuple):
    """What a text consists of: calls, and in Harmony's form the thinking and the words beside them."""

    calls: tuple[LeakedCall, ...] = ()
    thinking: str = ""
    text: str = ""


class _NotACall(Exception):
    """The text is not a call in this syntax."""


def leaked_calls(text: str, tools: Tools) -> tuple[LeakedCall, ...]:
    """The calls that `text` consists of entirely; empty if any part is something else or names a tool that was not
    offered."""
    found = leaked(text, tools)
    return () if found is None else found.calls


def leaked(text: str, tools: Tools) -> Leaked | None:
    """The same with what Harmony has beside calls; None for text that is not markup alone."""
    plain = text.strip()
    if len(plain) > MOST_CHARACTERS:
        return None
    try:
        if plain.startswith(_HARMONY):
            return _known(_harmony(plain), tools)
        calls = tuple(islice(_calls(plain, tools), MOST_CALLS + 1))
        return _known(Leaked(calls), tools) if calls else None
    except _NotACall:
        return None


def _known(found: Leaked, tools: Tools) -> Leaked | None:
    """`found` with the tools' own names; None if it calls another tool."""
    if len(found.calls) > MOST_CALLS:
        return None
    named = tuple(LeakedCall(plain_name(call.name, tools), call.arguments) for call in found.calls)
    return found._replace(calls=named) if all(call.name in tools for call in named) else None


def _calls(text: str, tools: Tools) -> Iterator[LeakedCall]:
    """The calls in order, between marks of any family."""
    if (fenced := _FENCED.fullmatch(text.removeprefix("Action:").lstrip())) is not None:
        inside = str(fenced[1]).strip()
        yield from _python(inside) if _PYTHON.match(inside) else _written(inside)
        return
    if text.startswith("{") or (text.startswith("[") and not _WRAPPER.match(text)):
        yield from _python(text) if _BARE_PYTHON.match(text) else _written(text)
        return
    rest, marked = text, text.startswith("<function=") or _INVOKE.match(text[:_LONGEST_MARK]) is not None
    for _ in range(MOST_MARKS):
        if not rest:
            return
        if (mark := _WRAPPER.match(rest[:_LONGEST_MARK])) is not None:
            marked = True
            rest = rest[mark.end() - mark.group().endswith("[") :].lstrip()
            continue
        if not marked:
            raise _NotACall
        calls, rest = _next(rest, tools)
        yield from calls
        rest = rest.lstrip()
    raise _NotACall


def _next(text: str, tools: Tools) -> tuple[tuple[LeakedCall, ...], str]:
    """The calls at the beginning of the text, in whichever syntax, and the text after them."""
    if text.startswith("<function="):
        return _alone(_function(text, tools))
    if (invoked := _INVOKE.match(text[:_LONGEST_MARK])) is not None:
        return _alone(_invoke(str(invoked[1]), text[invoked.end() :], tools))
    if text.startswith("{"):
        value, rest = _object(text)
        return (_call_in(value),), rest
    code = text[: mark.start()] if (mark := _WRAPPER.search(text)) else text
    if text.startswith("["):
        return tuple(_python(code.strip()) if _BARE_PYTHON.match(code) else _written(code.strip())), text[len(code) :]
    if _PYTHON.match(code):
        return tuple(_python(code.strip())), text[len(code) :]
    return _alone(_named(text, tools))


def _alone(found: tuple[LeakedCall, str]) -> tuple[tuple[LeakedCall, ...], str]:
    return (found[0],), found[1]


def _function(text: str, tools: Tools) -> tuple[LeakedCall, str]:
    """One function, with arguments as JSON or as `<parameter=name>` each; and the text after it."""
    name, opened, inside = text[len("<function=") :].partition(">")
    if not opened:
        raise _NotACall
    inside = inside.lstrip()
    if inside.startswith("{"):
        values, rest = _object(inside)
    else:
        values, rest = {}, inside
        while rest.startswith("<parameter="):
            key, _, rest = rest[len("<parameter=") :].partition(">")
            value, closed, rest = rest.partition("</parameter>")
            if not closed:
                raise _NotACall
            values[key] = _typed(value.removeprefix("\n").removesuffix("\n"), tools.get(name), key)
            rest = rest.lstrip()
    rest = rest.lstrip()
    if rest and not rest.startswith("</function>"):
        raise _NotACall
    return LeakedCall(name, values), rest.removeprefix("</function>")


def _invoke(name: str, rest: str, tools: Tools) -> tuple[LeakedCall, str]:
    """`<invoke name="…"><parameter name="…">value</parameter>…</invoke>`, with any prefix before the names of tags."""
    values: dict[str, object] = {}
    tool = tools.get(plain_name(name, tools))
    while (opened := _PARAMETER.match(rest[:_LONGEST_MARK])) is not None:
        rest = rest[opened.end() :]
        end = rest.find("parameter>") + len("parameter>")
        begin = rest.rfind("</", 0, end)
        if begin < 0 or _PARAMETER_END.fullmatch(rest[begin:end][:_LONGEST_MARK]) is None:
            raise _NotACall
        value, rest = rest[:begin], rest[end:]
        key = str(opened[1])
        values[key] = value if opened[2] == "true" else _typed(value.removeprefix("\n").removesuffix("\n"), tool, key)
    if (ended := _INVOKE_END.match(rest[:_LONGEST_MARK])) is None:
        raise _NotACall
    return LeakedCall(name, values), rest[ended.end() :]


def _named(text: str, tools: Tools) -> tuple[LeakedCall, str]:
    """A name and its arguments: as JSON, perhaps in a fence or after marks, or as `<arg_key>` and `<arg_value>`."""
    name_match = _NAME.match(text[:_LONGEST_MARK])
    if name_match is None:
        raise _NotACall
    name, rest = str(name_match[1]), text[name_match.end() :].lstrip()
    if rest.startswith("</tool_call>"):  # the call of a tool that is given nothing
        return LeakedCall(name, {}), rest
    for _ in range(8):
        if (mark := _CALL_ID.match(rest[:_LONGEST_MARK]) or _WRAPPER.match(rest[:_LONGEST_MARK])) is None:
            break
        rest = rest[mark.end() :].lstrip()
        if name == "function" and (invoked := _INVOKE.match(rest[:_LONGEST_MARK])) is not None:
            return _invoke(str(invoked[1]), rest[invoked.end() :], tools)
        if name == "function" and (inner := _NAME.match(rest[:_LONGEST_MARK])) is not None:
            name, rest = str(inner[1]), rest[inner.end() :].lstrip()
    if rest.startswith("<arg_key>"):
        return _keys(name, rest, tools)
    rest = rest.removeprefix("[ARGS]").lstrip()
    if (fenced := _FENCED.match(rest)) is not None:
        values, left = _object(str(fenced[1]))
        if left.strip():
            raise _NotACall
        return LeakedCall(name, values), rest[fenced.end() :]
    if not rest.startswith("{"):
        raise _NotACall
    values, rest = _object(rest)
    return LeakedCall(name, values), rest


def _keys(name: str, rest: str, tools: Tools) -> tuple[LeakedCall, str]:
    values: dict[str, object] = {}
    while rest.startswith("<arg_key>"):
        key, _, rest = rest[len("<arg_key>") :].partition("</arg_key>")
        rest = rest.lstrip()
        if not rest.startswith("<arg_value>"):
            raise _NotACall
        value, closed, rest = rest[len("<arg_value>") :].partition("</arg_value>")
        if not closed:
            raise _NotACall
        values[key] = _typed(value, tools.get(name), key)
        rest = rest.lstrip()
    if not rest.startswith("</tool_call>"):
        raise _NotACall
    return LeakedCall(name, values), rest


def _python(text: str) -> Iterator[LeakedCall]:
    """`name(key="value", …)`, alone, line by line, in a list, or printed."""
    if len(text) > _MOST_OF_PYTHON:
        raise _NotACall
    try:
        for statement in ast.parse(text).body:
            for call in _expressions(statement):
                values = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg}
                if call.args or len(values) < len(call.keywords):
                    raise _NotACall
                yield LeakedCall(ast.unparse(call.func).removesuffix(".call"), _as_json(values))
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise _NotACall from error


def _expressions(statement: ast.stmt) -> Iterator[ast.Call]:
    value = statement.value if isinstance(statement, ast.Expr) else None
    for element in value.elts if isinstance(value, ast.List) else [value]:
        call = element
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print" and call.args:
            call = call.args[0]
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name | ast.Attribute):
            raise _NotACall
        yield call


def _written(text: str) -> Iterator[LeakedCall]:
    """One call, or a list of calls, as JSON."""
    if text.startswith("{"):
        values = arguments(text)
        if isinstance(values, str):
            raise _NotACall
        yield _call_in(values)
        return
    inside = arguments('{"calls":' + text + "}")
    calls = None if isinstance(inside, str) else inside.get("calls")
    if not isinstance(calls, list) or not calls:
        raise _NotACall
    yield from map(_call_in, calls)


def _object(text: str) -> tuple[dict[str, object], str]:
    """The JSON object at the start, and the text after it; an object that is not quite JSON ends at the next mark."""
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        ends = (text.find("</function>"), mark.start() if (mark := _WRAPPER.search(text)) else -1)
        end = min((place for place in ends if place >= 0), default=len(text))
    values = arguments(text[:end])
    if isinstance(values, str):
        raise _NotACall
    return dict(values), text[end:]


def _call_in(value: object) -> LeakedCall:
    """`{"name": …, "arguments": {…}}` with no other key than an id."""
    if not isinstance(value, Mapping):
        raise _NotACall
    named = next((key for key in _NAMES if isinstance(value.get(key), str)), None)
    key = next((key for key in _ARGUMENTS if key in value), None)
    if named is None or key is None or not value.keys() <= {named, key, *_BESIDE}:
        raise _NotACall
    values = arguments(value[key]) if isinstance(value[key], str) else value[key]
    if not isinstance(values, Mapping):
        raise _NotACall
    return LeakedCall(value[named], values)


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


_HARMONY = ("<|channel|>", "<|start|>", "analysis", "assistantanalysis", "commentary", "assistantcommentary")
_HEAD = frozenset({"assistant", "analysis", "commentary", "final", "json", "code"})
_TOKEN = Pattern(r"<\|[a-z_]{1,40}\|>")
_ENDS = ("<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>")
_FINAL = "assistantfinal"


def _harmony(text: str) -> Leaked:
    """Messages in Harmony's form, whose marks a server may have dropped."""
    if "<|message|>" in text:
        return _messages(text)
    if (routed := _ROUTED.match(text)) is not None:
        values, rest = _object(text[routed.end() - 1 :])
        if _TOKEN.sub("", rest).strip():
            raise _NotACall
        thought = text[: routed.start(1)].rpartition("commentary")[0].removeprefix("assistant").removeprefix("analysis")
        return Leaked((LeakedCall(str(routed[1]), values),), thought.removesuffix("assistant").strip())
    thought, mark, answer = text.partition(_FINAL)
    if not mark or not text.startswith("analysis"):
        raise _NotACall
    return Leaked((), thought.removeprefix("analysis").strip(), answer.strip())


def _messages(text: str) -> Leaked:
    calls: list[LeakedCall] = []
    said: dict[str, list[str]] = {}
    for _ in range(MOST_MARKS):
        if not text:
            break
        head, found, body = text.partition("<|message|>")
        words = _TOKEN.sub(" ", head).split()
        to = next((word.removeprefix("to=") for word in words if word.startswith("to=")), None)
        if not found or not all(word in _HEAD or word.startswith("to=") for word in words):
            raise _NotACall
        if to is not None:
            values, text = _object(body.lstrip())
            calls.append(LeakedCall(to, values))
        else:
            end = min((at for mark in _ENDS if (at := body.find(mark)) >= 0), default=len(body))
            content, text = body[:end], body[end:]
            said.setdefault(next((word for word in words if word != "assistant"), "final"), []).append(content.strip())
        text = text.lstrip()
        for mark in _ENDS[:3]:
            text = text.removeprefix(mark).lstrip()
    words_said = "\n\n".join(filter(None, (*said.get("commentary", ()), *said.get("final", ()))))
    return Leaked(tuple(calls), "\n\n".join(said.get("analysis", ())), words_said)
