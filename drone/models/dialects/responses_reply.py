"""Parses replies of OpenAI's Responses API, whole or as events."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from drone.models.collected import BlockKind, Collected, PartialBlock, PartialCall, as_text
from drone.models.failures import error_inside, parsed
from drone.models.json_text import Json, arguments, joined, object_in, text_in, write
from drone.models.prices import count
from mcc.contracts.blocks import OpaqueBlock

ARGUMENTS = "arguments"
"""Key in a call's extra for its arguments as originally written; set if encoding the object again gives other bytes."""

_INCOMPLETE = {"max_output_tokens": "length", "content_filter": "content_filter"}
_PART_KINDS: Mapping[object, BlockKind] = {"output_text": "text", "refusal": "refusal"}
_DELTAS: Mapping[object, BlockKind] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_summary_text.delta": "thinking",
    "response.reasoning_text.delta": "thinking",
}
_BETWEEN_SUMMARIES = "\n\n"


@dataclass(slots=True)
class _Item:
    """An output item still arriving: the parts of the reply it became, by place within the item."""

    index: int
    kind: object = None
    parts: dict[int, PartialBlock | PartialCall | OpaqueBlock] = field(default_factory=dict)
    place: int = 0
    done: bool = False


class ResponseReply:
    """Parses events, or one whole body, into `collected`. The `done` event determines an item; its deltas only serve
    listeners.

    Items keep in `extra` what must be sent back with them: all of a reasoning item; of messages and calls the fields
    that our blocks lack (id, status, phase).
    """

    def __init__(self, name: str) -> None:
        self.collected = Collected(name)
        self._items: dict[int, _Item] = {}
        self._by_id: dict[str, int] = {}

    def event(self, name: bytes, data: bytes) -> None:
        """Take one event of the stream. Raises `ModelError` if it reports an error or is not JSON."""
        if data == b"[DONE]":
            return
        value = parsed(self.collected.name, data)
        if not isinstance(value, dict):
            return
        kind = text_in(value.get("type")) or name.decode("ascii", "replace")
        if kind in _DELTAS:
            self._add(self._item(value), _DELTAS[kind], value)
            return
        match kind:
            case "response.output_item.added":
                self._start_item(self._item(value), object_in(value.get("item")))
            case "response.output_item.done":
                self._finish_item(self._item(value), object_in(value.get("item")))
            case "response.function_call_arguments.delta":
                self._add_arguments(self._item(value), text_in(value.get("delta")))
            case "response.completed" | "response.incomplete" | "response.failed":
                self._ended(object_in(value.get("response")), kind.removeprefix("response."))
                self.collected.closed = True
            case "error":
                raise error_inside(self.collected.name, value)

    def body(self, value: object) -> None:
        """Take a whole, unstreamed reply."""
        if not isinstance(value, dict) or not isinstance(value.get("output"), list):
            raise error_inside(self.collected.name, value)
        self._ended(value, text_in(value.get("status")) or "completed")

    def end(self) -> None:
        """The answer has ended: order the blocks by item, whatever the order of events."""
        items = [self._items[index] for index in sorted(self._items)]
        self.collected.parts = [item.parts[place] for item in items for place in sorted(item.parts)]

    def _ended(self, response: Json, status: str) -> None:
        self._usage(object_in(response.get("usage")))
        if status not in ("completed", "incomplete"):
            raise error_inside(self.collected.name, response)
        output = response.get("output")
        for index, item in enumerate(output if isinstance(output, list) else ()):
            known = self._items.setdefault(index, _Item(index))
            if not known.done:
                self._finish_item(known, object_in(item))
        if status == "incomplete":
            reason = object_in(response.get("incomplete_details")).get("reason")
            self.collected.finish_reason = _INCOMPLETE.get(reason, "other") if isinstance(reason, str) else "other"
        self.collected.request_id = self.collected.request_id or text_in(response.get("id"))
        self.collected.complete = True

    def _item(self, event: Json) -> _Item:
        """The item that an event refers to: by its place in the output, else by its id, else the latest one."""
        index, named = event.get("output_index"), event.get("item_id")
        if not isinstance(index, int):
            latest = max(self._items, default=0)
            index = self._by_id.get(named, latest) if isinstance(named, str) else latest
        return self._items.setdefault(index, _Item(index))

    def _start_item(self, item: _Item, fields: Json) -> None:
        """Open an item's part where the item begins. Items of other types become a part only when done."""
        if item.kind is not None or not fields:
            return
        item.kind = fields.get("type")
        if isinstance(named := fields.get("id"), str):
            self._by_id[named] = item.index
        if item.kind == "reasoning":
            self._open_block(item, 0, "thinking")
        elif item.kind == "function_call":
            call = PartialCall(text_in(fields.get("call_id")), text_in(fields.get("name")))
            item.parts[0] = self.collected.call(call)

    def _open_block(self, item: _Item, place: int, kind: BlockKind) -> PartialBlock | None:
        """The block at this place of an item; None if a part of another kind is there."""
        if place not in item.parts:
            item.parts[place] = self.collected.open(kind)
        known = item.parts[place]
        return known if isinstance(known, PartialBlock) and known.kind == kind else None

    def _add(self, item: _Item, kind: BlockKind, event: Json) -> None:
        """Add text. Summaries of one reasoning item form one block, separated by an empty line."""
        piece, place = text_in(event.get("delta")), _place(event)
        block = self._open_block(item, 0 if kind == "thinking" else place, kind)
        if block is None or not piece:
            return
        if kind == "thinking" and block.pieces and place != item.place:
            piece = _BETWEEN_SUMMARIES + piece
        item.place = place
        self.collected.add(block, piece)

    def _add_arguments(self, item: _Item, piece: str) -> None:
        call = item.parts.get(0)
        if isinstance(call, PartialCall) and piece:
            call.pieces.append(piece)
            self.collected.add_characters(piece)

    def _finish_item(self, item: _Item, fields: Json) -> None:
        self._start_item(item, fields)
        item.done = bool(fields)
        match item.kind:
            case "message":
                self._message(item, fields)
            case "reasoning":
                self._reasoning(item, fields)
            case "function_call":
                self._call(item, fields)
            case str():
                self.collected.add_characters(as_text(fields))
                item.parts[0] = OpaqueBlock(data=_without_nulls(fields))

    def _message(self, item: _Item, fields: Json) -> None:
        kept = _without_nulls(fields, "type", "role", "content")
        content = fields.get("content")
        for place, part in enumerate(content if isinstance(content, list) else ()):
            kind = _PART_KINDS.get(text_in(object_in(part).get("type")))
            block = self._open_block(item, place, kind) if kind else None
            if block is not None and kind:
                self._fill_if_empty(block, text_in(part.get("text" if kind == "text" else "refusal")))
        for known in item.parts.values():
            if isinstance(known, PartialBlock) and known.kind == "text":
                known.extra = kept or None

    def _reasoning(self, item: _Item, fields: Json) -> None:
        block = self._open_block(item, 0, "thinking")
        if block is None:
            return
        texts = list(_texts(fields.get("summary"))) or list(_texts(fields.get("content")))
        self._fill_if_empty(block, _BETWEEN_SUMMARIES.join(texts))
        block.extra = _without_nulls(fields)

    def _fill_if_empty(self, block: PartialBlock, text: str) -> None:
        """Set the text of a block for which no delta arrived."""
        if text and not block.pieces:
            self.collected.add(block, text)

    def _call(self, item: _Item, fields: Json) -> None:
        call = item.parts.get(0)
        if not isinstance(call, PartialCall):
            return
        call.name = text_in(fields.get("name")) or call.name
        call.provider_id = text_in(fields.get("call_id")) or call.provider_id
        arguments = fields.get("arguments")
        text = arguments if isinstance(arguments, str) else "" if arguments is None else as_text(arguments)
        if text and text != joined(call.pieces):
            if not call.pieces:
                self.collected.add_characters(text)
            call.pieces = [text]
        extra = _without_nulls(fields, "type", "call_id", "name", "arguments")
        if not _is_canonical(text):
            extra[ARGUMENTS] = text
        call.extra = extra or None

    def _usage(self, usage: Json) -> None:
        spent = self.collected.spent
        taken, given = count(usage.get("input_tokens")), count(usage.get("output_tokens"))
        spent.input = spent.input if taken is None else taken
        spent.output = spent.output if given is None else given
        details = object_in(usage.get("input_tokens_details"))
        cached, written = count(details.get("cached_tokens")), count(details.get("cache_write_tokens"))
        spent.written = written or spent.written
        reasoning = count(object_in(usage.get("output_tokens_details")).get("reasoning_tokens"))
        spent.cached, spent.reasoning = cached or spent.cached, reasoning or spent.reasoning


def _place(event: Json) -> int:
    for name in ("content_index", "summary_index"):
        if isinstance(place := event.get(name), int):
            return place
    return 0


def _without_nulls(item: Json, *leaving: str) -> dict[str, object]:
    """The item without null fields, some of which are refused when sent back, and without the fields in `leaving`."""
    return {name: value for name, value in item.items() if value is not None and name not in leaving}


def _is_canonical(text: str) -> bool:
    """Whether encoding the parsed arguments again gives the same bytes. Text that is no object counts as the same,
    since it is never sent back unchanged."""
    given = arguments(text)
    return isinstance(given, str) or write(given) == text.encode("utf-8", "surrogatepass")


def _texts(parts: object) -> Iterator[str]:
    for part in parts if isinstance(parts, list) else ():
        yield text_in(object_in(part).get("text"))
