"""A provider that plays a scripted conversation in each wire format and records the requests."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import httpx

from tests.drone.models.dialects import responding

Form: TypeAlias = Literal["openai", "responses", "anthropic"]


@dataclass(frozen=True)
class Say:
    """A reply: text, thinking, calls as (name, arguments)."""

    text: str = ""
    calls: Sequence[tuple[str, Mapping[str, object]]] = ()
    thinking: str = ""


@dataclass
class Asked:
    """One request: the asking agent (the prompt in its first user message), the raw body, and its content in order."""

    who: str
    body: bytes
    blocks: list[Any]
    tools: list[Any]


Writer: TypeAlias = Callable[[str, int], Say]
"""The reply to an agent, from its prompt and the number of its replies so far."""


@dataclass
class TalkingServer(httpx.AsyncBaseTransport):
    form: Form
    write: Writer
    prompts: Sequence[str]
    asked: list[Asked] = field(default_factory=list)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        blocks = list(_blocks(body))
        first = next(block["text"] for role, block in blocks if role == "user" and "text" in block)
        who = next(prompt for prompt in self.prompts if prompt in first)
        self.asked.append(Asked(who, request.content, blocks, body.get("tools", [])))
        say = self.write(who, len(self.by(who)) - 1)
        match self.form:
            case "openai":
                stream = b"".join(_chat(say))
            case "responses":
                stream = _response(say)
            case "anthropic":
                stream = b"".join(_message(say))
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=stream)

    def by(self, who: str) -> list[Asked]:
        return [one for one in self.asked if one.who == who]


def _blocks(body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(role, content) pairs in order, without cache marks."""
    for item in body.get("input", ()):
        yield item.get("role", "model"), {**item, "text": item["content"]} if item.get("role") == "user" else item
    for message in body.get("messages", ()):
        content = message.get("content")
        if isinstance(content, list):
            yield from ((message["role"], {k: v for k, v in b.items() if k != "cache_control"}) for b in content)
        elif message["role"] != "system":
            yield message["role"], {**message, "text": content}


def _chat(say: Say) -> Iterator[bytes]:
    def chunk(finish: str | None = None, **delta: object) -> bytes:
        return (
            b"data: "
            + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}).encode()
            + b"\n\n"
        )

    if say.thinking:
        yield chunk(reasoning_content=say.thinking)
    if say.text:
        yield chunk(content=say.text)
    for index, (name, arguments) in enumerate(say.calls):
        text = json.dumps(arguments)
        yield chunk(tool_calls=[{"index": index, "id": "same", "function": {"name": name, "arguments": text[:5]}}])
        yield chunk(tool_calls=[{"index": index, "function": {"arguments": text[5:]}}])
    yield chunk("tool_calls" if say.calls else "stop")
    yield b'data: {"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":10}}\n\ndata: [DONE]\n\n'


def _response(say: Say) -> bytes:
    output = [responding.reasoning(1, say.thinking)] if say.thinking else []
    output += [responding.message(1, say.text)] if say.text else []
    output += [responding.call(number, name, told) for number, (name, told) in enumerate(say.calls)]
    usage = {"input_tokens": 100, "output_tokens": 10}
    return responding.streamed(output, usage=usage)


def _message(say: Say) -> Iterator[bytes]:
    def event(kind: str, **told: object) -> bytes:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **told})}\n\n".encode()

    def block(index: int, start: Mapping[str, object], **delta: object) -> bytes:
        begun = event("content_block_start", index=index, content_block=start)
        return begun + event("content_block_delta", index=index, delta=delta)

    yield event("message_start", message={"content": [], "usage": {"input_tokens": 100, "output_tokens": 1}})
    if say.thinking:
        yield block(0, {"type": "thinking", "thinking": ""}, type="thinking_delta", thinking=say.thinking)
        yield event("content_block_delta", index=0, delta={"type": "signature_delta", "signature": "c2ln"})
    if say.text:
        yield block(1, {"type": "text", "text": ""}, type="text_delta", text=say.text)
    for index, (name, arguments) in enumerate(say.calls, 2):
        start = {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}}
        yield block(index, start, type="input_json_delta", partial_json=json.dumps(arguments))
    yield event(
        "message_delta", delta={"stop_reason": "tool_use" if say.calls else "end_turn"}, usage={"output_tokens": 10}
    )
    yield event("message_stop")
