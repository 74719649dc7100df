"""The fake model server, asked by the product's own adapters over a real connection."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from drone.agent.ports.model import Ask, ModelError, Reply
from drone.models.dialects.anthropic import anthropic_model
from drone.models.dialects.chat import openai_model
from drone.models.remote import ModelEndpoint
from drone.models.transport import ModelWire
from mcc.contracts.shape import to_json
from mcc.transcript.messages import UserMessage
from tests.drone.models.conftest import RecordingListener
from tests.faults.jsonlines import read
from tests.faults.llm import Log, Server
from tests.faults.llm_faults import KINDS, Armed, ControlFile, Fault, Orders
from tests.faults.script import Asked, Play, expected, prompt_of
from tests.faults.wire import Tokens, chat_events, message_events

PROMPT = prompt_of("one", 1, children=2, steps=3)
FIRST = expected(PROMPT).root.steps[0]
MAKERS = {"chat": openai_model, "messages": anthropic_model}
LENGTH = {
    "chat": len(b"".join(chat_events(FIRST, "one-master-0-1", Tokens(1, 1)))),
    "messages": len(b"".join(message_events(FIRST, "one-master-0-1", Tokens(1, 1)))),
}


@dataclass
class Bench:
    url: str
    wire: ModelWire
    log: Path
    control: Path

    def order(self, **orders: Any) -> None:
        self.control.write_text(json.dumps(orders))

    async def ask(self, form: str, prompt: str = PROMPT, seconds: float = 5.0) -> Reply:
        endpoint = ModelEndpoint(name=f"test/{form}", model="scripted", base_url=f"{self.url}/v1", key="k")
        question = Ask(system="Be good.", messages=(UserMessage(prompt),), seconds=seconds)
        return await MAKERS[form](endpoint, self.wire).ask(question, RecordingListener())

    def lines(self) -> list[tuple[object, ...]]:
        names = ("order", "agent", "step", "n", "fault", "outcome")
        return [tuple(line[name] for name in names) for line in read(self.log)]


@asynccontextmanager
async def bench(directory: Path) -> AsyncIterator[Bench]:
    log, control = directory / "llm.jsonl", directory / "llm.json"
    service = Server(Log(log), ControlFile(control))
    server = await asyncio.start_server(service.serve, "127.0.0.1", 0)
    wire = ModelWire()
    async with server:
        yield Bench(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", wire, log, control)
        await wire.aclose()


@pytest.mark.parametrize("form", MAKERS)
async def test_a_scripted_step_arrives_whole_with_its_calls_and_its_cost(form: str, tmp_path: Path) -> None:
    async with bench(tmp_path) as there:
        reply = await there.ask(form)
        assert reply.text == FIRST.text
        assert [(call.name, call.arguments) for call in reply.tool_calls] == [
            (call.name, dict(call.arguments)) for call in FIRST.calls
        ]
        (line,) = read(there.log)
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (line["input_tokens"], line["output_tokens"])
    assert len(line["digest"]) == 64


@pytest.mark.parametrize("form", MAKERS)
async def test_nul_and_lone_surrogates_arrive_as_they_were_written(form: str, tmp_path: Path) -> None:
    prompt = prompt_of("odd", 1, steps=2, children=0, strange=True)
    async with bench(tmp_path) as there:
        reply = await there.ask(form, prompt)
    assert reply.text == expected(prompt).root.steps[0].text
    assert to_json(reply.text)


@pytest.mark.parametrize("form", MAKERS)
@pytest.mark.parametrize("kind", ["refuse", "status", "cut", "reset", "malformed"])
async def test_an_armed_fault_fails_the_first_request_and_the_second_is_answered(
    form: str, kind: str, tmp_path: Path
) -> None:
    async with bench(tmp_path) as there:
        there.order(armed=[{"order": "one", "step": 0, "n": 1, "fault": {"kind": kind, "after": 300}}])
        with pytest.raises(ModelError):
            await there.ask(form)
        assert (await there.ask(form)).text == FIRST.text
        first, second = there.lines()
    assert first[:5] == ("one", "master", 0, 1, kind)
    assert second == ("one", "master", 0, 2, None, "answered")


@pytest.mark.parametrize("form", MAKERS)
async def test_a_reply_cut_at_any_byte_is_an_error_or_the_whole_reply_and_never_a_part(
    form: str, tmp_path: Path
) -> None:
    async with bench(tmp_path) as there:
        for after in range(0, LENGTH[form], 61):
            armed = {"order": None, "n": None, "fault": {"kind": "cut", "after": after}}
            there.order(armed=[armed])
            try:
                reply = await there.ask(form)
            except ModelError:
                continue
            assert reply.text == FIRST.text
            assert len(reply.tool_calls) == len(FIRST.calls)


@pytest.mark.parametrize("form", MAKERS)
@pytest.mark.parametrize("kind", ["slices", "stall_first", "stall_between", "late"])
async def test_slow_sliced_and_late_replies_arrive_whole(form: str, kind: str, tmp_path: Path) -> None:
    async with bench(tmp_path) as there:
        there.order(armed=[{"fault": {"kind": kind, "seconds": 0.15}}], gap_seconds=0.001)
        assert (await there.ask(form)).text == FIRST.text


async def test_a_server_that_says_nothing_hangs_until_the_client_goes(tmp_path: Path) -> None:
    async with bench(tmp_path) as there:
        there.order(armed=[{"fault": {"kind": "stall_first", "seconds": None}}])
        with pytest.raises(ModelError, match="did not finish"):
            await there.ask("chat", seconds=2.0)
        async with asyncio.timeout(60.0):
            while not there.lines():  # noqa: ASYNC110 - the server sees the end of the connection in its own time
                await asyncio.sleep(0.02)
        assert there.lines() == [("one", "master", 0, 1, "stall_first", "hung")]


async def test_what_belongs_to_no_script_is_refused(tmp_path: Path) -> None:
    async with bench(tmp_path) as there:
        with pytest.raises(ModelError, match="belongs to no script"):
            await there.ask("chat", "Good morning")
        assert there.lines() == []


def test_drawn_faults_are_the_same_for_the_same_call_and_end_after_a_few() -> None:
    orders = Orders(rate=0.5, seed=3, most_in_a_row=2)
    calls = [Asked(Play(f"k{number}", number), step) for number in range(30) for step in range(3)]
    drawn = [orders.fault(one, 1) for one in calls]
    assert drawn == [orders.fault(one, 1) for one in calls]
    assert 20 < sum(fault is not None for fault in drawn) < 70
    assert all(orders.fault(one, 3) is None for one in calls)


def test_armed_faults_come_before_drawn_ones_and_hit_only_whom_they_are_for() -> None:
    fault = Fault("refuse")
    orders = Orders(armed=(Armed(fault, order="a", agent="master/1", step=2, n=None),))
    assert orders.fault(Asked(Play("a", 1, "master/1"), 2), 7) == fault
    assert orders.fault(Asked(Play("a", 1, "master"), 2), 1) is None
    assert orders.fault(Asked(Play("b", 1, "master/1"), 2), 1) is None


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_ordered_in_the_control_file(kind: str) -> None:
    (armed,) = Orders.read(json.dumps({"armed": [{"fault": {"kind": kind}}]})).armed
    assert armed.fault.kind == kind


def test_unknown_kinds_and_orders_are_refused() -> None:
    with pytest.raises(ValueError, match="no fault"):
        Fault("earthquake")
    with pytest.raises(ValueError, match="unknown: rat"):
        Orders.read('{"rat": 1}')
