"""Servers at an address: tasks are polled, people answer questions, progress is shown, broken connections reopen."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from drone.agent.agent import AgentRuntime
from drone.agent.ports.journal import MemoryJournal
from drone.agent.turns.turn import Task
from drone.mcp_servers.server import ConnectedServer, Lost, McpCallRefused
from drone.mcp_servers.servers import McpServers
from drone.mcp_servers.toolset import ServerTools
from drone.mcp_servers.transports import Transports, load
from drone.models.scripted import Line, ScriptedModel, call
from mcc.addresses import AddressRule, endpoint_of
from mcc.configuration.mcp_servers import McpServer
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.approvals import AnyItem, QuestionItem
from mcc.contracts.ids import fresh_id, root_record_id
from mcc.contracts.questions import NewAnswer
from tests.drone.mcp_servers.conftest import nowhere
from tests.drone.mcp_servers.web_server import Served, answer, event, served

elicitation = pytest.importorskip("drone.mcp_servers.elicitation")
tasks = pytest.importorskip("drone.mcp_servers.tasks")


@asynccontextmanager
async def connected(server: Served) -> AsyncIterator[ConnectedServer]:
    await load()
    own = endpoint_of(server.url.partition("//")[2].partition("/")[0])
    transports = Transports(None, AddressRule(nowhere, allow_private=[own]), dict[str, str]().get)
    servers = McpServers({"one": McpServer(url=server.url, effects={"*": "read"})}, transports.opening)
    await servers.look()
    found = servers.server("one")
    assert found is not None and found.problem is None, found and found.problem
    try:
        yield found
    finally:
        await servers.close()


def task(status: str, **more: Any) -> dict[str, Any]:
    times = {"createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z", "ttlMs": 1000}
    return {"taskId": "t1", "status": status, "pollIntervalMs": 1, **times, **more}


FORM = {
    "method": "elicitation/create",
    "params": {
        "mode": "form",
        "message": "Which?",
        "requestedSchema": {"type": "object", "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}}},
    },
}


def by_turns(*turns: dict[str, Any]) -> Callable[..., Any]:
    """Answers calls and questions about tasks with these, one after the other."""
    left = list(turns)

    def act(server: Served, request: web.Request, asked: dict[str, Any]) -> Any:
        if asked["method"] in ("tools/call", "tasks/get"):
            return left.pop(0)
        if asked["method"] == "tasks/update":
            server.heard.append(asked["params"])
            return {"resultType": "complete"}
        return {"resultType": "complete"} if asked["method"] == "tasks/cancel" else None

    return act


DONE = {"content": [{"type": "text", "text": "at last"}]}


async def text_of(server: ConnectedServer, people: Any = None, progress: Any = None) -> str:
    result = await server.call("one__look", {}, people, progress)
    return "".join(part.text for part in result.content if part.type == "text")


async def test_a_task_is_followed_to_its_end_and_tells_how_far_it_is() -> None:
    working = task("working", resultType="complete", statusMessage="half of it")
    told: list[str] = []
    turns = by_turns(task("working", resultType="task"), working, task("completed", resultType="complete", result=DONE))
    async with served(turns) as server, connected(server) as one:
        assert await text_of(one, progress=told.append) == "at last"
        assert told == ["half of it"] and server.methods.count("tasks/get") == 2


async def test_a_task_that_fails_says_why() -> None:
    failed = task("failed", resultType="complete", error={"code": -1, "message": "no room"})
    async with served(by_turns(task("working", resultType="task"), failed)) as server, connected(server) as one:
        with pytest.raises(McpCallRefused, match="the task was failed: no room"):
            await text_of(one)


async def test_a_task_that_asks_is_answered_once() -> None:
    wants = task("input_required", resultType="complete", inputRequests={"q": FORM})
    turns = by_turns(
        task("working", resultType="task"), wants, wants, task("completed", resultType="complete", result=DONE)
    )

    async def ask(question: Any) -> str:
        assert question.choices == ("red", "blue") and "MCP server one asks: Which?" in question.text
        return "blue"

    async with served(turns) as server, connected(server) as one:
        assert await text_of(one, elicitation.Elicitor("one", ask)) == "at last"
        (update,) = [heard for heard in server.heard if "inputResponses" in heard]
        assert update["inputResponses"] == {"q": {"action": "accept", "content": {"colour": "blue"}}}


async def test_what_is_asked_in_a_call_is_told_where_nobody_can_be_asked() -> None:
    wants = {"resultType": "input_required", "inputRequests": {"q": FORM}, "requestState": "s"}
    async with served(by_turns(wants)) as server, connected(server) as one:
        with pytest.raises(McpCallRefused, match="asks a person, and nobody can be asked here: Which"):
            await text_of(one)


async def test_a_server_that_never_answers_is_given_up() -> None:
    wants = {"resultType": "input_required", "inputRequests": {}, "requestState": "s"}
    async with served(by_turns(*[wants] * 20)) as server, connected(server) as one:
        with pytest.raises(McpCallRefused, match="asked for more 10 times"):
            await text_of(one)


async def test_a_server_that_wants_a_model_or_directories_gets_none() -> None:
    wants = {"resultType": "input_required", "inputRequests": {"q": {"method": "roots/list"}}, "requestState": "s"}
    async with served(by_turns(wants)) as server, connected(server) as one:
        with pytest.raises(McpCallRefused, match="roots/list, which is not given here"):
            await text_of(one, elicitation.Elicitor("one", None))


async def test_a_stream_tells_progress_before_the_answer() -> None:
    async def act(server: Served, request: web.Request, asked: dict[str, Any]) -> web.StreamResponse | None:
        if asked["method"] != "tools/call":
            return None
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        token = asked["params"]["_meta"]["progressToken"]
        far = {"progressToken": token, "progress": 1, "total": 2, "message": "reading"}
        await response.write(event({"jsonrpc": "2.0", "method": "notifications/progress", "params": far}))
        await response.write(event({"jsonrpc": "2.0", "id": asked["id"], "result": DONE | {"resultType": "complete"}}))
        return response

    told: list[str] = []
    async with served(act) as server, connected(server) as one:
        assert await text_of(one, progress=told.append) == "at last" and told == ["1 of 2 reading"]


@pytest.mark.parametrize("status", [401, 403, 500, 503])
async def test_what_a_server_refuses_is_told_and_the_next_call_works(status: int) -> None:
    left = [status]

    def act(server: Served, request: web.Request, asked: dict[str, Any]) -> web.Response | None:
        if asked["method"] == "tools/call" and left:
            return web.Response(status=left.pop())
        return None

    async with served(act) as server, connected(server) as one:
        with pytest.raises(McpCallRefused, match="one__look gave no result"):
            await text_of(one)
        assert await text_of(one) == "seen"


@pytest.mark.parametrize(("status", "is_refusal"), [(401, True), (403, True), (429, True), (408, False), (502, False)])
@pytest.mark.parametrize("body", ["", "<h1>No</h1>", '{"error": "no"}'])
async def test_a_refusal_by_status_is_one_and_a_failure_on_the_way_is_none(
    status: int, is_refusal: bool, body: str
) -> None:
    kind = "application/json" if body.startswith("{") else "text/html"

    def act(server: Served, request: web.Request, asked: dict[str, Any]) -> web.Response | None:
        return web.Response(status=status, text=body, content_type=kind) if asked["method"] == "tools/call" else None

    async with served(act) as server, connected(server) as one:
        with pytest.raises(McpCallRefused) as refused:
            await text_of(one)
    assert isinstance(refused.value, Lost) is not is_refusal
    assert not is_refusal or f"the server refused it: {status}" in str(refused.value)


async def test_a_server_that_was_away_is_spoken_with_again() -> None:
    def act(server: Served, request: web.Request, asked: dict[str, Any]) -> web.Response | None:
        if asked["method"] == "tools/call" and server.methods.count("tools/call") == 1:
            assert request.transport is not None
            request.transport.abort()
            return answer(asked, {})
        return None

    async with served(act) as server, connected(server) as one:
        with pytest.raises(McpCallRefused):
            await text_of(one)
        assert await text_of(one) == "seen"


def _aborted(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


UNREADABLE: dict[str, Callable[[web.Request, Any], web.StreamResponse]] = {
    "no JSON": lambda request, id_: web.Response(text="{oops", content_type="application/json"),
    "a page": lambda request, id_: web.Response(text="<p>hello</p>", content_type="text/html"),
    "a text for a result": lambda request, id_: web.json_response({"jsonrpc": "2.0", "id": id_, "result": "text"}),
    "nothing more": lambda request, id_: web.Response(status=202),
    "a gateway's failure": lambda request, id_: web.Response(status=502),
    "the end": lambda request, id_: _aborted(request),
}


@pytest.mark.parametrize("unreadable", UNREADABLE.values(), ids=UNREADABLE)
async def test_after_a_sent_call_without_a_readable_answer_nobody_knows_what_it_did(unreadable: Any) -> None:
    def act(server: Served, request: web.Request, asked: dict[str, Any]) -> web.StreamResponse | None:
        return unreadable(request, asked["id"]) if asked["method"] == "tools/call" else None

    async with served(act) as server, connected(server) as one:
        with pytest.raises(Lost) as lost:
            await text_of(one)
        assert "pydantic" not in str(lost.value) and "validation error" not in str(lost.value)


@pytest.mark.parametrize("code", [-32000, -32001, -32603, -32700])
async def test_the_servers_own_error_is_its_answer_whatever_its_code(code: int) -> None:
    def act(server: Served, request: web.Request, asked: dict[str, Any]) -> web.Response | None:
        if asked["method"] != "tools/call":
            return None
        return web.json_response({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": code, "message": "not now"}})

    async with served(act) as server, connected(server) as one:
        with pytest.raises(McpCallRefused, match="not now") as refused:
            await text_of(one)
        assert not isinstance(refused.value, Lost)


async def test_a_task_whose_server_forgets_it_may_have_had_its_effect() -> None:
    begun = by_turns({"resultType": "task", **task("working")})

    def act(server: Served, request: web.Request, asked: dict[str, Any]) -> Any:
        if asked["method"] == "tasks/get":
            return web.json_response(
                {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32602, "message": "gone"}}
            )
        return begun(server, request, asked)

    async with served(act) as server, connected(server) as one:
        with pytest.raises(Lost, match="gone"):
            await text_of(one)


async def test_a_task_in_an_unknown_state_is_waited_for_and_its_odd_parts_cost_themselves() -> None:
    odd = {"content": [{"type": "video"}, {"type": "text", "text": "at last"}]}
    act = by_turns(
        {"resultType": "task", **task("working")},
        {"resultType": "complete", **task("queued", statusMessage=5)},
        {"resultType": "complete", **task("completed", result=odd)},
    )
    async with served(act) as server, connected(server) as one:
        assert (await text_of(one)).endswith("at last")


async def test_a_person_is_asked_in_the_inbox_and_the_call_goes_on_with_the_answer() -> None:
    wants = {"resultType": "input_required", "inputRequests": {"q": FORM}, "requestState": "s-1"}
    asked: list[AnyItem] = []

    def answered(item: AnyItem) -> NewAnswer:
        asked.append(item)
        return NewAnswer(answer="red")

    async with served(by_turns(wants, {"resultType": "complete", **DONE})) as server, connected(server) as one:
        model = ScriptedModel([Line(calls=(call("one__look"),)), "done"])
        agent = AgentRuntime(
            AgentDefinition(name="master", description="d", prompt="p"), model=model, tools=ServerTools({"one": one})
        )
        journal = MemoryJournal(fresh_id())
        report = await agent.run(Task("go", root_record_id(journal.order_id)), agent.turn(journal, None, answered))
        assert report.text == "done" and "at last" in model.asks[1].messages[-1].results[0].content  # type: ignore[union-attr]
        last = [heard for heard in server.bodies if heard["method"] == "tools/call"][-1]["params"]
        assert last["requestState"] == "s-1" and last["inputResponses"]["q"]["content"] == {"colour": "red"}
    (item,) = asked
    assert isinstance(item, QuestionItem) and item.choices == ("red", "blue") and "one asks: Which?" in item.question
