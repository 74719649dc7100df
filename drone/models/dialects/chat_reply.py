"""Parses chat completions replies from any server, whole or in chunks."""

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from drone.models.collected import BlockKind, Collected, PartialBlock, PartialCall, as_text
from drone.models.dialects.leaked_calls import Leaked, leaked
from drone.models.dialects.leaked_thinking import TagSplitter, without_opening
from drone.models.failures import error_inside, parsed
from drone.models.json_text import Json, object_in, text_in
from drone.models.prices import MOST_DOLLARS, count, dollars
from drone.models.tool_specs import legal
from mcc.transcript.messages import ToolSpec

_FINISH = {
    "stop": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
}
_BROKEN_OFF = frozenset({"error", "insufficient_system_resource"})
_FENCE = "```"
_TICKS = 10_000_000_000


class ChatReply:
    """Parses chunks, or one whole body, into `collected`.

    `tools`: those that were offered. `leaks`: thinking and calls are separated out of the text.
    """

    def __init__(self, name: str, tools: Iterable[ToolSpec] = (), *, leaks: bool = False) -> None:
        self.collected = Collected(name)
        self._tools = {legal(tool.name): tool for tool in tools}
        self._tags = TagSplitter() if leaks else None
        self._details = ReasoningDetails()
        self._open_blocks: dict[BlockKind, PartialBlock] = {}
        self._by_index: dict[int, PartialCall] = {}
        self._by_id: dict[str, PartialCall] = {}

    def event(self, name: bytes, data: bytes) -> None:
        """Take one event of the stream. Raises `ModelError` if it reports an error or is not JSON."""
        if data == b"[DONE]":
            self.collected.complete = self.collected.closed = True
            return
        value = parsed(self.collected.name, data)
        if name == b"error":
            raise error_inside(self.collected.name, value)
        if isinstance(value, dict):
            self._chunk(value, "delta")

    def body(self, value: object) -> None:
        """Take a whole, unstreamed reply."""
        collected = self.collected
        if not isinstance(value, dict) or not isinstance(value.get("choices"), list):
            raise error_inside(collected.name, value)
        self._chunk(value, "message")
        collected.complete = bool(value["choices"])

    def end(self) -> None:
        """The answer has ended."""
        if self._tags is not None:
            for kind, text in self._tags.end():
                self._add(kind, text)
            self._split_thinking()
            self._split_calls("".join(self._tags.held))
        if extra := self._details.extra:
            self._open_block("thinking").extra = extra

    def _split_thinking(self) -> None:
        """Move thinking without an opening tag out of the text, to a block before it."""
        block = self._open_blocks.get("text")
        if block is None or "thinking" in self._open_blocks:
            return
        parted = without_opening("".join(block.pieces))
        if parted is None:
            return
        thought = PartialBlock("thinking")
        thought.pieces, block.pieces = [parted[0]], [parted[1]]
        self.collected.parts.insert(self.collected.parts.index(block), thought)
        self._open_blocks["thinking"] = thought

    def _split_calls(self, held: str) -> None:
        """Turn held-back or complete text into calls if it consists of calls, else keep it as text."""
        collected, block = self.collected, self._open_blocks.get("text")
        before = "".join(block.pieces) if block else ""
        split: Leaked | None = None
        if self._tools and not collected.calls and collected.finish_reason != "length" and not before.count(_FENCE) % 2:
            split = leaked(held or before, self._tools)
        if split is not None and block is not None and not held:
            block.pieces.clear()
        if held:
            collected.characters -= len(held)
        if split is None:
            split = Leaked(text=held)
        if split.thinking:
            self._add("thinking", split.thinking)
        if split.text:
            self._add("text", split.text)
        for name, arguments in split.calls:
            collected.call(PartialCall(name=name)).whole = arguments

    def _open_block(self, kind: BlockKind) -> PartialBlock:
        """The block of this kind. Chunks alternate between kinds, so each kind forms one block."""
        block = self._open_blocks.get(kind)
        if block is None:
            block = self._open_blocks[kind] = self.collected.open(kind)
        return block

    def _add_text(self, text: str) -> None:
        """Add answer text, which may contain leaked thinking and calls."""
        if self._tags is None:
            self._add("text", text)
            return
        for kind, piece in self._tags.feed(text):
            self._add(kind, piece)
        if self._tags.held:
            self.collected.add_characters(self._tags.held[-1])

    def _add(self, kind: BlockKind, text: str) -> None:
        self.collected.add(self._open_block(kind), text)

    def _chunk(self, value: Json, part: str) -> None:
        choices = value.get("choices")
        if value.get("error") or (choices is None and value.get("object") == "error"):
            raise error_inside(self.collected.name, value)
        if choices and isinstance(choices, list):
            for choice in choices:
                if isinstance(choice, dict) and not choice.get("index"):
                    self._choice(choice, part)
                    break
        usage = value.get("usage") or ("x_groq" in value and object_in(value["x_groq"]).get("usage"))
        if usage:
            self._usage(usage)

    def _choice(self, choice: Json, part: str) -> None:
        finish = choice.get("finish_reason")
        delta = choice.get(part)
        if not delta and part != "message":
            delta = self._not_yet_said(choice.get("message"))
        elif finish and part != "message" and isinstance(delta, dict) and self._repeats(delta.get("content")):
            delta = {**delta, "content": None}
        if isinstance(delta, dict):
            self._delta(delta, whole=part == "message")
        if isinstance(finish, str) and finish:
            if finish in _BROKEN_OFF:
                raise error_inside(self.collected.name, choice)
            self.collected.finish_reason = _FINISH.get(finish, "other")
            self.collected.complete = True

    def _not_yet_said(self, message: object) -> Json:
        """What a whole message within a stream adds to the pieces before it, which some servers sum up at the end."""
        known = set[str]()
        if "text" in self._open_blocks or (self._tags is not None and self._tags.held):
            known.add("content")
        if "thinking" in self._open_blocks:
            known |= {"reasoning_content", "reasoning", "reasoning_details"}
        if "refusal" in self._open_blocks:
            known.add("refusal")
        if self.collected.calls:
            known |= {"tool_calls", "function_call"}
        return {name: value for name, value in object_in(message).items() if name not in known}

    def _repeats(self, content: object) -> bool:
        """Whether the content of the last piece is the whole text, of which several pieces have come."""
        block = self._open_blocks.get("text")
        several = block is not None and len(block.pieces) > 1
        return several and block is not None and isinstance(content, str) and content == "".join(block.pieces)

    def _delta(self, delta: Json, *, whole: bool) -> None:
        content = delta.get("content")
        if content:
            if isinstance(content, str):
                self._add_text(content)
            elif isinstance(content, list):
                self._parts(content)
        calls = delta.get("tool_calls")
        if len(delta) > 1 or not (content or calls):  # nearly all chunks have just one of these two fields
            self._rare_fields(delta, whole=whole)
        if calls and isinstance(calls, list):
            for fragment in calls:
                if isinstance(fragment, dict):
                    self._fragment(fragment, whole=whole)

    def _rare_fields(self, delta: Json, *, whole: bool) -> None:
        """Handle the fields besides content and calls, and older forms of both."""
        details = delta.get("reasoning_details")
        readable = "".join(self._details.add(details)) if isinstance(details, list) else ""
        thinking = delta.get("reasoning_content") or delta.get("reasoning") or readable
        if thinking and isinstance(thinking, str):
            self._add("thinking", thinking)
        refusal = delta.get("refusal")
        if refusal and isinstance(refusal, str):
            self._add("refusal", refusal)
        former = delta.get("function_call")
        if isinstance(former, dict):
            self._fragment({"index": 0, "function": former}, whole=whole)

    def _parts(self, parts: Iterable[object]) -> None:
        """Content as a list of texts, and on some servers thinking."""
        for part in parts:
            if isinstance(part, str):
                self._add("text", part)
            elif isinstance(part, dict):
                text, refusal, inner = part.get("text"), part.get("refusal"), part.get("thinking")
                if isinstance(text, str):
                    self._add("text", text)
                elif isinstance(refusal, str):
                    self._add("refusal", refusal)
                elif isinstance(inner, str):
                    self._add("thinking", inner)
                elif isinstance(inner, list):
                    self._add("thinking", "".join(_texts(inner)))

    def _fragment(self, fragment: Json, *, whole: bool) -> None:
        function = fragment.get("function")
        call_fields = cast(Json, function) if isinstance(function, dict) else fragment
        name, provider_id = text_in(call_fields.get("name")), text_in(fragment.get("id"))
        call = self._new_call(fragment, provider_id) if whole else self._call_of(fragment, name, provider_id)
        if name and name != call.name:
            call.name += name
        call.provider_id = call.provider_id or provider_id
        if extra := fragment.get("extra_content"):
            call.extra = {"extra_content": extra}
        arguments = call_fields.get("arguments")
        if not whole and isinstance(arguments, str) and name and call.repeats(arguments):
            return
        if isinstance(arguments, dict):
            call.whole = arguments
            self.collected.add_characters(as_text(arguments))
        elif arguments is not None:
            text = arguments if isinstance(arguments, str) else as_text(arguments)
            call.pieces.append(text)
            self.collected.add_characters(text)

    def _call_of(self, fragment: Json, name: str, provider_id: str) -> PartialCall:
        """The call that a fragment continues: by index, else by id, else the last one; or a new one.

        Some servers number all calls 0, some give every fragment a new id, some repeat the name. So a fragment with a
        name begins a new call if its id differs, or if the call so far has complete arguments.
        """
        index = fragment.get("index")
        if isinstance(index, int):
            known = self._by_index.get(index)
        elif provider_id:
            known = self._by_id.get(provider_id)
            if known is None and not name and self.collected.calls:
                known = self.collected.calls[-1]
        else:
            known = self.collected.calls[-1] if self.collected.calls else None
        if known is None or (name and self._begins_another(known, name, provider_id)):
            return self._new_call(fragment, provider_id)
        return known

    def _begins_another(self, known: PartialCall, name: str, provider_id: str) -> bool:
        if provider_id and known.provider_id:
            return provider_id != known.provider_id
        return known.is_whole() or (bool(known.pieces) and any(known.pieces) and name != known.name)

    def _new_call(self, fragment: Json, provider_id: str) -> PartialCall:
        call = self.collected.call(PartialCall(provider_id))
        index = fragment.get("index")
        if isinstance(index, int):
            self._by_index[index] = call
        if provider_id:
            self._by_id[provider_id] = call
        return call

    def _usage(self, usage: object) -> None:
        if not isinstance(usage, dict):
            return
        spent = self.collected.spent
        taken, written = count(usage.get("prompt_tokens")), count(usage.get("completion_tokens"))
        spent.input = spent.input if taken is None else taken
        cached = _nested_count(usage, "prompt_tokens_details", "cached_tokens")
        spent.cached = cached or count(usage.get("prompt_cache_hit_tokens")) or spent.cached
        spent.written = _nested_count(usage, "prompt_tokens_details", "cache_write_tokens") or spent.written
        spent.reasoning = _nested_count(usage, "completion_tokens_details", "reasoning_tokens") or spent.reasoning
        cost = _cost(usage)
        spent.cost_usd = spent.cost_usd if cost is None else cost
        if written is not None:
            spent.output = written
            if taken is not None and usage.get("total_tokens") == taken + written + spent.reasoning:
                spent.output += spent.reasoning


def _nested_count(usage: Json, group: str, name: str) -> int:
    details = usage.get(group)
    return (count(details.get(name)) or 0) if isinstance(details, dict) else 0


def _cost(usage: Json) -> float | None:
    """The cost reported by the provider, including what the upstream provider charges to the user's own key."""
    ticks, cost = usage.get("cost_in_usd_ticks"), dollars(usage.get("cost"))
    if cost is None:
        return ticks / _TICKS if isinstance(ticks, int) and 0 < ticks <= MOST_DOLLARS * _TICKS else None
    upstream = object_in(usage.get("cost_details")).get("upstream_inference_cost") if usage.get("is_byok") else None
    return cost + (dollars(upstream) or 0.0)


def _texts(parts: Iterable[object]) -> Iterable[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict):
            yield text_in(part.get("text"))


_TEXTS = ("text", "summary")
_SAME = ("type", "index", "format")


class ReasoningDetails:
    """Reasoning entries of one reply. Pieces of one text are joined into one entry; encrypted entries stay
    unchanged."""

    def __init__(self) -> None:
        self._entries: list[dict[str, object]] = []
        self._pieces: list[list[str]] = []

    def add(self, entries: Iterable[object]) -> Iterator[str]:
        """Add entries. Yields the readable text of each."""
        for entry in entries:
            if isinstance(entry, Mapping):
                yield self._take(entry)

    @property
    def extra(self) -> Mapping[str, object] | None:
        """The message field that sends the entries back; None without entries."""
        if not self._entries:
            return None
        entries = [
            {**entry, **({_text_field(entry): "".join(pieces)} if pieces else {})}
            for entry, pieces in zip(self._entries, self._pieces, strict=True)
        ]
        return {"reasoning_details": entries}

    def _take(self, entry: Mapping[str, object]) -> str:
        field = _text_field(entry)
        text = entry.get(field)
        piece = text if isinstance(text, str) else ""
        last = self._entries[-1] if self._entries else None
        if last is None or not _continues(last, entry):
            self._entries.append(dict(entry))
            self._pieces.append([piece] if piece else [])
            return piece
        if piece:
            self._pieces[-1].append(piece)
        last.update({key: value for key, value in entry.items() if value is not None and key not in _TEXTS})
        return piece


def _text_field(entry: Mapping[str, object]) -> str:
    return next((name for name in _TEXTS if name in entry), "")


def _continues(last: Mapping[str, object], entry: Mapping[str, object]) -> bool:
    """Whether an entry continues the last one. A signature may arrive alone, in an entry without text, and completes
    it."""
    fields = {_text_field(last), _text_field(entry)}
    if last.get("type") != entry.get("type") or last.get("signature") or "data" in last or "data" in entry:
        return False
    if len(fields - {""}) != 1:
        return False
    return all(
        last.get(key) == entry.get(key) for key in _SAME if last.get(key) is not None and entry.get(key) is not None
    )
