"""Parses replies of Anthropic's Messages API, whole or as events."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from drone.models.collected import BlockKind, Collected, PartialBlock, PartialCall, as_text
from drone.models.failures import error_inside, parsed
from drone.models.json_text import Json, arguments, object_in, text_in
from drone.models.prices import count
from drone.models.retry import PAUSED
from mcc.contracts.blocks import OpaqueBlock, RedactedBlock

_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "pause_turn": PAUSED,
}


class MessageReply:
    """Parses events, or one whole body, into `collected`. A block belongs to the index under which it started."""

    def __init__(self, name: str) -> None:
        self.collected = Collected(name)
        self._calls: dict[object, PartialCall] = {}
        self._open_blocks: dict[object, PartialBlock] = {}
        self._opaque: dict[object, _Opaque] = {}
        self._fresh: int | None = None
        self._written = self._written_1h = self._cached = 0

    def event(self, name: bytes, data: bytes) -> None:
        """Take one event of the stream. Raises `ModelError` if it reports an error or is not JSON."""
        value = parsed(self.collected.name, data)
        if not isinstance(value, dict):
            return
        match value.get("type") or name.decode("ascii", "replace"):
            case "content_block_delta":
                self._delta(value.get("index"), object_in(value.get("delta")))
            case "content_block_start":
                self._block(value.get("index"), object_in(value.get("content_block")))
            case "message_start":
                self._usage(object_in(object_in(value.get("message")).get("usage")))
            case "message_delta":
                self._finish(object_in(value.get("delta")))
                self._usage(object_in(value.get("usage")))
            case "content_block_stop":
                self._end_block(value.get("index"))
            case "message_stop":
                self.collected.complete = self.collected.closed = True
            case "error":
                raise error_inside(self.collected.name, value)

    def body(self, value: object) -> None:
        """Take a whole, unstreamed reply."""
        if not isinstance(value, dict) or not isinstance(value.get("content"), list):
            raise error_inside(self.collected.name, value)
        for index, block in enumerate(value["content"]):
            self._block(index, object_in(block))
        self._finish(value)
        self._usage(object_in(value.get("usage")))
        self.collected.complete = True

    def end(self) -> None:
        """The answer has ended."""
        for index in list(self._opaque):
            self._end_block(index)

    def _block(self, index: object, block: Json) -> None:
        collected = self.collected
        match block.get("type"):
            case "text":
                self._open(index, "text", text_in(block.get("text")))
            case "thinking":
                self._open(index, "thinking", text_in(block.get("thinking")), text_in(block.get("signature")))
            case "redacted_thinking":
                collected.parts.append(RedactedBlock(data=text_in(block.get("data"))))
            case "tool_use":
                self._call(index, block)
            case str() as kind if kind.startswith("server_tool_") or kind.endswith("_tool_result"):
                place = len(collected.parts)
                collected.parts.append(OpaqueBlock(data=dict(block)))
                self._opaque[index] = _Opaque(place, dict(block))

    def _end_block(self, index: object) -> None:
        """Complete a block of the provider's own tools, which is only sent back to the provider and read by no one
        else."""
        if (opaque := self._opaque.pop(index, None)) and opaque.pieces:
            given = arguments("".join(opaque.pieces))
            data = {**opaque.block, "input": {} if isinstance(given, str) else dict(given)}
            self.collected.parts[opaque.place] = OpaqueBlock(data=data)

    def _call(self, index: object, block: Json) -> None:
        """Start a call. In a whole reply `input` is the object itself; in a stream it is empty and deltas with its text
        follow."""
        call = PartialCall(text_in(block.get("id")), text_in(block.get("name")))
        arguments = block.get("input")
        if isinstance(arguments, dict):
            call.whole = arguments
            if arguments:
                self.collected.add_characters(as_text(arguments))
        elif arguments is not None:
            call.pieces.append(arguments if isinstance(arguments, str) else as_text(arguments))
            self.collected.add_characters(call.pieces[0])
        self._calls[index] = self.collected.call(call)

    def _delta(self, index: object, delta: Json) -> None:
        match delta.get("type"):
            case "text_delta":
                self._add(index, "text", text_in(delta.get("text")))
            case "input_json_delta":
                self._input(index, text_in(delta.get("partial_json")))
            case "thinking_delta":
                self._add(index, "thinking", text_in(delta.get("thinking")))
            case "signature_delta":
                if opened := self._open_blocks.get(index):
                    opened.signature += text_in(delta.get("signature"))

    def _input(self, index: object, piece: str) -> None:
        call = self._calls.get(index)
        if piece and (opaque := self._opaque.get(index)):
            opaque.pieces.append(piece)
            self.collected.add_characters(piece)
        if call is not None and piece:
            call.pieces.append(piece)
            self.collected.add_characters(piece)

    def _open(self, index: object, kind: BlockKind, text: str, signature: str = "") -> None:
        opened = self._open_blocks[index] = self.collected.open(kind, signature)
        if text:
            self.collected.add(opened, text)

    def _add(self, index: object, kind: BlockKind, piece: str) -> None:
        opened = self._open_blocks.get(index)
        if opened is not None and opened.kind == kind and piece:
            self.collected.add(opened, piece)

    def _finish(self, delta: Json) -> None:
        """Set the finish reason; the provider's explanation of a refusal, if any, becomes the model's words."""
        reason = delta.get("stop_reason")
        if isinstance(reason, str) and reason:
            self.collected.finish_reason = _FINISH.get(reason, "other")
        details = object_in(delta.get("stop_details"))
        explanation = text_in(details.get("explanation")) or text_in(details.get("category"))
        if reason == "refusal" and explanation:
            self.collected.add(self.collected.open("refusal"), explanation)

    def _usage(self, usage: Json) -> None:
        """Anthropic's input excludes cached tokens; ours includes them. Later figures replace earlier ones."""
        if not usage:
            return
        spent = self.collected.spent
        fresh = count(usage.get("input_tokens"))
        self._fresh = self._fresh if fresh is None else fresh
        self._written = _newer(usage, "cache_creation_input_tokens", self._written)
        self._cached = _newer(usage, "cache_read_input_tokens", self._cached)
        self._written_1h = _newer(object_in(usage.get("cache_creation")), "ephemeral_1h_input_tokens", self._written_1h)
        if self._fresh is not None:
            spent.input = self._fresh + self._written + self._cached
            spent.cached, spent.written, spent.written_1h = self._cached, self._written, self._written_1h
        output = count(usage.get("output_tokens"))
        spent.output = spent.output if output is None else output
        details = object_in(usage.get("output_tokens_details"))
        spent.reasoning = count(details.get("thinking_tokens")) or spent.reasoning


@dataclass(slots=True)
class _Opaque:
    """A block of the provider's own tools whose input may still be arriving; `place` is its index in the collected
    parts."""

    place: int
    block: Mapping[str, Any]
    pieces: list[str] = field(default_factory=list)


def _newer(usage: Json, name: str, known: int) -> int:
    counted = count(usage.get(name))
    return known if counted is None else counted
