"""What nobody sees is written so that everybody sees it, for every text, and read back as it was."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcc.contracts.invisible import (
    controls_in,
    count_invisible,
    escape_invisible,
    escape_invisible_json,
    escape_on_one_line,
    unescape_invisible,
)
from mcc.contracts.shape import to_json

ANY = st.text(st.characters(exclude_categories=()) | st.sampled_from("⟦⟧U+27E6\n\t\x1b\u202e\u200b\ufe0f"))
CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"}
IGNORABLE = {
    *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x3164, 0xFFA0),
    *range(0xFE00, 0xFE10),
    *range(0xE0100, 0xE01F0),
}
BLANK = {0x2800, 0x16FE4, 0x1D159}


def is_unseen(code: int) -> bool:
    if chr(code) in " \n\t":
        return False
    return unicodedata.category(chr(code)) in CATEGORIES or code in IGNORABLE | BLANK or chr(code) == "⟦"


ASSIGNED = (*range(0x3400), *range(0xA000, 0xAC00), *range(0xD700, 0xE010), *range(0xF900, 0x12000))
AND_BEYOND = (*range(0x16E00, 0x17010), *range(0x1BC00, 0x1BD00), *range(0x1D000, 0x1D200), *range(0x1F300, 0x1FB00))
FAR = (*range(0xE0000, 0xE0200), 0xE0FFF, 0xE1000, 0xF0000, 0x10FFFD, 0x10FFFF)


def test_exactly_what_nobody_sees_is_escaped() -> None:
    codes = [*ASSIGNED, *AND_BEYOND, *FAR]
    text = "".join(map(chr, codes))
    escaped = escape_invisible(text)
    assert escaped == "".join(f"⟦U+{code:04X}⟧" if is_unseen(code) else chr(code) for code in codes)
    assert unescape_invisible(escaped) == text


@given(ANY)
def test_escaped_and_back_is_the_same_text(text: str) -> None:
    assert unescape_invisible(escape_invisible(text)) == text
    assert unescape_invisible(escape_on_one_line(text)) == text


@given(ANY)
def test_nothing_that_is_not_seen_is_left(text: str) -> None:
    shown = escape_invisible(text)
    assert not any(is_unseen(ord(one)) for one in shown.replace("⟦U+", "").replace("⟧", ""))
    assert shown.count("⟦") == count_invisible(text) == sum(is_unseen(ord(one)) for one in text)
    assert "\n" not in escape_on_one_line(text) and "\t" not in escape_on_one_line(text)


@given(ANY, ANY)
def test_different_texts_look_different(one: str, other: str) -> None:
    assert (escape_invisible(one) == escape_invisible(other)) == (one == other)


@given(st.recursive(ANY, lambda inner: st.lists(inner) | st.dictionaries(ANY, inner), max_leaves=10))
def test_json_reads_the_same_and_shows_everything(value: object) -> None:
    made = escape_invisible_json(to_json(value))
    assert json.loads(made) == value
    assert not any(is_unseen(ord(one)) for one in made.decode())


def test_beyond_the_first_plane_json_has_two_escapes() -> None:
    assert (
        escape_invisible_json('"\U000e0041\x7f\u202e⟦é"'.encode()) == '"\\udb40\\udc41\\u007f\\u202e\\u27e6é"'.encode()
    )


@pytest.mark.parametrize("text", ["⟦U+110000⟧", "⟦U+202e⟧", "⟦U+2⟧", "⟦⟧", "⟦U+0041"])
def test_what_is_no_escape_is_left_as_it_is(text: str) -> None:
    assert unescape_invisible(text) == text


def test_controls_are_told_once_each() -> None:
    assert controls_in("a\n\tb\x1b\x9b\x1b\r\x7f\u202e") == "\x1b\x9b\r\x7f"
