"""Tables in windows of every width: ids and names stay whole, the last column shrinks."""

import pytest
from rich.cells import cell_len

from mcc.view.tables import Layout

COLUMNS = ("ID", "STATUS", "TIME", "PROMPT")
ROW = ("01890000-0000-7000-8000-000000000001", "succeeded", "12.0 s", "Explain this repository, and what is odd in it")
EMPTY = (ROW[0], "queued", "", "")


def drawn(window: int | None, *rows: tuple[str, ...]) -> list[str]:
    layout = Layout.of((COLUMNS, *rows), window)
    return [line for row in (COLUMNS, *rows) for line in layout.lines(row)]


def test_elsewhere_than_on_a_terminal_a_row_is_one_line_and_nothing_is_cut() -> None:
    assert drawn(None, ROW)[1] == f"{ROW[0]}  succeeded  12.0 s  {ROW[3]}"


@pytest.mark.parametrize("window", [50, 72, 80, 100, 140])
def test_a_row_fits_the_window_and_only_the_last_column_is_cut(window: int) -> None:
    lines = drawn(window, ROW, EMPTY)
    assert max(map(len, lines)) <= window
    assert all(sum(cell in line for line in lines) == 1 for cell in ROW[1:3])
    assert sum(ROW[0] in line for line in lines) == 2
    assert any("Explain this re" in line for line in lines)


def test_what_is_shrunk_to_nothing_goes_to_a_line_of_its_own() -> None:
    assert drawn(60, ROW) == [
        f"{'ID':36}  STATUS     TIME",
        "  PROMPT",
        f"{ROW[0]}  succeeded  12.0 s",
        f"  {ROW[3]}",
    ]
    assert drawn(50, ROW)[2:] == [f"{ROW[0]}  succeeded", "  12.0 s  Explain this repository, and what is od…"]


def test_a_line_of_nothing_is_left_out() -> None:
    assert drawn(60, ROW, EMPTY)[-1] == f"{EMPTY[0]}  queued"


def test_an_id_that_is_wider_than_the_window_stays_whole() -> None:
    assert ROW[0] in drawn(20, ROW)


def test_what_is_wider_than_the_window_goes_on_on_the_next_line_and_no_word_is_broken() -> None:
    rule = 'allow run_shell where argv[0] == "git" && size(argv) > 1 && argv[1] == "push"'
    lines = Layout.of((("ID", "RULE", "BY"), ("0190", rule, "token")), 40).lines(("0190", rule, "token"))
    assert list(lines) == [
        "0190",
        '  allow run_shell where argv[0] == "git"',
        "    && size(argv) > 1 && argv[1] ==",
        '    "push"',
        "  token",
    ]


def test_wide_characters_count_as_the_window_counts_them() -> None:
    row = (ROW[0], "succeeded", "1.0 s", "時計" * 20)
    line = drawn(80, row)[-1]
    assert cell_len(line) in (79, 80) and line.endswith("時…")


def test_a_last_column_that_must_stay_whole_stands_below_its_row_where_it_is_too_wide() -> None:
    text = f"tool_with_a_name: …{'word ' * 30}heron"
    lines = [*Layout.of((("ENTRY", "TEXT"), ("1/9", text)), 60, is_whole=True).lines(("1/9", text))]
    assert lines[0] == "1/9" and max(map(len, lines)) <= 60
    assert " ".join(line.strip() for line in lines[1:]) == text
    assert [*Layout.of((("1/9", "heron"),), 60, is_whole=True).lines(("1/9", "heron"))] == ["1/9  heron"]
