"""The blocks of a model's reply, in the order in which its provider sent them."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from mcc.contracts.shape import Closed, JsonObject, Text, unchecked


class ToolCall(Closed):
    """A tool call of a reply. `call_id` is made by MCC and unique in the order; `provider_id` is the provider's and may
    repeat.

    `arguments` is the object that the model sent, or the raw text when that was not a JSON object.
    """

    call_id: str
    provider_id: Text = ""
    name: Text
    arguments: JsonObject | Text


class TextBlock(Closed):
    """Text of the reply. `extra` here and below: data that the provider must get back with the block, unchanged."""

    type: Literal["text"] = "text"
    text: Text
    extra: JsonObject | None = None


class ThinkingBlock(Closed):
    """`signature`: the provider's proof that it wrote this thinking; thinking without one is sent like other text."""

    type: Literal["thinking"] = "thinking"
    text: Text
    signature: Text | None = None
    extra: JsonObject | None = None


class RedactedBlock(Closed):
    """Thinking that only its provider can read."""

    type: Literal["redacted"] = "redacted"
    data: Text


class ToolCallBlock(Closed):
    """A tool call as a block, with the fields of a `ToolCall`."""

    type: Literal["tool_call"] = "tool_call"
    call_id: str
    provider_id: Text = ""
    name: Text
    arguments: JsonObject | Text
    extra: JsonObject | None = None

    @property
    def call(self) -> ToolCall:
        return unchecked(
            ToolCall, call_id=self.call_id, provider_id=self.provider_id, name=self.name, arguments=self.arguments
        )


class RefusalBlock(Closed):
    """The model's explanation of why it refuses."""

    type: Literal["refusal"] = "refusal"
    text: Text


class ImageBlock(Closed):
    """A picture; the order's artifact of this id has its bytes as base64.

    `width` and `height` in pixels, `bytes` before base64; 0 = not known.
    """

    type: Literal["image"] = "image"
    artifact: str
    media_type: str
    name: Text = ""
    width: int = 0
    height: int = 0
    bytes: int = 0


class FileBlock(Closed):
    """A file that is no picture; the order's artifact of this id has its bytes."""

    type: Literal["file"] = "file"
    artifact: str
    media_type: str
    name: Text = ""


class OpaqueBlock(Closed):
    """Data that only the provider understands; it must get the block back in the same place, unchanged."""

    type: Literal["opaque"] = "opaque"
    data: JsonObject


AnyBlock: TypeAlias = (
    TextBlock | ThinkingBlock | RedactedBlock | ToolCallBlock | RefusalBlock | ImageBlock | FileBlock | OpaqueBlock
)
Block: TypeAlias = Annotated[AnyBlock, Field(discriminator="type")]


def blocks_of(text: str = "", thinking: str = "", tool_calls: Iterable[ToolCall] = ()) -> tuple[AnyBlock, ...]:
    """Blocks of a reply from its parts: thinking, then text, then tool calls; empty parts give no block."""

    def generate() -> Iterator[AnyBlock]:
        if thinking:
            yield ThinkingBlock(text=thinking)
        if text:
            yield TextBlock(text=text)
        for call in tool_calls:
            yield call_block(call)

    return tuple(generate())


def call_block(call: ToolCall) -> ToolCallBlock:
    return ToolCallBlock(call_id=call.call_id, provider_id=call.provider_id, name=call.name, arguments=call.arguments)


def text_in(blocks: Iterable[object]) -> str:
    """The text of the reply, without thinking and refusals."""
    return "".join([block.text for block in blocks if isinstance(block, TextBlock)])


def thinking_in(blocks: Iterable[object]) -> str:
    """The readable thinking of the reply."""
    return "".join([block.text for block in blocks if isinstance(block, ThinkingBlock)])


def refusal_in(blocks: Iterable[object]) -> str:
    return "".join([block.text for block in blocks if isinstance(block, RefusalBlock)])


def calls_in(blocks: Iterable[object]) -> tuple[ToolCall, ...]:
    return tuple([block.call for block in blocks if isinstance(block, ToolCallBlock)])
