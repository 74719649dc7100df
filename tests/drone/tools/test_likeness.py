"""An edit that misses its place is told the place that looks like it, and which characters differ."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drone.tools.files.likeness import differences, folded, nearest, without_numbers
from drone.tools.files.text_files import TextFile, replaced
from drone.tools.frame.tool import ToolFailed


def told(text: str, old: str) -> str:
    with pytest.raises(ToolFailed) as failed:
        replaced(TextFile(text), old, "new", "n.md", everywhere=False)
    return str(failed.value)


@pytest.mark.parametrize(
    ("text", "old", "line", "names"),
    [
        ("a\nprice:\u00a010 EUR\n", "price: 10 EUR", 2, ["U+00A0 NO-BREAK SPACE where old has U+0020 SPACE"]),
        ("It\u2019s fine\n", "It's fine", 1, ["U+2019 RIGHT SINGLE QUOTATION MARK where old has U+0027 APOSTROPHE"]),
        ("say \u201chi\u201d\n", 'say "hi"', 1, ["U+201C", "U+201D", "U+0022"]),
        ("a \u2013 b\n", "a - b", 1, ["U+2013 EN DASH where old has U+002D HYPHEN-MINUS"]),
        ("cafe\u0301\n", "caf\u00e9", 1, ["U+0301 COMBINING ACUTE ACCENT", "U+00E9"]),
        ("caf\u00e9\n", "cafe\u0301", 1, ["U+00E9", "U+0301"]),
        ("wait\u2026\n", "wait...", 1, ["U+2026 HORIZONTAL ELLIPSIS where old has 3 x U+002E FULL STOP"]),
        ("a\u200bb\n", "ab", 1, ["U+200B ZERO WIDTH SPACE"]),
        ("ab\n", "a\u200bb", 1, ["U+200B ZERO WIDTH SPACE"]),
        ("\uff21\uff22\n", "AB", 1, ["U+FF21 FULLWIDTH LATIN CAPITAL LETTER A"]),
        (
            "def f():\n\treturn 1\n",
            "def f():\n    return 1",
            1,
            ["U+0009 TAB", "U+0009 TAB where old has 4 x U+0020 SPACE"],
        ),
        ("a  b\n", "a b", 1, ["U+0020 SPACE where old has nothing"]),
        ("x = 1\ny = 2\n", "x = 1 \ny = 2", 1, ["U+0020 SPACE"]),
        ("x = 1\n", "x = 1 ", 1, ["white space around it"]),
        ("one line of " + "x" * 5_000 + " with it\u2019s inside\n", "with it's inside", 1, ["U+2019"]),
    ],
)
def test_characters_that_look_alike_are_named(text: str, old: str, line: int, names: list[str]) -> None:
    said = told(text, old)
    assert f"At line {line} stands what looks like it" in said
    assert [name for name in names if name not in said] == []


@pytest.mark.parametrize("number", ["2\t", "     2\t", "2→", "2|", "2 | ", "2: "])
def test_line_numbers_that_were_copied_are_told(number: str) -> None:
    said = told("def f():\n\treturn 1\n", f"{number}\treturn 1")
    assert "begin with line numbers" in said and "line 2" in said
    assert "begin with line numbers" not in told("def f():\n\treturn 1\n", f"{number}nothing of the kind")


def test_numbers_and_look_alikes_are_told_together() -> None:
    said = told("a\nIt\u2019s\n", "1\ta\n2\tIt's")
    assert "line numbers" in said and "U+2019" in said


def test_lines_that_are_like_it_are_shown_and_in_ascii_where_they_are_not() -> None:
    said = told("import os\n\ndef total(items):\n    retrun sum(items)\n", "    return sum(items)")
    assert "The nearest is at line 4" in said and "4\t    retrun sum(items)" in said
    assert "(in ASCII: 'Zur\\xfccksetzen!!')" in told("x\nZur\u00fccksetzen!!\n", "Zur\u00fccksetzen?!")
    assert "Nothing in it looks like it" in told("alpha\nbeta\n", "zzzzzzzzzzzz")


def test_the_nearest_of_several_lines_is_where_the_likest_of_them_is() -> None:
    lines = ["one", "two", "x = compute(alpha, beta)", "three"]
    assert nearest(lines, ["nothing", "x = compute(alfa, beta)"]) == (1, lines[1:3])
    assert nearest(lines, ["It\u2019s", "TWO"]) is None


def test_numbers_are_only_taken_off_where_every_line_has_one() -> None:
    assert without_numbers("1\ta\n\n2\tb") == "a\n\nb"
    assert without_numbers("1\ta\nb") is None and without_numbers("\n") is None


TEXTS = st.text(st.sampled_from("ab \n\t\u00a0\u2019'\u0301\u00e9e\u200b\u2026.\r-\u2014"), max_size=40)


@given(TEXTS, TEXTS, TEXTS)
def test_whatever_looks_the_same_is_found_where_it_is(before: str, wanted: str, after: str) -> None:
    found = differences(f"{before}\n{wanted}\n{after}", wanted)
    if folded(wanted.strip("\n")):
        assert found is not None and found[0] <= before.count("\n") + 1 + len(wanted)
    assert folded(folded(wanted)) == folded(wanted)


HOSTILE = [
    "e" + "\u0301\u0316" * 500_000,
    "ab" * 500_000,
    " " * 1_000_000,
    "\n" * 500_000,
    "return sum(item)\n" * 60_000,
    ("a" * 159 + "\n") * 6_000,
    "\u2026" * 300_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("old", ["return sum(items)", "a" * 30 + "b", "\u0301 x", ". . ."])
def test_a_hostile_file_costs_time_in_proportion_to_its_length(text: str, old: str) -> None:
    began = time.process_time()
    told(text, old)
    assert time.process_time() - began < 5
