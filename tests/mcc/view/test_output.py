"""Text for a terminal is made safe."""

import json

import pytest

from mcc.view.output import clean, one_line, print_json


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("plain\n\ttext ü 漢", "plain\n\ttext ü 漢"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]52;c;c2VjcmV0\x07copied", "copied"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b2Jcleared", "cleared"),
        ("\x1bP1$r\x1b\\after", "after"),
        ("\x1b]0;no end, and the text stays", "0;no end, and the text stays"),
        ("over\rwritten", "overwritten"),
        ("line\r\nline", "line\nline"),
        ("bell\x07 nul\x00 del\x7f", "bell nul del"),
        ("lone \ud800 surrogate", "lone \N{REPLACEMENT CHARACTER} surrogate"),
        ("right\u202eleft\u200b", "rightleft"),
        ("tag\U000e0041s", "tags"),
    ],
)
def test_what_a_terminal_would_obey_is_taken_out(text: str, safe: str) -> None:
    assert clean(text) == safe


def test_a_flood_of_openings_is_cleaned_in_one_pass() -> None:
    assert clean("\x9d" * 200_000 + "\x1b]" * 200_000 + "end") == "end"


def test_one_line_is_short_and_whole() -> None:
    assert one_line("a\n b\tc") == "a b c"
    assert one_line("x" * 100, 10) == "x" * 9 + "…"


def test_indented_json_is_the_same_value_and_hides_nothing(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    value = {"a": ["\x1b[31m", "\u202e", "é"], "b": {"c": 1}}
    print_json(value, type="t", indented=True)
    out = capfdbinary.readouterr().out
    assert json.loads(out) == {"type": "t", **value}
    assert out.count(b"\n") > 5 and b"\x1b" not in out and "\u202e".encode() not in out
