"""A model as the agent loop asks it: the question, the reply, and what may go wrong."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from drone.agent.journal import DeltaKind, GrowingCall
from drone.agent.messages import Message, ToolSpec
from mcc.contracts.blocks import (
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    RedactedBlock,
    RefusalBlock,
    TextBlock,
    ThinkingBlock,
    refusal_in,
    text_in,
    thinking_in,
)
from mcc.contracts.order import Thinking
from mcc.contracts.usage import Usage


@dataclass(frozen=True, slots=True)
class WantedCall:
    """A tool call as the model wrote it: `arguments` is the JSON object, or the raw text when it is not one.

    `extra`: what its provider must get back with the call, unchanged.
    """

    name: str
    arguments: Mapping[str, object] | str
    provider_id: str = ""
    extra: Mapping[str, object] | None = None


ReplyBlock: TypeAlias = (
    TextBlock | ThinkingBlock | RedactedBlock | WantedCall | RefusalBlock | ImageBlock | FileBlock | OpaqueBlock
)


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to a model. The same messages come again with the next call, and more: encode each of them once.

    `service_tier`: the provider's own word, None = its default. `cache_key` is the same in all requests of one agent
    and of no other agent: who keeps beginnings of prompts finds them by it.

    `seconds` bounds everything, tries and the waits between them included; `call_seconds` one reply that does not come
    as a stream. `waited_seconds`: how long this very question had to wait for its provider before it is asked again.
    """

    system: str
    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int | None = None
    temperature: float | None = None
    thinking: Thinking = "inherit"
    service_tier: str | None = None
    cache_key: str = ""
    seconds: float = 3_600.0
    call_seconds: float = 180.0
    waited_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole reply, block by block in the provider's order. `usage` is its own, without that of tries before it.

    `finish_reason`: stop | tool_calls | length | content_filter | refusal | not_done | other; `model`: who answered.
    Not done: the model follows rules and has none for what was asked.
    `request_id`: what the provider calls the request; `context_tokens`: how much the model takes in, None: not known.
    `streamed`: whether it came as a stream of events.
    """

    blocks: tuple[ReplyBlock, ...] = ()
    finish_reason: str = "stop"
    usage: Usage = Usage(model_calls=1)
    first_token_ms: float | None = None
    model: str = ""
    request_id: str = ""
    context_tokens: int | None = None
    streamed: bool = False

    @property
    def text(self) -> str:
        return text_in(self.blocks)

    @property
    def thinking(self) -> str:
        return thinking_in(self.blocks)

    @property
    def refusal(self) -> str:
        return refusal_in(self.blocks)

    @property
    def tool_calls(self) -> tuple[WantedCall, ...]:
        return tuple([block for block in self.blocks if isinstance(block, WantedCall)])


def spoken_blocks(text: str, tool_calls: Iterable[WantedCall] = (), thinking: str = "") -> tuple[ReplyBlock, ...]:
    """The blocks of a reply that thinks, speaks and then calls tools."""
    thought = (ThinkingBlock(text=thinking),) if thinking else ()
    said = (TextBlock(text=text),) if text else ()
    return (*thought, *said, *tool_calls)


NOT_DONE = "not_done"
"""Why a reply ended whose model cannot do what was asked, and says so."""


class Bill:
    """What tries without a reply cost so far; `usage` None: nothing that anybody spoke of."""

    def __init__(self) -> None:
        self.usage: Usage | None = None

    def add(self, usage: Usage) -> None:
        self.usage = usage if self.usage is None else self.usage.plus(usage)

    def with_reply(self, usage: Usage) -> Usage:
        """What it took in all, with the reply that came in the end."""
        return usage if self.usage is None else self.usage.plus(usage)


class Listener(Protocol):
    """Whoever listens while a model is asked."""

    def delta(self, kind: DeltaKind, text: str, call: GrowingCall | None = None) -> None:
        """A piece of text arrived; cheap, never waits. `call`: the one that a `tool_call.delta` is of."""

    async def retried(self, error: str, wait_seconds: float) -> None:
        """The try failed; another follows after `wait_seconds`. Committed on return."""

    async def fell_back(self, source: str, target: str, error: str) -> None:
        """Another model is asked from here on. Committed on return."""

    async def not_sent(self, what: str) -> None:
        """A sentence: what of the question this model is not told, or is told as something near. Kept once an agent."""

    def billed(self, usage: Usage) -> None:
        """What a try cost that brings no reply of its own, told as it ends, also where it is cancelled; never waits."""

    async def go_ahead(self) -> None:
        """To be awaited before a try that follows a pause: returns when it may be made."""


class Model(Protocol):
    """A model may also have `context_tokens`: `context_tokens(model)` reads it."""

    @property
    def name(self) -> str:
        """Effective name, `provider/model`."""

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        """Raises `ModelError`; CancelledError passes."""


def context_tokens(model: Model) -> int | None:
    """How much the model that is asked next takes in, question and reply together; None where nobody knows yet."""
    said = getattr(model, "context_tokens", None)
    return said if isinstance(said, int) else None


class AroundModel:
    """A model around a model, whose name and context it has."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def context_tokens(self) -> int | None:
        return context_tokens(self._model)


class ModelError(Exception):
    """The provider did not give a reply; the message is a sentence for people, without secrets.

    `retryable`: the same request may succeed later. `retry_after`: seconds the provider asked for. What it cost is told
    to the `Listener`.
    """

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.retry_after = retry_after
        self.status = status


class ContextOverflow(ModelError):
    """The question is larger than the model's context. `window`: the tokens that it takes in, None = not told."""

    def __init__(self, message: str, window: int | None = None, *, status: int | None = None) -> None:
        super().__init__(message, status=status)
        self.window = window


class BadReply(ModelError):
    """A reply came that is no good: another one may be better, but nobody waits long for that."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message, retryable=True, status=status)


class AskLater(ModelError):
    """The provider cannot answer now and is to be asked again after `seconds`: longer than a call waits.

    `named`: the provider itself said after how many. `when` tells it as a sentence of its own.
    """

    def __init__(
        self,
        message: str,
        seconds: float,
        *,
        named: bool = True,
        when: str = "",
        status: int | None = None,
    ) -> None:
        super().__init__(message, retryable=True, retry_after=seconds, status=status)
        self.args = (message, when) if when else (message,)
        self.seconds = seconds
        self.named = named

    def __str__(self) -> str:
        return " ".join(map(str, self.args))

    def given_up(self, why: str) -> ModelError:
        """The same as an error that stands; `why` says in brief what speaks against waiting."""
        said = f"{self} That is {why}." if why else str(self if self.named else self.args[0])
        return ModelError(said, retryable=True, retry_after=self.seconds, status=self.status)
