"""A reply while it arrives: its pieces in order, told to the listener, and the whole at the end."""

import json
from collections.abc import Iterable, Mapping

from drone.agent.model import Listener, ModelError, Reply, WantedCall
from drone.models.json_text import arguments, joined
from drone.models.prices import Price, Spent
from drone.models.tool_specs import own_names
from mcc.contracts.journal import Thought
from mcc.contracts.usage import Usage

MAX_CHARACTERS = 16 * 1024 * 1024
"""Text, thinking and arguments of one reply together; no model writes so much, a broken server might."""


class Growing:
    """A tool call whose pieces are still coming. `whole` is its arguments where the provider sent an object."""

    __slots__ = ("name", "pieces", "provider_id", "whole")

    def __init__(self, provider_id: str = "", name: str = "") -> None:
        self.provider_id = provider_id
        self.name = name
        self.pieces: list[str] = []
        self.whole: Mapping[str, object] | None = None

    def is_whole(self) -> bool:
        """Whether its arguments are a JSON object already."""
        if self.whole is not None:
            return True
        return bool(self.pieces) and self.pieces[-1].rstrip().endswith("}") and not isinstance(self.arguments(), str)

    def arguments(self) -> Mapping[str, object] | str:
        if self.whole is not None and not self.pieces:
            return self.whole
        return arguments(joined(self.pieces))


class Collected:
    """What came so far. `complete` once the provider said that the reply is whole; `finish_reason` is one of ours."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.text: list[str] = []
        self.thinking: list[str] = []
        self.thoughts: list[Thought] = []
        self.calls: list[Growing] = []
        self.spent = Spent()
        self.finish_reason = ""
        self.complete = False
        self.closed = False
        self.characters = 0
        self._texts_told = 0
        self._thinking_told = 0

    @property
    def begun(self) -> bool:
        return bool(self.text or self.thinking or self.calls)

    def say(self, text: str) -> None:
        self.text.append(text)
        self.grow(text)

    def think(self, text: str) -> None:
        self.thinking.append(text)
        self.grow(text)

    def grow(self, text: str) -> None:
        """Count `text`. Raises `ModelError` past the bound."""
        self.characters += len(text)
        if self.characters > MAX_CHARACTERS:
            limit = MAX_CHARACTERS >> 20
            raise ModelError(f"{self.name} sent a reply of more than {limit} million characters; it was cut off.")

    def tell(self, listener: Listener) -> None:
        """Pass on what came since the last time, in one piece of each kind."""
        if len(self.thinking) > self._thinking_told:
            listener.delta("thinking.delta", "".join(self.thinking[self._thinking_told :]))
            self._thinking_told = len(self.thinking)
        if len(self.text) > self._texts_told:
            listener.delta("model.delta", "".join(self.text[self._texts_told :]))
            self._texts_told = len(self.text)

    def reply(
        self, tools: Iterable[str], price: Price | None, request_bytes: int, first_token_ms: float | None
    ) -> Reply:
        """The whole reply. `tools`: names as the agent knows them."""
        calls = self._wanted(tools) if self.calls else ()
        finish = self.finish_reason or "stop"
        return Reply(
            text=joined(self.text),
            tool_calls=calls,
            thinking=joined(self.thinking),
            thoughts=tuple(self.thoughts),
            finish_reason="tool_calls" if calls and finish == "stop" else finish,
            usage=self.spent.usage(price, request_bytes, self.characters),
            first_token_ms=first_token_ms,
            model=self.name,
        )

    def billed(self, price: Price | None, request_bytes: int) -> Usage | None:
        """The usage of a reply that will never be whole, as far as the provider said any; None when it did not."""
        said = self.spent.input is not None or self.spent.output is not None
        return self.spent.usage(price, request_bytes, self.characters) if said else None

    def _wanted(self, tools: Iterable[str]) -> tuple[WantedCall, ...]:
        ours = own_names(tools)
        return tuple(
            WantedCall(ours.get(call.name, call.name), call.arguments(), call.provider_id) for call in self.calls
        )


def as_text(value: object) -> str:
    """Arguments that came as some other JSON than text or object, as the text they would have been."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
