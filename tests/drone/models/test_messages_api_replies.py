"""Parsing of replies of Anthropic's Messages API, streamed and whole."""

import json
from typing import Any

import httpx
import pytest

from drone.agent.ports.journal import GrowingCall
from drone.agent.ports.model import WantedCall
from drone.models.prices import TokenPrices
from mcc.contracts.blocks import RedactedBlock, ThinkingBlock, ToolCallBlock
from mcc.transcript.messages import AssistantMessage, UserMessage

STOP = {"type": "message_stop"}


def start(index: int = 0, **block: object) -> dict[str, object]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int = 0, **told: object) -> dict[str, object]:
    return {"type": "content_block_delta", "index": index, "delta": told}


def finish(reason: str = "end_turn", **usage: object) -> dict[str, object]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def begin(**usage: object) -> dict[str, object]:
    return {"type": "message_start", "message": {"content": [], "usage": usage}}


async def test_text_and_finish_arrive(bench: Any) -> None:
    events = (begin(), start(type="text", text="Hel"), {"type": "ping"}, delta(type="text_delta", text="lo"))
    reply = await bench.message(bench.named_sse(*events, finish(), STOP))
    assert (reply.text, reply.finish_reason, bench.listener.heard()) == ("Hello", "stop", "Hello")


async def test_thinking_keeps_its_signature_and_sealed_thinking_its_data(bench: Any) -> None:
    events = (
        start(0, type="thinking", thinking="", signature=""),
        delta(0, type="thinking_delta", thinking="Hm, "),
        delta(0, type="thinking_delta", thinking="yes."),
        delta(0, type="signature_delta", signature="Zm9v"),
        start(1, type="redacted_thinking", data="c2VhbA=="),
        start(2, type="text", text=""),
        delta(2, type="text_delta", text="42"),
    )
    reply = await bench.message(bench.named_sse(*events, finish(), STOP))
    assert reply.blocks[:2] == (ThinkingBlock(text="Hm, yes.", signature="Zm9v"), RedactedBlock(data="c2VhbA=="))
    assert (reply.thinking, bench.listener.heard("thinking.delta")) == ("Hm, yes.", "Hm, yes.")


async def test_thinking_goes_back_to_the_provider_as_it_came(bench: Any) -> None:
    blocks = [
        {"type": "thinking", "thinking": "Hm \ud83d", "signature": "Zm9v"},
        {"type": "redacted_thinking", "data": "c2VhbA=="},
        {"type": "text", "text": "42"},
    ]
    body = {"content": blocks, "stop_reason": "end_turn", "usage": {}}
    headers = {"content-type": "application/json"}
    provider = bench.Provider(httpx.Response(200, headers=headers, content=json.dumps(body)))
    model = bench.anthropic(provider)
    reply = await model.ask(bench.asking(), bench.listener)
    again = AssistantMessage(reply.blocks, model.name)
    await model.ask(bench.asking(UserMessage("Hello"), again, UserMessage("More")), bench.listener)
    assert provider.body["messages"][1] == {"role": "assistant", "content": blocks}


async def test_a_reply_names_the_request_as_its_provider_does(bench: Any) -> None:
    answer = bench.streamed(bench.named_sse(finish(), STOP), headers={"request-id": "req_7"})
    reply = await bench.anthropic(bench.Provider(answer)).ask(bench.asking(), bench.listener)
    assert reply.request_id == "req_7"


async def test_blocks_go_back_in_the_order_in_which_they_came(bench: Any) -> None:
    """The API refuses thinking that is moved from between two calls to before them."""
    blocks = [
        {"type": "thinking", "thinking": "First.", "signature": "czE="},
        {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a"}},
        {"type": "thinking", "thinking": "Then.", "signature": "czI="},
        {"type": "text", "text": "Both are needed."},
        {"type": "tool_use", "id": "toolu_2", "name": "read", "input": {"path": "b"}},
    ]
    body = {"content": blocks, "stop_reason": "tool_use", "usage": {}}
    headers = {"content-type": "application/json"}
    provider = bench.Provider(httpx.Response(200, headers=headers, content=json.dumps(body)))
    model = bench.anthropic(provider)
    reply = await model.ask(bench.asking(), bench.listener)
    identified = tuple(
        ToolCallBlock(call_id=block.provider_id, name=block.name, arguments=block.arguments)
        if isinstance(block, WantedCall)
        else block
        for block in reply.blocks
    )
    own = AssistantMessage(identified, model.name)
    await model.ask(bench.asking(UserMessage("Hello"), own, UserMessage("More")), bench.listener)
    assert provider.body["messages"][1]["content"] == blocks
    other = AssistantMessage(identified, "anthropic/another")
    await model.ask(bench.asking(UserMessage("Hello"), other, UserMessage("More")), bench.listener)
    assert [block["type"] for block in provider.body["messages"][1]["content"]] == ["tool_use", "text", "tool_use"]


async def test_calls_side_by_side_get_their_own_arguments(bench: Any) -> None:
    events = (
        start(0, type="tool_use", id="a", name="read", input={}),
        start(1, type="tool_use", id="b", name="list", input={}),
        delta(1, type="input_json_delta", partial_json='{"y":'),
        delta(0, type="input_json_delta", partial_json='{"x":1}'),
        delta(1, type="input_json_delta", partial_json="2}"),
    )
    reply = await bench.message(bench.named_sse(*events, finish("tool_use"), STOP))
    assert reply.tool_calls == (WantedCall("read", {"x": 1}, "a"), WantedCall("list", {"y": 2}, "b"))
    assert reply.finish_reason == "tool_calls"


async def test_a_call_without_input_has_empty_arguments(bench: Any) -> None:
    events = (start(type="tool_use", id="a", name="read", input={}), delta(type="input_json_delta", partial_json=""))
    reply = await bench.message(bench.named_sse(*events, finish("tool_use"), STOP))
    assert reply.tool_calls == (WantedCall("read", {}, "a"),)


async def test_input_that_is_whole_at_the_start_is_taken(bench: Any) -> None:
    events = (start(type="tool_use", id="a", name="read", input={"x": 1}), finish("tool_use"), STOP)
    assert (await bench.message(bench.named_sse(*events))).tool_calls == (WantedCall("read", {"x": 1}, "a"),)


async def test_truncated_input_stays_text(bench: Any) -> None:
    events = (
        start(type="tool_use", id="a", name="read", input={}),
        delta(type="input_json_delta", partial_json='{"x": "ha'),
    )
    reply = await bench.message(bench.named_sse(*events, finish("max_tokens"), STOP))
    assert reply.tool_calls[0].arguments == '{"x": "ha'
    assert reply.finish_reason == "length"


@pytest.mark.parametrize(
    ("said", "ours"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("pause_turn", "paused"),
    ],
)
async def test_stop_reasons_are_ours(bench: Any, said: str, ours: str) -> None:
    assert (await bench.message(bench.named_sse(finish(said), STOP))).finish_reason == ours


async def test_a_stop_reason_without_message_stop_is_an_incomplete_reply(bench: Any) -> None:
    data = bench.named_sse(start(type="text", text="x"), finish())
    error = await bench.refused(bench.anthropic(bench.Provider(bench.streamed(data))))
    assert error.retryable


async def test_usage_includes_cached_and_newly_cached_input(bench: Any) -> None:
    events = (
        begin(input_tokens=10, cache_creation_input_tokens=200, cache_read_input_tokens=3000, output_tokens=1),
        finish(output_tokens=50, output_tokens_details={"thinking_tokens": 30}),
        STOP,
    )
    usage = (await bench.message(bench.named_sse(*events), price=TokenPrices(1, 2, 0.1))).usage
    assert (usage.input_tokens, usage.cached_input_tokens) == (3210, 3000)
    assert (usage.output_tokens, usage.reasoning_tokens) == (50, 30)
    assert usage.cost_usd == pytest.approx((210 * 1 + 3000 * 0.1 + 50 * 2) / 1e6)


async def test_usage_at_the_end_replaces_that_of_the_beginning(bench: Any) -> None:
    events = (begin(input_tokens=10, output_tokens=1), finish(input_tokens=12, output_tokens=5), STOP)
    usage = (await bench.message(bench.named_sse(*events))).usage
    assert (usage.input_tokens, usage.output_tokens) == (12, 5)


@pytest.mark.parametrize("nonsense", [{}, {"input_tokens": 10**18, "output_tokens": True}, {"output_tokens": "5"}])
async def test_nonsense_usage_is_estimated(bench: Any, nonsense: dict[str, Any]) -> None:
    events = (begin(**nonsense), start(type="text", text="12345678"), finish(**nonsense), STOP)
    usage = (await bench.message(bench.named_sse(*events))).usage
    assert usage.output_tokens == 2
    assert usage.input_tokens > 10


@pytest.mark.parametrize(
    ("kind", "status", "retryable"),
    [
        ("overloaded_error", 529, True),
        ("rate_limit_error", 429, True),
        ("api_error", 500, True),
        ("invalid_request_error", 400, False),
        ("something_new", None, True),
    ],
)
async def test_an_error_in_the_stream_is_an_error(bench: Any, kind: str, status: int | None, retryable: bool) -> None:
    event = {"type": "error", "error": {"type": kind, "message": "Not now"}}
    data = bench.named_sse(start(type="text", text="half"), event)
    error = await bench.refused(bench.anthropic(bench.Provider(bench.streamed(data))))
    assert (error.status, error.retryable) == (status, retryable)
    assert str(error) == "anthropic/m broke off with an error: Not now."


async def test_unknown_events_and_blocks_are_passed_over(bench: Any) -> None:
    events = (
        {"type": "something_new", "index": 0},
        start(0, type="server_tool_use", id="s", name="web_search", input={}),
        delta(0, type="input_json_delta", partial_json='{"q"'),
        delta(9, type="thinking_delta", thinking="lost"),
        start(1, type="text", text="x"),
        delta(1, type="citations_delta", citation={}),
    )
    reply = await bench.message(bench.named_sse(*events, finish(), STOP))
    assert (reply.text, reply.tool_calls, reply.thinking) == ("x", (), "")


async def test_events_without_their_type_in_the_data_are_known_by_name(bench: Any) -> None:
    data = b'event: content_block_start\ndata: {"index":0,"content_block":{"type":"text","text":"x"}}\n\n'
    assert (await bench.message(data + b"event: message_stop\ndata: {}\n\n")).text == "x"


async def test_arguments_stream_to_the_listener_separately_for_each_call(bench: Any) -> None:
    events = (
        start(0, type="tool_use", id="a", name="read", input={}),
        delta(0, type="input_json_delta", partial_json='{"path":'),
        start(1, type="tool_use", id="b", name="list", input={}),
        delta(1, type="input_json_delta", partial_json="{}"),
        delta(0, type="input_json_delta", partial_json='"a"}'),
    )
    pieces = [bench.named_sse(event) for event in events]
    await bench.message(*pieces, bench.named_sse(finish(), STOP))
    read, listed = GrowingCall(0, "read"), GrowingCall(1, "list")
    assert bench.listener.calls == [(read, '{"path":'), (listed, "{}"), (read, '"a"}')]
