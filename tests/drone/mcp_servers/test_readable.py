"""Answers of servers of which a part is not what the protocol says: the other parts are read."""

from collections.abc import Mapping
from typing import Any

import pytest

from drone.agent.turns.toolset import StartedCall
from drone.mcp_servers.definitions import ToolListing, listing
from drone.mcp_servers.results import output_of
from mcc.configuration.mcp_servers import McpServer
from mcc.contracts.entry import Origin
from tests.drone.mcp_servers.conftest import Serve, program

types = pytest.importorskip("mcp_types")
readable = pytest.importorskip("drone.mcp_servers.readable")
sessions = pytest.importorskip("drone.mcp_servers.session")

CONFIG = McpServer(command=("x",), effects={"*": "read"})
GOOD = {"name": "good", "description": "Does it.", "inputSchema": {"type": "object"}}
NESTED: dict[str, Any] = {}
for _ in range(200):
    NESTED = {"type": "object", "properties": {"x": NESTED}}


def listed(*tools: object, **page: object) -> ToolListing:
    answer = readable.readable("tools/list", {"tools": [*tools], **page})
    whole = types.ListToolsResult.model_validate(answer, by_name=False)
    return listing("s", CONFIG, readable.tools_in(whole))


USABLE: dict[str, object] = {
    "empty": {},
    "$schema alone": {"$schema": "http://json-schema.org/draft-07/schema#"},
    "no type": {"properties": {"x": {"type": "string"}}},
    "null type": {"type": None},
    "choices at the top": {"anyOf": [{"type": "object"}, {"type": "null"}]},
    "object or null": {"type": ["object", "null"]},
    "null properties": {"type": "object", "properties": None},
    "null required": {"type": "object", "required": None},
    "required as text": {"type": "object", "required": "x"},
    "an odd property": {"type": "object", "properties": {"x": 5, "y": {"type": "string"}}},
}


@pytest.mark.parametrize("schema", USABLE.values(), ids=USABLE)
def test_a_tool_with_an_unusual_schema_is_usable(schema: object) -> None:
    found = listed(GOOD, {"name": "odd", "inputSchema": schema})
    assert [*found.tools] == ["s__good", "s__odd"] and not found.problems
    assert found.tools["s__odd"].spec.parameters["type"] == "object"


BROKEN: dict[str, object] = {
    "no object": "text",
    "null": None,
    "no name": {"inputSchema": {"type": "object"}},
    "a number for a name": {"name": 5, "inputSchema": {"type": "object"}},
    "no schema": {"name": "odd"},
    "null schema": {"name": "odd", "inputSchema": None},
    "a list for a schema": {"name": "odd", "inputSchema": []},
    "a list of properties": {"name": "odd", "inputSchema": {"type": "object", "properties": []}},
    "text for arguments": {"name": "odd", "inputSchema": {"type": "string"}},
    "too deep": {"name": "odd", "inputSchema": NESTED},
}


@pytest.mark.parametrize("tool", BROKEN.values(), ids=BROKEN)
def test_a_broken_tool_costs_itself_and_is_told(tool: object) -> None:
    found = listed(GOOD, tool, {**GOOD, "name": "last"})
    assert [*found.tools] == ["s__good", "s__last"]
    assert len(found.problems) == 1 and listed(GOOD, {**GOOD, "name": "last"}).tools == found.tools


@pytest.mark.parametrize(
    "beside",
    [
        {"description": 5},
        {"title": {}},
        {"annotations": "x"},
        {"outputSchema": []},
        {"icons": {}},
        {"execution": {"taskSupport": "sometimes"}},
        {"_meta": []},
    ],
    ids=str,
)
def test_what_is_wrong_beside_name_and_schema_costs_nothing(beside: dict[str, object]) -> None:
    found = listed(GOOD, {"name": "odd", "inputSchema": {"type": "object"}, **beside})
    assert [*found.tools] == ["s__good", "s__odd"] and not found.problems


def test_an_odd_neighbour_changes_no_digest() -> None:
    rich = {**GOOD, "title": "Good", "annotations": {"readOnlyHint": True}, "outputSchema": {"type": "object"}}
    assert listed(rich).tools == listed(rich, {}).tools


def test_a_list_without_tools_is_empty_and_something_else_is_told() -> None:
    for page in ({}, {"tools": None}):
        assert readable.readable("tools/list", page)["tools"] == []
    with pytest.raises(ValueError, match="is no list"):
        readable.readable("tools/list", {"tools": "no"})


class Pages:
    """A session whose list of tools has these pages: by cursor, the tool's name and the next cursor."""

    def __init__(self, pages: Mapping[str | None, tuple[str, str | None]]) -> None:
        self.pages = pages
        self.asked: list[str | None] = []

    async def list_tools(self, *, params: Any = None) -> Any:
        cursor = None if params is None else params.cursor
        self.asked.append(cursor)
        name, following = self.pages[cursor]
        return types.ListToolsResult(tools=[types.Tool(name=name, input_schema={})], next_cursor=following)


async def names_of(pages: Pages) -> list[str]:
    session = sessions.ServerSession(pages, sessions.ElicitationRouter())
    return [tool["name"] for tool in await session.tools()]


async def test_only_null_ends_a_list_of_tools() -> None:
    pages = Pages({None: ("one", ""), "": ("two", "0"), "0": ("three", None)})
    assert await names_of(pages) == ["one", "two", "three"] and pages.asked == [None, "", "0"]


async def test_a_cursor_that_never_advances_ends_the_list_and_breaks_no_tool() -> None:
    pages = Pages({None: ("one", "a"), "a": ("two", "a")})
    assert await names_of(pages) == ["one", "two"]
    again = listed(GOOD, GOOD, {**GOOD, "name": "last"}, GOOD)
    assert [*again.tools] == ["s__good", "s__last"] and not again.problems


async def shown(result: dict[str, object]) -> str:
    made = types.CallToolResult.model_validate(readable.readable("tools/call", result), by_name=False)
    return (await output_of(made, None)).content


FIRST, LAST = {"type": "text", "text": "first"}, {"type": "text", "text": "last"}


@pytest.mark.parametrize(
    "part",
    [
        {"type": "video", "url": "x"},
        {"type": "text"},
        {"type": "image"},
        {"type": "resource", "resource": None},
        {"type": {}},
        {},
        None,
        5,
    ],
    ids=str,
)
async def test_a_part_that_cannot_be_read_costs_itself(part: object) -> None:
    content = await shown({"content": [FIRST, part, LAST]})
    assert content.startswith("first\n[a part of the kind ") and content.endswith("it cannot be shown here]\nlast")


READ: list[tuple[dict[str, object], str]] = [
    ({"content": None, "structuredContent": {"a": 1}}, '{"a":1}'),
    ({"structuredContent": [1]}, '{"result":[1]}'),
    ({"content": "words"}, "words"),
    ({"content": LAST}, "last"),
    ({"content": ["words", LAST]}, "words\nlast"),
    ({"content": [{"type": "text", "text": 5}]}, "5"),
    ({"content": [{"type": "text", "text": "x", "annotations": {"priority": 7}}]}, "x"),
    (
        {"content": [{"type": "output_text", "text": "x"}]},
        "[a part of the kind output_text: it cannot be shown here]\nx",
    ),
    ({"content": [{"type": "resource_link", "uri": "a:b"}]}, "[link, not followed: a:b]"),
    ({"content": [{"type": "resource", "resource": {"text": "words"}}]}, "[unnamed:]\nwords"),
    ({"content": [LAST], "_meta": 5, "isError": []}, "last"),
    ({"toolResult": "older"}, '{"result":"older"}'),
    ({"booked": 7, "isError": False}, '{"booked":7}'),
    ({}, "(nothing)"),
]


@pytest.mark.parametrize(("result", "words"), READ, ids=str)
async def test_what_a_result_means_is_read(result: dict[str, object], words: str) -> None:
    assert await shown(result) == words


def test_a_question_of_an_unknown_kind_is_named() -> None:
    asked = {"resultType": "input_required", "inputRequests": {"a": {"method": "dance/now"}}}
    with pytest.raises(readable.NotAnswered, match="asks for dance/now"):
        readable.readable("tools/call", asked)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b'{"id": 1, "result": {"content": []}}', "JSONRPCResponse"),
        (b'{"jsonrpc": "2.0", "id": 1, "error": "no"}', "JSONRPCError"),
        (b'{"jsonrpc": "2.0", "id": 1, "result": "text"}', "JSONRPCError"),
        (b'{"jsonrpc": "2.0", "id": 1, "result": {"conte', "JSONRPCError"),
        (b'{"jsonrpc":"2.0","id":1,"result":' + b'{"a":' * 100_000, "JSONRPCError"),
        (b'{"jsonrpc": "2.0", "id": 1.0, "result": {"content": []}}', "JSONRPCResponse"),
        (b'[{"jsonrpc": "2.0", "id": 1, "result": {}}, 7, {"id": 2, "error": 5}]', "JSONRPCResponse JSONRPCError"),
        (b"Server is ready!", ""),
        (b"[1, 2]", ""),
        (b'{"level": "info"}', ""),
        (b'{"id": 1, "method": "x"}', ""),
        (b'{"id": 1.5, "result": {}}', ""),
    ],
    ids=lambda given: given[:40] if isinstance(given, bytes) else None,
)
def test_a_line_that_was_meant_as_an_answer_reaches_its_call(line: bytes, kind: str) -> None:
    assert " ".join(type(answer).__name__ for answer in readable.responses_in(line)) == kind


@pytest.mark.parametrize(("effects", "outcome"), [("write", "outcome_unknown"), ("read", "error")])
async def test_after_an_unreadable_answer_nobody_knows_what_a_call_did(
    serve: Serve, effects: str, outcome: str
) -> None:
    results = {"echo": "text", "fail": {"resultType": "riddle"}, "link": {"content": [FIRST, {"type": "video"}]}}
    tools = await serve(one=program({"results": results, "era": "modern"}, effects={"*": effects})).tools()
    for name in ("echo", "fail"):
        output = await tools.call(StartedCall("c1", f"one__{name}", {}, Origin()))
        assert output.is_error and output.outcome == outcome and "pydantic" not in output.content
        assert ("may or may not" in output.content) is (outcome == "outcome_unknown")
    output = await tools.call(StartedCall("c1", "one__link", {}, Origin()))
    assert (output.is_error, output.content[:5]) == (False, "first")


async def test_the_servers_own_refusal_is_one(serve: Serve) -> None:
    tools = await serve(one=program({"refuse": ["echo"]}, effects={"*": "write"})).tools()
    output = await tools.call(StartedCall("c1", "one__echo", {}, Origin()))
    assert (output.outcome, "may or may not" in output.content) == ("error", False)


async def test_one_odd_tool_costs_itself_not_its_server(serve: Serve) -> None:
    servers = serve(one=program({"tools": ["echo", {"name": "bare", "inputSchema": {}}, {"name": "odd"}, 5]}))
    names = {spec.name for spec in (await servers.tools()).specs()}
    assert names == {"one__echo", "one__bare"}
    assert {one.name: one.state for one in servers.capabilities() if one.state == "broken"}.keys() >= {"one__odd"}
