"""Chat completions at OpenAI itself, where its newer models refuse to reason beside tools."""

from typing import Any

import httpx
import pytest

from drone.models.dialects.chat import openai_model
from drone.models.prices import TokenPrices, known_model
from drone.models.remote import ModelEndpoint
from mcc.transcript.messages import ToolSpec
from tests.drone.models.loopback import Loopback

TOOL = ToolSpec("read", "Read a file.", {"type": "object"})
NO_TOOLS = (
    "Function tools with reasoning_effort are not supported for gpt-5.6-terra in /v1/chat/completions. To use function "
    "tools, use /v1/responses or set reasoning_effort to 'none'."
)
MINIMAL = "Unsupported value: 'reasoning_effort' does not support 'minimal' with this model."


def refusing(words: str) -> httpx.Response:
    told = {"message": words, "type": "invalid_request_error", "param": "reasoning_effort", "code": None}
    return httpx.Response(400, json={"error": told})


def model(provider: Any, name: str = "gpt-5.6-terra", **more: Any) -> Any:
    known = {"name": f"openai/{name}", "model": name, "provider": "openai", "base_url": "https://api.openai.com/v1"}
    return openai_model(ModelEndpoint(**{**known, "key": "sk-1234567890", **more}), Loopback(provider))


def server(bench: Any, *refusals: str) -> Any:
    good = bench.sse(bench.chunk("stop", content="x"), "[DONE]")
    return bench.Provider(*map(refusing, refusals), lambda _: bench.streamed(good))


@pytest.mark.parametrize("base_url", ["https://api.openai.com/v1", "https://gateway.test/v1"])
@pytest.mark.parametrize("thinking", ["inherit", "high"])
async def test_tools_are_asked_for_without_reasoning_and_every_agent_s_record_says_so(
    bench: Any, thinking: str, base_url: str
) -> None:
    provider = server(bench, NO_TOOLS)
    asked, another = model(provider, base_url=base_url), bench.RecordingListener()
    await asked.ask(bench.asking(tools=[TOOL], thinking=thinking), bench.listener)
    assert provider.body["reasoning_effort"] == "none"
    assert "without reasoning beside tools" in bench.listener.retries[0][0]
    await asked.ask(bench.asking(tools=[TOOL], thinking=thinking), another)
    assert provider.body["reasoning_effort"] == "none"
    assert len(provider.requests) == 3
    assert "does not think beside tools" in another.not_told[0] and 'api = "responses"' in another.not_told[0]


async def test_an_agent_without_tools_reasons_on_although_another_may_not(bench: Any) -> None:
    provider = server(bench, NO_TOOLS)
    asked = model(provider)
    await asked.ask(bench.asking(tools=[TOOL], thinking="high"), bench.listener)
    bench.listener.not_told.clear()
    await asked.ask(bench.asking(thinking="high"), bench.listener)
    assert provider.body["reasoning_effort"] == "high"
    assert not bench.listener.not_told


async def test_a_refused_level_becomes_the_nearest_and_other_levels_stay(bench: Any) -> None:
    provider = server(bench, MINIMAL)
    asked = model(provider)
    await asked.ask(bench.asking(thinking="minimal"), bench.listener)
    assert provider.body["reasoning_effort"] == "low"
    assert bench.listener.not_told == [
        "openai/gpt-5.6-terra does not take thinking minimal; it is asked with effort low."
    ]
    await asked.ask(bench.asking(thinking="xhigh"), bench.listener)
    assert provider.body["reasoning_effort"] == "xhigh"


async def test_a_level_that_a_known_model_does_not_take_is_never_tried(bench: Any) -> None:
    provider = server(bench)
    await model(provider, known=known_model("openai", "gpt-5.4")).ask(bench.asking(thinking="minimal"), bench.listener)
    assert provider.body["reasoning_effort"] == "low"
    assert len(bench.listener.not_told) == 1


async def test_tier_and_cache_key_are_sent(bench: Any) -> None:
    provider = server(bench)
    await model(provider).ask(bench.asking(service_tier="flex", cache_key="record-1"), bench.listener)
    assert (provider.body["service_tier"], provider.body["prompt_cache_key"]) == ("flex", "record-1")
    assert not bench.listener.not_told


async def test_tokens_that_were_written_to_the_cache_are_counted_and_paid_as_such(bench: Any) -> None:
    details = {"cached_tokens": 60, "cache_write_tokens": 30}
    usage = {"prompt_tokens": 100, "prompt_tokens_details": details, "completion_tokens": 10}
    data = bench.sse(bench.chunk("stop", content="x"), {"choices": [], "usage": usage}, "[DONE]")
    price = TokenPrices(1.0, 5.0, 0.05, cache_write=1.25)
    reply = await model(bench.Provider(bench.streamed(data)), price=price).ask(bench.asking(), bench.listener)
    assert (reply.usage.cached_input_tokens, reply.usage.cache_write_tokens) == (60, 30)
    assert reply.usage.cost_usd == pytest.approx((10 * 1.0 + 60 * 0.05 + 30 * 1.25 + 10 * 5.0) / 1e6)
