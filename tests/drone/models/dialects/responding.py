"""OpenAI's Responses as recorded: output items, their events, and a server that sends them."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import httpx

USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
    "output_tokens": 30,
    "output_tokens_details": {"reasoning_tokens": 20},
    "total_tokens": 130,
}
Item: TypeAlias = dict[str, Any]


def reasoning(number: int, *summaries: str) -> Item:
    told = [{"type": "summary_text", "text": text} for text in summaries]
    return {"id": f"rs_{number}", "type": "reasoning", "summary": told, "encrypted_content": f"gAAAA/{number}+ü=="}


def message(number: int, text: str, *, phase: str | None = None) -> Item:
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
    told = {"id": f"msg_{number}", "type": "message", "status": "completed", "role": "assistant", "content": [part]}
    return told if phase is None else {**told, "phase": phase}


def refusal(number: int, text: str) -> Item:
    return {**message(number, ""), "content": [{"type": "refusal", "refusal": text}]}


def call(number: int, name: str, arguments: object) -> Item:
    given = arguments if isinstance(arguments, str) else json.dumps(arguments, separators=(",", ":"))
    told = {"id": f"fc_{number}", "type": "function_call", "status": "completed", "call_id": "call_same"}
    return {**told, "name": name, "arguments": given}


def response(output: Sequence[Item], status: str = "completed", **more: object) -> Item:
    told = {"id": "resp_1", "object": "response", "status": status, "error": None, "incomplete_details": None}
    return {**told, "output": list(output), "usage": USAGE, **more}


def events(output: Sequence[Item], status: str = "completed", **more: object) -> Iterator[Mapping[str, object]]:
    """A whole stream; the last event contains the final response."""
    yield {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}}
    yield {"type": "response.in_progress", "response": {"id": "resp_1", "status": "in_progress", "output": []}}
    for index, item in enumerate(output):
        yield from _of(index, item)
    yield {"type": f"response.{status}", "response": response(output, status, **more)}


def _of(index: int, item: Item) -> Iterator[Mapping[str, object]]:
    at = {"output_index": index, "item_id": item["id"]}
    begun = {**item, "status": "in_progress"} | {name: [] for name in ("content", "summary") if name in item}
    begun |= {name: "" for name in ("arguments",) if name in item}
    yield {"type": "response.output_item.added", "output_index": index, "item": begun}
    for number, part in enumerate(item.get("summary", ())):
        here = {**at, "summary_index": number}
        yield {"type": "response.reasoning_summary_part.added", **here, "part": {"type": "summary_text", "text": ""}}
        for piece in _pieces(part["text"]):
            yield {"type": "response.reasoning_summary_text.delta", **here, "delta": piece, "obfuscation": "x9"}
        yield {"type": "response.reasoning_summary_text.done", **here, "text": part["text"]}
    for number, part in enumerate(item.get("content", ())):
        here = {**at, "content_index": number}
        text = part.get("text") or part.get("refusal") or ""
        kind = {"output_text": "output_text", "refusal": "refusal", "reasoning_text": "reasoning_text"}[part["type"]]
        yield {"type": "response.content_part.added", **here, "part": {**part, "text": ""}}
        for piece in _pieces(text):
            yield {"type": f"response.{kind}.delta", **here, "delta": piece, "logprobs": []}
        yield {"type": f"response.{kind}.done", **here, "text": text}
    for piece in _pieces(item.get("arguments", "")):
        yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), 7):
        yield text[start : start + 7]


def encoded(told: Iterator[Mapping[str, object]]) -> bytes:
    lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in told)
    return "".join(lines).encode()


def streamed(output: Sequence[Item], status: str = "completed", **more: object) -> bytes:
    return encoded(events(output, status, **more))


Writer: TypeAlias = Callable[[str, int], Sequence[Item]]
"""The output for an agent, by the beginning of its prompt and the number of the request."""


@dataclass
class RespondingServer(httpx.AsyncBaseTransport):
    """Records the raw request bodies of each agent."""

    write: Writer
    asked: dict[str, list[bytes]] = field(default_factory=dict)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        said = [one["content"] for one in json.loads(request.content)["input"] if one.get("role") == "user"]
        bodies = self.asked.setdefault(said[0].split("\n")[0], [])
        bodies.append(request.content)
        output = self.write(said[0].split("\n")[0], len(bodies) - 1)
        headers = {"content-type": "text/event-stream", "x-request-id": f"req_{len(bodies)}"}
        return httpx.Response(200, headers=headers, content=streamed(output))
