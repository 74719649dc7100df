"""Requests to Google's Gemini in its own format (generateContent), messages encoded once; its differences in OpenAI's
format."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import assert_never
from urllib.parse import quote, urlsplit

from drone.agent.ports.model import Ask
from drone.models.body import UNREADABLE_ARGUMENTS, encoded
from drone.models.dialects.differences import (
    NOTHING,
    Differences,
    Parameters,
    cap_not_sent,
    cap_refused,
    efforts,
    for_all,
    within_cap,
)
from drone.models.dialects.gemini_reply import SIGNATURE, GeminiReply, callable_name
from drone.models.json_text import write
from drone.models.remote import ModelEndpoint, Remote
from drone.models.tool_specs import sendable
from drone.models.transport import ModelWire, Target
from mcc.contracts.blocks import AnyBlock, OpaqueBlock, RefusalBlock, TextBlock, ThinkingBlock, ToolCallBlock
from mcc.rules.patterns import Pattern
from mcc.transcript.messages import (
    AssistantMessage,
    Message,
    Picture,
    ToolResult,
    ToolResults,
    ToolSpec,
    UserMessage,
)

UNSIGNED = "skip_thought_signature_validator"
"""Google's placeholder signature for calls by other models: since generation 3 the first call of a reply must be
signed."""

_WIRE = "gemini"
_GENERATION = Pattern(r"gemini-(\d{1,3})(?:\.(\d{1,3}))?")
_TAKES_MINIMAL = Pattern(r"gemini-(?:3-flash|3\.1-flash-lite|3\.5-flash)")
_BUDGETS = {"minimal": 512, "low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 24_576, "max": 24_576}
_LEAST_OF_PRO, _MOST_OF_PRO = 128, 32_768
_LEVELS = {"low": "LOW", "medium": "MEDIUM", "high": "HIGH", "xhigh": "HIGH", "max": "HIGH"}
_NEWEST = (99, 0)
_NOTHING_SAID = "(empty)"
_AMOUNTS = ("thinkingConfig", "thinkingLevel", "thinkingBudget")
_SAMPLING = ("maxOutputTokens", "temperature")


class Gemini:
    """The wire format. Constant parts come before the conversation, changing ones after it."""

    def __init__(self, endpoint: ModelEndpoint) -> None:
        self._endpoint = endpoint
        self._generation = _generation(endpoint.model)
        self._signs = signs_its_calls(endpoint.model)

    def target(self, key: str) -> Target:
        endpoint = self._endpoint
        verb = "streamGenerateContent?alt=sse" if endpoint.stream else "generateContent"
        accept = "text/event-stream" if endpoint.stream else "application/json"
        model = endpoint.model if "/" in endpoint.model else f"models/{endpoint.model}"
        # A base_url without a path is the bare host and lacks the API version.
        base = endpoint.base_url if urlsplit(endpoint.base_url).path else f"{endpoint.base_url}/v1beta"
        headers = {**_key_header(endpoint.base_url, key), "accept": accept}
        return Target.at(endpoint.name, f"{base}/{quote(model, safe='/@.-_')}:{verb}", headers)

    def body(self, ask: Ask, without: frozenset[str]) -> Iterator[bytes]:
        yield b"{"
        if ask.system:
            yield b'"systemInstruction":{"parts":[{"text":' + write(ask.system) + b"}]},"
        if ask.tools:
            yield b'"tools":[{"functionDeclarations":[' + b",".join([_tool(tool) for tool in ask.tools]) + b"]}],"
            if ask.tool_choice == "none":
                yield b'"toolConfig":{"functionCallingConfig":{"mode":"NONE"}},'
        elif stubs := _named_before(ask.messages):
            yield b'"tools":[{"functionDeclarations":' + write(stubs) + b"}],"
            yield b'"toolConfig":{"functionCallingConfig":{"mode":"NONE"}},'
        yield b'"contents":['
        yield from self._contents(ask.messages)
        yield b"]"
        for name, value in {**self._trailing_fields(ask, without), **self._endpoint.extra_body}.items():
            yield b",%b:%b" % (write(name), write(value))
        yield b"}"

    def refused_parameter(self, ask: Ask, without: frozenset[str], words: str) -> str | None:
        """Google writes parameter names as `thinkingLevel`, `thinking_level` or "thinking level"."""
        plain = words.replace(self._endpoint.name, "").lower().replace("_", "").replace(" ", "")
        if ask.service_tier is not None and "servicetier" in plain and "serviceTier" not in without:
            return "serviceTier"
        options = self._options(ask, without)
        if (cap := cap_refused(self._output_cap(ask, without), words)) is not None:
            return cap
        for name in (*_SAMPLING, "thinkingLevel", "thinkingBudget", "includeThoughts"):
            if name.lower() in plain and (name in options or name in _thinking_of(options)):
                return name
        return "thinkingConfig" if "thinking" in plain and "thinkingConfig" in options else None

    def not_sent(self, ask: Ask, without: frozenset[str]) -> Iterator[str]:
        """Sentences for people: settings of this ask that the request omits or approximates."""
        name, wanted = self._endpoint.name, ask.thinking
        yield from cap_not_sent(name, ask.max_output_tokens, without, ("maxOutputTokens",))
        if ask.temperature is not None and "temperature" in without:
            yield f"{name} does not take temperature {ask.temperature}; it is not sent."
        if ask.service_tier is not None and "serviceTier" in without:
            yield f"{name} is not told the service tier {ask.service_tier}."
        if wanted != "inherit" and not without.isdisjoint(_AMOUNTS):
            yield f"{name} does not take thinking {wanted}; it is asked without."
            return
        if wanted == "inherit" or (wanted == "off" and self._generation < (2, 5)):
            return
        if self._generation < (2, 5):
            yield f"{name} does not think: it is not told thinking {wanted}."
        elif self._signs and (sent := self._level(wanted)) != wanted.upper():
            yield f"{name} is told thinking {sent.lower()}, its nearest to {wanted}."
        elif wanted == "off" and self._budget(wanted):
            yield f"{name} cannot be told not to think; it is told to think as little as it can."

    def parser(self, ask: Ask) -> GeminiReply:
        return GeminiReply(self._endpoint.name)

    def _trailing_fields(self, ask: Ask, without: frozenset[str]) -> dict[str, object]:
        """The request's fields after the conversation."""
        options = self._options(ask, without)
        beside: dict[str, object] = {"generationConfig": options} if options else {}
        if ask.service_tier is not None and "serviceTier" not in without:
            beside["serviceTier"] = ask.service_tier
        return beside

    def _options(self, ask: Ask, without: frozenset[str]) -> dict[str, object]:
        """Parameters that some models refuse, by name; without those in `without`, which were refused before."""
        most = self._output_cap(ask, without)
        options: dict[str, object] = {} if most is None else {"maxOutputTokens": most}
        if ask.temperature is not None:
            options["temperature"] = ask.temperature
        if thinking := {name: value for name, value in self._thinking(ask.thinking).items() if name not in without}:
            options["thinkingConfig"] = thinking
        return {name: value for name, value in options.items() if name not in without}

    def _output_cap(self, ask: Ask, without: frozenset[str]) -> int | None:
        return within_cap(ask.max_output_tokens or self._endpoint.max_output_tokens, without)

    def _thinking(self, wanted: str) -> dict[str, object]:
        """Generation 2.5 has a thinking budget, later ones a level; earlier ones do not think."""
        if self._generation < (2, 5):
            return {}
        if wanted == "inherit":
            return {"includeThoughts": True}
        if self._signs:
            return {"includeThoughts": wanted != "off", "thinkingLevel": self._level(wanted)}
        return {"includeThoughts": wanted != "off", "thinkingBudget": self._budget(wanted)}

    def _level(self, wanted: str) -> str:
        least = "MINIMAL" if _TAKES_MINIMAL.search(self._endpoint.model) else "LOW"
        return _LEVELS.get(wanted, least)

    def _budget(self, wanted: str) -> int:
        is_pro = "-pro" in self._endpoint.model
        if is_pro and wanted == "max":
            return _MOST_OF_PRO
        return _BUDGETS.get(wanted, _LEAST_OF_PRO if is_pro else 0)

    def _contents(self, messages: Sequence[Message]) -> Iterator[bytes]:
        """Consecutive messages of one role form one content, because results must directly follow the calls they
        answer."""
        turns = groupby(self._turns(messages), key=lambda turn: turn[0])
        for number, (is_reply, pieces) in enumerate(turns):
            role = b"model" if is_reply else b"user"
            parts = b",".join([part for _, part in pieces])
            yield b'%b{"role":"%b","parts":[%b]}' % (b"," if number else b"", role, parts)

    def _turns(self, messages: Sequence[Message]) -> Iterator[tuple[bool, bytes]]:
        """(whether it is a reply, its parts joined by commas) for every message with content."""
        ids: Mapping[str, str] = {}
        for message in messages:
            is_reply = isinstance(message, AssistantMessage)
            if isinstance(message, AssistantMessage):
                ids = self._ids(message)
            if parts := self._parts(message, ids):
                yield is_reply, parts

    def _ids(self, reply: AssistantMessage) -> Mapping[str, str]:
        """The model's call ids, by ours. Google wants back each id as given; calls of other models have none, and if
        ids repeat, order and name identify the calls."""
        if reply.model != self._endpoint.name:
            return {}
        calls = reply.tool_calls
        counts = Counter(call.provider_id for call in calls)
        return (
            {call.call_id: call.provider_id for call in calls if call.provider_id}
            if max(counts.values(), default=0) == 1
            else {}
        )

    def _parts(self, message: Message, ids: Mapping[str, str]) -> bytes:
        # Replies and results are encoded differently for the model that gave the reply and for others.
        form = _WIRE if isinstance(message, UserMessage) else f"{_WIRE} {self._endpoint.name}"
        return encoded(message, form, lambda one: b",".join(map(write, self._json_parts(one, ids))))

    def _json_parts(self, message: Message, ids: Mapping[str, str]) -> Iterable[Mapping[str, object]]:
        match message:
            case UserMessage():
                said = message if message.text.strip() else UserMessage(_NOTHING_SAID, message.pictures)
                return [{"text": part} if isinstance(part, str) else _picture(part) for part in said.parts]
            case AssistantMessage():
                is_own = message.model == self._endpoint.name
                parts = [part for block in message.blocks if (part := _sent_back(block, ids, own=is_own)) is not None]
                return _with_placeholder(parts) if self._signs else parts
            case ToolResults():
                results = [_result(result, ids, nested=self._signs) for result in message.as_shown]
                beside = (
                    [] if self._signs else [picture for result in message.as_shown for picture in _pictures(result)]
                )
                return [*results, *beside]
            case _:
                assert_never(message)


def gemini_model(endpoint: ModelEndpoint, wire: ModelWire) -> Remote:
    """A model of Google's Gemini API, or of Vertex AI if `base_url` ends in `/publishers/google`."""
    return Remote(endpoint, Gemini(endpoint), wire)


def signs_its_calls(model: str) -> bool:
    """Whether the first call of each reply is signed and must be sent back with a signature."""
    return _generation(model) >= (3, 0)


def _generation(model: str) -> tuple[int, int]:
    """(3, 1) for gemini-3.1-pro; newest for a Gemini name without a number, (0, 0) for other families."""
    if (found := _GENERATION.search(model)) is None:
        return _NEWEST if "gemini" in model else (0, 0)
    return int(found[1]), int(found[2] or 0)


def _key_header(base_url: str, key: str) -> Mapping[str, str]:
    """Vertex AI accepts short-lived tokens, and keys of its own that look like those of the Gemini API."""
    if not key:
        return {}
    host = urlsplit(base_url).hostname or ""
    is_token = "aiplatform" in host and not key.startswith(("AIza", "AQ."))
    return {"authorization": f"Bearer {key}"} if is_token else {"x-goog-api-key": key}


def _thinking_of(options: Mapping[str, object]) -> Mapping[str, object]:
    thinking = options.get("thinkingConfig")
    return thinking if isinstance(thinking, dict) else {}


def _sent_back(block: AnyBlock, ids: Mapping[str, str], *, own: bool) -> Mapping[str, object] | None:
    """A part of a reply. Signed parts are sent back unchanged, in their place, to the model that gave them (`own`);
    thinking without a signature is only a summary for people and is left out."""
    extra = _signature(getattr(block, "extra", None)) if own else {}
    match block:
        case TextBlock(text=text) | RefusalBlock(text=text):
            return {"text": text, **extra} if text.strip() or extra else None
        case ThinkingBlock(text=text) if extra:
            return {"text": text, "thought": True, **extra}
        case OpaqueBlock(data=data) if own:
            return data
        case ToolCallBlock():
            return {"functionCall": _call(block, ids), **extra}
        case _:
            return None


def _signature(extra: Mapping[str, object] | None) -> Mapping[str, object]:
    """The block's signature only; it may have other fields from another wire format used with this model before."""
    return {SIGNATURE: extra[SIGNATURE]} if extra and SIGNATURE in extra else {}


def _call(call: ToolCallBlock, ids: Mapping[str, str]) -> Mapping[str, object]:
    given = call.arguments if not isinstance(call.arguments, str) else {UNREADABLE_ARGUMENTS: call.arguments}
    return {**_id_field(call.call_id, ids), "name": callable_name(call.name), "args": given}


def _result(result: ToolResult, ids: Mapping[str, str], *, nested: bool) -> Mapping[str, object]:
    """`nested`: pictures go inside the response, which Google accepts since generation 3; before, they follow it."""
    response = {"error" if result.is_error else "output": result.content}
    response_body = {**_id_field(result.call_id, ids), "name": callable_name(result.name), "response": response}
    parts = {"parts": _pictures(result)} if nested and result.pictures else {}
    return {"functionResponse": {**response_body, **parts}}


def _pictures(result: ToolResult) -> list[Mapping[str, object]]:
    return [*map(_picture, result.pictures)]


def _picture(picture: Picture) -> Mapping[str, object]:
    return {"inlineData": {"mimeType": picture.image.media_type, "data": picture.data}}


def _id_field(call_id: str, ids: Mapping[str, str]) -> Mapping[str, str]:
    return {"id": ids[call_id]} if call_id in ids else {}


def _with_placeholder(parts: Sequence[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
    """The parts, with a placeholder if the first call lacks its signature."""
    first = True
    for part in parts:
        is_call = "functionCall" in part
        yield {**part, SIGNATURE: UNSIGNED} if is_call and first and SIGNATURE not in part else part
        first = first and not is_call


def _tool(tool: ToolSpec) -> bytes:
    known = tool.encoded.get(_WIRE)
    if known is None:
        definition = {"name": callable_name(tool.name), "description": tool.description}
        known = tool.encoded[_WIRE] = write({**definition, "parametersJsonSchema": sendable(tool.parameters)})
    return known


def _named_before(messages: Iterable[Message]) -> list[dict[str, object]]:
    """Stubs for the tools of earlier calls: they stay declared even when no tool is offered any more."""
    names = {
        call.name: None for message in messages if isinstance(message, AssistantMessage) for call in message.tool_calls
    }
    return [{"name": callable_name(name), "description": name} for name in names]


_IN_CHAT = efforts("none", "minimal", "low", "medium", "high", "high", "high")
_AT_VERTEX = efforts("", "low", "low", "medium", "high", "high", "high")
_NOT_ITS_OWN: Parameters = {"extra_content": {"google": {"thought_signature": UNSIGNED}}}


GOOGLE = Differences(
    name="google",
    levels=for_all(_IN_CHAT),
    thinking_back="",
    unsigned_call=lambda model: _NOT_ITS_OWN if signs_its_calls(model) else NOTHING,
    leaks=False,
)
VERTEX = replace(GOOGLE, name="vertex", levels=for_all(_AT_VERTEX))
