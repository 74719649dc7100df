"""Parsing of chat completions replies as various servers send them."""

import json
from typing import Any

import httpx
import pytest

from drone.agent.ports.model import WantedCall
from drone.models.prices import TokenPrices
from mcc.transcript.messages import ToolSpec


def fragment(arguments: object = "", **told: Any) -> dict[str, Any]:
    name = told.pop("name", None)
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    return {**told, "function": function}


async def calls_of(bench: Any, *fragments: dict[str, Any]) -> tuple[WantedCall, ...]:
    deltas = (bench.chunk(tool_calls=[one]) for one in fragments)
    reply = await bench.chat(bench.sse(*deltas, bench.chunk("tool_calls"), "[DONE]"))
    calls: tuple[WantedCall, ...] = reply.tool_calls
    return calls


async def test_text_streams_to_the_listener_and_is_whole_in_the_reply(bench: Any) -> None:
    first, second = bench.sse(bench.chunk(content="Hel")), bench.sse(bench.chunk(content="lo"), bench.chunk("stop"))
    reply = await bench.chat(first, second, bench.sse("[DONE]"))
    assert (reply.text, reply.finish_reason, reply.model) == ("Hello", "stop", "openai/m")
    assert bench.listener.deltas == [("model.delta", "Hel"), ("model.delta", "lo")]
    assert reply.first_token_ms is not None


async def test_a_finish_reason_without_done_is_a_whole_reply(bench: Any) -> None:
    assert (await bench.chat(bench.sse(bench.chunk(content="x"), bench.chunk("stop")))).text == "x"


async def test_done_without_a_finish_reason_is_a_whole_reply(bench: Any) -> None:
    assert (await bench.chat(bench.sse(bench.chunk(content="x"), "[DONE]"))).finish_reason == "stop"


async def test_chunks_after_done_are_not_read(bench: Any) -> None:
    data = bench.sse(bench.chunk(content="x"), bench.chunk("stop"), "[DONE]", bench.chunk(content="late"), "no json")
    assert (await bench.chat(data, data)).text == "x"


@pytest.mark.parametrize("end", ["\r\n", "\r"], ids=["CRLF", "CR"])
async def test_other_line_ends_and_keep_alive_comments_change_nothing(bench: Any, end: str) -> None:
    text = (
        ": OPENROUTER PROCESSING\n\n" + bench.sse(bench.chunk(content="a\nb"), bench.chunk("stop"), "[DONE]").decode()
    )
    assert (await bench.chat(text.replace("\n", end).encode())).text == "a\nb"


async def test_a_byte_order_mark_at_the_start_changes_nothing(bench: Any) -> None:
    assert (await bench.chat(b"\xef\xbb\xbf" + bench.sse(bench.chunk("stop", content="x")))).text == "x"


async def test_data_over_several_lines_is_one_event(bench: Any) -> None:
    lines = json.dumps(bench.chunk("stop", content="x"), indent=1).replace("\n", "\ndata: ")
    assert (await bench.chat(f"data: {lines}\n\n".encode())).text == "x"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_thinking_is_kept_apart_from_the_text(bench: Any, field: str) -> None:
    data = bench.sse(bench.chunk(**{field: "Hm, "}), bench.chunk(**{field: "yes."}), bench.chunk("stop", content="42"))
    reply = await bench.chat(data)
    assert (reply.thinking, reply.text, reply.blocks[0].text) == ("Hm, yes.", "42", "Hm, yes.")
    assert bench.listener.heard("thinking.delta") == "Hm, yes."


async def test_content_as_a_list_of_parts_is_text_and_thinking(bench: Any) -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}, {"type": "text", "text": "a"}, "b"]
    reply = await bench.chat(bench.sse(bench.chunk("stop", content=parts)))
    assert (reply.text, reply.thinking) == ("ab", "Hm")


@pytest.mark.parametrize("finish", ["stop", "content_filter"])
async def test_a_refusal_is_distinguished_from_an_answer(bench: Any, finish: str) -> None:
    reply = await bench.chat(bench.sse(bench.chunk(finish, refusal="I will not.")))
    assert (reply.text, reply.refusal, reply.finish_reason) == ("", "I will not.", "refusal")


@pytest.mark.parametrize(
    ("said", "ours"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("function_call", "tool_calls"),
        ("eos", "stop"),
        ("something new", "other"),
    ],
)
async def test_finish_reasons_are_ours(bench: Any, said: str, ours: str) -> None:
    assert (await bench.chat(bench.sse(bench.chunk(said, content="x")))).finish_reason == ours


async def test_parallel_calls_are_put_together_by_index(bench: Any) -> None:
    calls = await calls_of(
        bench,
        fragment(index=0, id="a", name="read"),
        fragment(index=1, id="b", name="list"),
        fragment('{"x"', index=0),
        fragment('{"y":', index=1),
        fragment(":1}", index=0),
        fragment("2}", index=1),
    )
    assert calls == (WantedCall("read", {"x": 1}, "a"), WantedCall("list", {"y": 2}, "b"))


async def test_calls_without_index_are_put_together_by_id(bench: Any) -> None:
    calls = await calls_of(
        bench,
        fragment('{"x"', id="a", name="read"),
        fragment('{"y"', id="b", name="list"),
        fragment(":1}", id="a"),
        fragment(":2}", id="b"),
    )
    assert calls == (WantedCall("read", {"x": 1}, "a"), WantedCall("list", {"y": 2}, "b"))


async def test_fragments_with_neither_index_nor_id_belong_to_the_last_call(bench: Any) -> None:
    calls = await calls_of(
        bench, fragment('{"x"', name="read"), fragment(":1}"), fragment('{"y"', name="list"), fragment(":2}")
    )
    assert calls == (WantedCall("read", {"x": 1}), WantedCall("list", {"y": 2}))


async def test_whole_calls_that_all_have_index_0_stay_apart(bench: Any) -> None:
    calls = await calls_of(
        bench,
        fragment('{"x":1}', index=0, id="a", name="read"),
        fragment('{"x":2}', index=0, id="b", name="read"),
    )
    assert [call.arguments for call in calls] == [{"x": 1}, {"x": 2}]


async def test_whole_calls_with_index_0_and_no_ids_stay_apart(bench: Any) -> None:
    calls = await calls_of(bench, fragment('{"x":1}', index=0, name="read"), fragment('{"x":2}', index=0, name="read"))
    assert [call.arguments for call in calls] == [{"x": 1}, {"x": 2}]


async def test_a_fresh_id_on_every_fragment_does_not_tear_a_call_apart(bench: Any) -> None:
    calls = await calls_of(
        bench,
        fragment("", index=0, id="a1", name="read"),
        fragment('{"x"', index=0, id="a2"),
        fragment(":1}", index=0, id="a3"),
    )
    assert calls == (WantedCall("read", {"x": 1}, "a1"),)


async def test_a_name_repeated_on_every_fragment_is_not_doubled(bench: Any) -> None:
    calls = await calls_of(
        bench, fragment('{"x"', index=0, id="a", name="read"), fragment(":1}", index=0, id="a", name="read")
    )
    assert calls == (WantedCall("read", {"x": 1}, "a"),)


async def test_a_name_split_over_chunks_is_joined(bench: Any) -> None:
    calls = await calls_of(
        bench,
        fragment("", index=0, id="a", name="read_"),
        fragment("", index=0, name="file"),
        fragment('{"x":1}', index=0),
    )
    assert calls == (WantedCall("read_file", {"x": 1}, "a"),)


async def test_arguments_as_an_object_are_taken_as_they_are(bench: Any) -> None:
    assert (await calls_of(bench, fragment({"x": [1]}, index=0, name="read")))[0].arguments == {"x": [1]}


@pytest.mark.parametrize("nothing", ["", "  ", None, {}])
async def test_empty_arguments_are_an_empty_object(bench: Any, nothing: object) -> None:
    assert (await calls_of(bench, fragment(nothing, index=0, name="read")))[0].arguments == {}


@pytest.mark.parametrize("text", ['{"x": ', "[1]", '"x"', "null", "{x: 1}", '{"x": NaN}', '{"x": 1e999}', "{}{}"])
async def test_arguments_that_are_no_json_object_stay_text(bench: Any, text: str) -> None:
    assert (await calls_of(bench, fragment(text, index=0, name="read")))[0].arguments == text


async def test_arguments_as_some_other_json_become_its_text(bench: Any) -> None:
    assert (await calls_of(bench, fragment([1, "ü"], index=0, name="read")))[0].arguments == '[1,"ü"]'


async def test_arguments_nested_a_thousand_deep_stay_text(bench: Any) -> None:
    text = '{"x":' * 1000 + "1" + "}" * 1000
    assert (await calls_of(bench, fragment(text, index=0, name="read")))[0].arguments == text


async def test_many_brackets_side_by_side_are_not_deep(bench: Any) -> None:
    text = json.dumps({"x": [[]] * 500, "y": "[" * 500})
    assert (await calls_of(bench, fragment(text, index=0, name="read")))[0].arguments == json.loads(text)


async def test_large_integers_in_arguments_are_exact(bench: Any) -> None:
    calls = await calls_of(bench, fragment('{"id": 123456789012345678901234567890}', index=0, name="read"))
    assert calls[0].arguments == {"id": 123456789012345678901234567890}


async def test_a_stop_with_calls_counts_as_tool_calls(bench: Any) -> None:
    reply = await bench.chat(bench.sse(bench.chunk("stop", tool_calls=[fragment("{}", index=0, name="read")])))
    assert reply.finish_reason == "tool_calls"


async def test_hostile_names_of_calls_are_kept_as_they_came(bench: Any) -> None:
    calls = await calls_of(bench, fragment("{}", index=0, name="__proto__"), fragment("{}", index=1, name="a\nb\x00"))
    assert [call.name for call in calls] == ["__proto__", "a\nb\x00"]


async def test_a_hundred_parallel_calls_all_arrive(bench: Any) -> None:
    calls = await calls_of(bench, *(fragment(f'{{"n":{n}}}', index=n, id="same", name="read") for n in range(100)))
    assert [call.arguments for call in calls] == [{"n": n} for n in range(100)]


async def test_a_call_by_the_name_sent_to_the_provider_gets_our_name(bench: Any) -> None:
    ask = bench.asking(tools=[ToolSpec("git.status/now", "", {"type": "object"})])

    def echo(request: httpx.Request) -> httpx.Response:
        told = json.loads(request.content)["tools"][0]["function"]["name"]
        return bench.streamed(bench.sse(bench.chunk("stop", tool_calls=[fragment("{}", index=0, name=told)])))  # type: ignore[no-any-return]

    reply = await bench.openai(bench.Provider(echo)).ask(ask, bench.listener)
    assert reply.tool_calls[0].name == "git.status/now"


@pytest.mark.parametrize("lone", ["\\ud800", "a\\udfffb", "\\u0000", "\\ud800\\u0000"])
async def test_lone_surrogates_and_nul_are_kept_exactly(bench: Any, lone: str) -> None:
    exact = json.loads(f'"{lone}"')
    arguments = json.dumps({"x": exact})
    call = {"index": 0, "function": {"name": "read", "arguments": arguments}}
    text = (
        f'{{"choices":[{{"delta":{{"content":"{lone}","tool_calls":[{json.dumps(call)}]}},"finish_reason":"stop"}}]}}'
    )
    reply = await bench.chat(f"data: {text}\n\n".encode())
    assert reply.text == exact
    assert reply.tool_calls[0].arguments == {"x": exact}
    assert bench.listener.heard() == exact


async def test_a_surrogate_pair_cut_between_two_chunks_is_one_character(bench: Any) -> None:
    first = b'data: {"choices":[{"delta":{"content":"<\\ud83d"}}]}\n\n'
    second = b'data: {"choices":[{"delta":{"content":"\\ude00>"}}]}\n\n'
    assert (await bench.chat(first, second, bench.sse(bench.chunk("stop")))).text == "<😀>"


async def test_raw_bytes_of_a_lone_surrogate_are_kept(bench: Any) -> None:
    data = b'data: {"choices":[{"delta":{"content":"\xed\xa0\x80"},"finish_reason":"stop"}]}\n\n'
    assert (await bench.chat(data)).text == "\ud800"


async def test_further_choices_are_ignored(bench: Any) -> None:
    other = {"index": 1, "delta": {"content": "other"}, "finish_reason": "stop"}
    both = {"choices": [other, {"index": 0, "delta": {"content": "x"}, "finish_reason": None}]}
    reply = await bench.chat(bench.sse({"choices": [other]}, both, bench.chunk("stop"), "[DONE]"))
    assert reply.text == "x"


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8"])
async def test_a_whole_body_where_a_stream_was_asked_for_is_taken(bench: Any, kind: str) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": '{"x":1}'}}
    message = {"content": None, "reasoning_content": "Hm", "tool_calls": [call, call]}
    whole = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    provider = bench.Provider(httpx.Response(200, headers={"content-type": kind}, content=json.dumps(whole)))
    reply = await bench.openai(provider).ask(bench.asking(), bench.listener)
    assert reply.tool_calls == (WantedCall("read", {"x": 1}, "c"), WantedCall("read", {"x": 1}, "c"))
    assert bench.listener.heard("thinking.delta") == "Hm"


async def test_a_stream_where_a_whole_body_was_asked_for_is_taken(bench: Any) -> None:
    assert (await bench.chat(bench.sse(bench.chunk("stop", content="x")), stream=False)).text == "x"


async def test_a_stream_without_content_type_is_taken(bench: Any) -> None:
    answer = httpx.Response(200, stream=bench.Pieces([bench.sse(bench.chunk("stop", content="x"))]))
    assert (await bench.openai(bench.Provider(answer)).ask(bench.asking(), bench.listener)).text == "x"


async def usage_of(bench: Any, usage: object, **endpoint: Any) -> Any:
    data = bench.sse(bench.chunk("stop", content="12345678"), {"choices": [], "usage": usage}, "[DONE]")
    return (await bench.chat(data, **endpoint)).usage


async def test_usage_counts_cached_and_reasoning_tokens_and_costs_what_is_configured(bench: Any) -> None:
    told = {
        "prompt_tokens": 1000,
        "completion_tokens": 200,
        "prompt_tokens_details": {"cached_tokens": 400},
        "completion_tokens_details": {"reasoning_tokens": 150},
    }
    usage = await usage_of(bench, told, price=TokenPrices(1.0, 10.0, 0.1))
    assert (usage.input_tokens, usage.cached_input_tokens) == (1000, 400)
    assert (usage.output_tokens, usage.reasoning_tokens, usage.model_calls) == (200, 150, 1)
    assert usage.cost_usd == pytest.approx((600 * 1.0 + 400 * 0.1 + 200 * 10.0) / 1e6)


async def test_an_unknown_price_is_an_unknown_cost(bench: Any) -> None:
    assert (await usage_of(bench, {"prompt_tokens": 1, "completion_tokens": 1})).cost_usd is None


async def test_reasoning_that_a_server_counts_apart_is_part_of_the_output(bench: Any) -> None:
    told = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 35}
    usage = await usage_of(bench, {**told, "completion_tokens_details": {"reasoning_tokens": 20}})
    assert (usage.output_tokens, usage.reasoning_tokens) == (25, 20)


async def test_negative_usage_is_none_at_all(bench: Any) -> None:
    usage = await usage_of(bench, {"prompt_tokens": -5, "completion_tokens": -1e18})
    assert (usage.input_tokens, usage.output_tokens) == (0, 0)


@pytest.mark.parametrize("nonsense", [None, [], "many", {"prompt_tokens": 10**18, "completion_tokens": "7"}, {"x": 1}])
async def test_usage_that_is_missing_or_nonsense_is_estimated_from_the_sizes(bench: Any, nonsense: object) -> None:
    usage = await usage_of(bench, nonsense)
    assert usage.output_tokens == 2
    assert 10 < usage.input_tokens < 200


async def test_cached_tokens_are_never_more_than_the_input(bench: Any) -> None:
    told = {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 50}}
    assert (await usage_of(bench, told)).cached_input_tokens == 5


def summed_up(finish: str = "stop", **message: object) -> dict[str, object]:
    """A last chunk with the whole message in place of a piece of it."""
    return {"choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}]}


@pytest.mark.parametrize("empty", [{}, {"delta": None}, {"delta": {}}], ids=str)
async def test_a_last_chunk_that_sums_up_the_message_adds_nothing(bench: Any, empty: dict[str, object]) -> None:
    last = summed_up(content="It is 42.", reasoning_content="Hm.")
    last["choices"][0] |= empty  # type: ignore[index]
    thought = bench.chunk(reasoning_content="Hm.")
    reply = await bench.chat(
        bench.sse(thought, bench.chunk(content="It "), bench.chunk(content="is 42."), last, "[DONE]")
    )
    assert (reply.text, reply.thinking, bench.listener.heard()) == ("It is 42.", "Hm.", "It is 42.")


async def test_a_last_piece_that_is_the_whole_text_again_is_not_taken_twice(bench: Any) -> None:
    pieces = [bench.chunk(content="It "), bench.chunk(content="is 42."), bench.chunk("stop", content="It is 42.")]
    assert (await bench.chat(bench.sse(*pieces, "[DONE]"))).text == "It is 42."
    laughed = [bench.chunk(content="ha"), bench.chunk("stop", content="ha")]
    assert (await bench.chat(bench.sse(*laughed, "[DONE]"))).text == "haha"


@pytest.mark.parametrize("field", ["message", "delta"])
async def test_a_call_that_a_last_chunk_repeats_is_made_once(bench: Any, field: str) -> None:
    told = {"index": 0, "id": "a", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
    last = {"choices": [{"index": 0, field: {"content": None, "tool_calls": [told]}, "finish_reason": "tool_calls"}]}
    reply = await bench.chat(bench.sse(bench.chunk(tool_calls=[told]), last, "[DONE]"))
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("read", {"path": "a"})]


async def test_what_only_the_last_message_has_is_taken(bench: Any) -> None:
    told = {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    last = summed_up("tool_calls", content="I read.", tool_calls=[told])
    reply = await bench.chat(bench.sse(bench.chunk(content="I read."), last, "[DONE]"))
    assert (reply.text, [call.name for call in reply.tool_calls]) == ("I read.", ["read"])
    assert (await bench.chat(bench.sse(summed_up(content="It is 42."), "[DONE]"))).text == "It is 42."
