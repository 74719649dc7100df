"""A server that speaks Anthropic's Messages: it thinks between its calls, and wants every block back as it was."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.fake_provider.play import Heard, Json, Memory, Refused, Say

PARAMETERS = frozenset(
    [
        "model",
        "messages",
        "system",
        "tools",
        "tool_choice",
        "max_tokens",
        "temperature",
        "top_p",
        "top_k",
        "stream",
        "stop_sequences",
        "thinking",
        "output_config",
        "metadata",
        "service_tier",
        "cache_control",
        "context_management",
    ]
)
FINISH = {"stop": "end_turn", "length": "max_tokens", "pause": "pause_turn"}


class MessagesForm:
    """`most` caps max_tokens."""

    path = re.compile(r"/v1/messages")
    prefix = ""

    def __init__(self, most: int = 64_000) -> None:
        self._most = most

    def authorize(self, headers: Mapping[str, str], query: Mapping[str, str]) -> None:
        if "x-api-key" not in headers and "authorization" not in headers:
            raise Refused(401, "x-api-key header is required", "authentication_error")
        if "anthropic-version" not in headers:
            raise Refused(400, "anthropic-version: header is required")

    def check(self, body: Json, memory: Memory) -> None:
        for name in body.keys() - PARAMETERS:
            raise Refused(400, f"{name}: Extra inputs are not permitted")
        most = body.get("max_tokens")
        if not isinstance(most, int):
            raise Refused(400, "max_tokens: Field required")
        if most > self._most:
            raise Refused(
                400,
                f"max_tokens: {most} > {self._most}, which is the maximum allowed number of output tokens for "
                f"{body.get('model')}",
            )
        self._check_thinking(body)
        marks = json.dumps(body).count('"cache_control"')
        if marks > 4:
            raise Refused(400, f"A maximum of 4 blocks with cache_control may be provided. Found {marks}.")
        for number, tool in enumerate(body.get("tools", ())):
            if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", tool.get("name", "")):
                raise Refused(
                    400, f"tools.{number}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
                )
            if tool.get("input_schema", {}).get("type") != "object":
                raise Refused(400, f"tools.{number}.custom.input_schema.type: Field required")
        self._check_messages(body["messages"], memory)

    def _check_thinking(self, body: Json) -> None:
        thinking = body.get("thinking", {})
        if thinking.get("type") == "enabled" and thinking.get("budget_tokens", 0) >= body["max_tokens"]:
            raise Refused(400, "`max_tokens` must be greater than `thinking.budget_tokens`.")
        if thinking.get("type") in ("enabled", "adaptive") and body.get("temperature", 1) != 1:
            raise Refused(400, "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.")

    def _check_messages(self, messages: list[Json], memory: Memory) -> None:
        if not messages or messages[0].get("role") != "user":
            raise Refused(400, 'messages: first message must use the "user" role')
        called: list[str] = []
        for number, message in enumerate(messages):
            blocks = _blocks(message)
            if not blocks:
                raise Refused(400, f"messages.{number}: all messages must have non-empty content")
            if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
                raise Refused(400, "messages: text content blocks must be non-empty")
            answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
            first = [block["type"] for block in blocks[: len(answered)]]
            if missing := [one for one in called if one not in answered] or (
                answered and first.count("tool_result") != len(answered)
            ):
                raise Refused(
                    400,
                    f"messages.{number - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                    f"{missing}. Each `tool_use` block must have a corresponding `tool_result` block in the next "
                    "message.",
                )
            if strange := [one for one in answered if one not in called]:
                raise Refused(
                    400,
                    f"messages.{number}.content.0: unexpected `tool_use_id` found in `tool_result` blocks: "
                    f"{strange[0]}.",
                )
            called = [block["id"] for block in blocks if block["type"] == "tool_use"]
            if message["role"] == "assistant":
                self._check_signed(number, blocks, memory)

    def _check_signed(self, number: int, blocks: list[Json], memory: Memory) -> None:
        """All that was sent with a signature comes back with it, in its order; replies may stand side by side."""
        at = 0
        while at < len(blocks):
            signature = blocks[at].get("signature")
            if signature is not None and signature not in memory.signed:
                raise Refused(400, f"messages.{number}.content.{at}: Invalid `signature` in `thinking` block")
            sent = memory.signed.get(signature or "", blocks[at : at + 1])
            if [_bare(block) for block in blocks[at : at + len(sent)]] != [_bare(block) for block in sent]:
                raise Refused(
                    400,
                    f"messages.{number}.content.{at}: `thinking` or `redacted_thinking` blocks in the latest assistant "
                    "message cannot be modified. These blocks must remain as they were in the original response.",
                )
            at += len(sent)

    def hear(self, body: Json) -> Heard:
        blocks = [block for message in body["messages"] for block in _blocks(message)]
        offered = body.get("tools", ()) if body.get("tool_choice", {}).get("type") != "none" else ()
        return Heard(
            tools={tool["name"]: tool["input_schema"] for tool in offered},
            replies=sum(message["role"] == "assistant" for message in body["messages"]),
            results=sum(block["type"] == "tool_result" for block in blocks),
            tokens=len(json.dumps(body)) // 4,
        )

    def _content(self, say: Say, memory: Memory) -> list[dict[str, Any]]:
        """Thinking, a call, thinking sealed, text, another call: as models write it that think between their calls."""
        turn = memory.turns
        blocks: list[dict[str, Any]] = [{"type": "thinking", "thinking": say.thinking, "signature": f"sig-{turn}-a"}]
        calls = [
            {"type": "tool_use", "id": f"toolu_{turn}_{number}", "name": call.name, "input": dict(call.arguments)}
            for number, call in enumerate(say.calls)
        ]
        blocks += calls[:1]
        if calls:
            blocks.append({"type": "thinking", "thinking": "And then.", "signature": f"sig-{turn}-b"})
            blocks.append({"type": "redacted_thinking", "data": f"sealed-{turn}"})
        if say.text:
            blocks.append({"type": "text", "text": say.text})
        blocks += calls[1:]
        memory.signed[f"sig-{turn}-a"] = blocks
        return blocks

    def _usage(self, heard: Heard, cached: int) -> Json:
        fresh = max(0, heard.tokens - cached)
        return {
            "input_tokens": min(fresh, 12),
            "cache_creation_input_tokens": max(0, fresh - 12),
            "cache_read_input_tokens": cached,
        }

    def _stop(self, say: Say) -> str:
        return "tool_use" if say.calls else FINISH.get(say.finish, say.finish)

    def stream(self, say: Say, heard: Heard, memory: Memory, cached: int) -> Iterator[bytes]:
        usage = {**self._usage(heard, cached), "output_tokens": 1}
        yield _event("message_start", message={"id": "msg_0", "role": "assistant", "content": [], "usage": usage})
        yield _event("ping")
        for index, block in enumerate(self._content(say, memory)):
            empty = {"thinking": "", "text": "", "input": {}, "signature": ""}
            begun = {name: empty.get(name, value) for name, value in block.items()}
            yield _event("content_block_start", index=index, content_block=begun)
            for delta in _deltas(block):
                yield _event("content_block_delta", index=index, delta=delta)
            yield _event("content_block_stop", index=index)
        yield _event("message_delta", delta={"stop_reason": self._stop(say)}, usage={"output_tokens": 60})
        yield _event("message_stop")

    def whole(self, say: Say, heard: Heard, memory: Memory, cached: int) -> Json:
        usage = {**self._usage(heard, cached), "output_tokens": 60}
        content = self._content(say, memory)
        return {"id": "msg_0", "role": "assistant", "content": content, "stop_reason": self._stop(say), "usage": usage}

    def error(self, refused: Refused) -> Json:
        return {"type": "error", "error": {"type": refused.kind, "message": str(refused)}, "request_id": "req_fake"}

    def error_in_stream(self, refused: Refused) -> bytes:
        return _event("error", error={"type": refused.kind, "message": str(refused)})


class Forgetful(MessagesForm):
    """Knows after its second reply none of the thinking that it gave before."""

    def check(self, body: Json, memory: Memory) -> None:
        if memory.turns == 2 and "sig-1-a" in memory.signed:
            memory.signed.clear()
        super().check(body, memory)


def _blocks(message: Json) -> list[Json]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def _bare(block: Json) -> Json:
    """Without ids and marks, which are the client's."""
    return {name: value for name, value in block.items() if name not in ("id", "cache_control")}


def _deltas(block: Json) -> Iterator[Json]:
    match block["type"]:
        case "thinking":
            yield {"type": "thinking_delta", "thinking": block["thinking"]}
            yield {"type": "signature_delta", "signature": block["signature"]}
        case "text":
            yield from ({"type": "text_delta", "text": piece} for piece in re.findall(r"\S+\s*|\s+", block["text"]))
        case "tool_use":
            text = json.dumps(block["input"])
            yield from ({"type": "input_json_delta", "partial_json": part} for part in ("", text[:6], text[6:]))


def _event(kind: str, **told: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **told})}\n\n".encode()
