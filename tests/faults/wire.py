"""A scripted step as the bytes that a provider would stream: OpenAI's chunks, Anthropic's events."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.faults.script import Step, Wanted

PIECES = 6
"""A text, and the arguments of a call, come in about so many pieces."""


def written(call: Wanted) -> str:
    """The arguments of a call as a model writes them; text stands as it is."""
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a reply says that it cost; counted from characters, so that a repetition costs the same."""

    input: int
    output: int

    @classmethod
    def of(cls, body: bytes, step: Step) -> "Tokens":
        said = len(step.text) + sum(len(written(call)) for call in step.calls)
        return cls(len(body) // 4, max(1, said // 4))


Stream = Callable[[Step, str, Tokens], Iterator[bytes]]
"""Events of a reply: the step, an id of the reply, what it costs."""


def chat_events(step: Step, reply_id: str, tokens: Tokens) -> Iterator[bytes]:
    """As an OpenAI-compatible server sends it, usage behind the end, then [DONE]."""
    top = {"id": reply_id, "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "scripted"}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return _data({**top, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    yield chunk({"role": "assistant", "content": ""})
    yield from (chunk({"content": piece}) for piece in pieces(step.text))
    for index, call in enumerate(step.calls):
        function = {"name": call.name, "arguments": ""}
        named = {"index": index, "id": f"{reply_id}-{index}", "type": "function", "function": function}
        yield chunk({"tool_calls": [named]})
        for piece in pieces(written(call)):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, "tool_calls" if step.calls else "stop")
    usage = {"prompt_tokens": tokens.input, "completion_tokens": tokens.output}
    yield _data({**top, "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


def message_events(step: Step, reply_id: str, tokens: Tokens) -> Iterator[bytes]:
    """As Anthropic's Messages API sends it."""
    usage = {"input_tokens": tokens.input, "output_tokens": 1}
    start = {"id": reply_id, "type": "message", "role": "assistant", "model": "scripted", "content": []}
    yield _event("message_start", message={**start, "stop_reason": None, "usage": usage})
    yield _event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    for piece in pieces(step.text):
        yield _event("content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
    yield _event("content_block_stop", index=0)
    for index, call in enumerate(step.calls, start=1):
        block = {"type": "tool_use", "id": f"{reply_id}-{index}", "name": call.name, "input": {}}
        yield _event("content_block_start", index=index, content_block=block)
        for piece in pieces(written(call)):
            yield _event("content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": piece})
        yield _event("content_block_stop", index=index)
    stop = {"stop_reason": "tool_use" if step.calls else "end_turn", "stop_sequence": None}
    yield _event("message_delta", delta=stop, usage={"output_tokens": tokens.output})
    yield _event("message_stop")


def pieces(text: str) -> Iterator[str]:
    size = max(1, -(-len(text) // PIECES))
    return (text[start : start + size] for start in range(0, len(text), size))


def _data(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _event(kind: str, **more: Any) -> bytes:
    return f"event: {kind}\n".encode() + _data({"type": kind, **more})
