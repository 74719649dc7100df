"""Texts of replies that are calls or thinking in a template's syntax, and answers that only speak of it."""

import time

import pytest

from drone.agent.state.leaks import Leak, leak_in, missing_parser

TOOLS = frozenset(("read_file", "write_file", "run_shell"))

CALLS = {
    "functiongemma": "<start_function_call>call:read_file{path:<escape>a.txt<escape>}<end_function_call>",
    "gemma 4": '<|tool_call>call:read_file{path:<|"|>a.txt<|"|>}<tool_call|>',
    "longcat": (
        "<longcat_tool_call>read_file\n<longcat_arg_key>path</longcat_arg_key>\n"
        "<longcat_arg_value>a.txt</longcat_arg_value>\n</longcat_tool_call>"
    ),
    "objects in a row": (
        '{"name": "read_file", "parameters": {"path": "a.txt"}}; {"name": "read_file", "parameters": {"path": "b.txt"}}'
    ),
    "objects line by line": (
        '{"name": "read_file", "arguments": {"path": "a.txt"}}\n{"name": "run_shell", "arguments": {"command": "ls"}}'
    ),
    "name and object": 'read_file\n{"path": "a.txt"}',
    "functionary": '>>>read_file\n{"path": "a.txt"}',
    "chatglm": 'read_file\n```python\ntool_call(path="a.txt")\n```',
    "api message": (
        '{"tool_calls": [{"id": "1", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}]}'
    ),
    "api call": '{"type": "function", "function": {"name": "read_file", "arguments": {"path": "a.txt"}}}',
    "api former call": '{"function_call": {"name": "read_file", "arguments": "{}"}}',
    "api gemini": '{"functionCall": {"name": "read_file", "args": {"path": "a.txt"}}}',
    "any tag": '<tools>\n{"name": "read_file", "arguments": {"path": "a.txt"}}\n</tools>',
    "frame": (
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
        '{"name": "read_file", "parameters": {"path": "a.txt"}}<|eot_id|>'
    ),
    "role": 'assistant\n{"name": "read_file", "parameters": {"path": "a.txt"}}<|im_end|>',
    "start in brackets": '[TOOL_CALL_START]read_file\n{"path": "a.txt"}',
    "cline, for a server": "<use_mcp_tool>\n<server_name>s</server_name>\n<tool_name>tag</tool_name>\n</use_mcp_tool>",
    "dsml": (
        "<｜DSML｜function_calls>\n"
        '<｜DSML｜invoke name="read_file">\n'
        '<｜DSML｜parameter name="path" string="true">a.txt</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n"
        "</｜DSML｜function_calls>"
    ),
    "dsml prose": (
        "I will read it.\n"
        "\n"
        "<｜DSML｜function_calls>\n"
        '<｜DSML｜invoke name="read_file">\n'
        '<｜DSML｜parameter name="path" string="true">a.txt</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n"
        "</｜DSML｜function_calls>"
    ),
    "dsml cut": '<｜DSML｜function_calls>\n<｜DSML｜invoke name="read_file">\n<｜DSML｜parameter name="path"',
    "dsml after words, cut": (
        'I will look.<｜DSML｜function_calls>\n<｜DSML｜invoke name="read_file">\n<｜DSML｜parameter name="path"'
    ),
    "ds3": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read_file\n"
        "```json\n"
        '{"path": "a.txt"}\n'
        "```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    "ds31": (
        'Let me see.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read_file<｜tool▁sep｜>{"path": '
        '"a.txt"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
    ),
    "ds31b": (
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read_file<｜tool▁sep｜>{"path": "a.txt"}<｜t'
        "ool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>"
    ),
    "ds ascii": '<|tool▁calls▁begin|><|tool▁call▁begin|>read_file<|tool▁sep|>{"path": "a.txt"}',
    "harmony": (
        "<|channel|>analysis<|message|>We need to read.<|end|><|start|>assistant<|channel"
        '|>commentary to=functions.read_file <|constrain|>json<|message|>{"path": "a.txt"}<|call|>'
    ),
    "harmony2": (
        '<|start|>assistant<|channel|>commentary to=functions.read_file<|constrain|>json<|message|>{"path": "a.txt"}'
    ),
    "harmony bare": (
        'analysisWe need to read the file.assistantcommentary to=functions.read_file json{"path": "a.txt"}'
    ),
    "harmony bare2": 'commentary to=functions.read_file {"path": "a.txt"}',
    "harmony bare3": (
        'We need to look.\nassistant<|channel|>commentary to=functions.read_file code<|message|>{"path": "a.txt"}'
    ),
    "kimi": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0<|tool_call_"
        'argument_begin|>{"path": "a.txt"}<|tool_call_end|><|tool_calls_section_end|>'
    ),
    "kimi prose": (
        "Let me look.\n"
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0<|tool_call_"
        'argument_begin|>{"path": "a.txt"}<|tool_call_end|><|tool_calls_section_end|>'
    ),
    "kimi inline": (
        "Let me look. <|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:"
        '0<|tool_call_argument_begin|>{"path": "a.txt"}<|tool_call_end|><|tool_calls_section_end|>'
    ),
    "minimax": (
        "<minimax:tool_call>\n"
        '<invoke name="read_file">\n'
        '<parameter name="path">a.txt</parameter>\n'
        "</invoke>\n"
        "</minimax:tool_call>"
    ),
    "invoke": '<invoke name="read_file">\n<parameter name="path">a.txt</parameter>\n</invoke>',
    "hermes": '<tool_call>\n{"name": "read_file", "arguments": {"path": "a.txt"}}\n</tool_call>',
    "hermes half": '<tool_call>\n{"name": "read_file", "argum',
    "hermes end": '{"name": "read_file", "arguments": {"path": "a.txt"}}\n</tool_call>',
    "qwen3": ("<tool_call>\n<function=read_file>\n<parameter=path>\na.txt\n</parameter>\n</function>\n</tool_call>"),
    "qwen3 cut": "I look.\n<function=read_file>\n<parameter=path>\na.txt",
    "glm": "<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>a.txt</arg_value>\n</tool_call>",
    "glm cut": "read_file\n<arg_key>path</arg_key>\n<arg_value>a.txt</arg_value>\n</tool_call>",
    "llama": '<|python_tag|>{"name": "read_file", "parameters": {"path": "a.txt"}}',
    "llama2": '<function=read_file>{"path": "a.txt"}</function>',
    "llama3": '<|python_tag|>read_file.call(path="a.txt")',
    "mistral": '[TOOL_CALLS][{"name": "read_file", "arguments": {"path": "a.txt"}}]',
    "mistral2": '[TOOL_CALLS]read_file[ARGS]{"path": "a.txt"}',
    "gem": "```tool_code\nprint(default_api.read_file(path='a.txt'))\n```",
    "gem2": "```tool_code\nread_file(path='a.txt')\n```",
    "json fence": '```json\n{"name": "read_file", "arguments": {"path": "a.txt"}}\n```',
    "json fence2": '```\n[{"name": "read_file", "parameters": {"path": "a.txt"}}]\n```',
    "json": '{"name": "read_file", "arguments": {"path": "a.txt"}}',
    "json tool": '{"tool": "read_file", "args": {"path": "a.txt"}}',
    "granite": '<|tool_call|>[{"name": "read_file", "arguments": {"path": "a.txt"}}]',
    "granite2": '<tool_call>[{"name": "read_file", "arguments": {"path": "a.txt"}}]',
    "nemotron": '<TOOLCALL>[{"name": "read_file", "arguments": {"path": "a.txt"}}]</TOOLCALL>',
    "phi": 'functools[{"name": "read_file", "arguments": {"path": "a.txt"}}]',
    "commandr": (
        "<|START_ACTION|>[\n"
        ' {"tool_call_id": "0", "tool_name": "read_file", "parameters": {"path": "a.txt"}}\n'
        "]<|END_ACTION|>"
    ),
    "commandr2": 'Action: ```json\n[{"tool_name": "read_file", "parameters": {"path": "a.txt"}}]\n```',
    "anthropic": (
        "<function_calls>\n"
        '<invoke name="read_file">\n'
        '<parameter name="path">a.txt</parameter>\n'
        "</invoke>\n"
        "</function_calls>"
    ),
    "react": 'Thought: I look.\nAction: read_file\nAction Input: {"path": "a.txt"}',
    "cline": "<read_file>\n<path>a.txt</path>\n</read_file>",
    "hunyuan": '<tool_calls>[{"name": "read_file", "arguments": {"path": "a.txt"}}]</tool_calls>',
    "seed": ("<seed:tool_call><function=read_file><parameter=path>a.txt</parameter></function></seed:tool_call>"),
    "internlm": ('<|action_start|><|plugin|>{"name": "read_file", "parameters": {"path": "a.txt"}}<|action_end|>'),
    "lfm": '<|tool_call_start|>[read_file(path="a.txt")]<|tool_call_end|>',
    "olmo": '<function_calls>read_file(path="a.txt")</function_calls>',
    "python": '[read_file(path="a.txt")]',
    "qwen star": '✿FUNCTION✿: read_file\n✿ARGS✿: {"path": "a.txt"}',
    "fncall": '<function_call>{"name": "read_file", "arguments": {"path": "a.txt"}}</function_call>',
    "tool_use": '<tool_use>\n<name>read_file</name>\n<arguments>{"path": "a.txt"}</arguments>\n</tool_use>',
    "hallucinated result": (
        "<tool_call>\n"
        '{"name": "read_file", "arguments": {"path": "a.txt"}}\n'
        "</tool_call>\n"
        "The file says hello to all of us."
    ),
}

ANSWERS = {
    "tag of a tool in words": "<read_file> is Cline's tag for reading.",
    "gemma in words": "Gemma 4 uses <|tool_call> and <tool_call|>.",
    "functiongemma in words": "The start token is <start_function_call> and the end token <end_function_call>.",
    "long cat in words": "Hermes: `<tool_call>`; LongCat: `<longcat_tool_call>`",
    "other tag": "<tools>\nhammer, saw\n</tools>",
    "name and words": "run_shell\n{command} is its only argument.",
    "name alone": "read_file\n\nis the tool for that.",
    "prompt": ">>>read_file\nTraceback (most recent call last): NameError",
    "objects": '{"name": "a", "input": 1}\n{"name": "b", "input": 2}',
    "no calls": '{"tool_calls": []}',
    "count of calls": '{"tool_calls": 3, "rounds": 4}',
    "function": '{"function": {"name": "area", "arguments": ["w", "h"]}}',
    "role and words": "assistant\nThe answer is 42.<|im_end|>",
    "link": "[tool_calls.py](src/tool_calls.py) parses them.",
    "inline": "Use `<tool_call>` as the mark.",
    "fence": "The template is:\n```\n<tool_call>\n<think>\n```\nIt is used in `a.py`.",
    "doc": (
        "Hermes wraps calls like this:\n"
        "<tool_call>\n"
        '{"name": "get_weather", "arguments": {}}\n'
        "</tool_call>\n"
        "and the server parses it into tool_calls."
    ),
    "doc2": (
        "Hermes wraps calls like this:\n"
        "<tool_call>\n"
        '{"name": "read_file", "arguments": {}}\n'
        "</tool_call>\n"
        "and the server parses it into tool_calls."
    ),
    "fence json": (
        "To call it send this:\n"
        "```json\n"
        '{"name": "read_file", "arguments": {"path": "a"}}\n'
        "```\n"
        "and wait for the result."
    ),
    "fence xml": '```xml\n<tool_call>\n{"name": "read_file", "arguments": {"path": "a"}}\n</tool_call>\n```',
    "file": ('The file holds:\n\n    <tool_call>\n    {"name": "read_file"}\n    </tool_call>\n\nThat is all.'),
    "file2": "The file holds:\n\n    <|channel|>analysis<|message|>x<|end|>",
    "quote": "> <|channel|>analysis\n\nis what gpt-oss emits.",
    "prose harmony": "gpt-oss writes `<|channel|>commentary to=functions.read_file` before a call.",
    "prose harmony2": "In Harmony the header commentary to=functions.get_weather routes a call to a tool.",
    "tags": "<tool_call> is the tag that Hermes uses; it is closed by </tool_call> and holds JSON.",
    "list": "- `<tool_call>`: Hermes\n- `<|python_tag|>`: Llama\n- `[TOOL_CALLS]`: Mistral",
    "table": "| family | mark |\n| --- | --- |\n| Hermes | <tool_call> |\n| Mistral | [TOOL_CALLS] |",
    "action": "Action: the team agreed to refactor.\nNext steps follow.",
    "json ans": '{"name": "green", "value": 1}',
    "html": "<div>hello</div>\n<function>",
    "func": "The function read_file(path) reads a file.",
    "diff": "```diff\n+<tool_call>\n```",
    "code": "Here is the parser:\n\n```python\nMARKS = ('<tool_call>', '<|python_tag|>')\n```\n",
    "code2": "```python\nread_file('a.txt')\n```",
    "im_end": "It is 42.<|im_end|>",
    "eos": "It is 42.<｜end▁of▁sentence｜>",
    "xml": "<invoices>\n<invoice/>\n</invoices>",
    "tool list": "[tool](https://example.com) is the best link.",
    "analysis": "analysis of the data shows that assistant roles matter in the final",
    "Analysis": "Analysis: the assistant final report.",
    "fenced think": "```\n<think>\nx\n</think>\n```\nis the form.",
    "action doc": "Actions:\nAction: deploy\nowner: me",
}

THOUGHTS = (
    "<think>\nIt may.\n</think>\nIt is.",
    "It may.\n</think>\nIt is.",
    "analysisWe think.assistantfinalIt is 42.",
    "<|channel|>analysis<|message|>We think.<|end|><|start|>assistant<|channel|>final<|message|>It is 42.",
    "[THINK]a[/THINK]b",
    "◁think▷x◁/think▷y",
)

GUESSES = (
    "One writes\n<tool_call>",
    'Hermes writes:\n<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>',
    'I will read it.\n\n{"name": "read_file", "arguments": {"path": "a"}}',
    "I will read it.\n\n```tool_code\nread_file(path='a')\n```",
    'I will read it.\n```json\n{"name": "read_file", "arguments": {"path": "a"}}\n```',
    '{"name": "read_file", "arguments": {"path": "a"}, "status": "done"}',
    'Hermes would write <tool_call>{"name": "read_file", "arguments": {}}</tool_call>',
)


@pytest.mark.parametrize("text", CALLS.values(), ids=CALLS)
def test_a_call_in_any_familys_syntax_is_no_answer(text: str) -> None:
    assert leak_in(text, TOOLS) == Leak("leaked", certain=True)
    assert leak_in(f"\n\n{text}\n", TOOLS) == Leak("leaked", certain=True)


@pytest.mark.parametrize("text", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_about_such_syntax_is_an_answer(text: str) -> None:
    assert leak_in(text, TOOLS) is None


@pytest.mark.parametrize("text", CALLS.values(), ids=CALLS)
def test_a_call_that_an_answer_quotes_in_a_fence_is_part_of_it(text: str) -> None:
    assert leak_in(f"This is what it sends:\n~~~\n{text}\n~~~\nThe server parses it.", TOOLS) is None


CUT = [
    "dsml",
    "ds31",
    "harmony",
    "kimi",
    "minimax",
    "hermes",
    "qwen3",
    "llama",
    "mistral2",
    "gem",
    "json",
    "granite",
    "phi",
]


@pytest.mark.parametrize("name", CUT)
def test_a_call_that_was_cut_anywhere_after_its_name_is_no_answer(name: str) -> None:
    text = CALLS[name]
    begin = text.index("read_file") + len("read_file")
    missed = [text[:cut] for cut in range(begin + 2, len(text) - 1) if leak_in(text[:cut], TOOLS) is None]
    assert len(missed) <= 1  # only where brackets happen to close


@pytest.mark.parametrize("name", ["dsml", "ds3", "harmony", "kimi", "minimax", "hermes", "qwen3", "mistral", "granite"])
def test_words_before_a_call_make_it_no_answer(name: str) -> None:
    assert leak_in(f"I will check the file first.\n\n{CALLS[name]}", TOOLS) == Leak("leaked", certain=True)


@pytest.mark.parametrize("text", GUESSES)
def test_a_text_that_may_be_either_is_not_certain(text: str) -> None:
    assert leak_in(text, TOOLS) == Leak("leaked", certain=False)


@pytest.mark.parametrize("text", THOUGHTS)
def test_thinking_in_the_text_is_told_apart_from_calls(text: str) -> None:
    assert leak_in(text, TOOLS) == leak_in(text, ()) == Leak("thinking", certain=True)


def test_without_tools_no_text_is_a_call() -> None:
    assert not any(leak_in(text, ()) for text in CALLS.values() if "channel|>analysis" not in text)


@pytest.mark.parametrize(
    ("name", "parser"), [("dsml", "deepseek"), ("harmony", "openai"), ("kimi", "kimi_k2"), ("hermes", "hermes")]
)
def test_the_missing_parser_is_named_by_the_family(name: str, parser: str) -> None:
    said = missing_parser(CALLS[name], "mine/m")
    assert "lacks the tool parser" in said and parser in said and "mine/m" in said


@pytest.mark.parametrize("text", ["<tool_call>" * 50_000, "\n<|" * 100_000, "to=" * 100_000, "```\n" * 100_000])
def test_no_text_costs_more_than_its_length(text: str) -> None:
    began = time.process_time()
    leak_in(text, TOOLS)
    assert time.process_time() - began < 2
