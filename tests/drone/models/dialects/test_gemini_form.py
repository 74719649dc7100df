"""Gemini's own format: requests, replies, and parts that are sent back unchanged."""

import json
from typing import Any

import httpx
import pytest

from drone.agent.ports.model import ModelError, WantedCall
from drone.models.dialects.gemini import UNSIGNED, Gemini
from drone.models.prices import TokenPrices
from drone.models.remote import ModelEndpoint
from mcc.contracts.blocks import OpaqueBlock, TextBlock, ThinkingBlock, ToolCallBlock
from mcc.transcript.messages import AssistantMessage, Message, ToolResult, ToolResults, ToolSpec, UserMessage

READ = ToolSpec("read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
DONE = {"candidates": [{"content": {"role": "model", "parts": [{"text": "x"}]}, "finishReason": "STOP"}]}

HOST = "https://models.test"


def chunk(*parts: dict[str, object], finish: str | None = None, **usage: int) -> dict[str, object]:
    candidate: dict[str, object] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "usageMetadata": usage, "responseId": "r-1"}


def call(name: str, signature: str = "", call_id: str = "", **arguments: object) -> dict[str, object]:
    told: dict[str, object] = {
        "functionCall": {"name": name, "args": arguments, **({"id": call_id} if call_id else {})}
    }
    return {**told, "thoughtSignature": signature} if signature else told


async def replied(bench: Any, *events: object, **endpoint: Any) -> Any:
    model = bench.gemini(bench.Provider(bench.streamed(bench.sse(*events))), **endpoint)
    return await model.ask(bench.asking(tools=[READ]), bench.listener)


async def sent(bench: Any, *messages: Message, **more: Any) -> Any:
    endpoint = more.pop("endpoint", {})
    provider = bench.Provider(lambda _: bench.streamed(bench.sse(DONE)))
    await bench.gemini(provider, **endpoint).ask(bench.asking(*messages, **more), bench.listener)
    return provider.body


def journaled(reply: Any, model: str = "gemini/m") -> AssistantMessage:
    """The reply as stored in a transcript, its calls with our ids."""
    numbers = iter("abcdef")
    blocks = tuple(
        ToolCallBlock(
            call_id=f"ours-{next(numbers)}",
            provider_id=block.provider_id,
            name=block.name,
            arguments=block.arguments,
            extra=block.extra,
        )
        if isinstance(block, WantedCall)
        else block
        for block in reply.blocks
    )
    return AssistantMessage(blocks, model)


def results(*names: str, is_error: bool = False) -> ToolResults:
    ids = zip("abcdef", names, strict=False)
    return ToolResults(tuple(ToolResult(f"ours-{letter}", name, f"of {name}", is_error) for letter, name in ids))


async def test_thoughts_text_and_parallel_calls_arrive_in_their_order(bench: Any) -> None:
    reply = await replied(
        bench,
        chunk({"text": "Hm, ", "thought": True}),
        chunk({"text": "yes.", "thought": True}),
        chunk({"text": "I "}),
        chunk({"text": "read."}),
        chunk(call("read", "czE=", "1", path="a"), call("read", "", "2", path="b")),
        chunk({"text": ""}, finish="STOP", promptTokenCount=7),
    )
    assert reply.blocks == (
        ThinkingBlock(text="Hm, yes."),
        TextBlock(text="I read."),
        WantedCall("read", {"path": "a"}, "1", {"thoughtSignature": "czE="}),
        WantedCall("read", {"path": "b"}, "2"),
    )
    assert (reply.finish_reason, reply.request_id) == ("tool_calls", "r-1")
    assert (bench.listener.heard(), bench.listener.heard("thinking.delta")) == ("I read.", "Hm, yes.")


async def test_every_signature_goes_back_with_the_part_that_it_came_with(bench: Any) -> None:
    parts: list[dict[str, object]] = [
        {"text": "Sealed.", "thought": True, "thoughtSignature": "czA="},
        {"text": "First. "},
        {"text": "Signed.", "thoughtSignature": "czE="},
        {"text": "After it."},
        call("read", "czI=", "id-1", path="ü"),
        call("read", "", "id-2", path="b"),
        {"executableCode": {"code": "1+1", "language": "PYTHON"}, "thoughtSignature": "czM="},
        {"text": "", "thoughtSignature": "czQ="},
    ]
    reply = await replied(bench, *(chunk(part) for part in parts), chunk(finish="STOP"))
    assert any(isinstance(block, OpaqueBlock) for block in reply.blocks)
    own = journaled(reply)
    body = await sent(bench, UserMessage("Hi"), own, results("read", "read"), tools=[READ])
    assert body["contents"][1] == {"role": "model", "parts": parts}
    answers = [part["functionResponse"] for part in body["contents"][2]["parts"]]
    assert [answer["id"] for answer in answers] == ["id-1", "id-2"]
    assert answers[0] == {"id": "id-1", "name": "read", "response": {"output": "of read"}}


@pytest.mark.parametrize(("model", "dummy"), [("gemini-3.1-pro", True), ("gemini-2.5-flash", False)])
async def test_calls_of_another_model_lose_its_signs_and_only_the_first_says_so(
    bench: Any, model: str, dummy: bool
) -> None:
    reply = await replied(
        bench, chunk({"text": "T", "thoughtSignature": "c2ln"}, call("read", "c2ln", "1"), call("read")), DONE
    )
    other = journaled(reply, "anthropic/claude")
    body = await sent(bench, UserMessage("Hi"), other, results("read", "read"), endpoint={"model": model}, tools=[READ])
    bare: list[dict[str, object]] = [{"text": "T"}, call("read"), call("read"), {"text": "x"}]
    signed = [bare[0], {**bare[1], "thoughtSignature": UNSIGNED}, *bare[2:]]
    assert body["contents"][1]["parts"] == (signed if dummy else bare)
    assert "id" not in body["contents"][2]["parts"][0]["functionResponse"]


async def test_ids_that_repeat_in_a_reply_are_left_out(bench: Any) -> None:
    reply = await replied(bench, chunk(call("read", "s", "same"), call("read", "", "same"), finish="STOP"))
    body = await sent(bench, UserMessage("Hi"), journaled(reply), results("read", "read"), tools=[READ])
    assert "same" not in json.dumps(body["contents"])


async def test_neighbours_of_one_role_are_one_content_and_results_stand_first(bench: Any) -> None:
    reply = await replied(bench, chunk(call("read", "s"), finish="STOP"))
    opening, refused = (UserMessage("a"), UserMessage(" ")), results("read", is_error=True)
    body = await sent(bench, *opening, journaled(reply), refused, UserMessage("Faster!"), tools=[READ])
    assert [content["role"] for content in body["contents"]] == ["user", "model", "user"]
    assert body["contents"][0]["parts"] == [{"text": "a"}, {"text": "(empty)"}]
    response = {"functionResponse": {"name": "read", "response": {"error": "of read"}}}
    assert body["contents"][2]["parts"] == [response, {"text": "Faster!"}]


async def test_system_tools_and_knobs_stand_where_google_wants_them(bench: Any) -> None:
    knobs = {"temperature": 0.5, "max_output_tokens": 99, "thinking": "high", "service_tier": "flex"}
    body = await sent(bench, UserMessage("Hi"), tools=[READ], **knobs)
    assert body["serviceTier"] == "flex"
    assert body["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    declared = {"name": "read", "description": "Read a file.", "parametersJsonSchema": dict(READ.parameters)}
    assert body["tools"] == [{"functionDeclarations": [declared]}]
    thinking = {"includeThoughts": True, "thinkingLevel": "HIGH"}
    assert body["generationConfig"] == {"maxOutputTokens": 99, "temperature": 0.5, "thinkingConfig": thinking}


async def test_names_that_begin_with_a_digit_are_called_otherwise_there_and_back(bench: Any) -> None:
    tool = ToolSpec("7zip", "", {"type": "object"})
    assert (await sent(bench, tools=[tool]))["tools"][0]["functionDeclarations"][0]["name"] == "_7zip"
    model = bench.gemini(bench.Provider(bench.streamed(bench.sse(chunk(call("_7zip"), finish="STOP")))))
    assert (await model.ask(bench.asking(tools=[tool]), bench.listener)).tool_calls[0].name == "7zip"


async def test_earlier_calls_stay_declared_where_no_tool_may_be_called_any_more(bench: Any) -> None:
    reply = await replied(bench, chunk(call("read", "s"), finish="STOP"))
    body = await sent(bench, UserMessage("Hi"), journaled(reply), results("read"))
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "NONE"}}
    assert [one["name"] for one in body["tools"][0]["functionDeclarations"]] == ["read"]


@pytest.mark.parametrize(
    ("model", "thinking", "told", "aloud"),
    [
        ("gemini-3.1-pro", "off", {"includeThoughts": False, "thinkingLevel": "LOW"}, True),
        ("gemini-3.1-pro", "minimal", {"includeThoughts": True, "thinkingLevel": "LOW"}, True),
        ("gemini-3-flash-preview", "minimal", {"includeThoughts": True, "thinkingLevel": "MINIMAL"}, False),
        ("gemini-3.8-flash", "medium", {"includeThoughts": True, "thinkingLevel": "MEDIUM"}, False),
        ("gemini-flash-latest", "max", {"includeThoughts": True, "thinkingLevel": "HIGH"}, True),
        ("gemini-3.8-flash", "xhigh", {"includeThoughts": True, "thinkingLevel": "HIGH"}, True),
        ("gemini-3.8-flash", "inherit", {"includeThoughts": True}, False),
        ("gemini-2.5-flash", "off", {"includeThoughts": False, "thinkingBudget": 0}, False),
        ("gemini-2.5-flash", "max", {"includeThoughts": True, "thinkingBudget": 24_576}, False),
        ("gemini-2.5-pro", "off", {"includeThoughts": False, "thinkingBudget": 128}, True),
        ("gemini-2.5-pro", "max", {"includeThoughts": True, "thinkingBudget": 32_768}, False),
        ("gemini-2.0-flash", "high", None, True),
        ("gemini-2.0-flash", "off", None, False),
    ],
)
async def test_every_thinking_level_is_requested_or_reported(
    bench: Any, model: str, thinking: str, told: dict[str, object] | None, aloud: bool
) -> None:
    body = await sent(bench, thinking=thinking, endpoint={"model": model})
    assert body.get("generationConfig", {}).get("thinkingConfig") == told
    form = Gemini(ModelEndpoint(name="gemini/m", model=model, base_url="https://models.test/v1beta"))
    assert bool(list(form.not_sent(bench.asking(thinking=thinking), frozenset()))) is aloud


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("Thinking level LOW is not supported for this model.", {"includeThoughts": True}),
        ("thinking is not supported by this model", None),
    ],
)
async def test_a_level_that_the_model_does_not_know_is_left_out(
    bench: Any, words: str, left: dict[str, object] | None
) -> None:
    error = {"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}
    provider = bench.Provider(httpx.Response(400, json=error), lambda _: bench.streamed(bench.sse(DONE)))
    await bench.gemini(provider).ask(bench.asking(thinking="low"), bench.listener)
    assert provider.body.get("generationConfig", {}).get("thinkingConfig") == left
    assert "Asking again without thinking" in bench.listener.retries[0][0]


async def test_usage_counts_thoughts_as_output_and_the_last_figures(bench: Any) -> None:
    first = chunk({"text": "x"}, promptTokenCount=10, candidatesTokenCount=1, thoughtsTokenCount=5)
    usage = {"promptTokenCount": 100, "cachedContentTokenCount": 80}
    usage |= {"candidatesTokenCount": 4, "thoughtsTokenCount": 30}
    last = chunk(finish="STOP", **usage)
    told = (await replied(bench, first, last, price=TokenPrices(1, 2, 0.1))).usage
    assert (told.input_tokens, told.cached_input_tokens) == (100, 80)
    assert (told.output_tokens, told.reasoning_tokens) == (34, 30)
    assert told.cost_usd == pytest.approx((20 * 1 + 80 * 0.1 + 34 * 2) / 1e6)


@pytest.mark.parametrize(
    ("said", "ours"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("BLOCKLIST", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("SPII", "content_filter"),
        ("SOMETHING_NEW", "other"),
    ],
)
async def test_finish_reasons_are_ours(bench: Any, said: str, ours: str) -> None:
    assert (await replied(bench, chunk({"text": "half"}, finish=said))).finish_reason == ours


async def test_a_blocked_request_is_a_refusal_with_its_reason(bench: Any) -> None:
    blocked = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 3}}
    reply = await replied(bench, blocked)
    assert (reply.finish_reason, reply.refusal) == ("refusal", "The request was blocked: PROHIBITED_CONTENT.")


async def test_a_filter_that_gives_words_is_a_refusal_with_them(bench: Any) -> None:
    filtered = {"candidates": [{"finishReason": "SAFETY", "finishMessage": "That is dangerous."}]}
    reply = await replied(bench, chunk({"text": "half"}), filtered)
    assert (reply.finish_reason, reply.text, reply.refusal) == ("refusal", "half", "That is dangerous.")


async def test_a_malformed_call_is_sent_back_with_unreadable_arguments(bench: Any) -> None:
    words = "Malformed function call: print(default_api.read(path='a'))"
    malformed = {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": words}]}
    reply = await replied(bench, malformed)
    assert reply.tool_calls == (WantedCall("read", "path='a'))"),)
    assert reply.finish_reason == "tool_calls"


async def test_a_malformed_call_without_text_is_retried(bench: Any) -> None:
    with pytest.raises(ModelError, match="could not read") as caught:
        await replied(bench, {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]})
    assert caught.value.retryable


async def test_a_call_of_a_tool_that_was_not_offered_is_a_call(bench: Any) -> None:
    reply = await replied(bench, chunk(call("paint", "s"), finish="UNEXPECTED_TOOL_CALL"))
    assert (reply.tool_calls[0].name, reply.finish_reason) == ("paint", "tool_calls")


async def test_an_error_in_the_stream_says_when_to_come_again(bench: Any) -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}]
    error = {"error": {"code": 429, "message": "Slow down.", "status": "RESOURCE_EXHAUSTED", "details": details}}
    caught = await bench.refused(bench.gemini(bench.Provider(bench.streamed(bench.sse(chunk({"text": "x"}), error)))))
    assert (caught.status, caught.retryable, caught.retry_after) == (429, True, 34.5)
    again = await bench.refused(bench.gemini(bench.Provider(httpx.Response(429, json=[error]))))
    assert (again.status, again.retryable, again.retry_after) == (429, True, 34.5)


async def test_keys_of_google_are_blotted_out_of_its_words(bench: Any) -> None:
    error = {"error": {"code": 403, "message": "Key AIzaSyA1b2C3d4E5f6 and token ya29.abcdefgh are wrong."}}
    told = str(await bench.refused(bench.gemini(bench.Provider(httpx.Response(403, json=error)))))
    assert "Key [key] and token [key] are wrong." in told


async def test_an_empty_reply_is_a_reply_without_blocks(bench: Any) -> None:
    reply = await replied(bench, {"candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}]})
    assert (reply.blocks, reply.finish_reason) == ((), "stop")


@pytest.mark.parametrize(
    ("base_url", "model", "stream", "path", "header"),
    [
        (HOST, "gemini-3", False, "/v1beta/models/gemini-3:generateContent", "x-goog-api-key"),
        (f"{HOST}/v1beta", "gemini-3", True, "/v1beta/models/gemini-3:streamGenerateContent", "x-goog-api-key"),
        (f"{HOST}/v1beta", "tunedModels/t", False, "/v1beta/tunedModels/t:generateContent", "x-goog-api-key"),
        (
            "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google",
            "gemini-3",
            False,
            "/v1/projects/p/locations/global/publishers/google/models/gemini-3:generateContent",
            "authorization",
        ),
    ],
)
async def test_requests_go_to_the_model_with_the_key_in_the_header_of_the_place(
    bench: Any, base_url: str, model: str, stream: bool, path: str, header: str
) -> None:
    body = httpx.Response(200, json=DONE)
    provider = bench.Provider(bench.streamed(bench.sse(DONE)) if stream else body)
    await bench.gemini(provider, base_url=base_url, model=model, stream=stream).ask(bench.asking(), bench.listener)
    request = provider.requests[0]
    assert request.url.path == path
    assert (request.url.query == b"alt=sse") is stream
    assert request.headers[header] in (bench.key, f"Bearer {bench.key}")
    assert len({"x-goog-api-key", "authorization"} & set(request.headers)) == 1
