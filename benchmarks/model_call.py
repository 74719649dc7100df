"""The cost of one model call: our adapters beside a bare httpx loop, on the same fake server.

python -m benchmarks.model_call [TURNS]     # a turn is nine calls; prints CPU milliseconds per call
"""

import asyncio
import contextlib
import gc
import json
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any

import httpx

from drone.agent.messages import AssistantMessage, Message, ToolResult, ToolResults, ToolSpec, UserMessage
from drone.agent.model import Ask, Model
from drone.models.dialects.anthropic import anthropic_model
from drone.models.dialects.chat import openai_model
from drone.models.remote import Endpoint
from drone.models.transport import Wire
from mcc.contracts.blocks import ToolCall

ROUNDS = 8
CALLS = ROUNDS + 1
SYSTEM = "You are a research agent. Use the lookup tool to find facts, then report briefly. " * 6
PROMPT = f"Please find the facts. [[sub r={ROUNDS}]]"
RESULT = "The fact you asked about is recorded as follows: " + "lorem ipsum dolor sit amet " * 6
SCHEMA: Mapping[str, object] = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}

Turn = Callable[[], Awaitable[None]]


class Deaf:
    """Listens to nothing."""

    def delta(self, kind: str, text: str, call: object = None) -> None:
        return None

    async def retried(self, error: str, wait_seconds: float) -> None:
        raise RuntimeError(error)

    async def fell_back(self, source: str, target: str, error: str) -> None:
        raise RuntimeError(error)

    async def go_ahead(self) -> None:
        return None


@contextlib.contextmanager
def fake_server() -> Iterator[str]:
    """The fake model server in a process of its own; its address."""
    command = [sys.executable, "-m", "benchmarks.fake_llm", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().split()[1]}"
        finally:
            process.terminate()


def our_turn(model: Model) -> Turn:
    """The loop in its barest form around one of our models."""
    tools = (ToolSpec("lookup", "Look up a fact.", SCHEMA),)

    async def turn() -> None:
        messages: list[Message] = [UserMessage(PROMPT)]
        for _ in range(CALLS):
            reply = await model.ask(Ask(SYSTEM, messages, tools), Deaf())
            if not reply.tool_calls:
                return
            calls = tuple(
                ToolCall(call_id=f"call-{len(messages)}-{index}", name=wanted.name, arguments=wanted.arguments)
                for index, wanted in enumerate(reply.tool_calls)
            )
            messages.append(AssistantMessage.of(reply.text, tool_calls=calls))
            messages.append(ToolResults(tuple(ToolResult(call.call_id, call.name, RESULT, False) for call in calls)))
        raise RuntimeError("the turn did not end")

    return turn


def bare_turn(client: httpx.AsyncClient, base_url: str, *, stream: bool) -> Turn:
    """The same by hand over one `httpx.AsyncClient`."""
    function = {"name": "lookup", "description": "Look up a fact.", "parameters": SCHEMA}
    tools = [{"type": "function", "function": function}]

    async def turn() -> None:
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": PROMPT},
        ]
        for _ in range(CALLS):
            body = {"model": "fake", "messages": messages, "tools": tools}
            message = await (_streamed if stream else _posted)(client, f"{base_url}/v1/chat/completions", body)
            messages.append(message)
            if not message.get("tool_calls"):
                return
            for call in message["tool_calls"]:
                json.loads(call["function"]["arguments"])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": RESULT})
        raise RuntimeError("the turn did not end")

    return turn


async def _posted(client: httpx.AsyncClient, url: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await client.post(url, json=body)
    answer.raise_for_status()
    message: dict[str, Any] = json.loads(answer.content)["choices"][0]["message"]
    return message


async def _streamed(client: httpx.AsyncClient, url: str, body: dict[str, Any]) -> dict[str, Any]:
    text: list[str] = []
    calls: dict[int, dict[str, Any]] = {}
    async for event in _events(client, url, {**body, "stream": True, "stream_options": {"include_usage": True}}):
        for choice in event["choices"]:
            delta = choice["delta"]
            text.append(delta.get("content") or "")
            for piece in delta.get("tool_calls") or ():
                call = calls.setdefault(
                    piece["index"], {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
                )
                call["id"] += piece.get("id") or ""
                call["function"]["name"] += piece["function"].get("name") or ""
                call["function"]["arguments"] += piece["function"].get("arguments") or ""
    message: dict[str, Any] = {"role": "assistant", "content": "".join(text)}
    return {**message, "tool_calls": list(calls.values())} if calls else message


async def _events(client: httpx.AsyncClient, url: str, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    async with client.stream("POST", url, json=body) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: ") and line != "data: [DONE]":
                yield json.loads(line[6:])


async def cpu_ms_per_call(turn: Turn, turns: int) -> float:
    """CPU time of this process per model call, after a warm-up."""
    for _ in range(3):
        await turn()
    gc.collect()
    begun = time.process_time()
    for _ in range(turns):
        await turn()
    return (time.process_time() - begun) * 1000 / (turns * CALLS)


async def measure(base_url: str, turns: int) -> None:
    wire, trust = Wire(), ssl.create_default_context()
    async with httpx.AsyncClient(verify=trust, trust_env=False, timeout=60) as client:
        for stream in (False, True):
            endpoint = Endpoint("openai/fake", "fake", f"{base_url}/v1", stream=stream)
            contenders = {
                "bare httpx": bare_turn(client, base_url, stream=stream),
                "openai": our_turn(openai_model(endpoint, wire)),
                "anthropic": our_turn(anthropic_model(endpoint, wire)),
            }
            figures = {name: await cpu_ms_per_call(turn, turns) for name, turn in contenders.items()}
            bare = figures["bare httpx"]
            for name, figure in figures.items():
                print(
                    f"{'SSE' if stream else 'plain':6}{name:12}{figure:7.3f} ms CPU per call{figure / bare:7.2f} x bare"
                )
    await wire.aclose()


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with fake_server() as base_url:
        asyncio.run(measure(base_url, turns))


if __name__ == "__main__":
    main()
