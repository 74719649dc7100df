"""docs/judges.md has a row for each judge, which tells what got worse."""

import pytest

from tests.judges.scores import JUDGES, TABLE, Score, Scores, judged, page, read

BEFORE = Score("crashresume", "0.1.0", 4, 5)


def test_the_page_in_docs_is_what_its_own_rows_say_and_has_every_judge() -> None:
    scores = read(TABLE.read_text())
    assert [score.judge for score in scores] == list(JUDGES)
    assert page(scores) == TABLE.read_text()


@pytest.mark.parametrize(
    ("passed", "count", "is_worse"),
    [(4, 5, False), (5, 5, False), (9, 10, False), (3, 5, True), (3, 3, True), (4, 6, True)],
)
def test_a_row_with_fewer_that_passed_or_more_that_failed_is_worse(passed: int, count: int, is_worse: bool) -> None:
    _, worse = judged([BEFORE], [Score("crashresume", "0.2.0", passed, count)])
    assert bool(worse) == is_worse


def test_a_judge_that_was_not_asked_keeps_its_row() -> None:
    other = Score("standardwebhooks", "1.1.0", 2, 2)
    assert judged([BEFORE], [other]) == ([BEFORE, other], [])


def test_a_row_with_failures_is_red() -> None:
    assert "🔴 4/5" in page([BEFORE]) and "🔴" not in page([Score("crashresume", "0.1.0", 5, 5)]).splitlines()[-1]


def test_tests_are_counted_by_their_judge() -> None:
    counting = Scores()
    counting.ends |= {"a": ("crashresume", True), "b": ("crashresume", False), "c": ("standardwebhooks", True)}
    assert [(score.judge, score.passed, score.all) for score in counting.scores()] == [
        ("crashresume", 1, 2),
        ("standardwebhooks", 1, 1),
    ]
