"""What a request has besides its messages, from entries and the stored set-up; and its messages for whoever looks."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from mcc.contracts.blocks import TextBlock
from mcc.contracts.journal import AgentStarted
from mcc.contracts.model_calls import AskedBlock, AskedMessage, AskedParameters, AskedTool, ToolResultBlock
from mcc.contracts.model_facts import ModelStarted
from mcc.contracts.order import ModelSettings
from mcc.transcript.heard import PlacedMessage, RecordConversation
from mcc.transcript.messages import AssistantMessage, Message, Picture, ToolResults, UserMessage
from mcc.transcript.pictures import with_pictures
from mcc.transcript.setup import Setup
from mcc.transcript.transcript import VALIDATE

REPLY_TOKENS = 4096
"""Tokens reserved for an ordinary reply. A maximum is sent to the model only when less than this is left: many servers
refuse maxima above their own."""

KEY_CHARACTERS = 64
"""Longest key that providers take."""


def session_key(session_id: str, agent: str) -> str:
    """The cache key of all requests of a session's agent."""
    key = f"{session_id}:{agent}"
    return key if len(key) <= KEY_CHARACTERS else hashlib.sha256(key.encode()).hexdigest()


def output_cap(room: int, wanted: int | None) -> int | None:
    """The maximum of output tokens to send where so many are reserved for the reply; None: none is sent."""
    if room >= REPLY_TOKENS:
        return wanted
    return min(room, wanted or room)


def tools_asked(setup: Setup, started: AgentStarted, found: Sequence[str]) -> tuple[AskedTool, ...]:
    """The tools of a request: those of the set-up, then by name alone those that were added to it."""
    described = [
        AskedTool(name=spec.name, description=spec.description, parameters=dict(spec.parameters))
        for spec in setup.specs
    ]
    known = {tool.name for tool in described}
    added = [name for name in dict.fromkeys((*started.tools, *found)) if name not in known]
    return (*described, *(AskedTool(name=name, description=None, parameters=None) for name in added))


def parameters_asked(call: ModelStarted, conversation: RecordConversation, cache_key: str) -> AskedParameters:
    """The parameters of an agent's own request."""
    started = conversation.started
    settings = (started.model_settings if started is not None else None) or ModelSettings()
    submits = {*(started.finish_tools if started is not None else ())} - {VALIDATE}
    return AskedParameters(
        model=call.model,
        tool_choice="none" if conversation.landing and not submits else "auto",
        max_output_tokens=output_cap(call.reserved_output_tokens, settings.max_output_tokens),
        temperature=settings.temperature,
        thinking=settings.thinking,
        service_tier=settings.service_tier,
        cache_key=cache_key,
    )


_ROLES: Mapping[type[Message], Literal["user", "assistant", "tool"]] = {
    UserMessage: "user",
    AssistantMessage: "assistant",
    ToolResults: "tool",
}


def shown_message(placed: PlacedMessage) -> AskedMessage:
    """A message as the answer to whoever asks for the request has it: a sentence in place of each hidden picture."""
    (message,) = with_pictures((placed.message,), lambda picture: picture.hidden or picture)
    is_placed = bool(placed.order_id)
    return AskedMessage(
        role=_ROLES[type(message)],
        blocks=tuple(_blocks(message)),
        order_id=placed.order_id if is_placed else None,
        seq=placed.seq if is_placed else None,
    )


def _blocks(message: Message) -> Iterator[AskedBlock]:
    if isinstance(message, AssistantMessage):
        yield from message.blocks
    elif isinstance(message, ToolResults):
        for result in message.as_shown:
            yield ToolResultBlock(
                call_id=result.call_id, name=result.name, content=result.content, is_error=result.is_error
            )
            yield from (picture.image for picture in result.pictures)
    else:
        for part in message.parts:
            yield part.image if isinstance(part, Picture) else TextBlock(text=part)
