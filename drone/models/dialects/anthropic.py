"""Requests to Anthropic's Messages API, direct or through clouds: messages encoded once, and thinking parameters."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import assert_never
from urllib.parse import quote

from drone.agent.ports.model import Ask, ModelError
from drone.models.body import UNREADABLE_ARGUMENTS, encoded
from drone.models.dialects.anthropic_reply import MessageReply
from drone.models.dialects.differences import cap_not_sent, cap_refused, within_cap
from drone.models.json_text import write
from drone.models.prices import UNKNOWN, KnownModel, known_model
from drone.models.remote import ModelEndpoint, Remote
from drone.models.tool_specs import legal, sendable, unsendable
from drone.models.transport import ModelWire, Target
from mcc.contracts.blocks import (
    AnyBlock,
    OpaqueBlock,
    RedactedBlock,
    RefusalBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from mcc.transcript.messages import (
    AssistantMessage,
    Message,
    Picture,
    ToolResult,
    ToolResults,
    ToolSpec,
    UserMessage,
)

VERSION = "2023-06-01"
VERTEX_VERSION = "vertex-2023-10-16"

VERTEX = "vertex"
_BEARERS = frozenset({VERTEX, "bedrock"})


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """URL and additional headers of requests, and the version that goes into the body in place of the model's name
    where the URL contains the name."""

    url: str
    headers: dict[str, str]
    version_in_body: str = ""


def request_target(endpoint: ModelEndpoint, key: str) -> RequestTarget:
    """The target for this endpoint. Google's cloud has model and method in the path, others use Anthropic's path.

    `base_url` ends in `/publishers/anthropic/models` at Google's cloud, in `/anthropic` at Bedrock.
    """
    bearer = {"authorization": f"Bearer {key}"} if key else {}
    if endpoint.provider == VERTEX:
        method = "streamRawPredict" if endpoint.stream else "rawPredict"
        url = f"{endpoint.base_url}/{quote(endpoint.model, safe='@-._')}:{method}"
        return RequestTarget(url, bearer, VERTEX_VERSION)
    base = endpoint.base_url if endpoint.base_url.endswith("/v1") else f"{endpoint.base_url}/v1"
    headers_of_key = bearer if endpoint.provider in _BEARERS else ({"x-api-key": key} if key else {})
    return RequestTarget(f"{base}/messages", {"anthropic-version": VERSION, **headers_of_key})


OUTPUT_TOKENS = 16_384
"""The API requires an output cap; this much is left for the answer if no cap is configured."""

LEVELS = ("minimal", "low", "medium", "high", "xhigh", "max")

_BUDGETS = {"minimal": 1_024, "low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 24_576, "max": 32_000}
_LEAST_BUDGET = 1_024
_ROOM = {**_BUDGETS, "xhigh": 32_768, "max": 49_152}
"""Tokens for thinking in addition to the answer. An effort has no limit of its own, so high ones get more room."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """Thinking for one request: the level `wanted` by the agent, and the `level` the model supports; both empty if
    unspecified."""

    known: KnownModel
    wanted: str
    level: str

    @classmethod
    def resolved(cls, known: KnownModel, wanted: str) -> "Thinking":
        return cls(known, "", "") if wanted == "inherit" else cls(known, wanted, _nearest(wanted, known))

    @property
    def room(self) -> int:
        if self.level:
            return _ROOM.get(self.level, 0)
        return _ROOM["high"] if self.known.thinks_by_default else 0

    def options(self, most: int) -> dict[str, object]:
        """Request parameters, for an output of at most `most` tokens including thinking."""
        known = self.known
        if self.level == "off":
            kind = known.thinking_off or ("disabled" if known.thinks_by_default is None else "")
            return {"thinking": {"type": kind}} if kind else {}
        if not self.level:
            # Models that think by default omit the text of it unless a summary is requested.
            return {"thinking": _ADAPTIVE} if known.thinks_by_default else {}
        if known.thinks_by != "budget":
            return {"thinking": _ADAPTIVE, "output_config": {"effort": self.level}}
        budget = min(_BUDGETS[self.level], most - min(OUTPUT_TOKENS, most // 2))
        return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget >= _LEAST_BUDGET else {}

    def not_sent(self, name: str) -> Iterator[str]:
        if self.level == self.wanted:
            return
        if self.level == "off":
            yield f"{name} does not think: it is not told to think as much as {self.wanted}."
        elif self.wanted == "off":
            yield f"{name} cannot be kept from thinking: it is told to think as little as it can ({self.level})."
        else:
            yield f"{name} does not know how to think as much as {self.wanted}: it is told {self.level}."


_ADAPTIVE = {"type": "adaptive", "display": "summarized"}


def _nearest(wanted: str, known: KnownModel) -> str:
    """The wanted level if supported, else the next lower supported one, else the lowest supported."""
    taken = known.thinking or ("off", *LEVELS[1:])
    if wanted in taken:
        return wanted
    own = [level for level in LEVELS if level in taken]
    below = [level for level in own if wanted != "off" and LEVELS.index(level) < LEVELS.index(wanted)]
    return below[-1] if below else own[0] if own else "off"


_WIRE = "anthropic"
_CACHED = {
    "5m": b',"cache_control":{"type":"ephemeral"}}',
    "1h": b',"cache_control":{"type":"ephemeral","ttl":"1h"}}',
}
_CACHED_TURNS = 2
"""The ends of this request and of the one before it. Together with system prompt or tools these are three marks; the
API allows four. A longer time, which costs more, is only worth it for what all turns share."""

_TIERS = ("auto", "standard_only")
_OWN_THINKING = "its earlier thinking as agent "
_MODIFIED = ("cannot be modified", "nvalid `signature`")
_NOTHING_SAID = "(empty)"


class Messages:
    """The wire format. System prompt, tools and last turns get prompt cache marks without being encoded again."""

    def __init__(self, endpoint: ModelEndpoint) -> None:
        self._endpoint = endpoint
        self._known = known_model(_WIRE, endpoint.model) if endpoint.known is UNKNOWN else endpoint.known
        self._cached = _CACHED[endpoint.cache_ttl]
        version = request_target(endpoint, "").version_in_body
        named = b'{"anthropic_version":' + write(version) if version else b'{"model":' + write(endpoint.model)
        self._head = named + (b',"stream":true' if endpoint.stream else b"")

    def target(self, key: str) -> Target:
        endpoint = self._endpoint
        accept = "text/event-stream" if endpoint.stream else "application/json"
        place = request_target(endpoint, key)
        return Target.at(endpoint.name, place.url, {"accept": accept, **place.headers})

    def body(self, ask: Ask, without: frozenset[str]) -> Iterator[bytes]:
        yield self._head + b',"messages":['
        giver = "" if _OWN_THINKING + ask.cache_key in without else self._endpoint.name
        yield from _turns(ask.messages, giver, _CACHED["5m"])
        yield b"]"
        if ask.system:
            yield b',"system":[{"type":"text","text":' + write(ask.system) + self._cached + b"]"
        if tools := [_tool(tool) for tool in ask.tools]:
            yield b',"tools":[' + b",".join(tools if ask.system else _with_mark(tools, self._cached)) + b"]"
            if ask.tool_choice == "none":
                yield b',"tool_choice":{"type":"none"}'
        elif stubs := _named_before(ask.messages):
            yield b',"tools":' + write(stubs) + b',"tool_choice":{"type":"none"}'
        most = self._most(ask, without)
        options = {"max_tokens": most, **self._options(ask, without), **self._endpoint.extra_body}
        for name, value in options.items():
            yield b",%b:%b" % (write(name), write(value))
        yield b"}"

    def refused_parameter(self, ask: Ask, without: frozenset[str], words: str) -> str | None:
        if (cap := cap_refused(self._most(ask, without), words)) is not None:
            return cap
        if "thinking" in words and any(sign in words for sign in _MODIFIED):
            return None if (own := _OWN_THINKING + ask.cache_key) in without else own
        return next((name for name in self._options(ask, without) if name in words), None)

    def not_sent(self, ask: Ask, without: frozenset[str]) -> Iterable[str]:
        if ask.service_tier is not None and ask.service_tier not in _TIERS:
            yield f"{self._endpoint.name} is not told the service tier {ask.service_tier}."
        if ask.temperature is not None and "temperature" not in self._options(ask, without):
            yield f"{self._endpoint.name} does not take temperature {ask.temperature}; it is not sent."
        yield from cap_not_sent(self._endpoint.name, ask.max_output_tokens, without, ("max_tokens",))
        if _OWN_THINKING + ask.cache_key in without:
            yield f"{self._endpoint.name} is not given back its earlier thinking: it does not know it again."
        yield from Thinking.resolved(self._known, ask.thinking).not_sent(self._endpoint.name)

    def parser(self, ask: Ask) -> MessageReply:
        return MessageReply(self._endpoint.name)

    def _most(self, ask: Ask, without: frozenset[str]) -> int:
        """The output cap, thinking included: room for thinking is added unless a cap was configured. Never above the
        maximum in the table of models or stated by the server."""
        room = Thinking.resolved(self._known, ask.thinking).room
        wanted = ask.max_output_tokens or self._endpoint.max_output_tokens or OUTPUT_TOKENS + room
        known = min(wanted, self._known.max_output_tokens or wanted)
        return within_cap(known, without) or known

    def _options(self, ask: Ask, without: frozenset[str]) -> Mapping[str, object]:
        """Parameters that some models refuse, by name; without those in `without`, which were refused before."""
        thinking = Thinking.resolved(self._known, ask.thinking)
        options = thinking.options(self._most(ask, without))
        thinks = "thinking" in options and "thinking" not in without and thinking.level != "off"
        if ask.temperature is not None and not thinks:
            options["temperature"] = min(ask.temperature, 1.0)
        if ask.service_tier in _TIERS:
            options["service_tier"] = ask.service_tier
        if self._known.thinks_by == "budget" and _OWN_THINKING + ask.cache_key in without:
            options.pop("thinking", None)  # with a budget, calls must follow the thinking that led to them
        return {name: value for name, value in options.items() if name not in without}


def anthropic_model(endpoint: ModelEndpoint, wire: ModelWire) -> Remote:
    """A model on a server that speaks Anthropic's Messages API; `base_url` with or without its /v1."""
    return Remote(endpoint, Messages(endpoint), wire)


def _turns(messages: Sequence[Message], name: str, mark: bytes) -> Iterator[bytes]:
    """Consecutive messages of one role are joined into one; the last user turns end in a cache mark."""
    spoken = [message for message in messages if _has_content(message, name)]
    turns = [list(turn) for _, turn in groupby(spoken, key=lambda message: type(message) is AssistantMessage)]
    users = [number for number, turn in enumerate(turns) if type(turn[0]) is not AssistantMessage]
    marked = users[-_CACHED_TURNS:]
    for number, turn in enumerate(turns):
        role = b"user" if type(turn[0]) is not AssistantMessage else b"assistant"
        yield b'%b{"role":"%b","content":[' % (b"," if number else b"", role)
        for place, message in enumerate(turn):
            if place:
                yield b","
            blocks = _blocks(message, name)
            yield blocks[:-1] + mark if number in marked and place == len(turn) - 1 else blocks
        yield b"]}"


def _has_content(message: Message, name: str) -> bool:
    """Whether the message has content. A large one always has, and is not encoded to find out."""
    return bool(message.results) if isinstance(message, ToolResults) else bool(_blocks(message, name))


def _with_mark(blocks: list[bytes], mark: bytes) -> list[bytes]:
    return [*blocks[:-1], blocks[-1][:-1] + mark]


def _blocks(message: Message, name: str) -> bytes:
    """The message's content blocks for the model `name` (empty: for any model), joined by commas; empty for an empty
    reply."""
    # Signed blocks are only accepted from the model they were given to, so a reply's bytes are cached per model.
    form = f"{_WIRE} {name}" if isinstance(message, AssistantMessage) else _WIRE
    return encoded(message, form, lambda one: b",".join(map(write, _json_blocks(one, name))))


def _json_blocks(message: Message, name: str) -> Iterator[Mapping[str, object]]:
    match message:
        case UserMessage():
            said = message if message.text.strip() else UserMessage(_NOTHING_SAID, message.pictures)
            for part in said.parts:
                yield {"type": "text", "text": part} if isinstance(part, str) else _picture(part)
        case AssistantMessage():
            is_own = bool(name) and message.model == name
            for block in message.blocks:
                if (sent := _sent_back(block, own=is_own)) is not None:
                    yield sent
        case ToolResults():
            yield from map(_result, message.as_shown)
        case _:
            assert_never(message)


def _sent_back(block: AnyBlock, *, own: bool) -> Mapping[str, object] | None:
    """One block of a reply. Signed or encrypted thinking is sent back unchanged, only to the model that gave it
    (`own`), and in its place between the other blocks, since it is refused elsewhere."""
    match block:
        case TextBlock(text=text) | RefusalBlock(text=text):
            return {"type": "text", "text": text} if text.strip() else None
        case ThinkingBlock(text=text, signature=str() as signature) if own:
            return {"type": "thinking", "thinking": text, "signature": signature}
        case RedactedBlock(data=data) if own:
            return {"type": "redacted_thinking", "data": data}
        case OpaqueBlock(data=data) if own:
            return data
        case ToolCallBlock():
            return _call(block)
        case _:
            return None


def _call(call: ToolCallBlock) -> Mapping[str, object]:
    given = call.arguments if not isinstance(call.arguments, str) else {UNREADABLE_ARGUMENTS: call.arguments}
    # Our own ids, because ids of a provider may repeat: docs/decisions/06-own-call-ids.md
    return {"type": "tool_use", "id": call.call_id, "name": legal(call.name), "input": given}


def _result(result: ToolResult) -> Mapping[str, object]:
    content: object = result.content
    if result.pictures:
        content = [{"type": "text", "text": result.content}, *map(_picture, result.pictures)]
    block = {"type": "tool_result", "tool_use_id": result.call_id, "content": content}
    return {**block, "is_error": True} if result.is_error else block


def _picture(picture: Picture) -> Mapping[str, object]:
    source = {"type": "base64", "media_type": picture.image.media_type, "data": picture.data}
    return {"type": "image", "source": source}


def _tool(tool: ToolSpec) -> bytes:
    known = tool.encoded.get(_WIRE)
    if known is None:
        if problem := unsendable(tool.parameters):
            raise ModelError(f"The tool {tool.name} cannot be offered to this model: {problem}.")
        schema = sendable(tool.parameters)
        definition = {"name": legal(tool.name), "description": tool.description, "input_schema": schema}
        known = tool.encoded[_WIRE] = write(definition)
    return known


def _named_before(messages: Iterable[Message]) -> list[dict[str, object]]:
    """Stubs for the tools of earlier calls: the API requires their declaration even when no tool is offered any
    more."""
    names = {
        call.name: None for message in messages if isinstance(message, AssistantMessage) for call in message.tool_calls
    }
    return [{"name": legal(name), "input_schema": {"type": "object"}} for name in names]
