"""Text of files and tools that would command a terminal: it does not get as far as the record."""

from pathlib import Path

import pytest

from drone.agent.turns.toolset import Output, StartedCall
from drone.sandbox.places.paths import Workspace
from drone.tools.files.reading import read_file
from drone.tools.frame.tool import FunctionTools, ToolFailed, tool
from mcc.contracts.entry import Origin

COMMANDS = {
    "colour": "\x1b[31mred\x1b[0m",
    "clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "link": "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "device": "\x1bP+q\x1b\\",
    "C1": "\x9b2J\x9d0;title\x9c\x90x\x9c",
    "overwrite": "all is well\rEVIL",
    "back": "safe\x08\x08\x08\x08evil\x7f",
    "bell": "\x07\x0e\x00",
}
OBEYED = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))} - {"\t", "\n"}


async def answered(tools: FunctionTools, name: str, **given: object) -> Output:
    return await tools.call(StartedCall("call-1", name, given, Origin(record_id="record-1", agent="master")))


@pytest.mark.parametrize("text", COMMANDS.values(), ids=COMMANDS)
async def test_a_file_is_shown_with_its_controls_as_pictures(tmp_path: Path, text: str) -> None:
    (tmp_path / "notes").write_bytes(b" \n" * 4_096 + text.encode())
    tools = FunctionTools([read_file], workspace=Workspace(tmp_path))
    output = await answered(tools, "read_file", path="notes", start_line=4_097)
    assert not output.is_error and not OBEYED & set(output.content)
    head, _, shown = output.content.partition("\n")
    assert "shown as pictures" in head
    pictures = sum(character in OBEYED for character in text)
    assert sum("\u2400" <= character < "\u2440" for character in shown) == pictures, "each is there to be seen"


async def test_the_line_ends_of_another_system_are_told_and_nothing_to_worry_about(tmp_path: Path) -> None:
    (tmp_path / "dos").write_bytes(b"one\r\ntwo\r\n\tthree\r\n")
    output = await answered(FunctionTools([read_file], workspace=Workspace(tmp_path)), "read_file", path="dos")
    head, _, shown = output.content.partition("\n")
    assert shown == "1\tone\n2\ttwo\n3\t\tthree\n" and "CRLF" in head and "pictures" not in head


@tool()
def say(text: str) -> str:
    """Says it."""
    return text


@tool()
async def say_as_output(text: str) -> Output:
    """Says it."""
    return Output(text)


@tool()
async def fail(text: str) -> str:
    """Fails with it."""
    raise ToolFailed(text)


@tool()
def break_down(text: str) -> str:
    """Breaks with it."""
    raise RuntimeError(text)


@pytest.mark.parametrize("text", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("name", ["say", "say_as_output", "fail", "break_down"])
async def test_whatever_a_tool_says_is_without_commands(name: str, text: str) -> None:
    output = await answered(FunctionTools([say, say_as_output, fail, break_down]), name, text=text)
    assert not OBEYED & set(output.content)
