"""The workload of the runtime benchmarks: a turn of a master and four concurrent subagents, 38 model calls.

The master delegates once to `CHILDREN` subagents, each of which looks something up `ROUNDS` times and then reports. A
turn therefore has 2 + CHILDREN x (ROUNDS + 1) model calls, ROUNDS + 3 of them on its critical path.
"""

import asyncio
import gc
import json
import resource
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import httpx

from drone.agent.agent import AgentRuntime
from drone.agent.ports.journal import Journal
from drone.agent.ports.model import Model
from drone.agent.spending.budget import Budget
from drone.agent.subagents.delegation import Delegation, Wanted
from drone.agent.turns.turn import Task, Turn
from drone.models.registry import Models
from drone.settings import ModelConfig, Settings
from drone.tools.frame.tool import FunctionTools, tool
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.ids import fresh_id, root_record_id
from mcc.contracts.limits import Limits

CHILDREN, ROUNDS = 4, 8
CALLS = 2 + CHILDREN * (ROUNDS + 1)
PATH = ROUNDS + 3
MASTER_PROMPT = (
    "You are the master agent. Plan, delegate to parallel subagents, then bring their findings together. " * 6
)
CHILD_PROMPT = "You are a research subagent. Look facts up with your tool, then report in a few words. " * 6
FACT = "The fact you asked about is recorded as follows: " + "a few words of content " * 8
LIMITS = Limits(concurrency=CHILDREN)


@dataclass(frozen=True, slots=True)
class Spent:
    """What a measurement took: seconds of CPU of this process, wall-clock seconds, kilobytes of peak growth."""

    cpu: float
    wall: float
    kilobytes: float


@contextmanager
def fake_provider() -> Iterator[str]:
    """Run the fake model server in its own process; yields its address."""
    port = free_port()
    server = subprocess.Popen([sys.executable, "-m", "benchmarks.fake_llm", str(port)], stdout=subprocess.PIPE)
    try:
        wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(10)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def wait_for(port: int, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise TimeoutError(f"nothing listens on port {port}")


@tool(idempotent=True)
async def lookup(q: str) -> str:
    """Look up a fact.

    Args:
        q: what to look up.
    """
    return FACT


def prompt_of_a_turn() -> str:
    return f"Please do the research project. [[master k={CHILDREN} r={ROUNDS}]]"


def models(address: str, *, latency_ms: int, stream: bool) -> Models:
    config = ModelConfig(
        provider="openai",
        base_url=f"{address}/L{latency_ms}/T20/G0/v1",
        model="fake",
        stream=stream,
        api_key_env="FAKE",
    )
    return Models(Settings(models={"fake": config}, keys={"FAKE": "x"}))


def master(model: Model, turn: Turn) -> AgentRuntime:
    definition = AgentDefinition(name="master", prompt=MASTER_PROMPT)
    child = AgentDefinition(name="explore", prompt=CHILD_PROMPT)
    tools = FunctionTools([lookup])

    def create(wanted: Wanted) -> AgentRuntime:
        return AgentRuntime(child, model=model, tools=tools, limits=LIMITS)

    delegation = Delegation(turn, {"explore": "Looks facts up."}, create, depth=0)
    return AgentRuntime(definition, model=model, tools=delegation, limits=LIMITS)


async def our_turn(model: Model, journal: Journal, order_id: str) -> str:
    turn = Turn.begun(journal, Budget(LIMITS))
    task = Task(prompt_of_a_turn(), root_record_id(order_id))
    report = await master(model, turn).run(task, turn)
    if not report.completed or not report.text:
        raise RuntimeError(f"a turn of the benchmark failed: {report.error}")
    return report.text


class BareLoop:
    """The same turn as a bare loop over `httpx.AsyncClient`, without budget, journal or validation."""

    def __init__(self, client: httpx.AsyncClient, address: str, *, latency_ms: int, stream: bool) -> None:
        self._client = client
        self._url = f"{address}/L{latency_ms}/T20/G0/v1/chat/completions"
        self._stream = stream

    async def turn(self) -> str:
        return await self._agent(MASTER_PROMPT, prompt_of_a_turn(), [_DELEGATE], self._delegate)

    async def _delegate(self, arguments: dict[str, str]) -> str:
        return await self._agent(CHILD_PROMPT, arguments["prompt"], [_LOOKUP], self._lookup)

    async def _lookup(self, arguments: dict[str, str]) -> str:
        return FACT

    async def _agent(
        self, system: str, prompt: str, tools: list[object], act: Callable[[dict[str, str]], Awaitable[str]]
    ) -> str:
        messages: list[dict[str, object]] = [
            {"role": "system", "content": system},
            {"role": "user", "content": prompt},
        ]
        while True:
            message = await (self._streamed if self._stream else self._plain)(messages, tools)
            messages.append(message)
            calls = message.get("tool_calls")
            if not calls:
                return message["content"]
            results = await asyncio.gather(*[act(json.loads(call["function"]["arguments"])) for call in calls])
            for call, content in zip(calls, results, strict=True):
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})

    async def _plain(self, messages: list[dict[str, object]], tools: list[object]) -> dict[str, object]:
        body = {"model": "fake", "messages": messages, "tools": tools}
        answer = await self._client.post(self._url, json=body)
        return json.loads(answer.content)["choices"][0]["message"]

    async def _streamed(self, messages: list[dict[str, object]], tools: list[object]) -> dict[str, object]:
        body = {"model": "fake", "messages": messages, "tools": tools, "stream": True}
        text: list[str] = []
        calls: dict[int, dict[str, object]] = {}
        async with self._client.stream("POST", self._url, json=body) as answer:
            async for line in answer.aiter_lines():
                if not line.startswith("data: ") or line == "data: [DONE]":
                    continue
                for choice in json.loads(line[6:])["choices"]:
                    _collect(choice["delta"], text, calls)
        message: dict[str, object] = {"role": "assistant", "content": "".join(text) or None}
        if calls:
            message["tool_calls"] = [calls[index] for index in sorted(calls)]
        return message


def _collect(delta: dict, text: list[str], calls: dict) -> None:
    if delta.get("content"):
        text.append(delta["content"])
    for part in delta.get("tool_calls") or ():
        blank = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        call = calls.setdefault(part["index"], blank)
        call["id"] = part.get("id") or call["id"]
        call["function"]["name"] += part["function"].get("name") or ""
        call["function"]["arguments"] += part["function"].get("arguments") or ""


def _function(name: str, description: str, *required: str) -> dict[str, object]:
    properties = {key: {"type": "string"} for key in required}
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


_LOOKUP = _function("lookup", "Look up a fact.", "q")
_DELEGATE = _function("subagent", "Delegate a task to a subagent.", "agent_type", "prompt")


@cache
def _trusted() -> ssl.SSLContext:
    """Shared by all clients, because each context holds a megabyte of certificates."""
    return ssl.create_default_context()


@asynccontextmanager
async def bare_httpx(address: str, *, latency_ms: int, stream: bool) -> AsyncIterator[BareLoop]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(timeout=60, limits=limits, trust_env=False, verify=_trusted()) as client:
        yield BareLoop(client, address, latency_ms=latency_ms, stream=stream)


async def measured(work: Callable[[], Awaitable[object]]) -> Spent:
    """Run `work` and measure it. Memory is sampled every 50 ms."""
    gc.collect()
    before = peak = _resident()

    async def watch() -> None:
        nonlocal peak
        while True:
            peak = max(peak, _resident())
            await asyncio.sleep(0.05)

    watching = asyncio.create_task(watch())
    cpu, wall = time.process_time(), time.perf_counter()
    await work()
    spent = Spent(time.process_time() - cpu, time.perf_counter() - wall, peak - before)
    watching.cancel()
    return spent


async def side_by_side(turn: Callable[[], Awaitable[object]], count: int, width: int) -> None:
    """Run `count` turns, at most `width` at a time."""
    numbers = iter(range(count))

    async def line() -> None:
        for _ in numbers:
            await turn()

    await asyncio.gather(*[line() for _ in range(width)])


def _resident() -> float:
    """Kilobytes of this process that are in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1024


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table as plain text."""
    cells = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    print(f"\n{title}")
    for number, row in enumerate(cells):
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        if number == 0:
            print("  " + "  ".join("-" * width for width in widths))


def order_id() -> str:
    return fresh_id()
