"""What a model was asked with: the request of one model call, put together again from the journal."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from mcc.contracts.blocks import (
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    RedactedBlock,
    RefusalBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from mcc.contracts.order import Thinking
from mcc.contracts.shape import Closed, JsonObject, Text
from mcc.contracts.usage import Usage


class ToolResultBlock(Closed):
    """The result of a tool call as its model read it, notices at its end included. Its pictures follow it."""

    type: Literal["tool_result"] = "tool_result"
    call_id: str
    name: Text
    content: Text
    is_error: bool


AskedBlock: TypeAlias = Annotated[
    TextBlock
    | ThinkingBlock
    | RedactedBlock
    | ToolCallBlock
    | RefusalBlock
    | ImageBlock
    | FileBlock
    | OpaqueBlock
    | ToolResultBlock,
    Field(discriminator="type"),
]


class AskedMessage(Closed):
    """One message of a request. `order_id`, `seq`: the entry that it came from, of this order or of an earlier turn's;
    null where it stands for several turns. `cut`: its texts are not whole, as it is too long for an answer."""

    role: Literal["user", "assistant", "tool"]
    blocks: tuple[AskedBlock, ...]
    seq: int | None
    order_id: str | None
    cut: bool = False


class AskedTool(Closed):
    """A tool as the model was shown it. `description` and `parameters` are null for one that was added during the run,
    as its set-up does not have them."""

    name: Text
    description: Text | None
    parameters: JsonObject | None


class AskedParameters(Closed):
    """`max_output_tokens` null: none was sent. `cache_key`: by which providers find the request's beginning in their
    cache."""

    model: str
    tool_choice: Literal["auto", "none"]
    max_output_tokens: int | None
    temperature: float | None
    thinking: Thinking
    service_tier: str | None
    cache_key: str


class ModelRequest(Closed):
    """The request of a model call. `messages` are those from number `first` of `of` on (counted from 0); with
    `next_cursor` the next ones are asked for. `system` and `tools` stand on the first page alone; `cut`: they are not
    whole.

    `usage` and `cached_share` (of its input) are those of the reply, the entry `reply_seq`; null while there is none.
    """

    system: Text
    tools: tuple[AskedTool, ...]
    cut: bool = False
    messages: tuple[AskedMessage, ...]
    first: int
    of: int
    next_cursor: str | None
    parameters: AskedParameters
    usage: Usage | None
    cached_share: float | None
    reply_seq: int | None
