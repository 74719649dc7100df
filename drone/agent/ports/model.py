"""The port to a model: the request, the reply, the listener during a call, and the errors."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, Protocol, TypeAlias

from drone.agent.ports.journal import DeltaKind, GrowingCall
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
from mcc.contracts.blueprints import ChildCount, FieldSpec
from mcc.contracts.order import Thinking
from mcc.contracts.shape import now
from mcc.contracts.usage import Usage
from mcc.transcript.messages import Message, ToolSpec
from mcc.transcript.pictures import NO_LIMITS, PictureLimits


@dataclass(frozen=True, slots=True)
class WantedCall:
    """A tool call as the model wrote it. `arguments`: the JSON object, or the raw text when it is not one.

    `extra`: data that must be sent back to the provider with the call, unchanged.
    """

    name: str
    arguments: Mapping[str, object] | str
    provider_id: str = ""
    extra: Mapping[str, object] | None = None


ReplyBlock: TypeAlias = (
    TextBlock | ThinkingBlock | RedactedBlock | WantedCall | RefusalBlock | ImageBlock | FileBlock | OpaqueBlock
)


@dataclass(frozen=True, slots=True)
class ChildForm:
    """What the agent of a node states of a new child: how many there may be, and the metadata that can be set."""

    count: ChildCount
    metadata: Mapping[str, FieldSpec]


@dataclass(frozen=True, slots=True)
class NodeForm:
    """What the agent of a document node has to fill in: the task of its prompt as data."""

    path: str
    component: str
    section: str
    """`metadata` or `props`: where `fields` belong."""
    fields: Mapping[str, FieldSpec]
    """What can be set, by name: neither computed fields nor values that people hold."""
    values: Mapping[str, object]
    """All values of the node that are set, computed ones included, by full name such as `props.title`."""
    held: frozenset[str]
    """Full names of the values that people hold, and `children` where they hold those."""
    topics: tuple[Mapping[str, object], ...]
    """The metadata of the node, then of its ancestors up to the root."""
    brief: str
    children: Mapping[str, ChildForm]
    """By component; empty where people hold the children."""
    existing: Mapping[str, str]
    """The component of each child that is there, by path."""
    targets: Mapping[str, tuple[str, ...]]
    """By component, the paths of nodes that a reference may name."""
    is_stale: bool
    """Whether what the values were made of has changed since."""


@dataclass(frozen=True, slots=True)
class AskHint:
    """What the runtime knows of a request as data, for a model that follows rules instead of reading prompts.

    Adapters of providers ignore it, and no journal keeps it.
    """

    task: str = ""
    """What the agent was asked last, in the words of whoever asked."""
    must_finish: bool = False
    """Whether a limit is reached, so that this is the last reply."""
    form: NodeForm | None = None


ToolChoice: TypeAlias = Literal["auto", "none"]


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to a model. The next request repeats its messages and adds some, so adapters encode each one once.

    `service_tier`: the provider's own term, None = its default. `cache_key`: the same in all requests of one agent and
    used by no other, for providers that cache prompt prefixes by key.

    `tool_choice`: "none" asks for a reply without calls, of a model that is shown its tools all the same.

    `seconds`: time limit of everything, attempts and waits between them included. `call_seconds`: that of one reply
    that is not streamed. `waited_seconds`: how long this request has already waited for its provider.

    `priced_only`: a model without a known price is not asked, `free_only`: nor is one that costs anything; both raise
    `UnknownPrice`.
    """

    system: str
    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = "auto"
    max_output_tokens: int | None = None
    temperature: float | None = None
    thinking: Thinking = "inherit"
    service_tier: str | None = None
    cache_key: str = ""
    seconds: float = 3_600.0
    call_seconds: float = 180.0
    waited_seconds: float = 0.0
    priced_only: bool = False
    free_only: bool = False
    hint: AskHint | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete reply, block by block in the provider's order. `usage`: its own, without earlier attempts.

    `finish_reason`: stop | tool_calls | length | content_filter | refusal | not_done | other; `not_done`: a rule-based
    model that has no rule for the request. `model`: the model that answered. `request_id`: the provider's id of the
    request. `context_tokens`: size of the model's context, None: unknown. `streamed`: whether it came as a stream.
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
    """The blocks of a reply: thinking, text, then tool calls."""
    thought = (ThinkingBlock(text=thinking),) if thinking else ()
    said = (TextBlock(text=text),) if text else ()
    return (*thought, *said, *tool_calls)


NOT_DONE = "not_done"
"""The `finish_reason` of a reply in which the model says that it cannot do what was asked."""


class Bill:
    """The cost of attempts without a reply so far; `usage` None: none was reported."""

    def __init__(self) -> None:
        self.usage: Usage | None = None

    def add(self, usage: Usage) -> None:
        self.usage = usage if self.usage is None else self.usage.plus(usage)

    def with_reply(self, usage: Usage) -> Usage:
        """The total usage including that of the final reply."""
        return usage if self.usage is None else self.usage.plus(usage)


class Listener(Protocol):
    """Receives the events of one model call."""

    def delta(self, kind: DeltaKind, text: str, call: GrowingCall | None = None) -> None:
        """A piece of text arrived; cheap, never blocks. `call`: the tool call that a `tool_call.delta` belongs to."""

    async def retried(self, error: str, wait_seconds: float) -> None:
        """The attempt failed; another follows after `wait_seconds`. Committed on return."""

    async def fell_back(self, source: str, target: str, error: str) -> None:
        """The model `target` is asked from here on. Committed on return."""

    async def not_sent(self, what: str) -> None:
        """`what`: a sentence about a part of the request that this model does not get, or gets only approximated.
        Journaled once per agent."""

    def billed(self, usage: Usage) -> None:
        """The cost of an attempt without a reply, reported when it ends or is cancelled; never blocks."""

    async def go_ahead(self) -> None:
        """Await this before an attempt that follows a wait: returns when the attempt may be made."""


class Model(Protocol):
    """A model. It may also have the properties `context_tokens`, `cache_seconds` and `picture_limits`, read by the
    functions of these names."""

    @property
    def name(self) -> str:
        """Effective name, `provider/model`."""

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        """Raises `ModelError`; CancelledError passes."""


def context_tokens(model: Model) -> int | None:
    """Size of the context of the model that is asked next, request and reply together; None while unknown."""
    said = getattr(model, "context_tokens", None)
    return said if isinstance(said, int) else None


def cache_seconds(model: Model) -> float | None:
    """How long its provider keeps the beginning of a request to the model; None: not known, or as long as it likes."""
    said = getattr(model, "cache_seconds", None)
    return float(said) if isinstance(said, int | float) else None


def is_forgotten(model: Model, at: datetime | None) -> bool:
    """Whether its provider has dropped a request to the model from its cache that was answered `at` this time; False
    where either is not known."""
    seconds = cache_seconds(model)
    return at is not None and seconds is not None and now() - at > timedelta(seconds=seconds)


def picture_limits(model: Model) -> PictureLimits:
    """How many pictures the model is shown in one request, and of what size together."""
    said = getattr(model, "picture_limits", None)
    return said if isinstance(said, PictureLimits) else NO_LIMITS


class ModelWrapper:
    """Base class of wrappers around a model; name, sizes and limits are the wrapped model's."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def context_tokens(self) -> int | None:
        return context_tokens(self._model)

    @property
    def cache_seconds(self) -> float | None:
        return cache_seconds(self._model)

    @property
    def picture_limits(self) -> PictureLimits:
        return picture_limits(self._model)


class ModelError(Exception):
    """The provider gave no reply; the message is a sentence for people, without secrets.

    `retryable`: the same request may succeed later. `retry_after`: seconds the provider asked to wait. `status`: the
    HTTP status. The cost of the attempt is reported to the `Listener`.
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
    """The request exceeds the model's context. `window`: the context's size in tokens, None = not stated."""

    def __init__(self, message: str, window: int | None = None, *, status: int | None = None) -> None:
        super().__init__(message, status=status)
        self.window = window


class PictureRefused(ModelError):
    """The provider refuses a request because of a picture in it. `digest`: which one, where that was said. `suspects`:
    digests of the pictures that may be the cause, where nothing says that it is one."""

    def __init__(
        self, message: str, digest: str | None = None, *, suspects: tuple[str, ...] = (), status: int | None = None
    ) -> None:
        super().__init__(message, status=status)
        self.digest = digest
        self.suspects = suspects


class TooManyPictures(PictureRefused):
    """Nothing was sent: the request has more pictures than the model is shown, which is `limits`."""

    def __init__(self, message: str, limits: PictureLimits) -> None:
        super().__init__(message)
        self.limits = limits


class UnknownPrice(ModelError):
    """Nothing was sent: the request may go only to a model of known price, or to one that costs nothing, and this one
    is none."""


class BadReply(ModelError):
    """A reply arrived but is unusable: another attempt may succeed, but is not worth a long wait."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message, retryable=True, status=status)


class AskLater(ModelError):
    """The provider cannot answer now; ask again after `seconds`, which is longer than a model call waits.

    `named`: whether the provider itself stated the time. `when`: a sentence that says when.
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

    def as_final(self, why: str) -> ModelError:
        """The same as a final error; `why` completes "That is …" with the reason not to wait."""
        said = f"{self} That is {why}." if why else str(self if self.named else self.args[0])
        return ModelError(said, retryable=True, retry_after=self.seconds, status=self.status)
