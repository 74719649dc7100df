"""The page on providers: what each speaks, where, with which key, what differs there, and after which documentation."""

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from drone.models.dialects.chat import CHAT_SERVERS
from drone.models.dialects.differences import Differences
from drone.settings import Form
from mcc.configuration.providers import PROVIDERS, Provider
from scripts.reference.markdown import code, table

_FORMS: Mapping[Form, str] = {
    "chat": "OpenAI's chat completions",
    "responses": "OpenAI's Responses",
    "anthropic": "Anthropic's Messages",
    "gemini": "Google's Gemini",
}


class Source(NamedTuple):
    """The documentation that a row follows, the month of the pages that were read for it (empty: none, it was
    written from what was known of them), and what the product does there beyond the form."""

    documentation: str
    read: str
    does: str


_SOURCES: Mapping[str, Source] = {
    "anthropic": Source(
        "platform.claude.com/docs, Messages",
        "2026-11",
        "Thinking goes back in its place, with its signature. System, tools and the last two "
        "turns are marked for the cache.",
    ),
    "openai": Source(
        "developers.openai.com, API reference",
        "2026-11",
        "In chat completions, tools that are refused beside reasoning are asked for without it, and that is told.",
    ),
    "gemini": Source(
        "ai.google.dev/gemini-api/docs: generateContent, thinking, thought signatures, OpenAI compatibility; types of "
        "google-genai 3.4.0",
        "2026-11",
        "Signatures go back with their part, in both forms; calls of other models are marked as such. Its own form is "
        'told `thinkingBudget` in generation 2.5, `thinkingLevel` since 3; `api = "chat"` asks in OpenAI\'s. Vertex AI '
        "takes its own form where `base_url` ends in `/publishers/google`.",
    ),
    "openrouter": Source(
        "openrouter.ai/docs: usage accounting; reasoning tokens, prompt caching",
        "2026-11",
        "`reasoning_details` go back unchanged to the model that gave them, `usage.cost` is "
        "the cost, Claude gets cache marks.",
    ),
    "mistral": Source(
        "docs.mistral.ai, reasoning; ids and roles from what was known",
        "2026-11",
        "Thinking comes as parts of the content. Large thinks by degrees, the others think or do "
        "not. Mistral's models keep their ids and roles at other servers too.",
    ),
    "deepseek": Source(
        "api-docs.deepseek.com, thinking mode", "2026-11", "Thinking goes back with its calls in all later requests."
    ),
    "xai": Source(
        "docs.x.ai, reasoning; efforts since Grok 4.5 from public threads that quote it; usage from what was known",
        "2026-11",
        "`cost_in_usd_ticks` is the cost. Grok 3 knows low and high, 4.3 can be switched off, those since 4.5 always "
        "think; models called non-reasoning know off.",
    ),
    "groq": Source(
        "console.groq.com/docs, reasoning",
        "2026-11",
        "Efforts are worded for gpt-oss or Qwen, by the model's name; usage is also read from `x_groq`.",
    ),
    "together": Source(
        "docs.together.ai: reasoning, GLM-5.3; the field that goes back from what was known",
        "2026-11",
        "Efforts for gpt-oss and GLM-5.3, on and off for the others.",
    ),
    "azure": Source(
        "learn.microsoft.com, Azure OpenAI: reasoning models; the key's header and deployments from what was known",
        "2026-11",
        "`base_url` is `https://NAME.openai.azure.com/openai/v1`, or "
        "`…/openai/deployments/NAME?api-version=…`. A token of Entra is sent as a bearer's.",
    ),
    "bedrock": Source(
        "docs.aws.amazon.com/bedrock, Chat Completions and Responses: addresses and key; all else from what was known",
        "2026-11",
        "`base_url` is `https://bedrock-runtime.REGION.amazonaws.com/openai/v1` or "
        "`https://bedrock-mantle.REGION.api.aws/v1`.",
    ),
    "vertex": Source(
        "docs.cloud.google.com, OpenAI libraries with Vertex; signatures as at Gemini",
        "2026-11",
        "`base_url` ends in `/endpoints/openapi`; the key is a short-lived token. Signatures as at Gemini; "
        "thinking is not switched off in this form.",
    ),
    "ollama": Source(
        "docs.ollama.com, OpenAI compatibility; openai.go of its server for the fields of messages",
        "2026-11",
        "Found by itself where it runs.",
    ),
    "vllm": Source(
        "docs.vllm.ai: reasoning outputs, interleaved thinking",
        "2026-11",
        "Thinking is switched in the template, for gpt-oss by effort. Its field is `reasoning`: servers before the end "
        "of 2025 knew `reasoning_content` alone, which is dropped without a word since.",
    ),
    "llamacpp": Source(
        "the README of llama.cpp's server",
        "2026-11",
        "Thinking is switched in the template, and so are the efforts of gpt-oss.",
    ),
    "lmstudio": Source(
        "lmstudio.ai/docs: chat completions, API changelog; efforts and the field that goes back from what was known",
        "2026-04",
        "",
    ),
}
"""By row; one without is a mistake, which building the page tells."""


def page() -> Iterator[str]:
    yield from ("# Providers", "")
    yield "A provider is a row of `mcc/configuration/providers.py`: its name, the form it speaks, its address and"
    yield "the variable of its key. A model of it is `NAME/MODEL`, or a table `[models.ALIAS]` of `mcc.toml`: see"
    yield "[use a real model](../how-to/use-a-real-model.md). What differs between servers of one form is a table"
    yield "beside the form, in `drone/models/dialects/`; whatever row is named, the host of `base_url` decides on it."
    yield ""
    yield "**Nothing here was tried against the real provider.** Each row follows the documentation that it names and"
    yield "is tested with streams in that form. The month is that of the pages of it that were read, in what bears on"
    yield "the row; what was not found there, or where no month stands, is written from what was known."
    yield "`mcc models --check` tries yours, in one small call each."
    yield ""
    yield from table(("name", "form", "address", "key", "written after", "month"), map(_row, PROVIDERS))
    yield from ("## What differs in chat completions", "")
    yield "Off and high: what asks for these levels of thinking, of a model without a name of note; a level that a"
    yield "model does not have is told to people and not sent. Cap: the parameter that limits the output. Thinking"
    yield "back: the field in which thinking is sent back with the calls it led to. Text: whether thinking"
    yield "(`<think>`) and calls that a template left in the text are looked for."
    yield ""
    yield from table(
        ("name", "off", "high", "cap", "thinking back", "ids of calls", "user after tool", "key sent as", "text"),
        (_differences(name, one) for name, one in sorted(CHAT_SERVERS.items())),
    )
    yield "Any other address is asked as most servers want it: ids of ours, `reasoning_content` back until it is"
    yield "refused, `max_tokens` until another name is asked for, text looked through. A parameter that a server"
    yield "refuses is left out from then on, and that is told in the record."
    yield from ("", "## What is done beyond the form", "")
    for one in PROVIDERS:
        if does := _SOURCES[one.name].does:
            yield f"- {code(one.name)}: {does}"


def _row(one: Provider) -> tuple[str, ...]:
    source = _SOURCES[one.name]
    form = _FORMS[one.form]
    if one.form_elsewhere not in (None, one.form):
        form += f", elsewhere {_FORMS[one.form_elsewhere]}"
    return (
        code(one.name),
        form,
        code(one.base_url) if one.base_url else "each user's own",
        code(one.key_name) if one.key_name else "",
        source.documentation,
        source.read,
    )


def _differences(name: str, one: Differences) -> tuple[str, ...]:
    known = one.levels("")
    return (
        code(name),
        *(code(json.dumps(known[level])[1:-1]) if level in known else "" for level in ("off", "high")),
        code(one.output_cap),
        code(one.thinking_back) if one.thinking_back else "no",
        "nine letters and digits" if one.call_id("x") != "x" else "ours",
        "yes" if one.user_after_tool else "in the last result",
        code(one.key_header),
        "yes" if one.leaks else "",
    )
