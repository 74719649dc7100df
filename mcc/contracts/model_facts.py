"""Facts of model calls: started, replied, retried, fell back to another model."""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field, computed_field, model_validator

from mcc.contracts.blocks import Block, ToolCall, ToolCallBlock, calls_in, text_in, thinking_in
from mcc.contracts.fact import Fact, NotedFact
from mcc.contracts.shape import Closed, Text
from mcc.contracts.usage import Usage


class Prefix(Closed):
    """How much of a request, in bytes of system prompt, tools and messages, is the request before it, from its
    beginning: `same_bytes` of `bytes`. `digest`: of the whole request, by which the next one is compared."""

    same_bytes: int
    bytes: int
    digest: str = ""


class ModelStarted(Fact):
    """A request is about to be sent. `reserved_tokens` is the most that the call may use, its reply included."""

    kind: ClassVar[str] = "model.started"
    round: int
    attempt: int = Field(alias="try", serialization_alias="try")
    model: str
    reserved_tokens: int = 0
    reserved_output_tokens: int = 0
    reserved_usd: float | None = None


_COMPUTED = frozenset({"text", "thinking", "tool_calls"})


class ModelReplied(Fact):
    """A whole reply, block by block. `text`, `thinking` and `tool_calls` are computed from its blocks, for readers.

    `request_id` is the provider's id of the request, empty when it sends none. `context_tokens` is the context window
    of the model that answered, None when unknown. `prefix`: how much of the request repeats the one before it.
    """

    kind: ClassVar[str] = "model.replied"
    round: int
    attempt: int = Field(alias="try", serialization_alias="try")
    model: str
    blocks: tuple[Block, ...] = ()
    finish_reason: str
    usage: Usage
    first_token_ms: float | None = None
    seconds: float = 0.0
    request_id: str = ""
    context_tokens: int | None = None
    prefix: Prefix | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_computed(cls, value: Any) -> Any:
        """A reply read from a service has what is computed from its blocks beside them."""
        return {key: it for key, it in value.items() if key not in _COMPUTED} if isinstance(value, Mapping) else value

    # These three are computed on every access: a running turn holds all its replies, and cached copies would double
    # their memory.
    @computed_field  # type: ignore[prop-decorator]
    @property
    def text(self) -> str:
        return text_in(self.blocks)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def thinking(self) -> str:
        return thinking_in(self.blocks)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return calls_in(self.blocks)

    @property
    def calls_tools(self) -> bool:
        return any(isinstance(block, ToolCallBlock) for block in self.blocks)

    @property
    def stored(self) -> object:
        names = {field.serialization_alias or name: name for name, field in type(self).model_fields.items()}
        return {alias: getattr(self, name) for alias, name in names.items()}

    @property
    def added_usage(self) -> Usage:
        return self.usage


class ModelRetried(NotedFact):
    kind: ClassVar[str] = "model.retried"
    round: int
    attempt: int = Field(alias="try", serialization_alias="try")
    model: str
    error: Text
    wait_seconds: float

    @property
    def in_words(self) -> Text:
        return f"{self.error.rstrip('.')}; asked again after {self.wait_seconds:g} s"


class ModelFellBack(NotedFact):
    kind: ClassVar[str] = "model.fell_back"
    round: int
    source: str
    target: str
    error: Text

    @property
    def in_words(self) -> Text:
        return f"{self.source} → {self.target}: {self.error}"
