"""OpenAI-compatible chat completions: what is asked, encoded once per message."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import assert_never
from urllib.parse import urlsplit

from drone.agent.messages import AssistantMessage, Message, ToolResults, ToolSpec, UserMessage
from drone.agent.model import Ask
from drone.models.body import encoded
from drone.models.dialects.chat_reply import ChatReply
from drone.models.dialects.chat_servers import differences
from drone.models.dialects.differences import address
from drone.models.json_text import write
from drone.models.remote import Endpoint, Remote
from drone.models.tool_specs import legal, sendable
from drone.models.transport import Target, Wire
from mcc.configuration.providers import OPENAI
from mcc.contracts.blocks import ThinkingBlock, ToolCall, refusal_in

_EFFORT = {
    "off": "none",
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "xhigh",
}
_WIRE = "chat"
_UNREADABLE = "arguments_that_were_not_a_json_object"


class ChatCompletions:
    """The format. Thinking goes back with the calls it led to, except to OpenAI itself, which never sends any."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._differences = differences(endpoint)
        strict = urlsplit(endpoint.base_url).hostname == OPENAI.host
        self._encode: Callable[[Message], bytes] = _encoded if strict else _encoded_with_thinking
        self._cap = "max_completion_tokens" if strict else "max_tokens"
        self._head = b'{"model":' + write(endpoint.model) + (b',"stream":true' if endpoint.stream else b"")

    def target(self, key: str) -> Target:
        endpoint = self._endpoint
        headers = self._differences.key_headers(key)
        accept = "text/event-stream" if endpoint.stream else "application/json"
        return Target.at(endpoint.name, address(endpoint, "chat/completions"), {**headers, "accept": accept})

    def body(self, ask: Ask, without: frozenset[str]) -> Iterator[bytes]:
        yield self._head + b',"messages":['
        between = b""
        if ask.system:
            yield b'{"role":"system","content":' + write(ask.system) + b"}"
            between = b","
        for message in ask.messages:
            if told := self._encode(message):
                yield between
                yield told
                between = b","
        yield b"]"
        if ask.tools:
            yield b',"tools":[' + b",".join([_tool(tool) for tool in ask.tools]) + b"]"
        for name, value in {**self._options(ask, without), **self._endpoint.extra_body}.items():
            yield b",%b:%b" % (write(name), write(value))
        yield b"}"

    def refuses(self, ask: Ask, without: frozenset[str], words: str) -> str | None:
        for name in self._options(ask, without):
            if name in words and (name != "max_tokens" or "max_completion_tokens" in words):
                return name
        return None

    def not_sent(self, ask: Ask, without: frozenset[str]) -> Iterable[str]:
        if ask.service_tier is not None:
            yield f"{self._endpoint.name} is not told the service tier {ask.service_tier}."

    def incoming(self, ask: Ask) -> ChatReply:
        return ChatReply(self._endpoint.name)

    def _options(self, ask: Ask, without: frozenset[str]) -> Mapping[str, object]:
        """Parameters that some servers refuse, by name; those in `without` were refused already."""
        cap = "max_completion_tokens" if "max_tokens" in without else self._cap
        options: dict[str, object] = {}
        if self._endpoint.stream:
            options["stream_options"] = {"include_usage": True}
        most = ask.max_output_tokens or self._endpoint.max_output_tokens
        if most is not None:
            options[cap] = most
        if ask.temperature is not None:
            options["temperature"] = ask.temperature
        if effort := _EFFORT.get(ask.thinking):
            options["reasoning_effort"] = effort
        return {name: value for name, value in options.items() if name not in without} if without else options


def openai_model(endpoint: Endpoint, wire: Wire) -> Remote:
    """A model of any server that speaks OpenAI's chat completions; `base_url` ends where /chat/completions begins."""
    return Remote(endpoint, ChatCompletions(endpoint), wire)


def _encoded(message: Message) -> bytes:
    return encoded(message, _WIRE, partial(_fresh, with_thinking=False))


def _encoded_with_thinking(message: Message) -> bytes:
    return encoded(message, "openai+thinking", partial(_fresh, with_thinking=True))


def _fresh(message: Message, *, with_thinking: bool) -> bytes:
    match message:
        case UserMessage():
            return write({"role": "user", "content": message.text})
        case AssistantMessage():
            return write(_assistant(message, with_thinking))
        case ToolResults():
            told = (
                {"role": "tool", "tool_call_id": result.call_id, "content": result.content}
                for result in message.results
            )
            return b",".join(map(write, told))
        case _:
            assert_never(message)


def _assistant(message: AssistantMessage, with_thinking: bool) -> dict[str, object]:
    if not message.tool_calls:
        return {"role": "assistant", "content": _words(message)}
    told: dict[str, object] = {
        "role": "assistant",
        "content": _words(message) or None,
        "tool_calls": [_call(call) for call in message.tool_calls],
    }
    own = [block.text for block in message.blocks if isinstance(block, ThinkingBlock) and block.signature is None]
    if with_thinking and own:
        told["reasoning_content"] = "".join(own)
    return told


def _words(message: AssistantMessage) -> str:
    return message.text or refusal_in(message.blocks)


def _call(call: ToolCall) -> dict[str, object]:
    """Servers parse the arguments of earlier calls: what was no JSON object goes back as the text inside one."""
    given = call.arguments if not isinstance(call.arguments, str) else {_UNREADABLE: call.arguments}
    return {
        "id": call.call_id,  # ours, which differ where a provider's repeat: docs/decisions/06-own-call-ids.md
        "type": "function",
        "function": {"name": legal(call.name), "arguments": write(given).decode()},
    }


def _tool(tool: ToolSpec) -> bytes:
    known = tool.encoded.get(_WIRE)
    if known is None:
        function = {"name": legal(tool.name), "description": tool.description, "parameters": sendable(tool.parameters)}
        known = tool.encoded[_WIRE] = write({"type": "function", "function": function})
    return known
