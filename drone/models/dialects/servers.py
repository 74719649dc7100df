"""Differences of each server that speaks chat completions."""

import hashlib
import string
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache

from drone.models.dialects.differences import (
    LEVELS,
    NOTHING,
    OPEN_WEIGHTS,
    THINKING_LEVELS,
    Differences,
    Levels,
    Parameters,
    efforts,
    for_all,
)

_OPENAI_LEVELS = for_all(efforts("none", "minimal", "low", "medium", "high", "xhigh", "max"))

OPENAI = Differences(
    name="openai",
    levels=_OPENAI_LEVELS,
    output_cap="max_completion_tokens",
    no_effort="none",
    takes=frozenset(("service_tier", "prompt_cache_key")),
    thinking_back="",
    leaks=False,
)

AZURE = Differences(
    name="azure",
    key_header="api-key",
    levels=_OPENAI_LEVELS,
    output_cap="max_completion_tokens",
    no_effort="none",
    takes=frozenset(("service_tier", "prompt_cache_key")),
    thinking_back="",
    leaks=False,
)


_THINKS: Parameters = {"thinking": {"type": "enabled"}}
_DEEPSEEK_LOW: Parameters = {**_THINKS, "reasoning_effort": "low"}
_DEEPSEEK_HIGH: Parameters = {**_THINKS, "reasoning_effort": "high"}
_DEEPSEEK_MOST: Parameters = {**_THINKS, "reasoning_effort": "max"}
_DEEPSEEK_LEVELS: Levels = {
    "off": {"thinking": {"type": "disabled"}},
    "minimal": _DEEPSEEK_LOW,
    "low": _DEEPSEEK_LOW,
    "medium": _DEEPSEEK_HIGH,
    "high": _DEEPSEEK_HIGH,
    "xhigh": _DEEPSEEK_HIGH,
    "max": _DEEPSEEK_MOST,
}
DEEPSEEK = Differences(name="deepseek", always_thought=True, levels=for_all(_DEEPSEEK_LEVELS))
"""Thinking is switched on or off, and must be sent back with the calls it led to."""


_PARSED: Parameters = {"reasoning_format": "parsed"}
_QWEN_AT_GROQ: Mapping[str, Parameters] = {
    "off": {"reasoning_effort": "none"},
    **{level: {"reasoning_effort": "default", **_PARSED} for level in THINKING_LEVELS},
}
_GPT_OSS_AT_GROQ: Levels = {level: {**asked, "include_reasoning": True} for level, asked in OPEN_WEIGHTS.items()}
_GROQ_OTHERS = efforts("none", "low", "low", "medium", "high", "high", "high")


def _groq_levels(model: str) -> Levels:
    """Each maker's models have their own words for effort."""
    if "gpt-oss" in model:
        return _GPT_OSS_AT_GROQ
    return _QWEN_AT_GROQ if "qwen" in model else _GROQ_OTHERS


GROQ = Differences(name="groq", levels=_groq_levels, output_cap="max_completion_tokens", thinking_back="")
"""Thinking arrives in a separate field if requested there, and is refused when sent back."""


_LETTERS = string.ascii_letters + string.digits
_LETTERS_OF_AN_ID = 9
_OF_MISTRAL = ("mistral", "ministral", "mixtral", "magistral", "devstral", "codestral", "pixtral")
_MISTRAL_LEVELS: Levels = {
    "off": {"reasoning_effort": "none"},
    **{level: {"reasoning_effort": "high"} for level in THINKING_LEVELS},
}
_OF_MISTRAL_LARGE = efforts("none", "low", "low", "medium", "high", "high", "high")


@lru_cache(maxsize=4096)
def short_id(call_id: str) -> str:
    """Nine letters and digits, derived from our id; the same in every process."""
    number = int.from_bytes(hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).digest()[:12], "big")
    letters = []
    for _ in range(_LETTERS_OF_AN_ID):
        number, rest = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[rest])
    return "".join(letters)


def is_of_mistral(model: str) -> bool:
    """Whether the model uses Mistral's template and tokenizer, which validate ids and roles on every server."""
    return any(family in model.lower() for family in _OF_MISTRAL)


def mistral_at(server: Differences) -> Differences:
    """Differences for a Mistral model on another server: that server's parameters, Mistral's rules for messages."""
    return replace(server, name=f"{server.name}+mistral", call_id=short_id, thinking_back="", user_after_tool=False)


MISTRAL = Differences(
    name="mistral",
    levels=lambda model: _OF_MISTRAL_LARGE if "mistral-large" in model else _MISTRAL_LEVELS,
    stream_usage=False,
    call_id=short_id,
    thinking_back="",
    user_after_tool=False,
    leaks=False,
)
"""Nine-character ids, no user message after a tool result, no thinking sent back."""


_OPENROUTER_WORDS = ("none", "minimal", "low", "medium", "high", "xhigh", "xhigh")
_OPENROUTER_LEVELS: Levels = {
    level: {"reasoning": {"effort": word}} for level, word in zip(LEVELS, _OPENROUTER_WORDS, strict=True)
}


OPENROUTER = Differences(
    name="openrouter",
    levels=for_all(_OPENROUTER_LEVELS),
    always={"usage": {"include": True}},
    thinking_back="",
    # Claude caches only with marks; other models need none.
    caches=lambda model: "claude" in model,
)
"""One key for many providers. Reasoning details are sent back unchanged, joined into whole entries."""


_XAI_LEVELS = efforts("", "low", "low", "medium", "high", "xhigh", "xhigh")
_OF_GROK_4_5 = efforts("", "low", "low", "medium", "high", "high", "high")
_GROK_SWITCHED_OFF = efforts("none", "low", "low", "medium", "high", "high", "high")
_GROK_LOW_AND_HIGH = efforts("", "low", "low", "high", "high", "high", "high")
_GROK_NEVER_THINKS: Levels = {"off": NOTHING}
_OF_GROK: Mapping[str, Levels] = {
    "non-reasoning": _GROK_NEVER_THINKS,
    "grok-3": _GROK_LOW_AND_HIGH,
    "grok-4.3": _GROK_SWITCHED_OFF,
    "grok-build": _GROK_SWITCHED_OFF,
    "grok-4.5": _OF_GROK_4_5,
}
"""By part of the model's name; models since 4.6 always think."""


def _xai_levels(model: str) -> Levels:
    known = (levels for part, levels in _OF_GROK.items() if part in model)
    return next(known, _XAI_LEVELS)


XAI = Differences(name="xai", levels=_xai_levels, output_cap="max_completion_tokens", thinking_back="", leaks=False)


_SWITCHED: Levels = {level: {"reasoning": {"enabled": level != "off"}} for level in LEVELS}
_TEMPLATE_OFF = {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}
_TEMPLATE_ON = {"chat_template_kwargs": {"enable_thinking": True, "thinking": True}}
_TEMPLATE: Levels = {"off": _TEMPLATE_OFF, **dict.fromkeys(THINKING_LEVELS, _TEMPLATE_ON)}
_EFFORTS_OF_TEMPLATE: Levels = {level: {"chat_template_kwargs": asked} for level, asked in OPEN_WEIGHTS.items()}
_LOCAL = efforts("none", "low", "low", "medium", "high", "high", "high")
_GLM = efforts("", "low", "low", "medium", "high", "max", "max")
_OLLAMA = efforts("none", "low", "low", "medium", "high", "high", "max")


def _switched(model: str) -> Levels:
    """gpt-oss and GLM-5.3 have efforts and always think; other models switch thinking on or off."""
    if "glm-5.3" in model.lower():
        return _GLM
    return OPEN_WEIGHTS if "gpt-oss" in model else _SWITCHED


def _but_gpt_oss(levels: Levels, its_own: Levels = OPEN_WEIGHTS) -> Callable[[str], Levels]:
    """`levels` for all models except gpt-oss, which has efforts and always thinks."""
    return lambda model: its_own if "gpt-oss" in model else levels


TOGETHER = Differences(name="together", levels=_switched)
BEDROCK = Differences(name="bedrock", levels=_but_gpt_oss(_LOCAL), output_cap="max_completion_tokens", thinking_back="")
OLLAMA = Differences(name="ollama", levels=_but_gpt_oss(_OLLAMA), thinking_back="reasoning")
VLLM = Differences(name="vllm", levels=_but_gpt_oss(_TEMPLATE), thinking_back="reasoning")
LLAMACPP = Differences(name="llamacpp", levels=_but_gpt_oss(_TEMPLATE, _EFFORTS_OF_TEMPLATE))
LMSTUDIO = Differences(name="lmstudio", levels=_but_gpt_oss(_LOCAL))
