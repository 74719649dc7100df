"""Replies whose text is a tool call or thinking in the syntax of the model's template, which a server left unparsed."""

import json
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from mcc.rules.patterns import Pattern

LONGEST_CALL = 20_000
"""Most characters of a reply that is checked for being a call written as JSON or as program code."""

LONGEST_LEAD = 400
"""Most characters of words before a call in a fence that is taken for more than an example."""

_NAMED_AT_MOST = 100_000
_LONGEST_FRAME = 200

_MARK = Pattern(
    r"</?[|｜][^<>|｜\n]{0,60}?(?:tool|func|call|invoke|python|action|plugin|channel|constrain|message|dsml|recipient)"
    r"[^<>|｜\n]{0,60}[|｜]"
    r"|<\|start\|>\s*assistant\b"
    r"|<[|｜](?:tool|func)[^<>|｜\n]{0,60}>|<(?:tool|func)[^<>|｜\n]{0,60}[|｜]>"
    r"|</?(?:[a-z_]{1,20}[:_])?(?:tool_?calls?|function_?calls?|tool_?use|tool_?code|tool_?request|use_mcp_tool|invoke)"
    r"(?:[\s>=:/]|$)"
    r"|<(?:[a-z_]{1,20}:)?(?:function|parameter)(?:=|\s+name=)|</?(?:[a-z]{1,20}_)?(?:arg_key|arg_value)>"
    r"|\[/?(?:tool|function)[_ ]?(?:calls?|use|request)(?:_(?:start|begin|end))?\b|\bfunctools\[|✿(?:FUNCTION|ARGS)✿",
    ignore_case=True,
)
"""What a template puts around a call: special tokens in bars of either kind, tags and bracketed marks that speak of
tools, functions or calls."""

_VALUE = Pattern(
    r"(?:parameter|arg_value|argument_begin|sep|message|constrain|args?)\b[^\n<>]{0,80}>?$", ignore_case=True
)
"""The end of a mark after which a value follows."""

_ROUTED = Pattern(
    r"(?:commentary|analysis|assistant|<\|channel\|>\w*|<\|start\|>\w*)\W{0,20}\bto=(?:functions\.)?([\w.-]+)"
)
"""A call in the words of Harmony, whose marks some servers drop."""

_REACT = Pattern(r"^\s*Action:\s*`?([\w.-]+)`?\s*\n\s*Action Input:", lines=True)
_PYTHON = Pattern(r"\s*(?:print\(\s*)?\[?\s*(?:default_api\.|functions\.)?([A-Za-z_][\w.]*)\s*\(")
_CALLED = Pattern(r"\s*(?:functions\.|default_api\.)?[\w.-]+(?::\d{1,4})?\s*(?:\(|\{|\[|<|$)")
_CODE_FENCE = Pattern(r"```(?:tool_?(?:code|call|calls|use)|function_?calls?)\b", ignore_case=True)
_BEGUN = Pattern(
    r'(?:```(?:json)?\s*)?\[?\s*\{\s*"(?:name|tool_name|tool|function)"\s*:\s*"([\w.-]+)"|\[\s*([A-Za-z_]\w*)\('
)
"""How a call as JSON or program code begins; without its end it was cut."""

_ENDINGS = ("}", "]", "```")
_DATA = ("", "json", "jsonc", "tool")
_INDENTED = ("    ", "\t")
_FENCES = ("```", "~~~")
_BARS = ("|", "｜", "/")
_QUOTES = ("`", "'", '"', "\u201c", "\u2018", "(")
_WORD = Pattern(r"[\w-]+")
_MOST_OBJECTS = 64
_LONGEST_TAG = 40
_ENVELOPES = ("function", "function_call", "functionCall")
_BESIDE_FUNCTION = frozenset({*_ENVELOPES, "id", "type", "index", "call_id"})
_NAMES = ("name", "tool_name", "tool", "function")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "tool_input")
_BESIDE = frozenset({*_NAMES, *_ARGUMENTS, "id", "type", "tool_call_id", "call_id", "index"})


@dataclass(frozen=True, slots=True)
class Leak:
    """`certain`: the text is markup and nothing else; else it may be an answer that shows some."""

    kind: Literal["leaked", "thinking"]
    certain: bool


def leak_in(text: str, tools: Collection[str]) -> Leak | None:
    """What an agent with these tools left in the text of a reply; None when the text may be an answer.

    Markup that an answer quotes in a fence, in a line, or between paragraphs of words is part of the answer.
    """
    thinking = _thinking_in(text)
    if thinking and _SPOKEN_CHANNELS.match(text.strip()) and "to=" not in text:
        return Leak("thinking", thinking)
    if tools and (certain := _call_in(text, tools)) is not None:
        return Leak("leaked", certain)
    return None if thinking is None else Leak("thinking", thinking)


def _call_in(text: str, tools: Collection[str]) -> bool | None:
    """Whether it is certain that the text has a call in it; None when it has none."""
    bare = _without_frame(text.strip())
    if len(bare) <= LONGEST_CALL and (certain := _bare_call(bare, tools)) is not None:
        return certain
    if _is_routed("".join(line for _, line in _prose(bare)), tools):
        return True
    begin = next((at for at, line in _prose(bare) if _MARK.match(line) or _opens_tool(line, bare, tools)), None)
    inside = begin is None and (begin := _within_line(bare)) is not None
    if begin is None:
        return None
    led, ends = _leads(bare[:begin].strip(), tools), _ends_in_markup(bare)
    names = any(_named(word.group(), tools) for word in _WORD.finditer(bare[begin : begin + _NAMED_AT_MOST]))
    if inside:
        return bare[begin + 1] in _BARS if ends and names else None
    if not led and ends:
        return True
    if led and not ends:
        return None
    return True if names else False if ends else None


_BEGIN = Pattern(
    r"(?:<[|｜](?:im_start|start|begin_of_text|bos|start_header_id)[|｜]>|<bos>|<s>|<start_of_turn>|\s)*"
    r"(?:assistant|model)?\s*(?:<[|｜]end_header_id[|｜]>|\n)\s*"
)
_END = Pattern(
    r"(?:\s|<[|｜](?:im_end|eot_id|eom_id|eom|eot|endoftext|end_of_text|end_of_sentence|end▁of▁sentence|eos)[|｜]>"
    r"|</s>|<eos>|<end_of_turn>|\[EOS\])+$"
)


def _without_frame(text: str) -> str:
    """The text without the head and the end of a turn of its template, which a server may leave too."""
    begun = _BEGIN.match(text[:_LONGEST_FRAME])
    tail = text[-_LONGEST_FRAME:] if text.endswith((">", "]")) else ""
    ended = _END.search(tail)
    return text[0 if begun is None else begun.end() : len(text) - (0 if ended is None else len(tail) - ended.start())]


def _within_line(text: str) -> int | None:
    """Where the first mark begins that stands in a line of words and is not quoted there."""
    for at, line in _prose(text):
        found = _MARK.search(line)
        if found is not None and not line.count("`", 0, found.start()) % 2 and line[found.start() - 1] not in _QUOTES:
            return at + found.start()
    return None


def _leads(before: str, tools: Collection[str]) -> bool:
    """Whether words lead up to the first mark, and not the beginning of a call whose opening mark is missing."""
    return bool(before) and not before.startswith(("{", "[")) and before not in tools


def _is_routed(prose: str, tools: Collection[str]) -> bool:
    """Whether the words end in a call by Harmony's or ReAct's words, which some servers leave without any marks."""
    if (acted := _REACT.search(prose)) and _named(acted[1], tools):
        return True
    routed = _ROUTED.search(prose)
    if routed is None or not _named(routed[1], tools) or prose.count("`", 0, routed.start()) % 2:
        return False
    payload = prose[routed.end() :].strip()
    return "{" in payload[:80] and (payload.endswith(("}", "|>", "｜>")) or "}" not in payload)


def _named(name: str, tools: Collection[str]) -> bool:
    return name in tools or name.rpartition(".")[2] in tools


def _prose(text: str) -> Iterator[tuple[int, str]]:
    """The lines outside code blocks, without indentation, and where each begins."""
    fence, at, begun = "", 0, False
    for line in text.splitlines(keepends=True):
        inside = line.lstrip()
        if fence:
            fence = "" if inside.startswith(fence) else fence
        elif inside.startswith(_FENCES):
            fence = inside[:3]
        elif not (begun and line.startswith(_INDENTED)):
            yield at + len(line) - len(inside), inside
        begun = begun or bool(inside)
        at += len(line)


def _opens_tool(line: str, text: str, tools: Collection[str]) -> bool:
    """Whether the line begins with a tag named like a tool, which the text closes again or begins with."""
    if not line.startswith("<"):
        return False
    name, _, after = line[1:].partition(">")
    opens = text.startswith(line) and (not after.strip() or after.lstrip().startswith(("<", "{")))
    return name in tools and (f"</{name}>" in text or opens)


def _ends_in_markup(text: str) -> bool:
    """Whether nothing that reads like words follows the last mark."""
    last = next(iter(deque(_MARK.finditer(text), maxlen=1)), None)
    if last is None:
        return text.startswith("<") or text.endswith(">")
    end = last.end()
    if last.group().startswith("<") and not last.group().endswith(">"):
        end = text.find(">", end) + 1
        if not end:  # cut within the mark
            return True
    rest = text[end:].lstrip("]:").strip()
    if not rest or rest.startswith(("{", "[", "<")) or _VALUE.search(text[last.start() : end]):
        return True
    return _CALLED.match(rest) is not None or (len(rest) <= LONGEST_LEAD and rest.startswith(("function", "```")))


def _bare_call(text: str, tools: Collection[str]) -> bool | None:
    """The same for a text that is a call as JSON or program code, bare or in a fence, or that ends in one."""
    if (begun := _BEGUN.match(text)) and _named(begun[1] or begun[2], tools) and not text.endswith(_ENDINGS):
        return True
    if _CODE_FENCE.match(text) and text.count("```") <= 2:
        inside = text.partition("\n")[2].removesuffix("```")
        return True if _is_code(inside, tools) or _is_json(inside, tools) is not None else None
    if (inside := _in_tag(text)) and (certain := _is_written(inside, tools)) is not None:
        return certain
    if _is_named(text, tools):
        return True
    if text.startswith("```"):
        language, _, inside = text[3:].removesuffix("```").partition("\n")
        is_data = text.endswith("```") and text.count("```") == 2 and language.strip().lower() in _DATA
        return _is_json(inside, tools) if is_data else None
    if (certain := _is_written(text, tools)) is not None:
        return certain
    lead, code = _last_fence(text) if text.endswith("```") else _last_paragraph(text)
    if not code or len(lead) > LONGEST_LEAD or not (lead.endswith((":", ".", "…", "!")) or "\n\n" in text):
        return None
    if lead == "Action:":
        return _is_written(code, tools)
    is_code = _CODE_FENCE.search(text) is not None and _is_code(code, tools)
    return False if is_code or _is_written(code, tools) is not None else None


def _in_tag(text: str) -> str:
    """What stands between a tag that the text begins with and the same tag that ends it; nothing for other texts."""
    tag = text[1 : text.find(">", 0, _LONGEST_TAG)] if text.startswith("<") else ""
    closing = f"</{tag}>"
    inside = text[len(tag) + 2 : -len(closing)].strip() if tag and text.endswith(closing) else ""
    return "" if closing in inside else inside


def _is_named(text: str, tools: Collection[str]) -> bool:
    """Whether the text is a tool's name on a line of its own, and after it one JSON object or a fence."""
    name, _, given = text.removeprefix(">>>").partition("\n")
    given = given.strip()
    if not _named(name.strip(), tools):
        return False
    return _as_json(given, "{") is not None or (given.startswith("```") and "tool_call(" in given)


def _last_fence(text: str) -> tuple[str, str]:
    """The words before a fence that ends the text, and the call in it; nothing for another language or more fences."""
    lead, _, fenced = text.removesuffix("```").partition("```")
    language, _, code = fenced.partition("\n")
    known = language.strip().lower() in _DATA or _CODE_FENCE.match(f"```{language}") is not None
    return (lead.strip(), code.strip()) if known and "```" not in code else ("", "")


def _last_paragraph(text: str) -> tuple[str, str]:
    """The words before the last line that begins with a bracket, and what begins there."""
    begin = max(text.find("\n{"), text.find("\n["))
    return (text[:begin].strip(), text[begin:].strip()) if begin >= 0 and "```" not in text else ("", "")


def _is_written(text: str, tools: Collection[str]) -> bool | None:
    """Whether it is certain that JSON, or a list in program code, is a call of these tools; None when it is none."""
    if text.startswith(("print(", "default_api.")) or (text.startswith("[") and text.endswith("]")):
        call = _PYTHON.match(text)
        if call is not None and call[1] in tools:
            return True
    return _is_json(text, tools)


def _is_code(text: str, tools: Collection[str]) -> bool:
    call = _PYTHON.match(text)
    return call is not None and _named(call[1], tools)


def _is_json(text: str, tools: Collection[str]) -> bool | None:
    """Whether it is certain that JSON is a call, or a list of calls, of these tools; None when it is none."""
    bare = text.strip()
    said = _as_json(bare, ("{", "["))
    said = _in_a_row(bare) if said is None else said
    if said is None:
        return None
    listed = said.get("tool_calls", said) if isinstance(said, Mapping) and len(said) == 1 else said
    parts = [*map(_inside, listed if isinstance(listed, list) else [listed])]
    calls = [call for call in parts if isinstance(call, Mapping) and _is_call(call, tools)]
    if not calls or len(calls) < len(parts):
        return None
    return all(_BESIDE.issuperset(call) for call in calls)


def _as_json(text: str, begins: str | tuple[str, ...]) -> object:
    """The JSON list or object that is the whole text and begins so; None for any other text."""
    if not (text.startswith(begins) and text.endswith(("}", "]"))):
        return None
    try:
        said: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return said


def _in_a_row(text: str) -> list[object] | None:
    """The JSON objects that the text consists of, with line ends or semicolons between them."""
    objects: list[object] = []
    while text.startswith("{") and len(objects) < _MOST_OBJECTS:
        try:
            said, end = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError):
            return None
        objects.append(said)
        text = text[end:].lstrip("; \n")
    return None if text or not objects else objects


def _inside(call: object) -> object:
    """The call in the envelope of a provider's API; other values unchanged."""
    if not isinstance(call, Mapping) or not call.keys() <= _BESIDE_FUNCTION:
        return call
    found = [call[key] for key in _ENVELOPES if isinstance(call.get(key), Mapping)]
    return found[0] if len(found) == 1 else call


def _is_call(call: Mapping[str, object], tools: Collection[str]) -> bool:
    name = next((call[key] for key in _NAMES if isinstance(call.get(key), str)), None)
    return isinstance(name, str) and _named(name, tools) and any(key in call for key in _ARGUMENTS)


_THOUGHT = Pattern(
    r"</?(?:[a-z]{1,20}:)?(?:think|thinking|thought|reasoning|scratchpad)>|\[/?THINK\]|◁/?think▷"
    r"|</?[|｜](?:begin_of_|end_of_|start_|end_)(?:thought|thinking)[|｜]>",
    ignore_case=True,
)
_SPOKEN_CHANNELS = Pattern(r"(?:<\|channel\|>)?analysis\b?[\s\S]*assistant\s*(?:<\|channel\|>)?final")


def _thinking_in(text: str) -> bool | None:
    """Whether it is certain that the text has thinking in it; None when it has none."""
    bare = text.strip()
    if bare.startswith(("analysis", "<|channel|>analysis")) and _SPOKEN_CHANNELS.match(bare):
        return True
    if _THOUGHT.search(bare) is None or not any(_THOUGHT.match(line) for _, line in _prose(bare)):
        return None
    tags = [thought.group() for thought in _THOUGHT.finditer(bare)]
    closing = ["/" in tag or "end_" in tag.lower() for tag in tags]
    return closing[0] or (len(set(closing)) == 2 and _THOUGHT.match(bare) is not None)


_PARSERS = (
    (r"dsml|tool▁|｜", "DeepSeek's", "deepseek_v3, deepseek_v31 or deepseek_v32"),
    (r"<\|(?:channel|constrain|message|start)\||to=functions|to=\w", "Harmony's (gpt-oss)", "openai"),
    (r"<\|tool_calls?_(?:section_)?begin\||tool_call_argument", "Kimi's", "kimi_k2"),
    (r"minimax", "MiniMax's", "minimax_m2"),
    (r"<arg_key>", "GLM's", "glm45"),
    (r"<function=[^>]*>\s*<parameter=|<parameter=", "Qwen3-Coder's", "qwen3_coder"),
    (r"python_tag|<function=", "Llama's", "llama3_json"),
    (r"\[tool_calls?\]", "Mistral's", "mistral"),
    (r"<\|tool_call\|>", "Granite's", "granite"),
    (r"functools\[", "Phi's", "phi4_mini_json"),
    (r"<tool_call", "Hermes' and Qwen's", "hermes"),
)
_OTHER = "another server or model"
_FAMILIES = tuple((Pattern(marks, ignore_case=True), whose, parser) for marks, whose, parser in _PARSERS)


def missing_parser(text: str, model: str) -> str:
    """Why an agent cannot go on whose model's server leaves calls in the text, and what to do about it."""
    known = next(((whose, name) for marks, whose, name in _FAMILIES if marks.search(text[:LONGEST_CALL])), None)
    form = "" if known is None else f" in {known[0]} form"
    parser = "the model's" if known is None else known[1]
    return (
        f"the model {model} wrote a tool call as text again{form}, and nothing ran: its server lacks the tool parser "
        f"for this model. Turn it on (vLLM, SGLang: --tool-call-parser, with {parser}; llama.cpp: --jinja), or "
        f"take {_OTHER}"
    )


def missing_calls(model: str) -> str:
    """The same for a server that reports calls and sends none."""
    return (
        f"the server of the model {model} reported tool calls again and sent none: its tool parser is missing or "
        f"broken. Turn it on (vLLM, SGLang: --tool-call-parser; llama.cpp: --jinja), or take {_OTHER}"
    )


def missing_reasoning_parser(model: str) -> str:
    """The same for thinking in the text."""
    return (
        f"the model {model} wrote its thinking into its answer again: its server lacks the reasoning parser for this "
        f"model. Turn it on (vLLM, SGLang: --reasoning-parser; llama.cpp: --reasoning-format), or take {_OTHER}"
    )
