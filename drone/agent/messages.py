"""The transcript's messages: frozen, and encoded once per wire format."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from mcc.contracts.blocks import AnyBlock, ImageBlock, ToolCall, blocks_of, calls_in, text_in, thinking_in


@dataclass(frozen=True, slots=True)
class UserMessage:
    text: str
    encoded: dict[str, bytes] = field(default_factory=dict, compare=False, repr=False)
    """Bytes by wire format; a model adapter fills its own key the first time it sends the message."""


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """A reply, block by block.

    `model` is who gave it (`provider/model`, empty: nobody did): what its provider signed or sealed, and what only its
    provider understands, goes back to that model alone.
    """

    blocks: tuple[AnyBlock, ...] = ()
    model: str = ""
    encoded: dict[str, bytes] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(
        cls, text: str = "", tool_calls: Iterable[ToolCall] = (), *, thinking: str = "", model: str = ""
    ) -> "AssistantMessage":
        """A reply that thinks, speaks and then calls tools."""
        return cls(blocks_of(text, thinking, tool_calls), model)

    @property
    def text(self) -> str:
        return text_in(self.blocks)

    @property
    def thinking(self) -> str:
        return thinking_in(self.blocks)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return calls_in(self.blocks)


@dataclass(frozen=True, slots=True)
class Picture:
    """An image of a tool's result. `data`: its bytes as base64, only in a question that is asked, else empty."""

    image: ImageBlock
    data: str = field(default="", repr=False)

    @property
    def url(self) -> str:
        return f"data:{self.image.media_type};base64,{self.data}"


@dataclass(frozen=True, slots=True)
class ToolResult:
    call_id: str
    name: str
    content: str
    is_error: bool
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolResults:
    """The results of one reply's calls, in the order of the calls, and what the model is told at the end of them.

    Adapters send `ToolResult.call_id` (ours) to the provider as the call's id, and the same id in the reply's calls:
    provider ids repeat or are missing, ours never.
    """

    results: tuple[ToolResult, ...]
    notices: tuple[str, ...] = ()
    encoded: dict[str, bytes] = field(default_factory=dict, compare=False, repr=False)

    def noting(self, text: str) -> "ToolResults":
        """The same results with one more notice."""
        return ToolResults(self.results, (*self.notices, text))

    @property
    def told(self) -> tuple[ToolResult, ...]:
        """The results as models are told them: with the notices at the end of the last one."""
        if not self.notices:
            return self.results
        *before, last = self.results
        return (*before, replace(last, content="\n\n".join((last.content, *self.notices))))


Message: TypeAlias = UserMessage | AssistantMessage | ToolResults


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model is told of a tool (name, description, JSON Schema of its arguments), and what the runtime must know.

    `idempotent`: running it twice does no harm, so a takeover may run it again. `resumable`: run again, it goes on with
    what it had begun. `untrusted`: strangers may have written what it brings, so models are shown it within a fence.
    `seconds`: its time limit, None = the turn's.
    """

    name: str
    description: str
    parameters: Mapping[str, object]
    group: str = ""
    idempotent: bool = False
    seconds: float | None = None
    resumable: bool = False
    untrusted: bool = True
    encoded: dict[str, bytes] = field(default_factory=dict, compare=False, repr=False)
