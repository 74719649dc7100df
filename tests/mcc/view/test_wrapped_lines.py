"""Lines wrapped to a terminal: between words, and without losing text."""

from rich.cells import cell_len

from mcc.view.output import wrapped

SAID = '  asked because argv[0] == "git" && size(argv) > 1, and the operator says so of run_shell'


def test_a_line_is_broken_between_words_and_goes_on_indented() -> None:
    assert list(wrapped(SAID, 40, 4)) == [
        '  asked because argv[0] == "git" &&',
        "    size(argv) > 1, and the operator",
        "    says so of run_shell",
    ]


def test_elsewhere_than_on_a_terminal_a_line_stays_one() -> None:
    assert list(wrapped(SAID, None, 4)) == [SAID]


def test_no_word_is_broken_or_lost_in_any_window() -> None:
    for width in range(1, 100):
        lines = list(wrapped(SAID, width, 2))
        assert " ".join(" ".join(lines).split()) == " ".join(SAID.split())
        assert all(cell_len(line) <= width or len(line.split()) == 1 for line in lines)


def test_wide_characters_count_as_the_window_counts_them() -> None:
    assert list(wrapped("時計 時計 時計", 9, 0)) == ["時計 時計", "時計"]


def test_an_empty_line_stays() -> None:
    assert list(wrapped("", 10, 2)) == [""]
