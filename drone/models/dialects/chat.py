"""OpenAI-compatible chat completions: what is asked, in the way of the server that is asked."""

from collections.abc import Iterable, Iterator, Mapping

from drone.agent.messages import AssistantMessage, Message
from drone.agent.model import Ask
from drone.models.body import listed
from drone.models.dialects.chat_messages import DETAILS, ChatMessages, tool
from drone.models.dialects.chat_reply import ChatReply
from drone.models.dialects.deepseek import DEEPSEEK
from drone.models.dialects.differences import NOTHING, Differences, address
from drone.models.dialects.gemini import GOOGLE, VERTEX
from drone.models.dialects.groq import GROQ
from drone.models.dialects.mistral import MISTRAL, is_of_mistral, mistral_at
from drone.models.dialects.open_weights import BEDROCK, LLAMACPP, LMSTUDIO, OLLAMA, TOGETHER, VLLM
from drone.models.dialects.openai import AZURE, OPENAI, effort, effort_refused, not_taken, replaced
from drone.models.dialects.openrouter import OPENROUTER
from drone.models.dialects.xai import XAI
from drone.models.json_text import write
from drone.models.remote import Endpoint, Remote
from drone.models.transport import Target, Wire
from mcc.configuration.providers import OPENAI as AT_OPENAI
from mcc.configuration.providers import provider_at

CHAT_SERVERS: Mapping[str, Differences] = {
    AT_OPENAI.name: OPENAI,
    "azure": AZURE,
    "bedrock": BEDROCK,
    "deepseek": DEEPSEEK,
    "gemini": GOOGLE,
    "groq": GROQ,
    "llamacpp": LLAMACPP,
    "lmstudio": LMSTUDIO,
    "mistral": MISTRAL,
    "ollama": OLLAMA,
    "openrouter": OPENROUTER,
    "together": TOGETHER,
    "vertex": VERTEX,
    "vllm": VLLM,
    "xai": XAI,
}

COMMON = Differences()


def differences(endpoint: Endpoint) -> Differences:
    """What differs at the server behind this endpoint. The row of OpenAI stands for every server at another address
    that speaks its form."""
    there = provider_at(endpoint.provider, endpoint.base_url)
    elsewhere = there == AT_OPENAI.name and not AT_OPENAI.is_at(endpoint.base_url)
    server = COMMON if elsewhere else CHAT_SERVERS.get(there, COMMON)
    return mistral_at(server) if server.leaks and is_of_mistral(endpoint.model) else server


_CAPS = ("max_tokens", "max_completion_tokens")
_NONE = "none"
_EFFORT = "reasoning_effort"
_BESIDE_TOOLS = "reasoning beside tools"
_OWN_DETAILS = f"{DETAILS} as agent "


class ChatCompletions:
    """The format. What differs between servers stands in `drone/models/dialects/chat.py`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._differences = differences(endpoint)
        self._messages = ChatMessages(endpoint.name, endpoint.model, self._differences)
        self._levels = self._differences.levels(endpoint.model)
        self._not_taken = not_taken(endpoint.known.thinking)
        self._head = b'{"model":' + write(endpoint.model) + (b',"stream":true' if endpoint.stream else b"")

    def target(self, key: str) -> Target:
        endpoint = self._endpoint
        headers = self._differences.key_headers(key)
        accept = "text/event-stream" if endpoint.stream else "application/json"
        return Target.at(endpoint.name, address(endpoint, "chat/completions"), {**headers, "accept": accept})

    def body(self, ask: Ask, without: frozenset[str]) -> Iterator[bytes]:
        yield self._head + b',"messages":['
        back = without | {DETAILS} if _OWN_DETAILS + ask.cache_key in without else without
        yield from listed(self._messages(ask.system, ask.messages, back))
        yield b"]"
        if ask.tools:
            yield b',"tools":[' + b",".join([tool(spec) for spec in ask.tools]) + b"]"
        told_beside = {**self._options(ask, without), **self._differences.always, **self._endpoint.extra_body}
        for name, value in told_beside.items():
            yield b",%b:%b" % (write(name), write(value))
        yield b"}"

    def refuses(self, ask: Ask, without: frozenset[str], words: str) -> str | None:
        field = self._differences.thinking_back
        if field and field in words and field not in without and any(map(_thought, ask.messages)):
            return field
        if "thinking" in words and "cannot be modified" in words:
            return None if (own := _OWN_DETAILS + ask.cache_key) in without else own
        options = self._options(ask, without)
        if _EFFORT in words and "tools" in words and ask.tools and _BESIDE_TOOLS not in without:
            # A gateway to such a model has its rule: what counts is who refuses, not whose address it is.
            return _BESIDE_TOOLS
        if self._differences.no_effort and (level := effort_refused(options.get(_EFFORT), words)) is not None:
            return level
        for name in options:
            if name in words and name not in without and (name != _CAPS[0] or _CAPS[1] in words):
                return name
        return None

    def not_sent(self, ask: Ask, without: frozenset[str]) -> Iterable[str]:
        if ask.service_tier is not None and "service_tier" not in self._differences.takes - without:
            yield f"{self._endpoint.name} is not told the service tier {ask.service_tier}."
        if ask.thinking != "inherit" and ask.thinking not in self._levels:
            yield f"{self._endpoint.name} cannot be told to think {ask.thinking}: it knows {', '.join(self._levels)}."
        if _OWN_DETAILS + ask.cache_key in without:
            yield f"{self._endpoint.name} is not given back its earlier thinking: it does not know it again."
        if _BESIDE_TOOLS in without and ask.tools and ask.thinking != "off":
            yield (
                f"{self._endpoint.name} does not think beside tools in this form of requests; its server offers that "
                'where it is asked with api = "responses".'
            )
        elif self._differences.no_effort and (instead := replaced(ask.thinking, without | self._not_taken)):
            yield f"{self._endpoint.name} does not take thinking {ask.thinking}; it is asked with {instead}."

    def incoming(self, ask: Ask) -> ChatReply:
        return ChatReply(self._endpoint.name, ask.tools, leaks=self._differences.leaks)

    def _options(self, ask: Ask, without: frozenset[str]) -> Mapping[str, object]:
        """Parameters that some servers refuse, by name; those in `without` were refused already."""
        options: dict[str, object] = {}
        if self._endpoint.stream and self._differences.stream_usage:
            options["stream_options"] = {"include_usage": True}
        most = ask.max_output_tokens or self._endpoint.max_output_tokens
        if most is not None:
            own = self._differences.output_cap
            options[next(name for name in _CAPS if name != own) if own in without else own] = most
        if ask.temperature is not None:
            options["temperature"] = ask.temperature
        told = {"service_tier": ask.service_tier, "prompt_cache_key": ask.cache_key}
        options |= {name: value for name, value in told.items() if value and name in self._differences.takes}
        options.update(self._thinking(ask, without))
        return {name: value for name, value in options.items() if name not in without}

    def _thinking(self, ask: Ask, without: frozenset[str]) -> Mapping[str, object]:
        """Where OpenAI answers, a level that was refused becomes the nearest; beside tools there may be none at all."""
        no_effort = self._differences.no_effort
        if _BESIDE_TOOLS in without and ask.tools:
            return {_EFFORT: no_effort or _NONE}
        if not no_effort:
            return self._levels.get(ask.thinking, NOTHING)
        level = effort(ask.thinking, without | self._not_taken)
        return NOTHING if level is None else {_EFFORT: level}


def openai_model(endpoint: Endpoint, wire: Wire) -> Remote:
    """A model of any server that speaks OpenAI's chat completions; `base_url` ends where /chat/completions begins."""
    return Remote(endpoint, ChatCompletions(endpoint), wire)


def _thought(message: Message) -> bool:
    """Whether thinking goes back with the calls of this reply."""
    return isinstance(message, AssistantMessage) and bool(message.tool_calls and message.thinking)
