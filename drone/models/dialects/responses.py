"""Requests to OpenAI's Responses API, stateless: messages encoded once, and earlier output items sent back."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import assert_never

from drone.agent.ports.model import Ask
from drone.models.body import UNREADABLE_ARGUMENTS, comma_separated, encoded
from drone.models.dialects.chat import differences
from drone.models.dialects.differences import (
    address,
    cap_not_sent,
    cap_refused,
    effort,
    effort_refused,
    replacement_for,
    unsupported_efforts,
    within_cap,
)
from drone.models.dialects.responses_reply import ARGUMENTS, ResponseReply
from drone.models.json_text import Json, write
from drone.models.remote import ModelEndpoint, Remote
from drone.models.tool_specs import legal, sendable
from drone.models.transport import ModelWire, Target
from mcc.contracts.blocks import AnyBlock, OpaqueBlock, RefusalBlock, TextBlock, ThinkingBlock, ToolCallBlock
from mcc.rules.patterns import Pattern
from mcc.transcript.messages import AssistantMessage, Message, Picture, ToolResults, ToolSpec, UserMessage

LEAST_OUTPUT_TOKENS = 16
"""The API refuses smaller caps."""

_WIRE = "responses"
_NEVER_REASONS = Pattern(r"gpt-[34]|chatgpt-|gpt-.*-chat-latest$")
_SEALED = "include"
_SEALED_ELSEWHERE = "its sealed reasoning as agent "
_SUMMARY = "reasoning.summary"
_REASONING = "reasoning"
_REFUSING = ("nsupported", "not support", "nknown parameter", "nrecognized", "not permitted", "must be verified")
"""Words that mark a refused parameter; other complaints mention `reasoning` as well."""

_OPTIONS = ("temperature", "max_output_tokens", "service_tier", "parallel_tool_calls", "prompt_cache_key")


class Responses:
    """The wire format. Nothing is stored at the provider: reasoning arrives encrypted and is sent back in its place, to
    the same model.

    Everything that all requests of an agent share comes before the messages, so that each request begins with the bytes
    of the previous one.
    """

    def __init__(self, endpoint: ModelEndpoint) -> None:
        self._endpoint = endpoint
        self._unsupported_efforts = unsupported_efforts(endpoint.known.thinking)
        self._reasons = _NEVER_REASONS.match(endpoint.model) is None
        self._head = b'{"model":' + write(endpoint.model) + (b',"stream":true' if endpoint.stream else b"")

    def target(self, key: str) -> Target:
        endpoint = self._endpoint
        headers = differences(endpoint).key_headers(key)
        accept = "text/event-stream" if endpoint.stream else "application/json"
        return Target.at(endpoint.name, address(endpoint, "responses"), {**headers, "accept": accept})

    def body(self, ask: Ask, without: frozenset[str]) -> Iterator[bytes]:
        yield self._head
        extra = self._endpoint.extra_body
        for name, value in self._constant(ask, without).items():
            if name not in extra:
                yield b",%b:%b" % (write(name), write(value))
        if ask.tools:
            yield b',"tools":[' + b",".join([_tool(tool) for tool in ask.tools]) + b"]"
        yield b',"input":['
        giver = "" if _SEALED_ELSEWHERE + ask.cache_key in without else self._endpoint.name
        yield from comma_separated(item for message in ask.messages if (item := _items(message, giver)))
        yield b"]"
        for name, value in {**self._changing(ask, without), **extra}.items():
            yield b",%b:%b" % (write(name), write(value))
        yield b"}"

    def refused_parameter(self, ask: Ask, without: frozenset[str], words: str) -> str | None:
        """Only the refused part of reasoning is left out: a level, the summary, or all of it."""
        if _SEALED not in without and "ncrypted content is not supported" in words:
            return _SEALED
        if "ncrypted content" in words and ("could not be" in words or "did not match" in words):
            return None if (elsewhere := _SEALED_ELSEWHERE + ask.cache_key) in without else elsewhere
        reasoning = self._reasoning(ask, without)
        if (level := effort_refused(reasoning.get("effort"), words)) is not None:
            return level
        if any(sign in words for sign in _REFUSING):
            if "summary" in reasoning and ("summary" in words or "summaries" in words):
                return _SUMMARY
            if reasoning and _REASONING in words:
                return _REASONING
        sent = {**self._constant(ask, without), **self._changing(ask, without)}
        cap = cap_refused(ask.max_output_tokens or self._endpoint.max_output_tokens, words)
        return cap or next((name for name in _OPTIONS if name in sent and name in words), None)

    def not_sent(self, ask: Ask, without: frozenset[str]) -> Iterable[str]:
        if _SEALED_ELSEWHERE + ask.cache_key in without:
            yield f"{self._endpoint.name} is not given back its earlier reasoning: it can no longer open it."
        yield from self._levels_not_sent(ask, without)
        yield from cap_not_sent(self._endpoint.name, ask.max_output_tokens, without, ("max_output_tokens",))
        for name, value in (("temperature", ask.temperature), ("service_tier", ask.service_tier)):
            if name in without and value is not None:
                yield f"{self._endpoint.name} does not take {name} {value}; it is not sent."

    def _levels_not_sent(self, ask: Ask, without: frozenset[str]) -> Iterable[str]:
        if _REASONING in without or not self._reasons:
            if ask.thinking in ("inherit", "off"):
                return
            yield f"{self._endpoint.name} does not take thinking {ask.thinking}; it is asked without."
        elif instead := replacement_for(ask.thinking, without | self._unsupported_efforts):
            yield f"{self._endpoint.name} does not take thinking {ask.thinking}; it is asked with {instead}."

    def parser(self, ask: Ask) -> ResponseReply:
        return ResponseReply(self._endpoint.name)

    def _constant(self, ask: Ask, without: frozenset[str]) -> Json:
        """Parameters that are the same in all requests of an agent."""
        options: dict[str, object] = {"store": False}
        if self._reasons:
            options[_SEALED] = ["reasoning.encrypted_content"]
        if ask.cache_key:
            options["prompt_cache_key"] = ask.cache_key
        if ask.system:
            options["instructions"] = ask.system
        return {name: value for name, value in options.items() if name not in without}

    def _changing(self, ask: Ask, without: frozenset[str]) -> Json:
        """Parameters that some models refuse, by name; without those in `without`, which were refused before."""
        options: dict[str, object] = {}
        if ask.tools:
            options |= {"tool_choice": ask.tool_choice, "parallel_tool_calls": True}
        if reasoning := self._reasoning(ask, without):
            options[_REASONING] = reasoning
        most = within_cap(ask.max_output_tokens or self._endpoint.max_output_tokens, without)
        if most is not None:
            options["max_output_tokens"] = max(most, LEAST_OUTPUT_TOKENS)
        if ask.temperature is not None:
            options["temperature"] = ask.temperature
        if ask.service_tier is not None:
            options["service_tier"] = ask.service_tier
        return {name: value for name, value in options.items() if name not in without}

    def _reasoning(self, ask: Ask, without: frozenset[str]) -> Json:
        if _REASONING in without or (not self._reasons and ask.thinking in ("inherit", "off")):
            return {}
        reasoning = {"summary": "auto"} if self._reasons and _SUMMARY not in without else {}
        level = effort(ask.thinking, without | self._unsupported_efforts)
        return reasoning if level is None else {"effort": level, **reasoning}


def responses_model(endpoint: ModelEndpoint, wire: ModelWire) -> Remote:
    """A model on a server that speaks OpenAI's Responses; `base_url` is the part before /responses."""
    return Remote(endpoint, Responses(endpoint), wire)


def _items(message: Message, name: str) -> bytes:
    """The message's input items for the model `name` (empty: for any model), joined by commas; empty for an empty
    reply."""
    # Encrypted reasoning is only accepted from the model it was given to, so a reply's bytes are cached per model.
    form = f"{_WIRE} {name}" if isinstance(message, AssistantMessage) else _WIRE
    return encoded(message, form, lambda one: b",".join(map(write, _json_items(one, name))))


def _json_items(message: Message, name: str) -> Iterator[Json]:
    match message:
        case UserMessage():
            content: object = [*map(_part, message.parts)] if message.pictures else message.text
            yield {"role": "user", "content": content}
        case AssistantMessage():
            yield from _sent_back(message.blocks, own=bool(name) and message.model == name)
        case ToolResults():
            for result in message.as_shown:
                output: object = result.content
                if result.pictures:
                    output = [_part(result.content), *map(_part, result.pictures)]
                yield {"type": "function_call_output", "call_id": result.call_id, "output": output}
        case _:
            assert_never(message)


def _part(part: str | Picture) -> Json:
    if isinstance(part, str):
        return {"type": "input_text", "text": part}
    return {"type": "input_image", "image_url": part.url}


def _sent_back(blocks: Sequence[AnyBlock], *, own: bool) -> Iterator[Json]:
    """A reply's items. Item ids are sent only to the model that gave them (`own`), and not if some of its reasoning is
    missing: an item with an id is refused without the reasoning that led to it."""
    blocks = _without_trailing_reasoning(blocks)
    with_ids = own and all(_is_returnable(block) for block in blocks if isinstance(block, ThinkingBlock))
    for key, group in groupby(enumerate(blocks), lambda one: _message_key(*one, with_ids=with_ids)):
        if key is not None:
            yield _message_item([block for _, block in group], with_ids=with_ids)
            continue
        for _, block in group:
            match block:
                case ThinkingBlock(extra=Mapping() as item) if own and _is_returnable(block):
                    yield item
                case ToolCallBlock():
                    yield _call_item(block, with_ids=with_ids)
                case OpaqueBlock(data=item) if own:
                    yield item


def _without_trailing_reasoning(blocks: Sequence[AnyBlock]) -> Sequence[AnyBlock]:
    """The blocks without trailing reasoning, as left by a reply that was cut: reasoning is refused if nothing follows
    it."""
    end = len(blocks)
    while end and isinstance(blocks[end - 1], ThinkingBlock):
        end -= 1
    return blocks[:end]


def _is_returnable(thinking: ThinkingBlock) -> bool:
    """Whether the reasoning can be sent back: it is encrypted, or readable in full."""
    item = thinking.extra or {}
    return bool(item.get("encrypted_content") or item.get("content"))


def _message_key(place: int, block: AnyBlock, *, with_ids: bool) -> object:
    """Key shared by the parts of one message; None for a block that is not part of a message."""
    match block:
        case TextBlock(extra=Mapping() as item) if with_ids and "id" in item:
            return item["id"]
        case TextBlock() | RefusalBlock():
            return place
    return None


def _message_item(parts: Iterable[AnyBlock], *, with_ids: bool) -> Json:
    content: list[Json] = []
    kept: Json = {}
    for part in parts:
        match part:
            case TextBlock():
                content.append({"type": "output_text", "text": part.text, "annotations": []})
                kept = part.extra or kept
            case RefusalBlock():
                content.append({"type": "refusal", "refusal": part.text})
    known = kept if with_ids else {name: value for name, value in kept.items() if name == "phase"}
    return {"type": "message", "role": "assistant", **known, "content": content}


def _call_item(call: ToolCallBlock, *, with_ids: bool) -> Json:
    """A function call item. Servers parse the arguments of earlier calls, so text that is no JSON object is wrapped in
    one."""
    kept = dict(call.extra or {}) if with_ids else {}
    arguments = kept.pop(ARGUMENTS, None)
    given = call.arguments if not isinstance(call.arguments, str) else {UNREADABLE_ARGUMENTS: call.arguments}
    return {
        **kept,
        "type": "function_call",
        # Our own ids, because ids of a provider may repeat: docs/decisions/06-own-call-ids.md
        "call_id": call.call_id,
        "name": legal(call.name),
        "arguments": arguments if isinstance(arguments, str) else write(given).decode(),
    }


def _tool(tool: ToolSpec) -> bytes:
    known = tool.encoded.get(_WIRE)
    if known is None:
        definition = {"type": "function", "name": legal(tool.name), "description": tool.description, "strict": False}
        known = tool.encoded[_WIRE] = write({**definition, "parameters": sendable(tool.parameters)})
    return known
