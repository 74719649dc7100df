"""Thinking and calls that a server left in the text of a reply, through the loop and piece by piece."""

import time
from typing import Any

import pytest

from drone.models.dialects.leaked_calls import leaked_calls
from mcc.contracts.blocks import ThinkingBlock
from mcc.contracts.record import RecordStatus
from mcc.transcript.messages import ToolSpec
from tests.drone.models.conftest import chunk, sse
from tests.drone.models.dialects.looped import StreamedAgent

ANSWER = sse(chunk("stop", content="It is 42."), "[DONE]")
NUMBER = {"type": "object", "properties": {"number": {"type": "integer"}, "why": {"type": "string"}}}
TOOLS = {"double": ToolSpec("double", "Twice a number.", NUMBER)}

LEAKED = {
    "step": (
        "<｜tool_calls_begin｜>\n<｜tool_call_begin｜>\nfunction<｜tool_sep｜>"
        '<steptml:invoke name="double">\n<steptml:parameter name="number">21</steptml:parameter>\n</steptml:invoke>'
        "<｜tool_call_end｜>\n<｜tool_calls_end｜>"
    ),
    "hermes": '<tool_call>\n{"name": "double", "arguments": {"number": 21}}\n</tool_call>',
    "hermes, not closed": '<tool_call>\n{"name": "double", "arguments": {"number": 21}}',
    "hermes, nearly JSON": "<tool_call>\n{'name': 'double', 'arguments': {'number': 21,}}\n</tool_call>",
    "hermes, double encoded": '<tool_call>{"name": "double", "arguments": "{\\"number\\": 21}"}</tool_call>',
    "llama": '<function=double>{"number": 21}</function>',
    "qwen": "<tool_call>\n<function=double>\n<parameter=number>\n21\n</parameter>\n</function>\n</tool_call>",
    "qwen, without its frame": "<function=double>\n<parameter=number>\n21\n</parameter>\n</function>",
    "glm": "<tool_call>double\n<arg_key>number</arg_key>\n<arg_value>21</arg_value>\n</tool_call>",
    "mistral": '[TOOL_CALLS][{"name": "double", "arguments": {"number": 21}}]',
    "mistral, newer": '[TOOL_CALLS]double[ARGS]{"number": 21}',
    "mistral, with an id": '[TOOL_CALLS]double[CALL_ID]abcdefghi[ARGS]{"number": 21}',
    "mistral, bare": '[TOOL_CALLS]double{"number": 21}',
    "pythonic": "[double(number=21)]",
    "llama, bare": '{"name": "double", "parameters": {"number": 21}}',
    "deepseek, dsml": (
        "<｜DSML｜function_calls>\n"
        '<｜DSML｜invoke name="double">\n'
        '<｜DSML｜parameter name="number" string="false">21</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n"
        "</｜DSML｜function_calls>"
    ),
    "deepseek, 3": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>double\n"
        "```json\n"
        '{"number": 21}\n'
        "```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    "deepseek, 3.1": (
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>double<｜tool▁sep｜>{"number": 21}<｜tool▁ca'
        "ll▁end｜><｜tool▁calls▁end｜>"
    ),
    "harmony": (
        '<|start|>assistant<|channel|>commentary to=functions.double <|constrain|>json<|message|>{"number": 21}<|call|>'
    ),
    "harmony, without marks": 'commentary to=functions.double json{"number": 21}',
    "kimi": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.double:0<|tool_call_arg"
        'ument_begin|>{"number": 21}<|tool_call_end|><|tool_calls_section_end|>'
    ),
    "minimax": (
        "<minimax:tool_call>\n"
        '<invoke name="double">\n'
        '<parameter name="number">21</parameter>\n'
        "</invoke>\n"
        "</minimax:tool_call>"
    ),
    "invoked": (
        '<function_calls><invoke name="double"><parameter name="number">21</parameter></invoke></function_calls>'
    ),
    "llama, marked": '<|python_tag|>{"name": "double", "parameters": {"number": 21}}',
    "llama, as code": "<|python_tag|>double.call(number=21)",
    "gemini": "```tool_code\nprint(default_api.double(number=21))\n```",
    "fenced": '```json\n{"name": "double", "arguments": {"number": 21}}\n```',
    "granite": '<|tool_call|>[{"name": "double", "arguments": {"number": 21}}]',
    "nemotron": '<TOOLCALL>[{"name": "double", "arguments": {"number": 21}}]</TOOLCALL>',
    "phi": 'functools[{"name": "double", "arguments": {"number": 21}}]',
    "command": (
        '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "double", "parameters": {"number": 21}}]<|END_ACTION|>'
    ),
    "command, older": 'Action: ```json\n[{"tool_name": "double", "parameters": {"number": 21}}]\n```',
    "seed": ("<seed:tool_call><function=double><parameter=number>21</parameter></function></seed:tool_call>"),
    "liquid": "<|tool_call_start|>[double(number=21)]<|tool_call_end|>",
    "qualified": '<tool_call>{"name": "functions.double", "arguments": {"number": 21}}</tool_call>',
    "a list": '[{"name": "double", "arguments": {"number": 21}}]',
}

NO_CALLS = {
    "another tool": '<tool_call>\n{"name": "triple", "arguments": {"number": 21}}\n</tool_call>',
    "words after it": '<tool_call>\n{"name": "double", "arguments": {"number": 21}}\n</tool_call>\nThat is how.',
    "cut": '<tool_call>\n{"name": "double", "argum',
    "in a fence": 'So:\n```\n<tool_call>\n{"name": "double", "arguments": {"number": 21}}\n</tool_call>',
    "in a line": 'Say <tool_call>{"name": "double", "arguments": {"number": 21}}</tool_call>',
    "a quoted mark": "One writes\n<tool_call>",
    "an answer as JSON": '{"name": "double", "arguments": {"number": 21}, "status": "done"}',
    "a list of numbers": "[1, 2]",
    "a link": "[double](https://example.com)",
    "python with more": "[double(number=open('x'))]",
    "python, by place": "[double(21)]",
    "an open parameter": "<function=double><parameter=number>21",
    "no name": "<function=",
    "half of deepseek": '<｜DSML｜invoke name="double"><｜DSML｜parameter name="number"',
    "harmony of another tool": "commentary to=functions.triple json{}",
    "words about harmony": "commentary to=functions.double is the header.",
    "a fence in words": 'Send:\n```json\n{"name": "double", "arguments": {"number": 21}}\n```',
    "code in a fence": "```python\ndouble(number=21)\n```",
    "code that computes": "```tool_code\ndouble(number=20 + f())\n```",
    "a bare mark": "[TOOL_CALLS]",
}


def spoken(text: str, *, size: int = 3, finish: str = "stop") -> bytes:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    return sse(*(chunk(content=piece) for piece in pieces), chunk(finish), "[DONE]")


@pytest.mark.parametrize("text", LEAKED.values(), ids=LEAKED)
@pytest.mark.parametrize("name", ["vllm", "llamacpp"])
async def test_calls_left_in_the_text_are_made(name: str, text: str) -> None:
    looped = StreamedAgent(name, spoken(f"<think>Hm.</think>\n\n{text}\n"), ANSWER)
    report = await looped.run()
    assert (report.status, report.text) == (RecordStatus.COMPLETED, "It is 42."), report.error
    assert [call.arguments for call in looped.replies[0].tool_calls] == [{"number": 21}]
    assert (looped.replies[0].text.strip(), looped.replies[0].thinking) == ("", "Hm.")
    reply, (result,) = looped.sent_back()
    assert reply["tool_calls"][0]["function"]["name"] == "double" and "42" in result["content"]
    assert looped.keeps_its_beginning()


@pytest.mark.parametrize("text", NO_CALLS.values(), ids=NO_CALLS)
async def test_text_that_is_not_entirely_calls_stays_text(bench: Any, text: str) -> None:
    for size in (1, 3, 1000):
        listener = bench.RecordingListener()
        model = bench.openai(bench.Provider(bench.streamed(spoken(text, size=size))))
        reply = await model.ask(bench.asking(tools=TOOLS.values()), listener)
        assert (reply.text, reply.tool_calls, listener.heard()) == (text, (), text)


def test_a_name_between_the_marks_of_a_call_is_a_call_without_arguments() -> None:
    assert leaked_calls("<tool_call>double\n</tool_call>", TOOLS) == (("double", {}),)
    assert leaked_calls("<tool_call>triple\n</tool_call>", TOOLS) == ()


async def test_text_before_leaked_calls_is_kept_and_several_calls_are_made(bench: Any) -> None:
    one = '<tool_call>{"name": "double", "arguments": {"number": 1}}</tool_call>'
    two = '<tool_call>{"name": "double", "arguments": {"number": 2, "why": "</tool_call>"}}</tool_call>'
    model = bench.openai(bench.Provider(bench.streamed(spoken(f"I double them.\n{one}\n{two}"))))
    reply = await model.ask(bench.asking(tools=TOOLS.values()), bench.listener)
    assert reply.text == bench.listener.heard() == "I double them.\n"
    assert [call.arguments for call in reply.tool_calls] == [{"number": 1}, {"number": 2, "why": "</tool_call>"}]
    assert reply.finish_reason == "tool_calls"


async def test_a_reply_cut_at_its_cap_makes_no_calls_of_its_text(bench: Any) -> None:
    model = bench.openai(bench.Provider(bench.streamed(spoken(LEAKED["hermes"], finish="length"))))
    reply = await model.ask(bench.asking(tools=TOOLS.values()), bench.listener)
    assert (reply.tool_calls, reply.text, reply.finish_reason) == ((), LEAKED["hermes"], "length")


async def test_thinking_and_words_beside_a_call_in_harmony_are_told_apart(bench: Any) -> None:
    text = (
        "<|channel|>analysis<|message|>Twice 21.<|end|><|start|>assistant<|channel|>commentary<|message|>I double it."
        '<|end|><|start|>assistant<|channel|>commentary to=functions.double<|message|>{"number": 21}<|call|>'
    )
    model = bench.openai(bench.Provider(bench.streamed(spoken(text))))
    reply = await model.ask(bench.asking(tools=TOOLS.values()), bench.listener)
    assert (reply.thinking, reply.text) == ("Twice 21.", "I double it.")
    assert [call.arguments for call in reply.tool_calls] == [{"number": 21}]


@pytest.mark.parametrize(
    "name",
    ["double<|channel|>commentary", "functions.double", "functions.double:0", "default_api.double", "double<｜end｜>"],
)
async def test_a_name_with_traces_of_a_template_finds_its_tool(bench: Any, name: str) -> None:
    told = {"index": 0, "id": "a", "function": {"name": name, "arguments": '{"number": 21}'}}
    model = bench.openai(bench.Provider(bench.streamed(sse(chunk(tool_calls=[told]), chunk("tool_calls"), "[DONE]"))))
    reply = await model.ask(bench.asking(tools=TOOLS.values()), bench.listener)
    assert [call.name for call in reply.tool_calls] == ["double"]


async def test_openai_itself_leaves_nothing_in_the_text() -> None:
    looped = StreamedAgent("openai", spoken(LEAKED["hermes"]), *[ANSWER] * 3)
    await looped.run()
    assert (looped.replies[0].text, looped.replies[0].tool_calls) == (LEAKED["hermes"], ())


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
@pytest.mark.parametrize("tag", ["think", "thinking", "thought"])
async def test_thinking_at_the_beginning_is_separated_from_the_text(bench: Any, tag: str, size: int) -> None:
    text = f"\n<{tag}>\nIs a < b? </ {tag} Yes.</{tag}>\n\nIt is <b>42</b>."
    reply = await bench.chat(spoken(text, size=size))
    assert reply.blocks[0] == ThinkingBlock(text=f"Is a < b? </ {tag} Yes.")
    assert reply.text == bench.listener.heard() == "It is <b>42</b>."
    assert bench.listener.heard("thinking.delta") == reply.thinking


@pytest.mark.parametrize(
    "text", ["A <think> is a tag.", "<thin", "<thinker>", "  \n x", "Close with </think> then.", "`</think>`\n"]
)
async def test_a_tag_elsewhere_is_text(bench: Any, text: str) -> None:
    for size in (1, 1000):
        reply = await bench.chat(spoken(text, size=size))
        assert (reply.text, reply.thinking) == (text, "")


async def test_thinking_without_its_opening_tag_is_separated_from_the_answer(bench: Any) -> None:
    reply = await bench.chat(spoken("Twice 21.\nSo 42.\n</think>\n\nIt is 42."))
    assert (reply.thinking, reply.text) == ("Twice 21.\nSo 42.", "It is 42.")
    assert isinstance(reply.blocks[0], ThinkingBlock)


async def test_thinking_that_is_never_closed_is_thinking(bench: Any) -> None:
    reply = await bench.chat(spoken("<think>Twice 21</thi", finish="length"))
    assert (reply.thinking, reply.text, reply.finish_reason) == ("Twice 21</thi", "", "length")


@pytest.mark.parametrize(
    "text",
    [
        "x<tool_call>" * 100_000,
        "<tool_call>" * 100_000,
        "<function=a><parameter=b>" * 50_000,
        "[" * 1_000_000,
        "[double(" + "[" * 19_000,
        "[double(number=" + "-" * 19_000 + "1)]",
        "<think>" + "</thi" * 200_000,
        "\n" * 1_000_000 + "<think>",
        "{'a':" * 200_000,
        "[TOOL_CALLS]double[ARGS]{" * 50_000,
        "<tool_call>double<arg_key>" * 50_000,
        " \n" * 500_000,
    ],
    ids=lambda text: text[:12].strip() or "blanks",
)
async def test_no_text_costs_more_than_its_length(bench: Any, text: str) -> None:
    began = time.process_time()
    model = bench.openai(bench.Provider(bench.streamed(spoken(text, size=100_000))))
    reply = await model.ask(bench.asking(tools=TOOLS.values()), bench.listener)
    assert not reply.tool_calls
    leaked_calls(text, TOOLS)
    assert time.process_time() - began < 3


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ('{"number": 21,}', {"number": 21}),
        ("{'number': 21, 'why': 'it\\'s \"so\"'}", {"number": 21, "why": 'it\'s "so"'}),
        ('{"why": "one\ntwo\tthree"}', {"why": "one\ntwo\tthree"}),
        ('```json\n{"number": 21}\n```', {"number": 21}),
        ('{"a": True, "b": None, "c": [False,],}', {"a": True, "b": None, "c": [False]}),
        ('{"why": "True, None,}"}', {"why": "True, None,}"}),
    ],
)
async def test_arguments_that_are_nearly_json_are_repaired(bench: Any, text: str, meant: dict[str, object]) -> None:
    told = {"index": 0, "id": "a", "function": {"name": "double", "arguments": text}}
    reply = await bench.chat(bench.sse(bench.chunk(tool_calls=[told]), bench.chunk("tool_calls"), "[DONE]"))
    assert reply.tool_calls[0].arguments == meant


@pytest.mark.parametrize(
    "text",
    [
        '{"number": 21',
        '{"why": "cut',
        "{'why': 'it's'}",
        '{"why": "he said "no""}',
        "{number: 21}",
        '{"a": 1,, "b": 2}',
        "{'a': 1, 'a': 2}",
        '```json\n{"number": 21}',
        "{'number': 1e999}",
        "[{'number': 1}]",
    ],
)
async def test_ambiguous_arguments_are_reported_to_the_model(bench: Any, text: str) -> None:
    told = {"index": 0, "id": "a", "function": {"name": "double", "arguments": text}}
    reply = await bench.chat(bench.sse(bench.chunk(tool_calls=[told]), bench.chunk("tool_calls"), "[DONE]"))
    assert reply.tool_calls[0].arguments == text
