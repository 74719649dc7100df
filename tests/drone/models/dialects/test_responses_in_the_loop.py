"""Agents with a model that speaks OpenAI's Responses: tools, a gate, a change of drone, a change of model."""

import json
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from drone.agent.agent import AgentRuntime
from drone.agent.gates.report_gate import gate_for
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Model
from drone.agent.ports.report import Report
from drone.agent.state.tree import Tree
from drone.models.dialects.chat import openai_model
from drone.models.dialects.responses import responses_model
from drone.models.remote import ModelEndpoint
from drone.models.retry import Fallback
from drone.tools.frame.tool import FunctionTools, tool
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.entry import Entry, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.order import Rule
from mcc.contracts.record import RecordStatus
from tests.drone.models.dialects import responding as wire
from tests.drone.models.loopback import Loopback

ORDER = "0199c0de-0000-7000-8000-000000000001"
KEY = "sk-key-0123456789"
SCRIPT = [
    [
        wire.reasoning(1, "Two numbers.", "I double both."),
        wire.call(1, "double", '{"number": 2}'),
        wire.message(1, "Doubling.", phase="commentary"),
        wire.reasoning(2),
        wire.call(2, "double", {"number": 3}),
    ],
    [wire.reasoning(3), wire.call(3, "submit_result", {"total": 9})],
    [wire.reasoning(4, "It was refused."), wire.call(4, "submit_result", {"total": 10})],
]
RESULT = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
RULES = (Rule(cel="result.total == 10", message="The total is not the sum of both."),)


@tool(idempotent=True, untrusted=False)
async def double(number: int) -> str:
    """Twice a number."""
    return str(number * 2)


def told(name: str, **more: Any) -> ModelEndpoint:
    known = {"provider": "openai", "base_url": "https://api.openai.com/v1", "key": KEY}
    return ModelEndpoint(**{"name": f"openai/{name}", "model": name, **known, **more})


class Stepping(MemoryJournal):
    """Records after which journal entries a drone may be lost: each write is one commit."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        super().__init__(ORDER, entries=entries)
        self.commits: list[int] = []

    async def write(self, origin: Origin, *facts: Fact) -> int:
        number = await super().write(origin, *facts)
        self.commits.append(len(self.entries))
        return number


class Drone:
    """A drone that runs the turn from the beginning, or continues what another one left."""

    def __init__(self, model: Model, left: Sequence[Entry] = (), **definition: Any) -> None:
        known = {"name": "adder", "prompt": "You add doubled numbers.", "rules": RULES, "result": RESULT}
        self._definition = AgentDefinition(**{**known, **definition})
        self._model = model
        self._left = list(left)
        self.journal = Stepping(self._left)

    async def run(self) -> Report:
        gate = gate_for(self._definition, is_subagent=False)
        agent = AgentRuntime(self._definition, model=self._model, tools=FunctionTools([double]), gate=gate)
        return await agent.run("Double 2 and 3.", agent.turn(self.journal, Tree.of(self._left)))

    def notes(self) -> list[str]:
        record = self.journal.fold.record()
        assert record is not None
        return [step.message for step in record.steps if step.kind == "note" and step.name == "not_sent"]


class Server(wire.RespondingServer):
    """Answers with the replies of a script, starting at number `first`."""

    def __init__(self, script: Sequence[Sequence[wire.Item]] = SCRIPT, first: int = 0) -> None:
        super().__init__(lambda who, number: script[first + number])

    @property
    def bodies(self) -> list[bytes]:
        return next(iter(self.asked.values()), [])


async def whole() -> tuple[Server, Drone]:
    server = Server()
    drone = Drone(responses_model(told("gpt-6.1-terra"), Loopback(server)))
    report = await drone.run()
    assert (report.status, report.result) == (RecordStatus.COMPLETED, {"total": 10})
    return server, drone


def before_the_last(body: bytes) -> bytes:
    """A request up to the end of its messages."""
    return body[: body.index(b'],"tool_choice"')]


async def test_parallel_and_interleaved_calls_and_a_refusing_gate_bring_the_result() -> None:
    server, drone = await whole()
    assert len(server.bodies) == 3
    items = json.loads(server.bodies[-1])["input"]
    kinds = "message reasoning function_call message reasoning function_call function_call_output function_call_output"
    assert [item.get("type", "message") for item in items[:8]] == kinds.split()
    assert [item["output"] for item in items[6:8]] == ["4", "6"]
    assert items[6]["call_id"] == items[2]["call_id"] != items[5]["call_id"] == items[7]["call_id"]
    assert "not the sum of both" in items[-1]["output"]
    assert [item["encrypted_content"] for item in items if "encrypted_content" in item] == [
        item["encrypted_content"] for item in (SCRIPT[0][0], SCRIPT[0][3], SCRIPT[1][0])
    ]
    assert items[2]["arguments"] == '{"number": 2}'
    assert not drone.notes()


async def test_each_request_of_an_agent_begins_with_the_one_before_it() -> None:
    server, _ = await whole()
    for earlier, later in zip(server.bodies, server.bodies[1:], strict=False):
        assert later.startswith(before_the_last(earlier))
    keys = {json.loads(body)["prompt_cache_key"] for body in server.bodies}
    assert len(keys) == 1 and keys.pop()


async def test_a_drone_that_goes_on_after_any_commit_asks_in_the_same_bytes() -> None:
    server, drone = await whole()
    entries = [Entry.model_validate_json(entry.model_dump_json()) for entry in drone.journal.entries]
    assert len(drone.journal.commits) > 5
    for number in drone.journal.commits[:-1]:
        kept = entries[:number]
        replied = sum(entry.kind == "model.replied" for entry in kept)
        second = Server(first=replied)
        report = await Drone(responses_model(told("gpt-6.1-terra"), Loopback(second)), kept).run()
        assert report.result == {"total": 10}
        assert [before_the_last(one) for one in second.bodies] == [
            before_the_last(one) for one in server.bodies[replied:]
        ]


@pytest.mark.parametrize("form", ["responses", "chat"])
async def test_another_model_continues_without_encrypted_reasoning_and_the_record_says_so(form: str) -> None:
    class Failing(Server):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if not self.asked:
                return await super().handle_async_request(request)
            return httpx.Response(400, json={"error": {"message": "The server is gone."}})

    class Chat(httpx.AsyncBaseTransport):
        def __init__(self) -> None:
            self.bodies: list[bytes] = []

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            self.bodies.append(request.content)
            function = {"name": "submit_result", "arguments": '{"total":10}'}
            calls = [{"id": "c", "type": "function", "function": function}]
            choice = {"message": {"content": "", "tool_calls": calls}, "finish_reason": "tool_calls"}
            return httpx.Response(200, json={"choices": [choice]})

    second = Server(first=2) if form == "responses" else Chat()
    other = told("gpt-5.4", base_url="https://other.test/v1")
    make = responses_model if form == "responses" else openai_model
    models = Fallback([responses_model(told("gpt-6.1-terra"), Loopback(Failing())), make(other, Loopback(second))])
    drone = Drone(models)
    assert (await drone.run()).result == {"total": 10}
    sent = second.bodies[0]
    assert b'encrypted_content":' not in sent and b"gAAAA" not in sent and b"rs_1" not in sent
    assert b"Doubling." in sent
    assert b'"content":"4"' in sent or b'"output":"4"' in sent
    assert drone.notes() == [
        "openai/gpt-5.4 is not told the thinking in earlier replies that only openai/gpt-6.1-terra can read."
    ]


async def test_a_refusal_ends_the_run_with_its_words() -> None:
    server = Server([[wire.reasoning(1), wire.refusal(1, "I will not double numbers.")]])
    report = await Drone(responses_model(told("gpt-6.1-terra"), Loopback(server)), rules=(), result=None).run()
    assert report.status is RecordStatus.FAILED
    assert "I will not double numbers" in (report.error or "")


async def test_a_reply_cut_at_its_cap_is_gone_on_with() -> None:
    class Cut(Server):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if self.asked:
                return await super().handle_async_request(request)
            self.asked["Double 2 and 3."] = [request.content]
            half = {**wire.message(1, "Half of an ans"), "status": "incomplete"}
            details = {"reason": "max_output_tokens"}
            data = wire.streamed([wire.reasoning(1), half], "incomplete", incomplete_details=details)
            return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=data)

    server = Cut([[], [wire.reasoning(2), wire.message(2, "wer.")]])
    report = await Drone(responses_model(told("gpt-6.1-terra"), Loopback(server)), rules=(), result=None).run()
    assert report.status is RecordStatus.COMPLETED
    items = json.loads(server.bodies[1])["input"]
    assert [item["id"] for item in items if "id" in item] == ["rs_1", "msg_1"]


async def test_the_record_names_the_requests_as_the_provider_does() -> None:
    _, drone = await whole()
    asked = [entry.data.request_id for entry in drone.journal.entries if isinstance(entry.data, ModelReplied)]
    assert asked == ["req_1", "req_2", "req_3"]
