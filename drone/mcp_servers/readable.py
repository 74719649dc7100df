"""Answers of servers made readable part by part: what the protocol does not allow costs only the part that has it.

The SDK takes a whole message or nothing, so each part that it would refuse is replaced before it looks.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import mcp_types as types
from mcp.shared.dispatcher import CallOptions
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import methods
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION
from pydantic import TypeAdapter, ValidationError

from drone.mcp_servers.elicitation import NotAnswered
from drone.tools.frame.display_text import one_line
from mcc.rules.patterns import Pattern

ORIGINAL = "mcc/original"
"""In the metadata of a tool that the SDK would refuse: the tool as its server sent it."""

LISTED = "mcc/listed"
"""In the metadata of a list of tools: how many of each name the server sent."""

MOST_LISTED = 1_000
"""Most tools of one page that are looked at."""

MOST_IN_A_BATCH = 100
"""Most answers of one batch that are read."""

MOST_LEVELS = 100
"""Levels at which a tool's definition is not read any further."""

UNREADABLE = -32_099
"""Code, of the range that the protocol leaves to us, of an answer that is no response of JSON-RPC."""

_HEAD = Pattern(r'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,\s*"(?:result|error)"')
_LONGEST_HEAD = 200
"""How an answer begins of which the rest is no JSON."""

_LIST, _CALL = "tools/list", "tools/call"
_COMPLETE = {"resultType": "complete"}
_CACHE = {**_COMPLETE, "ttlMs": 0, "cacheScope": "private"}
_NO_ARGUMENTS = {"type": "object"}
_NO_CONTENT = frozenset({"resultType", "isError", "_meta"})
_INPUT: TypeAdapter[types.InputRequest] = TypeAdapter(types.InputRequest)
_RESULT_MODELS: Mapping[str, type[types.Result]] = {_LIST: types.ListToolsResult, _CALL: types.CallToolResult}


class ReadableDispatcher(JSONRPCDispatcher):
    """The SDK's dispatcher, whose answers are made readable part by part."""

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **more: Any
    ) -> dict[str, Any]:
        return readable(method, await super().send_raw_request(method, params, opts, **more))


def readable(method: str, result: dict[str, Any]) -> dict[str, Any]:
    """`result` as the SDK takes it. Raises `NotAnswered` for a question that cannot be asked here, and ValueError."""
    if method == _LIST:
        return _listed(result)
    if method != _CALL:
        return result
    if isinstance(asked := result.get("inputRequests"), Mapping):
        _check_questions(asked)
    kind = result.get("resultType")
    if "inputRequests" in result or "taskId" in result or (kind is not None and kind != "complete"):
        return result
    return readable_result(result)


def _accepts(method: str, result: Mapping[str, Any]) -> bool:
    """Whether the SDK accepts the result in every version of the protocol."""
    try:
        for version in (LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION):
            methods.validate_server_result(method, version, result)
        _RESULT_MODELS[method].model_validate(result, by_name=False)
    except ValueError:  # the protocol's rules, and values that are nested too deeply
        return False
    return True


def _listed(result: Mapping[str, Any]) -> dict[str, Any]:
    """A page of tools. Raises ValueError where it is none."""
    tools = result.get("tools")
    if tools is None:
        tools = []
    if not isinstance(tools, list):
        raise ValueError("what it sent as a list of tools is no list")
    cursor = result.get("nextCursor")
    if cursor is not None and not isinstance(cursor, str):
        raise ValueError("the cursor of its list of tools is no text")
    names = [tool["name"] for tool in tools if isinstance(tool, Mapping) and isinstance(tool.get("name"), str)]
    page = {"tools": tools, "nextCursor": cursor, **_CACHE, "_meta": {LISTED: names[:MOST_LISTED]}}
    if _accepts(_LIST, page):
        return page
    # Tool by tool only where the page fails as a whole, as checking each takes longer.
    return {**page, "tools": [*map(_tool, tools[:MOST_LISTED])]}


def _tool(tool: object) -> dict[str, Any]:
    """A tool; one that the SDK would refuse is replaced by its name and schema, with the original beside them."""
    if isinstance(tool, dict) and _accepts(_LIST, {"tools": [tool], **_CACHE}):
        return tool
    fields = tool if isinstance(tool, dict) else {}
    name, schema = fields.get("name"), fields.get("inputSchema")
    original = {"name": name, "inputSchema": "values that are nested too deeply"} if _too_deep(fields) else tool
    named = {"name": name if isinstance(name, str) else "", "_meta": {ORIGINAL: original}}
    declared = schema if isinstance(schema, dict) else {}
    for parameters in (declared, {**declared, **_NO_ARGUMENTS}):
        if _accepts(_LIST, {"tools": [made := {**named, "inputSchema": parameters}], **_CACHE}):
            return made
    return {**named, "inputSchema": _NO_ARGUMENTS}


def _too_deep(value: object) -> bool:
    """Whether a value nests more than `MOST_LEVELS`."""
    inside = [value]
    for _ in range(MOST_LEVELS):
        holders = (one.values() if isinstance(one, dict) else one for one in inside if isinstance(one, dict | list))
        if not (inside := [inner for holder in holders for inner in holder if isinstance(inner, dict | list)]):
            return False
    return True


def tools_in(page: types.ListToolsResult) -> Iterator[object]:
    """The tools of a page as their server sent them, and those that the SDK left out."""
    kept: set[str] = set()
    for tool in page.tools:
        kept.add(tool.name)
        if tool.meta is not None and ORIGINAL in tool.meta:
            yield tool.meta[ORIGINAL]
        else:
            yield tool.model_dump(mode="json", by_alias=True, exclude_none=True)
    for name in (page.meta or {}).get(LISTED, ()):
        if name not in kept:
            yield {"name": name, "inputSchema": "it marks an argument as a header in a way that the protocol forbids"}


def readable_result(result: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's result; parts of it that cannot be read are named in their place."""
    completed = {key: value for key, value in {**_COMPLETE, **result}.items() if value is not None}
    if "content" in completed and _accepts(_CALL, completed):
        return completed
    content, structured = completed.get("content", []), completed.get("structuredContent", completed.get("toolResult"))
    if structured is None and "content" not in completed:
        structured = {key: value for key, value in completed.items() if key not in _NO_CONTENT} or None
    parts = content if isinstance(content, list) else [content]
    made: dict[str, Any] = {**_COMPLETE, "content": [*map(_part, parts)], "isError": _is_true(completed.get("isError"))}
    if structured is not None:
        made["structuredContent"] = structured if isinstance(structured, dict) else {"result": structured}
    return made


def _is_true(value: object) -> bool:
    return value in (True, 1, "true", "True", "1", "yes")


def _part(part: object) -> dict[str, Any]:
    """One part of a result: as it is, without what is wrong about it, or as a text that names its kind."""
    if isinstance(part, str):
        return _said(part)
    fields = part if isinstance(part, dict) else {}
    bare = _bare(fields)
    for made in (fields, bare):
        if made and _accepts(_CALL, {**_COMPLETE, "content": [made]}):
            return made
    text, kind = fields.get("text"), fields.get("type")
    named = kind if isinstance(kind, str) else type(part).__name__ if not fields else "unnamed"
    said = f"[a part of the kind {one_line(named, 50)}: it cannot be shown here]"
    if text is None or kind == "text":
        return _said(said if text is None else json.dumps(text, ensure_ascii=False))
    words = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    return _said(f"{said}\n{words}" if isinstance(kind, str) else words)


def _said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _bare(part: Mapping[str, Any]) -> dict[str, Any]:
    """A part with its required fields only, those that can be guessed without harm filled in; empty for other kinds."""
    match part.get("type"):
        case "text":
            return {"type": "text", "text": part.get("text")}
        case "image" | "audio" as kind:
            mime = part.get("mimeType")
            return {"type": kind, "data": part.get("data"), "mimeType": mime if isinstance(mime, str) else kind}
        case "resource_link":
            uri, name = part.get("uri"), part.get("name")
            return {"type": "resource_link", "uri": uri, "name": name if isinstance(name, str) else uri}
        case "resource":
            held = part.get("resource")
            fields = held if isinstance(held, Mapping) else {}
            uri = fields.get("uri")
            inner = {key: fields[key] for key in ("text", "blob") if isinstance(fields.get(key), str)}
            return {"type": "resource", "resource": {"uri": uri if isinstance(uri, str) else "unnamed:", **inner}}
    return {}


def _check_questions(asked: Mapping[str, Any]) -> None:
    for request in asked.values():
        try:
            _INPUT.validate_python(request, by_name=False)
        except ValidationError as error:
            method = request.get("method") if isinstance(request, Mapping) else None
            what = one_line(method, 100) if isinstance(method, str) else "something"
            raise NotAnswered(f"the server asks for {what}, which is not given here") from error


def responses_in(line: bytes) -> list[types.JSONRPCMessage]:
    """The messages that a line was meant to be as answers to requests, of which a batch has several; none when it is no
    answer at all."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        head = _HEAD.match(line[:_LONGEST_HEAD].decode("utf-8", "replace"))
        said = None if head is None else {"id": int(head[1]), "result": None}
    answers = map(_response, said[:MOST_IN_A_BATCH] if isinstance(said, list) else [said])
    return [answer for answer in answers if answer is not None]


def _response(said: object) -> types.JSONRPCMessage | None:
    if not isinstance(said, dict) or "method" in said:
        return None
    number = said.get("id")
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if not isinstance(number, str | int):
        return None
    head = {"jsonrpc": "2.0", "id": number}
    if isinstance(said.get("result"), dict):
        return types.jsonrpc_message_adapter.validate_python({**head, "result": said["result"]}, by_name=False)
    if (error := said.get("error")) is not None:
        fields = error if isinstance(error, dict) else {"message": error}
        code, message = fields.get("code"), fields.get("message")
        words = message if isinstance(message, str) else json.dumps(error, ensure_ascii=False)
        told = {"code": code if isinstance(code, int) else types.INTERNAL_ERROR, "message": words}
        return types.jsonrpc_message_adapter.validate_python({**head, "error": told}, by_name=False)
    if "result" not in said:
        return None
    told = {"code": UNREADABLE, "message": "its answer cannot be read: it is no object of JSON"}
    return types.jsonrpc_message_adapter.validate_python({**head, "error": told}, by_name=False)
