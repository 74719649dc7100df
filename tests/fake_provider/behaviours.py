"""The table of fake providers: a form, how it is configured, and what it puts in the way."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from re import Pattern
from typing import Protocol

from tests.fake_provider.anthropic_form import Forgetful, MessagesForm
from tests.fake_provider.chat_families import (
    Azure,
    DeepSeek,
    GoogleChat,
    Groq,
    Leaking,
    Local,
    Mistral,
    Ollama,
    OpenAI56,
    OpenRouter,
)
from tests.fake_provider.chat_form import ChatForm
from tests.fake_provider.gemini_form import GeminiForm
from tests.fake_provider.play import Heard, Json, Memory, Refused, Say
from tests.fake_provider.responses_form import ResponsesForm

SMALL_CONTEXT = 12_000
"""Tokens of those that overflow."""


class Form(Protocol):
    """How a server speaks: what it refuses, what it understood, and its replies."""

    path: Pattern[str]
    prefix: str

    def authorize(self, headers: Mapping[str, str], query: Mapping[str, str]) -> None: ...

    def check(self, body: Json, memory: Memory) -> None: ...

    def hear(self, body: Json) -> Heard: ...

    def stream(self, say: Say, heard: Heard, memory: Memory, cached: int) -> Iterator[bytes]: ...

    def whole(self, say: Say, heard: Heard, memory: Memory, cached: int) -> Json: ...

    def error(self, refused: Refused) -> Json: ...

    def error_in_stream(self, refused: Refused) -> bytes: ...


Obstacle = Callable[[int, Heard, float], None]
"""Raises `Refused` for the request of this number (from 0) at this many seconds after the first one."""


@dataclass(frozen=True)
class Behaviour:
    """`provider`, `model` and `api` are what `mcc.toml` says; `seconds` pass before the first byte of a reply,
    `event_seconds` before each event of its stream.

    `lines` of a file are read at a time. `broken` is an error in the middle of the first stream; `twist` changes what
    is said, by the request's number. `window`: tokens of the context, which the server tells as vLLM does.
    """

    name: str
    about: str
    form: Form
    provider: str
    model: str = "fake-model"
    api: str = ""
    query: str = ""
    seconds: float = 0.0
    event_seconds: float = 0.0
    lines: int = 10
    window: int = 0
    obstacle: Obstacle | None = None
    broken: Refused | None = None
    twist: Callable[[int, Say], Say] | None = None


def overloaded_for(seconds: float) -> Obstacle:
    def refuse(number: int, heard: Heard, since: float) -> None:
        if since < seconds:
            raise Refused(529, "Overloaded", "overloaded_error")

    return refuse


def busy(times: int, words: str, kind: str = "requests") -> Obstacle:
    def refuse(number: int, heard: Heard, since: float) -> None:
        if number < times:
            raise Refused(429, words, kind, "rate_limit_exceeded")

    return refuse


def overflow(words: str, kind: str = "invalid_request_error", code: str = "", status: int = 400) -> Obstacle:
    """Refuses what is larger than the context, in words where {tokens} and {most} are the figures."""

    def refuse(number: int, heard: Heard, since: float) -> None:
        if heard.tokens > SMALL_CONTEXT:
            raise Refused(status, words.format(tokens=heard.tokens, most=SMALL_CONTEXT), kind, code)

    return refuse


def paused(number: int, say: Say) -> Say:
    return Say("I pause here.", (), say.thinking, "pause") if number == 1 else say


def refusing(number: int, say: Say) -> Say:
    return Say("I cannot help with that.", (), "", "refusal") if number else say


def filtered(number: int, say: Say) -> Say:
    return Say("This is only the first half", (), "", "content_filter") if number else say


def cut(number: int, say: Say) -> Say:
    return Say("This is only the first", (), "", "length") if number == 1 else say


def now() -> float:
    return time.monotonic()


OVERFLOWS: Mapping[str, tuple[Form, str, Obstacle]] = {
    "openai": (
        ChatForm(),
        "openai",
        overflow(
            "This model's maximum context length is {most} tokens. However, your messages resulted in {tokens} tokens. "
            "Please reduce the length of the messages.",
            code="context_length_exceeded",
        ),
    ),
    "anthropic": (MessagesForm(), "anthropic", overflow("prompt is too long: {tokens} tokens > {most} maximum")),
    "gemini": (
        GeminiForm(),
        "gemini",
        overflow(
            "The input token count ({tokens}) exceeds the maximum number of tokens allowed ({most}).",
            "INVALID_ARGUMENT",
        ),
    ),
    "responses": (
        ResponsesForm(),
        "openai",
        overflow(
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            code="context_length_exceeded",
        ),
    ),
    "vllm": (
        Local(),
        "vllm",
        overflow(
            "'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is {most} "
            "tokens and your request has {tokens} input tokens (4096 > {most} - {tokens}).",
            "BadRequestError",
        ),
    ),
    "llamacpp": (
        Local(),
        "llamacpp",
        overflow(
            "the request exceeds the available context size ({most} tokens), try increasing it",
            "exceed_context_size_error",
        ),
    ),
    "mistral": (
        Mistral(),
        "mistral",
        overflow(
            "Prompt contains {tokens} tokens and 0 draft tokens, too large for model with {most} maximum context "
            "length",
            code="3051",
        ),
    ),
    "groq": (
        Groq(),
        "groq",
        overflow("Please reduce the length of the messages or completion.", code="context_length_exceeded"),
    ),
}

_FAMILIES = (
    Behaviour("openai", "OpenAI's chat completions, as they were until gpt-5.2", ChatForm(), "openai", api="chat"),
    Behaviour("openai-5.6-chat", "refuses tools beside reasoning", OpenAI56(), "openai", "gpt-5.6", "chat"),
    Behaviour("responses", "OpenAI's Responses, sealed reasoning", ResponsesForm(), "openai", "gpt-5.6", "responses"),
    Behaviour("anthropic", "thinks between its calls", MessagesForm(), "anthropic", "claude-sonnet-5"),
    Behaviour(
        "anthropic-529",
        "overloaded for the first ten seconds",
        MessagesForm(),
        "anthropic",
        "claude-sonnet-5",
        obstacle=overloaded_for(10.0),
    ),
    Behaviour("anthropic-cap", "at most 8,192 tokens of output", MessagesForm(8_192), "anthropic", "claude-3-5-haiku"),
    Behaviour("anthropic-pause", "pauses its turn once", MessagesForm(), "anthropic", "claude-sonnet-5", twist=paused),
    Behaviour("anthropic-forgets", "knows its thinking no more", Forgetful(), "anthropic", "claude-sonnet-5"),
    Behaviour("anthropic-refusal", "refuses", MessagesForm(), "anthropic", "claude-sonnet-5", twist=refusing),
    Behaviour("gemini", "Gemini 3 in its own form", GeminiForm(), "gemini", "gemini-3.8-flash"),
    Behaviour("gemini-chat", "Gemini 3 in OpenAI's form", GoogleChat(), "gemini", "gemini-3.8-flash", "chat"),
    Behaviour("mistral", "short ids, strict order of roles", Mistral(), "mistral", "mistral-large-latest"),
    Behaviour("groq", "refuses reasoning_content", Groq(), "groq", "openai/gpt-oss-120b"),
    Behaviour("deepseek", "wants thinking back with calls", DeepSeek(), "deepseek", "deepseek-chat"),
    Behaviour(
        "openrouter", "reasoning_details, costs, comments", OpenRouter(), "openrouter", "anthropic/claude-sonnet-5"
    ),
    Behaviour(
        "azure", "address per deployment and api-version", Azure(), "azure", "gpt-5.2", query="?api-version=2024-10-21"
    ),
    Behaviour("ollama", "objects as arguments, no ids, no usage", Ollama(), "ollama", "qwen3"),
    Behaviour("vllm-leaks", "calls and thinking stand in the text", Leaking(), "vllm", "qwen3"),
    Behaviour("llamacpp-leaks", "the same, after a slow prefill", Leaking(), "llamacpp", "qwen3", seconds=20.0),
    Behaviour("drips", "speaks slowly, word by word", Local(), "vllm", "qwen3", seconds=2.0, event_seconds=0.3),
    Behaviour("slow", "100 seconds of silence before the first byte", Local(), "vllm", "qwen3", seconds=100.0),
    Behaviour(
        "busy-words",
        "429 that says in words alone when to come again",
        ChatForm(),
        "openai",
        api="chat",
        obstacle=busy(2, "Rate limit reached for fake-model. Please try again in 2s."),
    ),
    Behaviour(
        "broken-stream",
        "an error in the middle of the first stream",
        ChatForm(),
        "openai",
        api="chat",
        broken=Refused(500, "The server had an error while processing your request.", "server_error"),
    ),
    Behaviour("cut", "cut at its cap in the second reply", ChatForm(), "openai", api="chat", twist=cut),
    Behaviour("refusal", "refuses in the second reply", ChatForm(), "openai", api="chat", twist=refusing),
    Behaviour("filter", "filtered half-way", ChatForm(), "openai", api="chat", twist=filtered),
)

_TELLING = Behaviour(
    "vllm-window",
    f"a context of {SMALL_CONTEXT:,} tokens, which it tells when it is asked",
    Local(),
    "vllm",
    lines=500,
    window=SMALL_CONTEXT,
    obstacle=OVERFLOWS["vllm"][2],
)

BEHAVIOURS: Mapping[str, Behaviour] = {
    **{one.name: one for one in (*_FAMILIES, _TELLING)},
    **{
        f"overflow-{name}": Behaviour(
            f"overflow-{name}",
            f"a context of {SMALL_CONTEXT:,} tokens, refused in the words of {name}",
            form,
            provider,
            api="responses" if name == "responses" else "chat" if name == "openai" else "",
            lines=500,
            obstacle=refuse,
        )
        for name, (form, provider, refuse) in OVERFLOWS.items()
    },
}
