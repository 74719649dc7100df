"""Anthropic's Messages API with models of 2026: thinking, caps, pauses, refusals, caching, cost, other clouds."""

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import httpx
import pytest

from drone.models.prices import TokenPrices
from drone.models.retry import MOST_PAUSES, Unpaused
from mcc.contracts.blocks import OpaqueBlock, RefusalBlock, TextBlock, ThinkingBlock, ToolCallBlock
from mcc.transcript.messages import AssistantMessage, Message, ToolResult, ToolResults, ToolSpec, UserMessage

STOP = {"type": "message_stop"}
ADAPTIVE = {"type": "adaptive", "display": "summarized"}
READ = ToolSpec("read", "Read a file.", {"type": "object", "properties": {}})


def start(index: int = 0, **block: object) -> dict[str, object]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int = 0, **told: object) -> dict[str, object]:
    return {"type": "content_block_delta", "index": index, "delta": told}


def finish(reason: str = "end_turn", usage: Mapping[str, object] | None = None, **more: object) -> dict[str, object]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, **more}, "usage": usage or {}}


def said(bench: Any, text: str, *, reason: str = "end_turn", usage: Mapping[str, object] | None = None) -> Any:
    return bench.streamed(bench.named_sse(start(type="text", text=text), finish(reason, usage), STOP))


async def sent(
    bench: Any, model: str, *messages: Message, endpoint: Mapping[str, Any] | None = None, **more: Any
) -> Any:
    provider = bench.Provider(lambda _: bench.streamed(bench.named_sse(finish(), STOP)))
    await bench.anthropic(provider, model=model, **(endpoint or {})).ask(
        bench.asking(*messages, **more), bench.listener
    )
    return provider.body


def effort(level: str) -> dict[str, object]:
    return {"thinking": ADAPTIVE, "output_config": {"effort": level}}


def budget(tokens: int) -> dict[str, object]:
    return {"thinking": {"type": "enabled", "budget_tokens": tokens}}


@pytest.mark.parametrize(
    ("model", "level", "told"),
    [
        ("claude-sonnet-5", "inherit", {"thinking": ADAPTIVE}),
        ("claude-sonnet-5", "off", {"thinking": {"type": "disabled"}}),
        ("claude-sonnet-5", "minimal", effort("low")),
        ("claude-sonnet-5", "xhigh", effort("xhigh")),
        ("claude-sonnet-5", "max", effort("max")),
        ("claude-sonnet-5-5", "off", {"thinking": {"type": "between_tools"}}),
        ("claude-opus-5-5", "off", effort("low")),
        ("claude-opus-5-5", "high", effort("high")),
        ("claude-opus-4-8", "inherit", {}),
        ("claude-opus-4-8", "off", {}),
        ("claude-opus-4-6", "xhigh", effort("high")),
        ("claude-opus-4-6", "max", effort("max")),
        ("claude-haiku-4-5", "off", {}),
        ("claude-haiku-4-5", "minimal", budget(1_024)),
        ("claude-haiku-4-5", "medium", budget(8_192)),
        ("claude-haiku-4-5", "xhigh", budget(24_576)),
        ("claude-haiku-4-5", "max", budget(32_000)),
        ("claude-opus-4-1", "max", budget(16_000)),
        ("claude-3-5-haiku-latest", "high", {}),
        ("claude-of-next-year", "inherit", {}),
        ("claude-of-next-year", "off", {"thinking": {"type": "disabled"}}),
        ("claude-of-next-year", "xhigh", effort("xhigh")),
    ],
)
async def test_each_thinking_level_is_requested_in_the_model_s_own_way(
    bench: Any, model: str, level: str, told: Mapping[str, object]
) -> None:
    body = await sent(bench, model, thinking=level)
    assert {name: body[name] for name in ("thinking", "output_config") if name in body} == told


@pytest.mark.parametrize(
    ("model", "level", "words"),
    [
        ("claude-opus-5-5", "off", "cannot be kept from thinking"),
        ("claude-opus-4-6", "xhigh", "it is told high"),
        ("claude-sonnet-5", "minimal", "it is told low"),
        ("claude-3-5-haiku-latest", "high", "does not think"),
    ],
)
async def test_an_unsupported_level_is_reported_to_people(bench: Any, model: str, level: str, words: str) -> None:
    await sent(bench, model, thinking=level)
    assert [words in what for what in bench.listener.not_told] == [True]


async def test_a_level_that_the_model_takes_is_not_spoken_of(bench: Any) -> None:
    for level in ("inherit", "off", "low", "max"):
        await sent(bench, "claude-sonnet-5", thinking=level)
    assert bench.listener.not_told == []


async def test_temperature_goes_with_a_model_that_does_not_think_and_with_no_other(bench: Any) -> None:
    assert (await sent(bench, "claude-sonnet-5", thinking="off", temperature=0.2))["temperature"] == 0.2
    assert (await sent(bench, "claude-haiku-4-5", temperature=0.2))["temperature"] == 0.2
    assert "temperature" not in await sent(bench, "claude-sonnet-5", thinking="low", temperature=0.2)


@pytest.mark.parametrize(
    ("model", "endpoint", "most"),
    [
        ("claude-3-haiku-20240307", {}, 4_096),
        ("claude-3-5-haiku-latest", {"max_output_tokens": 20_000}, 8_192),
        ("claude-sonnet-5", {"max_output_tokens": 500_000}, 128_000),
        ("claude-of-next-year", {}, 16_384),
    ],
)
async def test_no_request_asks_for_more_output_than_the_model_supports(
    bench: Any, model: str, endpoint: dict[str, Any], most: int
) -> None:
    assert (await sent(bench, model, endpoint=endpoint))["max_tokens"] == most


async def test_thinking_has_room_besides_the_answer(bench: Any) -> None:
    at = {level: (await sent(bench, "claude-opus-5-5", thinking=level))["max_tokens"] for level in ("low", "max")}
    assert at["low"] < at["max"] == 16_384 + 49_152
    assert (await sent(bench, "claude-opus-5-5"))["max_tokens"] > 16_384


async def test_a_cap_that_the_server_tells_is_kept_from_then_on(bench: Any) -> None:
    words = "max_tokens: 16384 > 8192, which is the maximum allowed number of output tokens for claude-of-next-year"
    refusal = httpx.Response(400, json={"type": "error", "error": {"type": "invalid_request_error", "message": words}})
    provider = bench.Provider(refusal, said(bench, "a"), said(bench, "b"))
    model = bench.anthropic(provider, model="claude-of-next-year")
    await model.ask(bench.asking(), bench.listener)
    await model.ask(bench.asking(), bench.listener)
    assert [json.loads(one.content)["max_tokens"] for one in provider.requests] == [16_384, 8_192, 8_192]
    assert ["max_tokens above 8192" in told for told, _ in bench.listener.retries] == [True]


async def test_a_paused_reply_goes_back_as_it_is_and_the_turn_goes_on(bench: Any) -> None:
    query = {"type": "server_tool_use", "id": "srv", "name": "web_search"}
    first = bench.named_sse(
        start(0, type="thinking", thinking="Hm", signature="Zm9v"),
        start(1, **query, input={}),
        delta(1, type="input_json_delta", partial_json='{"query":"x"}'),
        {"type": "content_block_stop", "index": 1},
        finish("pause_turn", {"input_tokens": 5, "output_tokens": 2}),
        STOP,
    )
    provider = bench.Provider(
        bench.streamed(first), said(bench, "Done.", usage={"input_tokens": 7, "output_tokens": 3})
    )
    model = Unpaused(bench.anthropic(provider, model="claude-sonnet-5"))
    reply = await model.ask(bench.asking(), bench.listener)
    assert json.loads(provider.requests[1].content)["messages"][1] == {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Hm", "signature": "Zm9v"},
            {**query, "input": {"query": "x"}},
        ],
    }
    assert (reply.text, reply.finish_reason) == ("Done.", "stop")
    assert [type(block) for block in reply.blocks] == [ThinkingBlock, OpaqueBlock, TextBlock]
    usage = bench.listener.bill.with_reply(reply.usage)
    assert (usage.input_tokens, usage.output_tokens, usage.model_calls) == (12, 5, 2)


async def test_a_reply_that_is_paused_without_end_counts_as_cut_off(bench: Any) -> None:
    provider = bench.Provider(lambda _: said(bench, "…", reason="pause_turn"))
    reply = await Unpaused(bench.anthropic(provider)).ask(bench.asking(), bench.listener)
    assert (reply.finish_reason, len(provider.requests)) == ("length", MOST_PAUSES + 1)


async def test_a_refusal_has_the_words_that_the_provider_gives(bench: Any) -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "This may harm others."}
    reply = await bench.message(bench.named_sse(finish("refusal", stop_details=details), STOP))
    assert (reply.finish_reason, reply.refusal) == ("refusal", "This may harm others.")
    assert reply.blocks == (RefusalBlock(text="This may harm others."),)


async def test_a_context_that_is_full_in_the_middle_counts_as_cut_off(bench: Any) -> None:
    reply = await bench.message(
        bench.named_sse(start(type="text", text="x"), finish("model_context_window_exceeded"), STOP)
    )
    assert (reply.text, reply.finish_reason) == ("x", "length")


@pytest.mark.parametrize(("name", "said_id"), [("request-id", "req_1"), ("x-request-id", "req_2")])
async def test_the_reply_has_the_provider_s_request_id(bench: Any, name: str, said_id: str) -> None:
    body = {"content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn"}
    provider = bench.Provider(httpx.Response(200, json=body, headers={name: said_id}))
    assert (await bench.anthropic(provider).ask(bench.asking(), bench.listener)).request_id == said_id


def grown(rounds: int) -> tuple[Message, ...]:
    messages: list[Message] = [UserMessage("Look around.")]
    for at in range(rounds):
        call = ToolCallBlock(call_id=f"call-{at}", name="read", arguments={"path": f"file-{at}"})
        thought = ThinkingBlock(text=f"thought {at}", signature=f"c2ln{at}")
        messages.append(AssistantMessage((thought, call), "anthropic/m"))
        messages.append(ToolResults((ToolResult(f"call-{at}", "read", f"content {at}", False),)))
    return tuple(messages)


MARK = b',"cache_control":{"type":"ephemeral"}'


@pytest.mark.parametrize("ttl", ["5m", "1h"])
async def test_a_request_begins_as_the_one_before_but_for_moving_cache_marks(bench: Any, ttl: str) -> None:
    mark = MARK if ttl == "5m" else b',"cache_control":{"type":"ephemeral","ttl":"1h"}'
    provider = bench.Provider(lambda _: said(bench, "x"))
    model = bench.anthropic(provider, model="claude-sonnet-5", cache_ttl=ttl)
    for rounds in range(1, 6):
        await model.ask(bench.asking(*grown(rounds), tools=[READ]), bench.listener)
    bodies = [request.content for request in provider.requests]
    assert all(body.count(b'"cache_control"') in (2, 3) for body in bodies)
    marked = [body.count(mark) for body in bodies]
    # Only the first mark, which everything else stands behind, is kept for longer.
    assert marked == ([1] * 5 if ttl == "1h" else [body.count(b'"cache_control"') for body in bodies])
    assert all(json.loads(body)["messages"][-1]["content"][-1].get("cache_control") for body in bodies)
    unmarked = (body.replace(mark, b"").replace(MARK, b"") for body in bodies)
    for before, after in pairwise(body.partition(b'],"system"') for body in unmarked):
        assert after[0].startswith(before[0])
        assert after[1:] == before[1:]


def refusing_thinking(bench: Any, words: str) -> Any:
    """A server that rejects thinking sent back to it."""

    def answer(request: httpx.Request) -> httpx.Response:
        if b'"signature"' not in request.content:
            return said(bench, "x")  # type: ignore[no-any-return]
        return httpx.Response(400, json={"error": {"type": "invalid_request_error", "message": words}})

    return bench.Provider(answer)


@pytest.mark.parametrize(
    ("model", "thinks"), [("claude-sonnet-5", {"thinking": ADAPTIVE}), ("claude-haiku-4-5", {"thinking": None})]
)
@pytest.mark.parametrize(
    "words",
    [
        "messages.3.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
        "modified. These blocks must remain as they were in the original response.",
        "messages.3.content.0: Invalid `signature` in `thinking` block",
    ],
)
async def test_thinking_that_its_server_does_not_know_again_stays_behind(
    bench: Any, words: str, model: str, thinks: dict[str, Any]
) -> None:
    provider = refusing_thinking(bench, words)
    asked = bench.anthropic(provider, model=model)
    for rounds in (2, 3):
        ask = bench.asking(*grown(rounds), tools=[READ], thinking="high", cache_key="agent-1")
        assert (await asked.ask(ask, bench.listener)).text == "x"
    assert len(provider.requests) == 3
    body = provider.body
    assert {block["type"] for turn in body["messages"] for block in turn["content"]} == {
        "text",
        "tool_use",
        "tool_result",
    }
    assert {"thinking": body.get("thinking")} == thinks
    assert len(bench.listener.retries) == 1
    assert set(bench.listener.not_told) == {
        "anthropic/m is not given back its earlier thinking: it does not know it again."
    }
    await asked.ask(bench.asking(tools=[READ], thinking="high", cache_key="agent-2"), bench.listener)
    assert provider.body["thinking"]["type"] in ("adaptive", "enabled")


async def test_thinking_is_left_behind_once_and_another_such_refusal_stands(bench: Any) -> None:
    words = "messages.1: `thinking` blocks cannot be modified."
    refusal = {"error": {"type": "invalid_request_error", "message": words}}
    provider = bench.Provider(lambda _: httpx.Response(400, json=refusal))
    error = await bench.refused(bench.anthropic(provider), bench.asking(*grown(1), tools=[READ]))
    assert "cannot be modified" in str(error)
    assert len(provider.requests) == 2


async def test_cache_writes_have_their_own_price(bench: Any) -> None:
    usage = {
        "input_tokens": 400,
        "cache_creation_input_tokens": 6_400,
        "cache_read_input_tokens": 1_000,
        "output_tokens": 200,
    }
    price = TokenPrices(3.0, 15.0, cached=0.3, cache_write=3.75, cache_write_1h=6.0)
    provider = bench.Provider(lambda _: said(bench, "x", usage=usage))
    reply = await bench.anthropic(provider, price=price).ask(bench.asking(), bench.listener)
    assert reply.usage.cache_write_tokens == 6_400
    assert reply.usage.input_tokens == 7_800
    assert reply.usage.cost_usd == pytest.approx(0.0285)


async def test_cache_writes_for_an_hour_cost_more(bench: Any) -> None:
    usage = {
        "input_tokens": 400,
        "cache_creation_input_tokens": 6_400,
        "cache_creation": {"ephemeral_5m_input_tokens": 400, "ephemeral_1h_input_tokens": 6_000},
        "output_tokens": 200,
    }
    price = TokenPrices(3.0, 15.0, cached=0.3, cache_write=3.75, cache_write_1h=6.0)
    provider = bench.Provider(lambda _: said(bench, "x", usage=usage))
    reply = await bench.anthropic(provider, price=price).ask(bench.asking(), bench.listener)
    assert reply.usage.cost_usd == pytest.approx((400 * 3 + 400 * 3.75 + 6_000 * 6 + 200 * 15) / 1e6)


async def test_a_broken_stream_costs_what_was_reported_until_then(bench: Any) -> None:
    usage = {"input_tokens": 400, "cache_creation_input_tokens": 6_400, "cache_read_input_tokens": 1_000}
    begun = bench.named_sse({"type": "message_start", "message": {"usage": {**usage, "output_tokens": 1}}})
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    provider = bench.Provider(bench.streamed(begun, bench.named_sse(start(type="text", text="half"), overloaded)))
    error = await bench.refused(bench.anthropic(provider, price=TokenPrices(3.0, 15.0, cached=0.3, cache_write=3.75)))
    assert (error.status, error.retryable) == (529, True)
    assert bench.listener.bill.usage.cost_usd == pytest.approx((400 * 3 + 6_400 * 3.75 + 1_000 * 0.3 + 1 * 15) / 1e6)


async def test_googles_cloud_has_the_model_in_the_address_and_the_version_in_the_body(bench: Any) -> None:
    base = "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/anthropic/models"
    provider = bench.Provider(lambda _: said(bench, "x"))
    model = bench.anthropic(provider, provider="vertex", base_url=base, model="claude-haiku-4-5@20251001")
    await model.ask(bench.asking(), bench.listener)
    request = provider.requests[0]
    assert str(request.url) == f"{base}/claude-haiku-4-5@20251001:streamRawPredict"
    assert request.headers["authorization"] == f"Bearer {bench.key}"
    assert "x-api-key" not in request.headers and "anthropic-version" not in request.headers
    body = json.loads(request.content)
    assert body["anthropic_version"] == "vertex-2023-10-16" and "model" not in body
    assert body["stream"] is True


async def test_bedrock_speaks_the_same_form_with_its_own_kind_of_key(bench: Any) -> None:
    provider = bench.Provider(lambda _: said(bench, "x"))
    base = "https://bedrock-mantle.us-east-1.api.aws/anthropic"
    model = bench.anthropic(provider, provider="bedrock", base_url=base, model="anthropic.claude-opus-5-5")
    await model.ask(bench.asking(thinking="off"), bench.listener)
    request = provider.requests[0]
    assert str(request.url) == f"{base}/v1/messages"
    assert request.headers["authorization"] == f"Bearer {bench.key}"
    assert json.loads(request.content)["output_config"] == {"effort": "low"}
