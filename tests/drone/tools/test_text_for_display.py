"""Text from outside loses its terminal commands."""

import pytest

from drone.tools.terminal_text import plain


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
    assert plain(text) == left


def test_stripping_is_linear() -> None:
    assert plain("\x1b]" * 200_000) == ""
    assert plain("\x1b[" * 200_000) == ""
