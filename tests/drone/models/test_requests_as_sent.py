"""Requests as providers receive them: every message encoded once, in the provider's format."""

import json
from typing import Any

import httpx
import pytest

from drone.agent.ports.model import ModelError
from mcc.contracts.blocks import ThinkingBlock, ToolCall, blocks_of
from mcc.transcript.messages import AssistantMessage, Message, ToolResult, ToolResults, ToolSpec, UserMessage

CACHED = {"cache_control": {"type": "ephemeral"}}
READ = ToolSpec("read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})


def called(*names: str, text: str = "", thoughts: tuple[ThinkingBlock, ...] = ()) -> AssistantMessage:
    calls = tuple(ToolCall(call_id=f"call-{name}", name=name, arguments={"path": "ü"}) for name in names)
    return AssistantMessage((*thoughts, *blocks_of(text, tool_calls=calls)))


def told(*names: str, is_error: bool = False) -> ToolResults:
    return ToolResults(tuple(ToolResult(f"call-{name}", name, f"of {name}", is_error) for name in names))


async def sent(bench: Any, *messages: Message, form: str = "openai", **more: Any) -> Any:
    """The body of a request with these messages."""
    endpoint = more.pop("endpoint", {})
    whole = bench.sse(bench.chunk("stop", content="x")) + bench.named_sse({"type": "message_stop"})
    provider = bench.Provider(lambda _: bench.streamed(whole))
    await getattr(bench, form)(provider, **endpoint).ask(bench.asking(*messages, **more), bench.listener)
    return provider.body


async def test_a_conversation_in_the_terms_of_chat_completions(bench: Any) -> None:
    body = await sent(bench, UserMessage("Hi"), called("read", "list"), told("read", "list"), tools=[READ])
    function = {"name": "read", "arguments": '{"path":"ü"}'}
    assert body["messages"][:2] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    assert body["messages"][2]["content"] is None
    assert body["messages"][2]["tool_calls"][0] == {"id": "call-read", "type": "function", "function": function}
    assert body["messages"][3] == {"role": "tool", "tool_call_id": "call-read", "content": "of read"}
    assert body["messages"][4]["tool_call_id"] == "call-list"
    assert body["tools"] == [
        {
            "type": "function",
            "function": {"name": "read", "description": "Read a file.", "parameters": dict(READ.parameters)},
        }
    ]
    assert (body["model"], body["stream"], body["stream_options"]) == ("m", True, {"include_usage": True})


async def test_a_conversation_in_the_terms_of_messages(bench: Any) -> None:
    body = await sent(
        bench,
        UserMessage("Hi"),
        called("read", text="Let me see."),
        told("read", is_error=True),
        UserMessage("Faster!"),
        form="anthropic",
        tools=[READ],
    )
    assert body["system"] == [{"type": "text", "text": "Be brief.", **CACHED}]
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Hi", **CACHED}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "call-read", "name": "read", "input": {"path": "ü"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call-read", "content": "of read", "is_error": True},
                {"type": "text", "text": "Faster!", **CACHED},
            ],
        },
    ]
    assert body["tools"] == [{"name": "read", "description": "Read a file.", "input_schema": dict(READ.parameters)}]
    assert body["max_tokens"] > 4096


async def test_messages_that_say_nothing_do_not_break_the_rules_of_messages(bench: Any) -> None:
    body = await sent(
        bench, UserMessage(" "), AssistantMessage.of("\n"), UserMessage("b"), AssistantMessage.of("c"), form="anthropic"
    )
    assert [message["role"] for message in body["messages"]] == ["user", "assistant"]
    assert [block["text"] for block in body["messages"][0]["content"]] == ["(empty)", "b"]


async def test_tools_carry_the_cache_mark_where_there_is_no_system_prompt(bench: Any) -> None:
    body = await sent(bench, UserMessage("Hi"), form="anthropic", tools=[READ], system="")
    assert "system" not in body
    assert body["tools"][0]["cache_control"] == {"type": "ephemeral"}


async def test_earlier_calls_stay_declared_when_no_tool_may_be_called_any_more(bench: Any) -> None:
    body = await sent(bench, UserMessage("Hi"), called("read"), told("read"), form="anthropic")
    assert [tool["name"] for tool in body["tools"]] == ["read"]
    assert body["tool_choice"] == {"type": "none"}


@pytest.mark.parametrize("form", ["openai", "anthropic"])
async def test_every_message_and_tool_is_encoded_once(bench: Any, form: str) -> None:
    tool = ToolSpec("read", "", {"type": "object"})
    messages: list[Message] = [UserMessage("Hi"), called("read"), told("read")]
    await sent(bench, *messages, form=form, tools=[tool])
    encodings = [{**one.encoded} for one in (*messages, tool)]
    assert all(len(known) == 1 for known in encodings)
    await sent(bench, *messages, AssistantMessage.of("So"), UserMessage("And?"), form=form, tools=[tool])
    for one, known in zip((*messages, tool), encodings, strict=True):
        assert [id(encoded) for encoded in one.encoded.values()] == [id(encoded) for encoded in known.values()]


@pytest.mark.parametrize("form", ["openai", "anthropic"])
@pytest.mark.parametrize("text", ["\ud800", "a\udfff\x00b", "😀\u2028"])
async def test_any_text_reaches_the_provider_exactly(bench: Any, form: str, text: str) -> None:
    call = ToolCall(call_id="c", name="read", arguments={text: text})
    results = ToolResults((ToolResult("c", "read", text, False),))
    body = await sent(
        bench, UserMessage(text), AssistantMessage.of(text, tool_calls=(call,)), results, form=form, system=text
    )
    messages = body["messages"]
    if form == "openai":
        assert [message["content"] for message in messages] == [text] * 4
        assert json.loads(messages[2]["tool_calls"][0]["function"]["arguments"]) == {text: text}
    else:
        assert messages[0]["content"][0]["text"] == messages[2]["content"][0]["content"] == text
        assert messages[1]["content"][1]["input"] == {text: text}


@pytest.mark.parametrize("form", ["openai", "anthropic"])
async def test_arguments_that_were_no_json_object_go_back_inside_one(bench: Any, form: str) -> None:
    call = ToolCall(call_id="c", name="read", arguments='{"x": ')
    body = await sent(bench, UserMessage("Hi"), AssistantMessage.of("", tool_calls=(call,)), told("read"), form=form)
    if form == "openai":
        given = json.loads(body["messages"][2]["tool_calls"][0]["function"]["arguments"])
    else:
        given = body["messages"][1]["content"][0]["input"]
    assert list(given.values()) == ['{"x": ']


@pytest.mark.parametrize("form", ["openai", "anthropic"])
@pytest.mark.parametrize("name", ["git.status", "a\nb", "x" * 200, "ünï", "", "server__tool/run"])
async def test_tool_names_are_legal_for_the_provider(bench: Any, form: str, name: str) -> None:
    tools = [ToolSpec(name, "", {"type": "object"}), ToolSpec(f"{name}?", "", {"type": "object"})]
    body = await sent(bench, UserMessage("Hi"), called(name), told(name), form=form, tools=tools)
    names = [tool["function"]["name"] if form == "openai" else tool["name"] for tool in body["tools"]]
    assert len(set(names)) == 2
    assert all(
        0 < len(one) <= 64 and one.replace("_", "").replace("-", "").isalnum() and one.isascii() for one in names
    )


async def test_thinking_without_signature_goes_back_to_servers_that_want_it_and_never_to_openai(bench: Any) -> None:
    thought = (ThinkingBlock(text="Hm"),)
    conversation = (UserMessage("Hi"), called("read", thoughts=thought), told("read"))
    body = await sent(bench, *conversation)
    assert body["messages"][2]["reasoning_content"] == "Hm"
    strict = await sent(bench, *conversation, endpoint={"base_url": "https://api.openai.com/v1"})
    assert "reasoning_content" not in strict["messages"][2]
    other = await sent(bench, *conversation, form="anthropic")
    assert [block["type"] for block in other["messages"][1]["content"]] == ["tool_use"]


async def test_signed_thinking_of_another_provider_is_not_sent_on(bench: Any) -> None:
    body = await sent(
        bench, UserMessage("Hi"), called("read", thoughts=(ThinkingBlock(text="Hm", signature="s"),)), told("read")
    )
    assert "reasoning_content" not in body["messages"][2]


async def test_limits_temperature_and_thinking_are_asked_for(bench: Any) -> None:
    body = await sent(bench, max_output_tokens=50, temperature=0.2, thinking="high")
    assert (body["max_tokens"], body["temperature"], body["reasoning_effort"]) == (50, 0.2, "high")
    openai = await sent(bench, max_output_tokens=50, endpoint={"base_url": "https://api.openai.com/v1"})
    assert openai["max_completion_tokens"] == 50


async def test_older_models_think_within_a_budget_and_newer_ones_by_effort(bench: Any) -> None:
    older = await sent(bench, form="anthropic", thinking="high", temperature=0.2)
    assert older["thinking"]["type"] == "enabled"
    assert older["thinking"]["budget_tokens"] < older["max_tokens"]
    assert "temperature" not in older
    newer = await sent(bench, form="anthropic", thinking="high", endpoint={"model": "claude-opus-4-7"})
    assert (newer["thinking"]["type"], newer["output_config"]) == ("adaptive", {"effort": "high"})
    small = await sent(bench, form="anthropic", thinking="high", max_output_tokens=500)
    assert "thinking" not in small


async def test_keys_travel_in_the_header_that_the_provider_wants(bench: Any) -> None:
    provider = bench.Provider(lambda _: bench.streamed(bench.named_sse({"type": "message_stop"})))
    await bench.anthropic(provider).ask(bench.asking(), bench.listener)
    request = provider.requests[0]
    assert (str(request.url), request.headers["x-api-key"]) == ("https://models.test/v1/messages", bench.key)
    provider = bench.Provider(lambda _: bench.streamed(bench.sse("[DONE]")))
    await bench.openai(provider, base_url="http://127.0.0.1:1/v1", key="").ask(bench.asking(), bench.listener)
    assert str(provider.requests[0].url) == "http://127.0.0.1:1/v1/chat/completions"
    assert "authorization" not in provider.requests[0].headers


@pytest.mark.parametrize("form", ["openai", "anthropic"])
async def test_fields_of_the_operator_replace_our_own(bench: Any, form: str) -> None:
    extra = {"extra_body": {"temperature": 1, 'a "quoted" name': [1]}}
    body = await sent(bench, form=form, temperature=0.2, endpoint=extra)
    assert (body["temperature"], body['a "quoted" name']) == (1, [1])


async def test_headers_of_the_operator_replace_our_own(bench: Any) -> None:
    provider = bench.Provider(lambda _: bench.streamed(bench.sse("[DONE]")))
    await bench.openai(provider, extra_headers={"User-Agent": "ours", "X-Team": "north"}).ask(
        bench.asking(), bench.listener
    )
    headers = provider.requests[0].headers
    assert (headers.get_list("user-agent"), headers["x-team"]) == (["ours"], "north")


@pytest.mark.parametrize("form", ["openai", "anthropic"])
async def test_settings_that_a_format_lacks_are_reported(bench: Any, form: str) -> None:
    await sent(bench, form=form, service_tier="flex")
    assert len(bench.listener.not_told) == 1 and "service tier flex" in bench.listener.not_told[0]


async def test_a_parameter_that_the_provider_refuses_is_left_out_from_then_on(bench: Any) -> None:
    words = "Unsupported value: 'temperature' does not support 0.2 with this model."
    good = bench.sse(bench.chunk("stop", content="x"))
    provider = bench.Provider(httpx.Response(400, json={"error": {"message": words}}), lambda _: bench.streamed(good))
    model = bench.openai(provider)
    assert (await model.ask(bench.asking(temperature=0.2), bench.listener)).text == "x"
    await model.ask(bench.asking(temperature=0.2), bench.listener)
    assert ["temperature" in json.loads(request.content) for request in provider.requests] == [True, False, False]
    assert len(bench.listener.retries) == 1
    assert "Asking again without temperature" in bench.listener.retries[0][0]
    assert bench.listener.not_told == ["openai/m does not take temperature 0.2; it is not sent."] * 2


async def test_a_cap_on_output_takes_the_name_that_the_provider_asks_for(bench: Any) -> None:
    words = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    good = bench.sse(bench.chunk("stop", content="x"))
    provider = bench.Provider(httpx.Response(400, json={"error": {"message": words}}), bench.streamed(good))
    await bench.openai(provider).ask(bench.asking(max_output_tokens=7), bench.listener)
    assert (provider.body["max_completion_tokens"], provider.body.get("max_tokens")) == (7, None)


@pytest.mark.parametrize(
    ("form", "name", "words"),
    [
        ("openai", "max_tokens", "max_tokens is too large: 90000. This model supports at most 4096 completion tokens."),
        ("openai", "max_tokens", "`max_tokens` must be less than or equal to `4096`, the maximum value."),
        ("openai", "max_tokens", "Invalid max_tokens value, the valid range of max_tokens is [1, 4096]"),
        (
            "responses",
            "max_output_tokens",
            "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 4096, but got more.",
        ),
        (
            "gemini",
            "maxOutputTokens",
            "Unable to submit request because it has a maxOutputTokens value of 90000 but the supported range is from "
            "1 (inclusive) to 4097 (exclusive). Update the value and try again.",
        ),
    ],
)
async def test_a_cap_above_the_model_s_maximum_is_lowered_and_smaller_ones_stay(
    bench: Any, form: str, name: str, words: str
) -> None:
    refusal = httpx.Response(400, json={"error": {"message": words}})
    provider = bench.Provider(refusal, httpx.Response(404, json={}))
    model = getattr(bench, form)(provider)
    for cap in (90_000, 70):
        await bench.refused(model, bench.asking(max_output_tokens=cap))
    bodies = [json.loads(request.content) for request in provider.requests]
    assert [body.get("generationConfig", body).get(name) for body in bodies] == [90_000, 4_096, 70]
    assert bench.listener.not_told == [f"{model.name} gives at most 4,096 tokens of output, and more was asked for."]


async def test_every_order_hears_of_a_parameter_that_gemini_refused_once(bench: Any) -> None:
    refusal = httpx.Response(400, json={"error": {"message": "temperature is not supported by this model."}})
    model = bench.gemini(bench.Provider(refusal, httpx.Response(404, json={})))
    for listener in (bench.listener, another := bench.RecordingListener()):
        with pytest.raises(ModelError):
            await model.ask(bench.asking(temperature=0.2), listener)
    assert bench.listener.not_told == another.not_told == ["gemini/m does not take temperature 0.2; it is not sent."]


@pytest.mark.parametrize(("provider", "model"), [("vllm", "qwen3"), ("groq", "qwen/qwen3-32b")])
async def test_a_server_that_only_knows_on_and_off_says_so_of_a_level(bench: Any, provider: str, model: str) -> None:
    asked = bench.openai(bench.Provider(httpx.Response(404, json={})), provider=provider, model=model)
    for thinking in ("low", "off", "inherit"):
        await bench.refused(asked, bench.asking(thinking=thinking))
    assert len(bench.listener.not_told) == 1 and "only as on or off" in bench.listener.not_told[0]


async def test_a_complaint_about_a_parameter_that_was_not_sent_is_the_answer(bench: Any) -> None:
    provider = bench.Provider(httpx.Response(400, json={"error": {"message": "temperature is too hot here"}}))
    error = await bench.refused(bench.openai(provider))
    assert (error.status, len(provider.requests)) == (400, 1)
