"""Rows of the terminal and of the page: the same calls merge into the same rows, in the same order."""

import pytest

from mcc.contracts.entry_lines import line_of
from mcc.contracts.journal import ToolFinished
from mcc.reading.heads import heads_of
from mcc.view.rows_below import SameCalls, merged
from mcc.view.story import Story
from tests.mcc.view.order_journal import CLAIMED, MASTER, QUEUED, TURN, call, journal, result, started

CALLS = {
    "read_file read_file read_file": [3],
    "read_file search_text read_file read_file": [1, 1, 2],
    "read_file read_file! read_file read_file": [1, 1, 2],
    "edit_file edit_file read_file read_file": [1, 1, 2],
    "run_shell run_shell7 run_shell run_shell": [1, 1, 2],
    "read_file read_file? read_file": [3],
    "git_commit git_commit! read_file! read_file!": [1, 1, 1, 1],
}
"""Names of tools; "!": it failed, "7": it ended with that status, "?": it runs still. With
the number of calls in each row."""


@pytest.mark.parametrize(("calls", "sizes"), CALLS.items())
def test_neighbouring_calls_share_the_same_rows(calls: str, sizes: list[int]) -> None:
    told = [QUEUED, CLAIMED, (MASTER, started())]
    for number, word in enumerate(calls.split()):
        name = word.rstrip("!7?")
        told.append((MASTER, call(f"c{number}", name, path=f"{number}.py")))
        if not word.endswith("?"):
            ended = result(f"c{number}", name, is_error=word.endswith("!"))
            told.append((MASTER, ended.model_copy(update={"exit_code": 7 if word.endswith("7") else None})))
    entries = journal(*told)
    heads = heads_of([line_of(entry) for entry in entries], "m")
    on_the_page = [
        (head.first.name, len(head.calls) or 1, head.failed, head.ended is None)
        for head in heads
        if head.kind in ("tool", "tools")
    ]
    root = Story.of(entries).root
    assert root is not None
    rows = [row.lines for row in merged(root) if isinstance(row, SameCalls)]
    assert [
        (lines[0].name, len(lines), lines[-1].failed, any(line.running for line in lines)) for lines in rows
    ] == on_the_page
    assert [len(lines) for lines in rows] == sizes
    assert [line.brief for lines in rows for line in lines] == [f"{n}.py" for n in range(len(calls.split()))]


def test_a_call_that_was_refused_has_a_row_and_one_that_starts_an_agent_has_that_of_the_agent() -> None:
    refused = ToolFinished(call_id="r", name="run_shell", content="denied", is_error=True)
    root = Story.of(journal(QUEUED, CLAIMED, (MASTER, started()), (MASTER, refused))).root
    assert root is not None
    assert [(row.lines[0].name, row.lines[0].failed) for row in merged(root) if isinstance(row, SameCalls)] == [
        ("run_shell", True)
    ]
    started_one = Story.of(journal(*TURN, (MASTER, result("3", "subagent")))).root
    assert started_one is not None and [child.name for child in started_one.children] == ["explore"]
    rows = [row for row in merged(started_one) if isinstance(row, SameCalls)]
    assert [row.lines[0].name for row in rows] == ["list_files", "list_files"]


def test_a_row_names_what_was_looked_at_in_order_and_cuts_off_the_oldest() -> None:
    paths = ["a.py", "b.py", "a.py", "c.py"]
    told = [(MASTER, call(f"c{number}", "read_file", path=path)) for number, path in enumerate(paths)]
    few, many = (
        Story.of(journal(QUEUED, CLAIMED, (MASTER, started()), *calls)).root
        for calls in (told, [(MASTER, call(f"c{n}", "read_file", path=f"{n:02}-{'x' * 20}")) for n in range(20)])
    )
    assert few is not None and many is not None
    assert [row.brief for row in merged(few) if isinstance(row, SameCalls)] == ["b.py, a.py, c.py"]
    (brief,) = [row.brief for row in merged(many) if isinstance(row, SameCalls)]
    assert brief.startswith("… ") and brief.endswith(f"18-{'x' * 20}, 19-{'x' * 20}")
