"""Text on its way to a terminal means no harm."""

import pytest

from mcc.view.output import clean, one_line


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
