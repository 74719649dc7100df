"""Whole orders with servers that are as strict as the real ones, and the strictness itself."""

import json
from dataclasses import replace
from itertools import pairwise, permutations
from typing import Any

import httpx
import pytest

from mcc.contracts.journal import AgentStep
from mcc.contracts.model_facts import ModelFellBack, ModelReplied
from mcc.contracts.status import OrderStatus
from tests.fake_provider.behaviours import BEHAVIOURS, OVERFLOWS
from tests.fake_provider.orders import order, orders
from tests.fake_provider.play import Heard, Refused, conversation
from tests.fake_provider.server import KEY, FakeProvider, served

DIALECTS = ("openai", "responses", "anthropic", "gemini")
FAMILIES = (*DIALECTS, "gemini-chat", "mistral", "groq", "deepseek", "openrouter", "azure", "ollama", "vllm-leaks")
REMEMBERING = (*DIALECTS, "gemini-chat", "mistral", "deepseek", "openrouter")
"""Those that want back what they sent."""


def fake(name: str, rounds: int = 3, **changed: Any) -> FakeProvider:
    behaviour = replace(BEHAVIOURS[name], **changed)
    return FakeProvider(behaviour, conversation(rounds, behaviour.lines))


@pytest.mark.parametrize("name", FAMILIES)
async def test_an_order_of_three_rounds_succeeds(name: str) -> None:
    provider = fake(name)
    async with orders(provider) as desk:
        ended = await desk.run(order())
    assert (ended.status, provider.memory.turns) == (OrderStatus.SUCCEEDED, 4), ended.record.error
    assert (ended.record.answer or "").strip().startswith("Done after 3 rounds with 6 results")
    assert ended.record.usage_total.tool_calls == 6


def test_a_model_calls_the_only_tool_that_it_is_offered() -> None:
    ready = {"type": "object", "properties": {"ready": {"type": "boolean"}}, "required": ["ready"]}
    (call,) = conversation(3)(Heard({"report_ready": ready}, 0, 0)).calls
    assert (call.name, call.arguments) == ("report_ready", {"ready": True})


@pytest.mark.parametrize("name", OVERFLOWS)
async def test_a_context_that_overflows_ends_no_order(name: str) -> None:
    provider = fake(f"overflow-{name}", 6)
    async with orders(provider) as desk:
        ended = await desk.run(order())
    assert ended.status is OrderStatus.SUCCEEDED, (ended.record.error, provider.refusals)
    assert provider.refusals


async def test_a_context_whose_server_tells_its_size_never_overflows() -> None:
    provider = fake("vllm-window", 6)
    async with orders(provider) as desk:
        ended = await desk.run(order())
    assert (ended.status, provider.refusals) == (OrderStatus.SUCCEEDED, []), ended.record.error
    replies = [entry.data for entry in ended.journal.entries if isinstance(entry.data, ModelReplied)]
    assert {reply.context_tokens for reply in replies} == {provider.behaviour.window}


@pytest.mark.parametrize("name", ["refusal", "anthropic-refusal", "filter"])
async def test_an_answer_that_was_refused_ends_its_order_with_words(name: str) -> None:
    async with orders(fake(name)) as desk:
        ended = await desk.run(order())
    assert ended.status is OrderStatus.FAILED


@pytest.mark.parametrize("name", ["broken-stream", "cut", "anthropic-pause", "anthropic-cap"])
async def test_a_reply_that_was_cut_or_broken_off_costs_a_round_and_no_order(name: str) -> None:
    async with orders(fake(name)) as desk:
        ended = await desk.run(order())
    assert ended.status is OrderStatus.SUCCEEDED


async def test_thinking_that_its_provider_forgot_stays_behind_and_the_record_says_so() -> None:
    provider = fake("anthropic-forgets", 4)
    async with orders(provider) as desk:
        ended = await desk.run(order())
    assert ended.status is OrderStatus.SUCCEEDED, ended.record.error
    assert len(provider.refusals) == 1
    told = [entry.data.message for entry in ended.journal.entries if isinstance(entry.data, AgentStep)]
    assert sum("is not given back its earlier thinking" in what for what in told) == 1


@pytest.mark.parametrize("name", DIALECTS)
async def test_a_result_is_handed_in_through_the_gate(name: str) -> None:
    wanted = {"type": "object", "properties": {"summary": {"type": "string"}}, "required": ["summary"]}
    async with orders(fake(name)) as desk:
        ended = await desk.run(order(result_schema=wanted))
    assert ended.status is OrderStatus.SUCCEEDED, ended.record.error
    assert ended.record.result["summary"].startswith("Done after 3 rounds")


@pytest.mark.parametrize("name", REMEMBERING)
async def test_an_order_that_is_taken_over_after_any_reply_goes_on(name: str) -> None:
    provider = fake(name, 2)
    async with orders(provider) as desk:
        placed = order()
        whole = (await desk.run(placed)).journal
        replied = [at for at, entry in enumerate(whole.entries, 1) if isinstance(entry.data, ModelReplied)]
        asked = [*provider.asked]
        for end in replied[:-1]:
            ended = await desk.run(placed, whole.entries[:end], whole.texts)
            assert ended.status is OrderStatus.SUCCEEDED, (ended.record.error, provider.refusals)
    # Rounds after a takeover are asked for in the bytes of before, the ids of tool calls included.
    assert provider.asked[len(asked)] == asked[1]


@pytest.mark.parametrize(("first", "second"), list(permutations(DIALECTS, 2)))
async def test_a_conversation_goes_on_with_another_provider(first: str, second: str) -> None:
    def away(number: int, heard: Heard, since: float) -> None:
        if number == 1:
            raise Refused(404, "The model `fake-model` does not exist.")

    one, two = fake(first, obstacle=away), fake(second)
    async with orders(one, two) as desk:
        ended = await desk.run(order())
    assert ended.status is OrderStatus.SUCCEEDED, (ended.record.error, one.refusals, two.refusals)
    assert any(isinstance(entry.data, ModelFellBack) for entry in ended.journal.entries)
    assert (len(one.asked), len(two.asked)) == (1, 3)


CHAIN = ("responses", "anthropic", "gemini", "openai", "gemini-chat", "mistral", "deepseek", "openrouter", "groq")


@pytest.mark.parametrize("chain", [CHAIN, CHAIN[::-1]], ids=["", "turned round"])
async def test_every_form_works_in_one_order_with_a_gate_and_a_takeover(chain: tuple[str, ...]) -> None:
    """Each provider goes away after one reply, so that each reads what all before it said and thought."""
    providers = [fake(name, len(CHAIN), obstacle=after_one_reply) for name in chain[:-1]]
    providers.append(fake(chain[-1], len(CHAIN)))
    wanted = {"type": "object", "properties": {"summary": {"type": "string"}}, "required": ["summary"]}
    async with orders(*providers) as desk:
        placed = order(result_schema=wanted)
        whole = await desk.run(placed)
        refused = [one.refusals for one in providers]
        asked = [len(one.asked) for one in providers]
        replied = [at for at, one in enumerate(whole.journal.entries, 1) if isinstance(one.data, ModelReplied)]
        again = await desk.run(placed, whole.journal.entries[: replied[4]], whole.journal.texts)
    for ended in (whole, again):
        assert ended.status is OrderStatus.SUCCEEDED, (ended.record.error, refused)
        assert ended.record.result["summary"].startswith("Done after 9 rounds")
    assert asked == [1] * (len(chain) - 1) + [2]
    # A server of no known name is asked without thinking only once it has refused it.
    learnt = {"Unrecognized request argument supplied: messages[2].reasoning_content"}
    assert {word for words in refused for word in words} - learnt == {"The model `fake-model` does not exist."}


def after_one_reply(number: int, heard: Heard, since: float) -> None:
    if number:
        raise Refused(404, "The model `fake-model` does not exist.")


@pytest.mark.parametrize("name", REMEMBERING)
async def test_each_goes_on_with_what_another_had_begun(name: str) -> None:
    """An order whose journal another provider wrote up to its second reply, without anything to fall back to."""
    one, two = fake("anthropic" if name.startswith("gemini") else "gemini"), fake(name)
    async with orders(one) as before, orders(two) as after:
        placed = order()
        whole = (await before.run(placed)).journal
        replied = [at for at, entry in enumerate(whole.entries, 1) if isinstance(entry.data, ModelReplied)]
        ended = await after.run(placed, whole.entries[: replied[1]], whole.texts)
    assert ended.status is OrderStatus.SUCCEEDED, (ended.record.error, two.refusals)
    assert len(two.asked) == 2


async def test_what_gemini_was_asked_once_begins_every_later_request() -> None:
    provider = fake("gemini", 5)
    async with orders(provider) as desk:
        await desk.run(order())
    for earlier, later in pairwise(provider.asked):
        contents = earlier[: earlier.index(b'],"generationConfig"')]
        assert later.startswith(contents)


async def test_an_agent_is_told_by_its_provider_how_much_of_a_prompt_was_kept() -> None:
    async with orders(fake("gemini", 4)) as desk:
        used = (await desk.run(order())).record.usage_total
    assert used.cached_input_tokens > used.input_tokens / 2
    assert used.reasoning_tokens == 5 * 40


CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ASKED: dict[str, Any] = {"role": "user", "content": "Hi"}
CALLED: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [CALL]}
GIVEN: dict[str, Any] = {"role": "tool", "tool_call_id": "c1", "content": "x"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
USED = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}
SIGNED = {"type": "thinking", "thinking": "Hm", "signature": "made up"}
GEMINI_CALL = {"functionCall": {"name": "f", "args": {}}}
GEMINI_ANSWER = {"functionResponse": {"name": "f", "response": {"output": "x"}}}


def spoken(*parts: object, role: str = "user") -> dict[str, object]:
    return {"role": role, "parts": list(parts)}


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("openai", {"messages": [ASKED, CALLED, ASKED]}, "must be followed by tool messages"),
        ("openai", {"messages": [ASKED, GIVEN]}, "must be a response to"),
        ("openai", {"messages": [ASKED], "top_k": 1}, "Unrecognized request argument"),
        ("openai-5.6-chat", {"messages": [ASKED], "tools": [TOOL]}, "not supported for gpt-5.6"),
        ("openai-5.6-chat", {"messages": [ASKED], "max_tokens": 1}, "max_completion_tokens"),
        ("mistral", {"messages": [ASKED, CALLED, GIVEN]}, "must be a-z, A-Z, 0-9, with a length of 9"),
        ("groq", {"messages": [ASKED, {**ASKED, "reasoning_content": "x"}]}, "is unsupported"),
        ("deepseek", {"messages": [ASKED, CALLED, GIVEN]}, "Missing `reasoning_content`"),
        ("gemini-chat", {"messages": [ASKED, CALLED, GIVEN]}, "missing a thought_signature"),
        ("anthropic", {"messages": [ASKED]}, "max_tokens: Field required"),
        ("anthropic-cap", {"messages": [ASKED], "max_tokens": 16_384}, "maximum allowed number of output tokens"),
        (
            "anthropic",
            {"messages": [ASKED, {"role": "assistant", "content": [USED]}, ASKED], "max_tokens": 9},
            "without `tool_result` blocks",
        ),
        (
            "anthropic",
            {"messages": [ASKED, {"role": "assistant", "content": [SIGNED]}, ASKED], "max_tokens": 9},
            "Invalid `signature`",
        ),
        ("gemini", {"contents": [spoken({"text": "Hi"})], "stream": True}, 'Unknown name "stream"'),
        (
            "gemini",
            {"contents": [spoken({"text": "Hi"}), spoken(GEMINI_CALL, role="model"), spoken(GEMINI_ANSWER)]},
            "missing a thought_signature",
        ),
        (
            "gemini",
            {"contents": [spoken({"text": "Hi"}), spoken(GEMINI_CALL, role="model"), spoken({"text": "?"})]},
            "number of function response parts",
        ),
        ("responses", {"input": [], "max_tokens": 3}, "Unknown parameter: 'max_tokens'"),
        ("responses", {"input": [{"type": "reasoning", "id": "rs_1", "summary": []}]}, "not persisted"),
        ("responses", {"input": [{"type": "function_call_output", "call_id": "c"}]}, "No tool call found"),
    ],
)
async def test_each_refuses_in_its_own_words_what_the_real_one_refuses(
    name: str, body: dict[str, Any], words: str
) -> None:
    provider = fake(name)
    paths = {"gemini": "/models/m:generateContent", "responses": "/responses"}
    path = paths.get(name, "/v1/messages" if name.startswith("anthropic") else "/chat/completions")
    headers = {"authorization": f"Bearer {KEY}", "x-goog-api-key": KEY, "anthropic-version": "2023-06-01"}
    async with served(provider) as address, httpx.AsyncClient(trust_env=False) as client:
        answer = await client.post(f"{address}{path}", json=body, headers=headers)
    assert answer.status_code in (400, 404)
    assert words in json.loads(answer.content)["error"]["message"]
    assert provider.refusals
