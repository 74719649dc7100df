"""Each server of chat completions: a call, its result sent back in the server's own way, and an answer."""

from itertools import pairwise
from typing import Any

import httpx
import pytest

from drone.models.dialects.chat import CHAT_SERVERS, ChatMessages
from drone.models.dialects.differences import LEVELS
from mcc.configuration.providers import PROVIDERS
from mcc.contracts.blocks import ToolCallBlock
from mcc.contracts.journal import AgentStep
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.record import RecordStatus
from mcc.contracts.shape import to_json
from mcc.transcript.messages import AssistantMessage
from tests.drone.models.conftest import chunk, sse, streamed
from tests.drone.models.dialects.looped import StreamedAgent, called

ANSWER = sse(chunk("stop", content="It is 42."), "[DONE]")
CALL = called(("call-x", '{"number":21}'))
CALLED = sse(CALL, chunk("tool_calls"), "[DONE]")
THOUGHT = sse(chunk(reasoning_content="Twice that."), CALL, chunk("tool_calls"), "[DONE]")


async def done(looped: StreamedAgent, **definition: Any) -> StreamedAgent:
    report = await looped.run(**definition)
    assert (report.status, report.text) == (RecordStatus.COMPLETED, "It is 42."), report.error
    assert looped.keeps_its_beginning()
    return looped


def test_every_provider_of_chat_completions_has_its_differences() -> None:
    assert {one.name for one in PROVIDERS if one.form == "chat"} <= CHAT_SERVERS.keys()
    assert len({one.name for one in CHAT_SERVERS.values()}) == len({*map(id, CHAT_SERVERS.values())})


@pytest.mark.parametrize("name", CHAT_SERVERS)
async def test_a_turn_with_a_call_comes_to_its_end_at_every_server(name: str) -> None:
    looped = await done(StreamedAgent(name, CALLED, ANSWER))
    reply, (result, *more) = looped.sent_back()
    assert (result["role"], result["tool_call_id"], more) == ("tool", reply["tool_calls"][0]["id"], [])
    assert "42" in str(result["content"])


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("mistral", None),
        ("groq", None),
        ("xai", None),
        ("azure", None),
        ("openai", None),
        ("deepseek", "reasoning_content"),
        ("vllm", "reasoning"),
        ("llamacpp", "reasoning_content"),
        ("together", "reasoning_content"),
        ("ollama", "reasoning"),
    ],
)
async def test_thinking_goes_back_with_its_call_where_it_is_taken_and_nowhere_else(
    name: str, field: str | None
) -> None:
    looped = await done(StreamedAgent(name, THOUGHT, ANSWER))
    assert looped.replies[0].thinking == "Twice that."
    told = {key: value for key, value in looped.sent_back()[0].items() if key.startswith("reasoning")}
    assert told == ({field: "Twice that."} if field else {})


async def test_an_unlisted_server_that_refuses_thinking_is_asked_without_it_and_that_is_reported() -> None:
    words = {"error": {"message": "property 'reasoning_content' is unsupported"}}
    looped = StreamedAgent(
        "openai", THOUGHT, httpx.Response(400, json=words), streamed(ANSWER), base_url="https://gateway.test/v1"
    )
    assert (await looped.run()).status is RecordStatus.COMPLETED
    assert "reasoning_content" not in looped.sent_back()[0]
    retried = [entry.data for entry in looped.journal.entries if entry.kind == "model.retried"]
    assert "without reasoning_content" in str(retried)


async def test_mistral_takes_ids_of_nine_letters_and_no_user_after_a_tool() -> None:
    twice = sse(called(("a", '{"number":21}'), ("b", '{"number":4}')), chunk("tool_calls"), "[DONE]")
    looped = await done(StreamedAgent("mistral", twice, twice, twice, ANSWER, model="magistral-medium-latest"))
    ids = [call["id"] for message in looped.bodies[-1]["messages"] for call in message.get("tool_calls", ())]
    assert len({*ids}) == len(ids) == 6
    assert all(len(one) == 9 and one.isascii() and one.isalnum() for one in ids)
    roles = [message["role"] for message in looped.bodies[-1]["messages"]]
    assert ("tool", "user") not in {*pairwise(roles)}
    nudges = [entry.data.message for entry in looped.journal.entries if isinstance(entry.data, AgentStep)]
    assert nudges and looped.bodies[-1]["messages"][-1]["content"].endswith(f"{nudges[-1]}\n</notice>")
    assert "stream_options" not in looped.bodies[0]


@pytest.mark.parametrize("name", ["vllm", "llamacpp", "ollama", "together"])
async def test_mistral_s_models_keep_their_manners_at_other_servers(name: str) -> None:
    looped = await done(StreamedAgent(name, THOUGHT, ANSWER, model="Devstral-Small-2"))
    reply, _ = looped.sent_back()
    assert len(reply["tool_calls"][0]["id"]) == 9 and not any(key.startswith("reasoning") for key in reply)


async def test_mistral_s_thinking_in_parts_is_thinking_and_does_not_go_back() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "Twice that."}]}]
    first = sse(chunk(content=parts), chunk(content=[{"type": "text", "text": "So."}]), CALL, chunk("tool_calls"))
    looped = await done(StreamedAgent("mistral", first, ANSWER))
    assert looped.replies[0].thinking == "Twice that."
    assert looped.sent_back()[0]["content"] == "So."


async def test_usage_of_groq_is_found_where_groq_puts_it() -> None:
    usage = {"prompt_tokens": 70, "completion_tokens": 7, "total_tokens": 77}
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}], "x_groq": {"usage": usage}}
    looped = await done(StreamedAgent("groq", sse(CALL, end, "[DONE]"), ANSWER))
    assert (looped.replies[0].usage.input_tokens, looped.replies[0].usage.output_tokens) == (70, 7)


SIGNED = {"extra_content": {"google": {"thought_signature": "c2ln"}}}


@pytest.mark.parametrize("name", ["gemini", "vertex"])
async def test_a_signature_of_google_goes_back_with_the_call_that_it_came_with(name: str) -> None:
    signed = called(("a", '{"number":21}'), ("b", '{"number":4}'))
    signed["choices"][0]["delta"]["tool_calls"][0].update(SIGNED)  # type: ignore[index]
    first = sse(signed, chunk("tool_calls"), "[DONE]")
    calls = (await done(StreamedAgent(name, first, ANSWER, model="gemini-3.1-pro"))).sent_back()[0]["tool_calls"]
    assert [call.get("extra_content") for call in calls] == [SIGNED["extra_content"], None]


@pytest.mark.parametrize(
    ("model", "marked"),
    [("gemini-3.1-pro", True), ("gemini-4-argon", True), ("gemini-flash-latest", True), ("gemini-2.5-flash", False)],
)
async def test_calls_of_another_model_are_marked_as_such_for_google(model: str, marked: bool) -> None:
    calls = (await done(StreamedAgent("gemini", CALLED, ANSWER, model=model))).sent_back()[0]["tool_calls"]
    assert ("skip_thought_signature_validator" in str(calls[0])) is marked


async def test_extra_fields_from_another_wire_format_are_not_sent() -> None:
    own = ToolCallBlock(call_id="call-1", name="double", arguments={}, extra={"thoughtSignature": "c2ln"})
    told = ChatMessages("gemini/gemini-3.1-pro", "gemini-3.1-pro", CHAT_SERVERS["gemini"])
    [sent] = told("", [AssistantMessage((own,), "gemini/gemini-3.1-pro")], frozenset())
    assert b"c2ln" not in sent and b"skip_thought_signature_validator" in sent


DETAILS = [
    {"type": "reasoning.text", "text": "Twice ", "format": "anthropic-claude-v1", "index": 0},
    {"type": "reasoning.text", "text": "that.", "format": "anthropic-claude-v1", "index": 0},
    {"type": "reasoning.text", "signature": "c2ln", "format": "anthropic-claude-v1", "index": 0},
    {"type": "reasoning.encrypted", "data": "ZW5j", "format": "openai-responses-v1", "id": "rs_1", "index": 1},
    {"type": "reasoning.encrypted", "data": "ZW5k", "format": "openai-responses-v1", "id": "rs_2", "index": 1},
]
WHOLE = [{**DETAILS[0], "text": "Twice that.", "signature": "c2ln"}, *DETAILS[3:]]


def thought_about(*details: dict[str, object]) -> bytes:
    chunks = (chunk(reasoning=one.get("text"), reasoning_details=[one]) for one in details)
    return b": OPENROUTER PROCESSING\n\n" + sse(*chunks, CALL, chunk("tool_calls"), "[DONE]")


async def test_reasoning_details_of_openrouter_go_back_as_they_came_put_together() -> None:
    looped = await done(StreamedAgent("openrouter", thought_about(*DETAILS), ANSWER))
    reply, _ = looped.sent_back()
    assert reply["reasoning_details"] == WHOLE
    assert "reasoning_content" not in reply and "reasoning" not in reply
    assert looped.replies[0].thinking == "Twice that."


async def test_reasoning_details_go_to_no_other_model() -> None:
    looped = StreamedAgent("openrouter", thought_about(*DETAILS), ANSWER, model="one")
    await done(looped)
    told = looped.replies[0]
    assert told.blocks[0].extra == {"reasoning_details": WHOLE}  # type: ignore[union-attr]
    other = ChatMessages("openrouter/two", "two", CHAT_SERVERS["openrouter"])
    [sent] = other("", [AssistantMessage(told.blocks, told.model)], frozenset())
    assert b"reasoning_details" not in sent and b'"double"' in sent


async def test_reasoning_details_that_the_server_no_longer_knows_are_left_out_and_that_is_reported() -> None:
    words = {"error": {"message": "messages.1.content.0: `thinking` blocks cannot be modified."}}
    refusal = httpx.Response(400, json=words)
    looped = StreamedAgent("openrouter", thought_about(*DETAILS), refusal, ANSWER, model="anthropic/claude-sonnet-5")
    assert (await looped.run()).status is RecordStatus.COMPLETED
    assert ["reasoning_details" in str(body["messages"]) for body in looped.bodies] == [False, True, False]
    told = [entry.data.message for entry in looped.journal.entries if isinstance(entry.data, AgentStep)]
    assert told == [f"{looped.replies[0].model} is not given back its earlier thinking: it does not know it again."]


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        ({"cost": 0.0123}, 0.0123),
        ({"cost": 0.01, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.2}}, 0.21),
        ({"cost": -1.0}, None),
        ({"cost": "free"}, None),
        ({"cost": 0}, 0.0),
        ({"cost_in_usd_ticks": 10**400}, None),
        ({"cost_in_usd_ticks": -(10**400)}, None),
        ({"cost_in_usd_ticks": 123_000_000}, 0.0123),
    ],
)
async def test_the_cost_that_a_provider_reports_is_the_cost(usage: dict[str, Any], cost: float | None) -> None:
    told = {"choices": [], "usage": {"prompt_tokens": 70, "completion_tokens": 7, **usage}}
    looped = await done(StreamedAgent("openrouter", sse(CALL, chunk("tool_calls"), told, "[DONE]"), ANSWER))
    assert looped.replies[0].usage.cost_usd == (None if cost is None else pytest.approx(cost))
    assert looped.bodies[0]["usage"] == {"include": True}


async def test_tokens_written_to_a_cache_behind_openrouter_are_counted() -> None:
    details = {"cached_tokens": 10, "cache_write_tokens": 50}
    told = {"choices": [], "usage": {"prompt_tokens": 70, "completion_tokens": 7, "prompt_tokens_details": details}}
    looped = await done(StreamedAgent("openrouter", sse(CALL, chunk("tool_calls"), told, "[DONE]"), ANSWER))
    usage = looped.replies[0].usage
    assert (usage.input_tokens, usage.cached_input_tokens, usage.cache_write_tokens) == (70, 10, 50)


async def test_the_words_of_the_provider_behind_openrouter_are_passed_on() -> None:
    raw = '{"error": "the moon is in the way"}'
    error = {"error": {"code": 400, "message": "Provider returned error", "metadata": {"raw": raw}}}
    report = await StreamedAgent("openrouter", httpx.Response(400, json=error)).run()
    assert "Provider returned error" in (report.error or "") and "the moon is in the way" in (report.error or "")


async def test_a_call_that_groq_could_not_read_may_be_written_anew(bench: Any) -> None:
    error = {"error": {"message": "Failed to call a function.", "code": "tool_use_failed", "failed_generation": "<f"}}
    told = await bench.refused(bench.openai(bench.Provider(httpx.Response(400, json=error))))
    assert told.retryable


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("openrouter", thought_about(*DETAILS)),
        ("mistral", THOUGHT),
        ("deepseek", THOUGHT),
        ("gemini", CALLED),
        ("ollama", THOUGHT),
    ],
)
async def test_a_reply_that_comes_back_from_the_journal_is_sent_in_the_same_bytes(name: str, first: bytes) -> None:
    looped = await done(StreamedAgent(name, first, ANSWER, model="gemini-3.1-pro"))
    told = looped.replies[0]
    kept = ModelReplied.model_validate_json(to_json(told.stored))
    server = ChatMessages(told.model, "gemini-3.1-pro", CHAT_SERVERS[name])
    [sent] = server("", [AssistantMessage(kept.blocks, kept.model)], frozenset())
    assert sent in looped.requests[1].content


async def test_claude_behind_openrouter_is_cached_and_others_are_asked_as_ever() -> None:
    looped = await done(StreamedAgent("openrouter", CALLED, CALLED, ANSWER, model="anthropic/claude-sonnet-5"))
    marked = [
        [message["role"] for message in body["messages"] if "cache_control" in str(message)] for body in looped.bodies
    ]
    assert marked == [["system", "user"], ["system", "user", "tool"], ["system", "tool", "tool"]]
    assert looped.bodies[2]["messages"][-1]["content"][0]["cache_control"] == {"type": "ephemeral"}
    plain = await done(StreamedAgent("openrouter", CALLED, ANSWER, model="openrouter/auto"))
    assert "cache_control" not in str(plain.bodies)


async def test_an_error_in_the_middle_of_openrouter_s_stream_is_an_error() -> None:
    broken = {
        "error": {"code": 502, "message": "Provider disconnected"},
        "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
    }
    report = await StreamedAgent("openrouter", sse(chunk(content="It"), broken)).run()
    assert report.status is RecordStatus.FAILED and "Provider disconnected" in (report.error or "")


@pytest.mark.parametrize("name", CHAT_SERVERS)
@pytest.mark.parametrize("level", LEVELS)
async def test_every_thinking_level_is_requested_or_reported_as_missing(name: str, level: str) -> None:
    thinking = await done(StreamedAgent(name, ANSWER), thinking=level)
    inherited = await done(StreamedAgent(name, ANSWER), thinking="inherit")
    told = "cannot be told to think" in str([entry.data for entry in thinking.journal.entries])
    assert told is (thinking.bodies[0] == inherited.bodies[0])


@pytest.mark.parametrize(
    ("name", "model", "level", "asked"),
    [
        ("openrouter", "m", "high", {"reasoning": {"effort": "high"}}),
        ("openrouter", "m", "off", {"reasoning": {"effort": "none"}}),
        ("openai", "m", "max", {"reasoning_effort": "max"}),
        ("groq", "qwen/qwen3-32b", "high", {"reasoning_effort": "default", "reasoning_format": "parsed"}),
        ("groq", "openai/gpt-oss-120b", "max", {"reasoning_effort": "high", "include_reasoning": True}),
        ("deepseek", "deepseek-v4-pro", "off", {"thinking": {"type": "disabled"}}),
        ("deepseek", "deepseek-v4-pro", "max", {"thinking": {"type": "enabled"}, "reasoning_effort": "max"}),
        ("xai", "grok-4.3", "off", {"reasoning_effort": "none"}),
        ("xai", "grok-4.5", "max", {"reasoning_effort": "high"}),
        ("xai", "grok-latest", "max", {"reasoning_effort": "xhigh"}),
        ("vertex", "google/gemini-3.8-flash", "minimal", {"reasoning_effort": "low"}),
        ("xai", "grok-3-mini", "medium", {"reasoning_effort": "high"}),
        ("deepseek", "deepseek-v4-pro", "minimal", {"thinking": {"type": "enabled"}, "reasoning_effort": "low"}),
        ("mistral", "m", "low", {"reasoning_effort": "high"}),
        ("mistral", "mistral-large-4", "low", {"reasoning_effort": "low"}),
        ("together", "zai-org/GLM-5.3", "max", {"reasoning_effort": "max"}),
        ("together", "zai-org/GLM-5", "off", {"reasoning": {"enabled": False}}),
        ("ollama", "qwen3", "max", {"reasoning_effort": "max"}),
        ("vllm", "qwen3", "off", {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}),
        ("llamacpp", "gpt-oss-20b", "low", {"chat_template_kwargs": {"reasoning_effort": "low"}}),
    ],
)
async def test_thinking_is_asked_for_in_the_server_s_words(
    name: str, model: str, level: str, asked: dict[str, object]
) -> None:
    looped = await done(StreamedAgent(name, ANSWER, model=model), thinking=level)
    body = looped.bodies[0]
    assert {key: body[key] for key in asked} == asked


@pytest.mark.parametrize(
    ("name", "model", "level", "told"),
    [
        ("xai", "grok-latest", "max", "is told thinking xhigh, its nearest to max."),
        ("groq", "openai/gpt-oss-120b", "minimal", "is told thinking low, its nearest to minimal."),
        ("openrouter", "m", "max", "is told thinking xhigh, its nearest to max."),
        ("xai", "grok-latest", "high", ""),
        ("vllm", "qwen3", "low", ""),
    ],
)
async def test_a_level_without_its_own_word_becomes_the_nearest_and_that_is_reported(
    name: str, model: str, level: str, told: str
) -> None:
    looped = await done(StreamedAgent(name, ANSWER, model=model), thinking=level)
    said = str([entry.data for entry in looped.journal.entries])
    assert told in said if told else "its nearest to" not in said


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("xai", "grok-latest"),
        ("xai", "grok-4.5"),
        ("vertex", "google/gemini-3.8-flash"),
        ("together", "zai-org/GLM-5.3"),
    ],
)
async def test_thinking_that_cannot_be_switched_off_is_reported(name: str, model: str) -> None:
    looped = await done(StreamedAgent(name, ANSWER, model=model), thinking="off")
    assert not any(key.startswith("reasoning") for key in looped.bodies[0])
    assert "cannot be told to think off" in str([entry.data for entry in looped.journal.entries])


@pytest.mark.parametrize("name", ["openai", "azure"])
async def test_refused_reasoning_beside_tools_is_left_out_and_that_is_reported(name: str) -> None:
    words = {"error": {"message": "Function tools with reasoning_effort are not supported in /v1/chat/completions."}}
    looped = await done(StreamedAgent(name, httpx.Response(400, json=words), streamed(CALLED), streamed(ANSWER)))
    assert [body.get("reasoning_effort") for body in looped.bodies] == [None, "none", "none"]
    assert any(entry.kind == "model.retried" for entry in looped.journal.entries)


@pytest.mark.parametrize(("name", "cap"), [("openai", "max_completion_tokens"), ("mistral", "max_tokens")])
async def test_the_cap_on_output_has_the_server_s_name(name: str, cap: str) -> None:
    looped = await done(StreamedAgent(name, ANSWER, max_output_tokens=500))
    assert {key: value for key, value in looped.bodies[0].items() if "tokens" in key} == {cap: 500}


async def test_keys_of_azure_have_their_own_header_and_tokens_are_a_bearer_s() -> None:
    looped = await done(StreamedAgent("azure", ANSWER))
    assert looped.requests[0].headers["api-key"] == "sk-key-0123456789"
    token = await done(StreamedAgent("azure", ANSWER, key="eyJhbGciOi.eyJzdWIi.c2ln"))
    assert token.requests[0].headers["authorization"] == "Bearer eyJhbGciOi.eyJzdWIi.c2ln"
