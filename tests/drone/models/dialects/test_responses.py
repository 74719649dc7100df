"""OpenAI's Responses: requests, parsed replies, and items that are sent back."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from drone.agent.ports.model import ContextOverflow, Model, ModelError, Reply, WantedCall
from drone.models.dialects.responses import responses_model
from drone.models.prices import TokenPrices, known_model
from drone.models.remote import ModelEndpoint
from mcc.contracts.blocks import (
    OpaqueBlock,
    RefusalBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolCallBlock,
    blocks_of,
)
from mcc.transcript.messages import (
    AssistantMessage,
    Encodable,
    Message,
    ToolResult,
    ToolResults,
    ToolSpec,
    UserMessage,
)
from tests.drone.models.cuts import cuts
from tests.drone.models.dialects import responding as wire
from tests.drone.models.loopback import Loopback

NAME = "openai/gpt-6.1-terra"
READ = ToolSpec("read.file", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
TEXT = "Grüße – 😀 und mehr"
INTERLEAVED = [
    wire.reasoning(1, "First I look.", "Then I read."),
    wire.call(1, "read_file", '{"path": "ü"}'),
    wire.reasoning(2),
    wire.message(1, TEXT, phase="commentary"),
    wire.call(2, "read_file", {"path": "b"}),
]


def model(server: Any, **more: Any) -> Model:
    known = {"name": NAME, "model": "gpt-6.1-terra", "base_url": "https://api.openai.com/v1", "key": "sk-1234567890"}
    return responses_model(ModelEndpoint(**{**known, **more}), Loopback(server))


async def replied(bench: Any, *pieces: bytes, **more: Any) -> Reply:
    return await model(bench.Provider(bench.streamed(*pieces)), **more).ask(bench.asking(tools=[READ]), bench.listener)


async def sent(bench: Any, *messages: Message, endpoint: Any = None, **more: Any) -> Any:
    """The body of a request with these messages."""
    provider = bench.Provider(lambda _: bench.streamed(wire.streamed([wire.message(1, "x")])))
    await model(provider, **(endpoint or {})).ask(bench.asking(*messages, **more), bench.listener)
    return provider.body


def kept(reply: Reply, **more: Any) -> AssistantMessage:
    """The reply as the journal stores it, its calls with our ids."""

    def blocks() -> Any:
        for number, block in enumerate(reply.blocks):
            if not isinstance(block, WantedCall):
                stored: BaseModel = block
            else:
                stored = ToolCallBlock(
                    call_id=f"ours-{number}",
                    name=block.name,
                    arguments=block.arguments,
                    provider_id=block.provider_id,
                    extra=block.extra,
                )
            yield type(stored).model_validate_json(stored.model_dump_json())

    return AssistantMessage(tuple(blocks()), **{"model": reply.model, **more})


async def test_an_interleaved_reply_is_read_in_its_order(bench: Any) -> None:
    reply = await replied(bench, wire.streamed(INTERLEAVED))
    kinds = [type(block) for block in reply.blocks]
    assert kinds == [ThinkingBlock, WantedCall, ThinkingBlock, TextBlock, WantedCall]
    assert reply.text == TEXT
    assert reply.thinking == "First I look.\n\nThen I read."
    assert [one.arguments for one in reply.tool_calls] == [{"path": "ü"}, {"path": "b"}]
    assert [one.provider_id for one in reply.tool_calls] == ["call_same"] * 2
    assert reply.finish_reason == "tool_calls"
    assert bench.listener.heard() == TEXT
    assert bench.listener.heard("thinking.delta") == reply.thinking


async def test_reported_tokens_are_the_usage(bench: Any) -> None:
    price = TokenPrices(1.0, 5.0, 0.05, cache_write=1.25)
    usage = (await replied(bench, wire.streamed(INTERLEAVED), price=price)).usage
    assert (usage.input_tokens, usage.cached_input_tokens, usage.cache_write_tokens) == (100, 60, 30)
    assert (usage.output_tokens, usage.reasoning_tokens) == (30, 20)
    assert usage.cost_usd == pytest.approx((10 * 1.0 + 60 * 0.05 + 30 * 1.25 + 30 * 5.0) / 1e6)


async def test_every_item_goes_back_to_its_model_unchanged_and_in_its_place(bench: Any) -> None:
    reply = await replied(bench, wire.streamed(INTERLEAVED))
    body = await sent(bench, UserMessage("Hi"), kept(reply))
    expected = [{**item} for item in INTERLEAVED]
    expected[1]["call_id"], expected[4]["call_id"] = "ours-1", "ours-4"
    del expected[3]["content"][0]["logprobs"]
    assert body["input"][1:] == expected


async def test_another_model_gets_text_and_calls_without_encrypted_reasoning(bench: Any) -> None:
    reply = kept(await replied(bench, wire.streamed(INTERLEAVED)), model="openai/gpt-5.4")
    items = (await sent(bench, UserMessage("Hi"), reply))["input"][1:]
    assert [item["type"] for item in items] == ["function_call", "message", "function_call"]
    assert not any("id" in item or "encrypted_content" in item for item in items)
    assert items[1]["content"][0]["text"] == TEXT


async def test_a_reply_whose_reasoning_was_lost_goes_back_without_the_names_of_its_items(bench: Any) -> None:
    reply = kept(await replied(bench, wire.streamed(INTERLEAVED)))
    without = tuple(ThinkingBlock(text="Hm") if isinstance(one, ThinkingBlock) else one for one in reply.blocks)
    items = (await sent(bench, UserMessage("Hi"), replace(reply, blocks=without)))["input"][1:]
    assert [item["type"] for item in items] == ["function_call", "message", "function_call"]
    assert not any("id" in item for item in items)
    assert items[1]["phase"] == "commentary"


async def test_a_conversation_in_the_terms_of_responses(bench: Any) -> None:
    told = blocks_of("Let me see.", tool_calls=[ToolCall(call_id="c-1", name="read.file", arguments={"path": "ü"})])
    result = ToolResults((ToolResult("c-1", "read.file", "of read", True),))
    conversation = (UserMessage("Hi"), AssistantMessage(told), result, UserMessage("Faster!"))
    body = await sent(bench, *conversation, tools=[READ], cache_key="record-1", max_output_tokens=5, temperature=0.2)
    name = body["tools"][0]["name"]
    assert body["tools"] == [
        {
            "type": "function",
            "name": name,
            "description": "Read a file.",
            "strict": False,
            "parameters": dict(READ.parameters),
        }
    ]
    said = [{"type": "output_text", "text": "Let me see.", "annotations": []}]
    assert body["input"] == [
        {"role": "user", "content": "Hi"},
        {"type": "message", "role": "assistant", "content": said},
        {"type": "function_call", "call_id": "c-1", "name": name, "arguments": '{"path":"ü"}'},
        {"type": "function_call_output", "call_id": "c-1", "output": "of read"},
        {"role": "user", "content": "Faster!"},
    ]
    assert (body["model"], body["stream"], body["store"]) == ("gpt-6.1-terra", True, False)
    assert (body["instructions"], body["include"]) == ("Be brief.", ["reasoning.encrypted_content"])
    assert (body["tool_choice"], body["parallel_tool_calls"]) == ("auto", True)
    assert (body["prompt_cache_key"], body["max_output_tokens"], body["temperature"]) == ("record-1", 16, 0.2)
    assert body["reasoning"] == {"summary": "auto"}


async def test_a_request_begins_with_all_bytes_of_the_one_before_it_up_to_its_last_message(bench: Any) -> None:
    provider = bench.Provider(lambda _: bench.streamed(wire.streamed([wire.message(1, "x")])))
    asked = model(provider)
    messages: list[Message] = [UserMessage("Hi")]
    for number, cap in enumerate((500, 400, 300)):
        ask = bench.asking(*messages, tools=[READ], max_output_tokens=cap, cache_key="record-1", thinking="high")
        reply = await asked.ask(ask, bench.listener)
        messages += [kept(reply), UserMessage(f"And {number}?")]
    first, second, third = (request.content for request in provider.requests)
    for earlier, later in ((first, second), (second, third)):
        assert later.startswith(earlier[: earlier.index(b'],"tool_choice"')])


async def test_every_message_and_tool_is_encoded_once(bench: Any) -> None:
    reply = kept(await replied(bench, wire.streamed(INTERLEAVED)))
    tool = replace(READ, encoded={})
    conversation = (UserMessage("Hi"), reply, UserMessage("So?"))
    await sent(bench, *conversation, tools=[tool])
    encoded: list[Encodable | ToolSpec] = [*conversation, tool]
    known = [{**one.encoded} for one in encoded]
    await sent(bench, *conversation, UserMessage("And?"), tools=[tool])
    for one, before in zip(encoded, known, strict=True):
        assert len(before) == 1
        assert [id(value) for value in one.encoded.values()] == [id(value) for value in before.values()]


@pytest.mark.parametrize("text", ["\ud800", "a\udfff\x00b", "😀\u2028"])
async def test_any_text_reaches_the_provider_exactly(bench: Any, text: str) -> None:
    told = blocks_of(text, tool_calls=[ToolCall(call_id="c", name="read", arguments={text: text})])
    result = ToolResults((ToolResult("c", "read", text, False),))
    body = await sent(bench, UserMessage(text), AssistantMessage(told), result, system=text)
    user, said, called, output = body["input"]
    assert (body["instructions"], user["content"], said["content"][0]["text"], output["output"]) == (text,) * 4
    assert json.loads(called["arguments"]) == {text: text}


async def test_arguments_that_were_no_json_object_go_back_inside_one(bench: Any) -> None:
    reply = await replied(bench, wire.streamed([wire.call(1, "read_file", '{"x": ')]))
    assert reply.tool_calls[0].arguments == '{"x": '
    body = await sent(bench, UserMessage("Hi"), kept(reply))
    assert list(json.loads(body["input"][1]["arguments"]).values()) == ['{"x": ']


async def test_a_refusal_is_kept_as_one(bench: Any) -> None:
    reply = await replied(bench, wire.streamed([wire.reasoning(1), wire.refusal(1, "I will not help with that.")]))
    assert reply.finish_reason == "refusal"
    assert reply.blocks[-1] == RefusalBlock(text="I will not help with that.")
    body = await sent(bench, UserMessage("Hi"), kept(reply))
    assert body["input"][-1]["content"] == [{"type": "refusal", "refusal": "I will not help with that."}]


@pytest.mark.parametrize(
    ("reason", "finish"), [("max_output_tokens", "length"), ("content_filter", "content_filter"), ("steered", "other")]
)
async def test_an_incomplete_reply_says_why_it_ended(bench: Any, reason: str, finish: str) -> None:
    output = [wire.reasoning(1, "Long"), {**wire.message(1, "Half a sen"), "status": "incomplete"}]
    data = wire.streamed(output, "incomplete", incomplete_details={"reason": reason})
    reply = await replied(bench, data)
    assert (reply.text, reply.finish_reason) == ("Half a sen", finish)
    assert reply.usage.reasoning_tokens == 20


@pytest.mark.parametrize(
    ("code", "retryable"),
    [("server_error", True), ("rate_limit_exceeded", True), ("invalid_prompt", False), ("bio_policy", False)],
)
async def test_a_failed_reply_is_an_error_in_the_providers_words(bench: Any, code: str, retryable: bool) -> None:
    data = wire.streamed([wire.message(1, "So")], "failed", error={"code": code, "message": "Something broke."})
    error = await bench.refused(model(bench.Provider(bench.streamed(data))))
    assert "Something broke." in str(error)
    assert error.retryable is retryable
    assert bench.listener.bill.usage is not None and bench.listener.bill.usage.output_tokens == 30


@pytest.mark.parametrize("nested", [False, True])
async def test_an_error_within_a_stream_is_raised(bench: Any, nested: bool) -> None:
    told = {"code": "server_error", "message": "The server had an error.", "param": None}
    event = {"type": "error", "error": told} if nested else {"type": "error", **told}
    begun = list(wire.events([wire.message(1, "So it goes")]))[:5]
    error = await bench.refused(model(bench.Provider(bench.streamed(wire.encoded(iter([*begun, event]))))))
    assert "The server had an error." in str(error)
    assert error.retryable


async def test_a_whole_body_is_read_as_the_same_stream_is(bench: Any) -> None:
    whole = httpx.Response(200, json=wire.response(INTERLEAVED))
    unstreamed = await model(bench.Provider(whole), stream=False).ask(bench.asking(), bench.listener)
    streamed = await replied(bench, wire.streamed(INTERLEAVED))
    assert (unstreamed.blocks, unstreamed.finish_reason) == (streamed.blocks, streamed.finish_reason)
    assert unstreamed.usage == streamed.usage


async def test_a_whole_body_of_a_failed_reply_is_an_error(bench: Any) -> None:
    body = wire.response([], "failed", error={"code": "server_error", "message": "It broke."})
    error = await bench.refused(model(bench.Provider(httpx.Response(200, json=body)), stream=False))
    assert "It broke." in str(error) and error.retryable


async def test_interleaved_items_are_put_in_the_order_of_the_output(bench: Any) -> None:
    first, second = wire.call(1, "read_file", {"path": "a"}), wire.call(2, "list_files", {})
    told = list(wire.events([first, second]))
    one, two, rest = told[2:6], told[6:-1], told[-1]
    mixed = [*told[:2], two[0], one[0], two[1], *one[1:], *two[2:], rest]
    reply = await replied(bench, wire.encoded(iter(mixed)))
    assert [one.name for one in reply.tool_calls] == ["read_file", "list_files"]


async def test_items_of_a_server_that_tells_only_the_end_are_read_from_it(bench: Any) -> None:
    reply = await replied(bench, wire.encoded(iter([list(wire.events(INTERLEAVED))[-1]])))
    assert reply.blocks == (await replied(bench, wire.streamed(INTERLEAVED))).blocks


async def test_an_unknown_item_is_sent_back_in_its_place(bench: Any) -> None:
    program = {"id": "prog_1", "type": "program", "call_id": "p", "code": "1", "fingerprint": "f=="}
    reply = await replied(bench, wire.streamed([wire.reasoning(1), program, wire.message(1, "So")]))
    assert reply.blocks[1] == OpaqueBlock(data=program)
    assert (await sent(bench, UserMessage("Hi"), kept(reply)))["input"][2] == program


async def test_reasoning_that_can_be_read_goes_back_whole(bench: Any) -> None:
    thought = {**wire.reasoning(1), "content": [{"type": "reasoning_text", "text": "Let me think."}]}
    del thought["encrypted_content"]
    reply = await replied(bench, wire.streamed([thought, wire.message(1, "So")]))
    assert reply.thinking == "Let me think."
    assert (await sent(bench, UserMessage("Hi"), kept(reply)))["input"][1] == thought


@pytest.mark.parametrize("error", [None, httpx.ReadError("gone")], ids=repr)
async def test_no_cut_of_a_stream_becomes_a_reply_unless_it_was_whole(bench: Any, error: Exception | None) -> None:
    data = wire.streamed([wire.reasoning(1, "Hm"), wire.message(1, TEXT), wire.call(1, "read_file", {"path": "b"})])
    whole = await replied(bench, data)
    for cut in cuts(data):
        provider = bench.Provider(bench.streamed(data[:cut], error=error))
        try:
            reply = await model(provider).ask(bench.asking(), bench.RecordingListener())
        except ModelError as told:
            assert told.retryable
        else:
            assert cut >= len(data) - 1, f"cut at {cut} became {reply}"
            assert reply.blocks == whole.blocks


async def test_pieces_of_one_byte_give_the_reply_that_one_piece_gives(bench: Any) -> None:
    data = wire.streamed(INTERLEAVED)
    reply = await replied(bench, *(data[place : place + 1] for place in range(len(data))))
    assert reply.blocks == (await replied(bench, data)).blocks


@pytest.mark.parametrize(
    ("thinking", "word"),
    [
        ("off", "none"),
        ("minimal", "minimal"),
        ("low", "low"),
        ("medium", "medium"),
        ("high", "high"),
        ("xhigh", "xhigh"),
        ("max", "max"),
    ],
)
async def test_levels_of_thinking_are_asked_for_in_its_words(bench: Any, thinking: str, word: str) -> None:
    assert (await sent(bench, thinking=thinking))["reasoning"] == {"effort": word, "summary": "auto"}


async def test_leaving_out_another_model_s_reasoning_is_reported(bench: Any) -> None:
    reply = kept(await replied(bench, wire.streamed(INTERLEAVED)), model="openai/gpt-5.4")
    await sent(bench, UserMessage("Hi"), reply)
    assert bench.listener.not_told == [
        f"{NAME} is not told the thinking in earlier replies that only openai/gpt-5.4 can read."
    ]
    bench.listener.not_told.clear()
    await sent(bench, UserMessage("Hi"), replace(reply, model=NAME))
    assert not bench.listener.not_told


async def test_a_reply_carries_the_name_that_the_provider_gave_the_request(bench: Any) -> None:
    data = wire.streamed([wire.message(1, "x")])
    provider = bench.Provider(bench.streamed(data, headers={"x-request-id": "req_7"}))
    assert (await model(provider).ask(bench.asking(), bench.listener)).request_id == "req_7"


async def test_fields_of_the_operator_replace_our_own(bench: Any) -> None:
    body = await sent(bench, endpoint={"extra_body": {"store": True, "truncation": "auto"}})
    assert (body["store"], body["truncation"]) == (True, "auto")


@pytest.mark.parametrize(
    ("named", "thinking", "word"),
    [
        ("gpt-5", "off", "minimal"),
        ("gpt-5.4", "max", "xhigh"),
        ("o3", "minimal", "low"),
        ("gpt-6.1-terra", "max", "max"),
    ],
)
async def test_a_level_that_a_known_model_does_not_take_is_never_tried(
    bench: Any, named: str, thinking: str, word: str
) -> None:
    known = {"name": f"openai/{named}", "model": named, "known": known_model("openai", named)}
    body = await sent(bench, thinking=thinking, endpoint=known)
    assert body["reasoning"]["effort"] == word
    assert not bench.listener.retries
    assert len(bench.listener.not_told) == (thinking != word)


async def test_a_model_that_never_reasons_is_not_asked_to(bench: Any) -> None:
    body = await sent(bench, endpoint={"model": "gpt-4.1"})
    assert "reasoning" not in body and "include" not in body


def refusing(*words: str) -> Sequence[httpx.Response]:
    told = {"type": "invalid_request_error", "param": "x", "code": "unsupported_value"}
    return [httpx.Response(400, json={"error": {**told, "message": one}}) for one in words]


def unsupported(level: str) -> str:
    taken = "Supported values are: 'low', 'medium', and 'high'."
    return f"Unsupported value: '{level}' is not supported with the 'gpt-6.1-terra' model. {taken}"


@pytest.mark.parametrize(
    ("thinking", "refused", "then"),
    [("off", ["none", "minimal"], "low"), ("max", ["max", "xhigh"], "high"), ("minimal", ["minimal"], "low")],
)
async def test_an_unsupported_level_becomes_the_nearest_supported_one_and_is_reported(
    bench: Any, thinking: str, refused: list[str], then: str
) -> None:
    good = lambda _: bench.streamed(wire.streamed([wire.message(1, "x")]))  # noqa: E731
    provider = bench.Provider(*refusing(*map(unsupported, refused)), good)
    asked = model(provider)
    await asked.ask(bench.asking(thinking=thinking), bench.listener)
    assert provider.body["reasoning"] == {"effort": then, "summary": "auto"}
    assert len(bench.listener.retries) == len(refused)
    assert all(f"effort {level}" in told for level, (told, _) in zip(refused, bench.listener.retries, strict=True))
    assert bench.listener.not_told[-1] == f"{NAME} does not take thinking {thinking}; it is asked with effort {then}."
    another = bench.RecordingListener()
    await asked.ask(bench.asking(thinking=then), another)
    assert provider.body["reasoning"]["effort"] == then
    assert not another.not_told
    await asked.ask(bench.asking(thinking=thinking), another)
    assert another.not_told == bench.listener.not_told[-1:]


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        ("Encrypted content is not supported with this model.", "include"),
        ("Your organization must be verified to generate reasoning summaries.", "summary"),
        ("Unsupported parameter: 'reasoning.summary' is not supported with this model.", "summary"),
        ("Unsupported parameter: 'reasoning.effort' is not supported with this model.", "reasoning"),
        ("Unsupported parameter: 'temperature' is not supported with this model.", "temperature"),
        ("Invalid service_tier argument: 'flex' is not available.", "service_tier"),
    ],
)
async def test_only_the_refused_parameter_is_left_out(bench: Any, words: str, missing: str) -> None:
    good = lambda _: bench.streamed(wire.streamed([wire.message(1, "x")]))  # noqa: E731
    provider = bench.Provider(*refusing(words), good)
    ask = bench.asking(thinking="high", temperature=0.5, service_tier="flex")
    await model(provider).ask(ask, bench.listener)
    body = provider.body
    body |= {f"{name}": value for name, value in body.get("reasoning", {}).items()}
    expected = {"include", "reasoning", "summary", "effort", "temperature", "service_tier"} - {missing}
    assert expected - ({"summary", "effort"} if missing == "reasoning" else set()) <= body.keys()
    assert missing not in body
    assert len(bench.listener.retries) == 1
    assert len(bench.listener.not_told) == (missing in ("reasoning", "temperature", "service_tier"))


@pytest.mark.parametrize(
    "words",
    [
        "The encrypted content gAAA could not be verified. Reason: Encrypted content could not be decrypted or parsed.",
        "The encrypted content for item rs_1 did not match the target organization.",
    ],
)
async def test_reasoning_that_its_provider_can_no_longer_open_stays_behind_for_that_agent_alone(
    bench: Any, words: str
) -> None:
    good = lambda _: bench.streamed(wire.streamed([wire.message(1, "x")]))  # noqa: E731
    reply = kept(await replied(bench, wire.streamed(INTERLEAVED)))
    provider = bench.Provider(*refusing(words), good)
    asked = model(provider)
    conversation = (UserMessage("Hi"), reply, UserMessage("So?"))
    await asked.ask(bench.asking(*conversation, cache_key="one"), bench.listener)
    assert [item.get("type") for item in provider.body["input"]].count("reasoning") == 0
    assert bench.listener.not_told == [f"{NAME} is not given back its earlier reasoning: it can no longer open it."]
    await asked.ask(bench.asking(*conversation, cache_key="two"), bench.listener)
    assert [item.get("type") for item in provider.body["input"]].count("reasoning") == 2


@pytest.mark.parametrize("inside", [None, "failed", "error"])
async def test_a_conversation_that_is_too_long_is_an_overflow(bench: Any, inside: str | None) -> None:
    words = "Your input exceeds the context window of this model. Please adjust your input and try again."
    told = {"code": "context_length_exceeded", "message": words}
    answers = {
        None: httpx.Response(400, json={"error": {**told, "type": "invalid_request_error", "param": "input"}}),
        "failed": bench.streamed(wire.streamed([], "failed", error=told)),
        "error": bench.streamed(wire.encoded(iter([{"type": "error", **told}]))),
    }
    provider = bench.Provider(answers[inside])
    assert isinstance(await bench.refused(model(provider)), ContextOverflow)
    assert len(provider.requests) == 1


async def test_azure_is_asked_at_its_new_address_with_the_key_in_its_own_header(bench: Any) -> None:
    provider = bench.Provider(bench.streamed(wire.streamed([wire.message(1, "x")])))
    base_url = "https://mine.openai.azure.com/openai/v1"
    await model(provider, provider="azure", base_url=base_url).ask(bench.asking(), bench.listener)
    request = provider.requests[0]
    assert (str(request.url), request.headers["api-key"]) == (f"{base_url}/responses", "sk-1234567890")


async def test_reasoning_that_led_to_nothing_before_the_reply_was_cut_does_not_go_back(bench: Any) -> None:
    cut = wire.streamed([wire.reasoning(1, "Long")], "incomplete", incomplete_details={"reason": "max_output_tokens"})
    reply = kept(await replied(bench, cut))
    assert reply.thinking == "Long"
    body = await sent(bench, UserMessage("Hi"), reply, UserMessage("Go on."))
    assert [item["role"] for item in body["input"]] == ["user", "user"]


async def test_a_complaint_about_an_item_of_reasoning_is_the_answer(bench: Any) -> None:
    words = "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'."
    provider = bench.Provider(*refusing(words))
    error = await bench.refused(model(provider))
    assert (error.status, len(provider.requests)) == (400, 1)
