"""Text for a terminal is made safe."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mcc.view.output import brief, clean, exact_line, one_line, print_json

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("plain\n\ttext ü 漢", "plain\n\ttext ü 漢"),
        ("\x1b[31mred\x1b[0m", "⟦U+001B⟧[31mred⟦U+001B⟧[0m"),
        ("\x1b]52;c;c2Vj\x07copied", "⟦U+001B⟧]52;c;c2Vj⟦U+0007⟧copied"),
        ("\x1b]8;;http://x\x1b\\link", "⟦U+001B⟧]8;;http://x⟦U+001B⟧\\link"),
        ("\x9b2Jcleared", "⟦U+009B⟧2Jcleared"),
        ("\x1bP1$r\x1b\\after", "⟦U+001B⟧P1$r⟦U+001B⟧\\after"),
        ("\x1b]0;no end", "⟦U+001B⟧]0;no end"),
        ("over\rwritten", "over⟦U+000D⟧written"),
        ("line\r\nline", "line⟦U+000D⟧\nline"),
        ("bell\x07 nul\x00 del\x7f", "bell⟦U+0007⟧ nul⟦U+0000⟧ del⟦U+007F⟧"),
        ("lone \ud800 surrogate", "lone ⟦U+D800⟧ surrogate"),
        ("right\u202eleft\u200b", "right⟦U+202E⟧left⟦U+200B⟧"),
        ("tag\U000e0041s", "tag⟦U+E0041⟧s"),
        ("literal ⟦U+202E⟧", "literal ⟦U+27E6⟧U+202E⟧"),
    ],
)
def test_what_a_terminal_would_obey_is_made_visible(text: str, safe: str) -> None:
    assert clean(text) == safe


def test_one_line_is_short_and_whole() -> None:
    assert one_line("a\n b\tc") == "a b c"
    assert one_line("x" * 100, 10) == "x" * 9 + "…"


@pytest.mark.parametrize("shorten", [one_line, brief, exact_line])
def test_a_line_that_leaves_something_out_says_so(shorten: Callable[[str, int], str]) -> None:
    assert shorten("ok" + " " * 10_000 + "; touch x", 40).endswith("…")
    assert shorten("ok", 40) == "ok"


def test_a_line_takes_no_control_or_foreign_space_for_a_blank() -> None:
    assert one_line("a\x1cb\x85c\u2028d\xa0e\u3000f") == "a⟦U+001C⟧b⟦U+0085⟧c⟦U+2028⟧d⟦U+00A0⟧e⟦U+3000⟧f"
    assert brief("a\x1c \n b\u2028") == "a\x1c b\u2028", "whoever prints it escapes it"


def test_an_exact_line_shows_its_line_ends_and_all_its_blanks() -> None:
    assert exact_line("a  b\n\tc ") == "a  b⟦U+000A⟧⟦U+0009⟧c "


def test_no_escape_is_cut_in_two() -> None:
    assert one_line("abc\u202edef", 8) == "abc…"
    assert one_line("abc\u202edef", 14) == "abc⟦U+202E⟧def"
    assert exact_line("abc\u202edef", 8) == "abc…"


def test_indented_json_is_the_same_value_and_hides_nothing(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    value = {"a": ["\x1b[31m", "\u202e", "é"], "b": {"c": 1}}
    print_json(value, type="t", indented=True)
    out = capfdbinary.readouterr().out
    assert json.loads(out) == {"type": "t", **value}
    assert out.count(b"\n") > 5 and b"\x1b" not in out and "\u202e".encode() not in out


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252:strict", "ascii:surrogateescape", "utf-8"])
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_terminal_that_lacks_a_character_gets_a_question_mark_and_no_traceback(encoding: str, stream: str) -> None:
    code = f"from mcc.view.output import write_anything; import sys; write_anything(); print(TEXT, file=sys.{stream})"
    text = ascii("a \N{SNOWMAN} \ud800 漢 z")
    environment = {"PYTHONIOENCODING": encoding, "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", code.replace("TEXT", text)], env=environment, capture_output=True, check=True, cwd=ROOT
    )
    said = done.stdout if stream == "stdout" else done.stderr
    assert said.startswith(b"a ") and said.endswith(b" z\n")
    assert encoding == "utf-8" or stream == "stderr" or said == b"a ? ? ? z\n"


@pytest.mark.parametrize("module", ["mcc.cli.main", "drone.cli"])
def test_both_command_lines_begin_by_that(module: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "80"}
    done = subprocess.run([sys.executable, "-m", module, "--help"], env=environment, capture_output=True, cwd=ROOT)
    assert done.returncode == 0 and b"Traceback" not in done.stderr and b"Usage" in done.stdout
