"""A reply in the making: its pieces in order of arrival, passed on to the listener and assembled at the end."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

from drone.agent.ports.journal import DeltaKind, GrowingCall
from drone.agent.ports.model import Listener, ModelError, Reply, ReplyBlock, WantedCall
from drone.models.json_text import arguments, joined
from drone.models.prices import Spent, TokenPrices, estimated
from drone.models.tool_specs import agent_names, plain_name
from mcc.contracts.blocks import OpaqueBlock, RedactedBlock, RefusalBlock, TextBlock, ThinkingBlock, refusal_in
from mcc.contracts.shape import unchecked
from mcc.contracts.usage import Usage

BlockKind: TypeAlias = Literal["text", "thinking", "refusal"]

MAX_CHARACTERS = 16 * 1024 * 1024
"""Bound on text, thinking and arguments of one reply together. No model writes as much; a broken server might."""


class PartialCall:
    """A tool call whose pieces are still arriving. `whole` holds its arguments if the provider sent them as an
    object."""

    __slots__ = ("_told", "extra", "name", "pieces", "provider_id", "whole")

    def __init__(self, provider_id: str = "", name: str = "") -> None:
        self.provider_id = provider_id
        self.name = name
        self.pieces: list[str] = []
        self._told = 0
        self.whole: Mapping[str, object] | None = None
        self.extra: Mapping[str, object] | None = None

    def new_pieces(self) -> str:
        """The pieces of its arguments that arrived since the last call of this method."""
        text = "".join(self.pieces[self._told :])
        self._told = len(self.pieces)
        return text

    def is_whole(self) -> bool:
        """Whether its arguments are a JSON object already."""
        if self.whole is not None:
            return True
        return bool(self.pieces) and self.pieces[-1].rstrip().endswith("}") and not isinstance(self.arguments(), str)

    def repeats(self, given: str) -> bool:
        """Whether these are its arguments once more, which are whole already."""
        return bool(given) and given == "".join(self.pieces) and self.is_whole()

    def arguments(self) -> Mapping[str, object] | str:
        if self.whole is not None and not self.pieces:
            return self.whole
        return arguments(joined(self.pieces))


class PartialBlock:
    """A block of text, thinking or refusal whose pieces are still arriving."""

    __slots__ = ("extra", "kind", "pieces", "signature")

    def __init__(self, kind: BlockKind, signature: str = "") -> None:
        self.kind = kind
        self.pieces: list[str] = []
        self.signature = signature
        self.extra: Mapping[str, object] | None = None

    def finished(self) -> TextBlock | ThinkingBlock | RefusalBlock | None:
        """None for a block without content worth keeping."""
        text = joined(self.pieces)
        match self.kind:
            case "thinking":
                if not text and not self.signature and not self.extra:
                    return None
                return unchecked(
                    ThinkingBlock, type="thinking", text=text, signature=self.signature or None, extra=self.extra
                )
            case "refusal":
                return RefusalBlock(text=text) if text else None
            case _:
                return unchecked(TextBlock, type="text", text=text, extra=self.extra) if text or self.extra else None


class Collected:
    """The reply so far, in order. `complete` is set once the provider declares the reply whole; `finish_reason` is one
    of our own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.parts: list[PartialBlock | PartialCall | RedactedBlock | OpaqueBlock] = []
        self.calls: list[PartialCall] = []
        self.spent = Spent()
        self.finish_reason = ""
        self.request_id = ""
        self.streamed = False
        self.complete = False
        self.closed = False
        self.characters = 0
        self._pending: dict[DeltaKind, list[str]] = {}

    @property
    def begun(self) -> bool:
        return bool(self.characters or self.calls)

    def open(self, kind: BlockKind, signature: str = "") -> PartialBlock:
        """Start a new block after everything received so far."""
        block = PartialBlock(kind, signature)
        self.parts.append(block)
        return block

    def add(self, block: PartialBlock, text: str) -> None:
        block.pieces.append(text)
        self.add_characters(text)
        self._pending.setdefault("thinking.delta" if block.kind == "thinking" else "model.delta", []).append(text)

    def call(self, call: PartialCall) -> PartialCall:
        """Add a new call after everything received so far."""
        self.parts.append(call)
        self.calls.append(call)
        return call

    def add_characters(self, text: str) -> None:
        """Count the characters of `text`. Raises `ModelError` past `MAX_CHARACTERS`."""
        self.characters += len(text)
        if self.characters > MAX_CHARACTERS:
            limit = MAX_CHARACTERS >> 20
            raise ModelError(f"{self.name} sent a reply of more than {limit} million characters; it was cut off.")

    def pass_on(self, listener: Listener) -> None:
        """Pass on what arrived since the last call, as one piece per kind."""
        if self._pending:
            new_pieces, self._pending = self._pending, {}
            for kind in sorted(new_pieces, reverse=True):
                listener.delta(kind, "".join(new_pieces[kind]))
        for index, call in enumerate(self.calls):
            if text := call.new_pieces():
                listener.delta("tool_call.delta", text, GrowingCall(index, call.name))

    def reply(
        self, tools: Iterable[str], usage: Usage, first_token_ms: float | None, context_tokens: int | None
    ) -> Reply:
        """The whole reply. `tools`: their names as the agent knows them."""
        blocks = tuple(self._blocks(agent_names(tools) if self.calls else {}))
        return Reply(
            blocks=blocks,
            finish_reason=self._finish(blocks),
            usage=usage,
            first_token_ms=first_token_ms,
            model=self.name,
            request_id=self.request_id,
            context_tokens=context_tokens,
            streamed=self.streamed,
        )

    def _finish(self, blocks: Iterable[ReplyBlock]) -> str:
        """The finish reason. Some providers report neither refusals nor tool calls as the reason; both are recognized
        by content."""
        reason = self.finish_reason or "stop"
        if reason in ("stop", "content_filter") and refusal_in(blocks):
            return "refusal"
        return "tool_calls" if self.calls and reason == "stop" else reason

    def _blocks(self, ours: Mapping[str, str]) -> Iterator[ReplyBlock]:
        for part in self.parts:
            match part:
                case PartialBlock():
                    if (block := part.finished()) is not None:
                        yield block
                case PartialCall():
                    name = plain_name(part.name, ours)
                    yield WantedCall(ours.get(name, name), part.arguments(), part.provider_id, part.extra)
                case _:
                    yield part

    def usage_if_interrupted(self, price: TokenPrices | None, request_bytes: int) -> Usage | None:
        """Usage of a reply that will never be complete; None when nothing arrived and the provider reported no usage.

        Providers bill the tokens they streamed, but report the count only at the end of the stream. Without that end
        the tokens are estimated from the length of the text, unless the provider reported more.
        """
        spent = self.spent
        if spent.input is None and spent.output is None and not self.characters:
            return None
        if spent.output is not None and not self.complete:
            spent = replace(spent, output=max(spent.output, estimated(self.characters)))
        return spent.usage(price, request_bytes, self.characters)


def as_text(value: object) -> str:
    """Arguments that arrived as JSON other than text or an object, as JSON text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
