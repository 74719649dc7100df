"""Text for display holds no terminal control sequences and is cut between words."""

import pytest

from drone.tools.frame.display_text import LONGEST_WORD, cut, strip_controls, word_after, word_before


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[1;1Hcleared", "cleared"),
        ("\x9b31mred", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]52;c;ZXZpbA==\x1b\\after", "after"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0;2\x1b\\after", "after"),
        ("\x9d0;title\x9cafter", "after"),
        ("\x1b(B\x1b=\x1bcafter", "after"),
        ("\x1b]never closed\nnext line", "\nnext line"),
        ("safe\rEVIL", "safe\nEVIL"),
        ("a\r\nb\tc\n", "a\nb\tc\n"),
        ("bell\x07 back\x08 nul\x00 del\x7f nel\x85", "bell back nul del nel"),
        ("nested \x1b[3\x1b[1mbold", "nested bold"),
        ("été 日本 🎉 \u202e", "été 日本 🎉 \u202e"),
    ],
)
def test_terminal_commands_are_taken_out(text: str, left: str) -> None:
    assert strip_controls(text) == left


def test_stripping_is_linear() -> None:
    assert strip_controls("\x1b]" * 200_000) == ""
    assert strip_controls("\x1b[" * 200_000) == ""


@pytest.mark.parametrize(
    ("text", "characters", "shown"),
    [
        ("one two three", 20, "one two three"),
        ("one two three", 13, "one two three"),
        ("one two three", 7, "one two"),
        ("one two three", 9, "one two"),
        ('{"key": "abcdef"}', 12, '{"key": "'),
        ("abcdefgh", 3, "abc"),
        ("é" * 9 + " more", 12, "é" * 9),
    ],
)
def test_a_text_is_cut_before_the_word_that_does_not_fit(text: str, characters: int, shown: str) -> None:
    assert cut(text, characters) == shown


def test_a_word_without_an_end_is_cut_where_it_must_be() -> None:
    endless = b"a " + b"x" * (2 * LONGEST_WORD)
    assert word_before(endless, 2 * LONGEST_WORD) == 2 * LONGEST_WORD


def test_no_character_is_cut_in_two() -> None:
    line = "ééé".encode()
    assert (word_before(line, 3), word_after(line, 3, 6)) == (2, 2)


def test_a_part_of_a_line_begins_and_ends_with_whole_words() -> None:
    line = b"some words, then others"
    assert line[word_after(line, 2, 20) : word_before(line, 20, 8)] == b"words, then "
