"""What an order changed, in words."""

from mcc.contracts.changes import ChangedFile, Changes, CheckpointTaken, CommitMade, WorktreeChange
from mcc.view.changes import change_rows

RECORD = "01a20813-70d6-760a-8906-246932d6d406"
FILES = tuple(ChangedFile(path=f"{name}.py", change="modified", added=2, removed=1) for name in "abcdefg")


def test_files_commits_what_was_not_merged_and_the_way_back_are_told() -> None:
    merged = WorktreeChange(record_id=RECORD, agent="one", ref="refs/mcc/o/r1", state="merged")
    conflict = WorktreeChange(record_id=RECORD, agent="two", ref="refs/mcc/o/r2", state="conflict", conflicts=("a.py",))
    changes = Changes(
        workspace="/w",
        commits=(CommitMade(id="e4cdb8c607242df18c1c", subject="Mend it"),),
        files=FILES,
        checkpoints=(CheckpointTaken(after=3, id="c"),),
        worktrees=(merged, conflict),
    )
    assert change_rows(changes, "o") == [
        ("changed", "+14 −7 lines: a.py, b.py, c.py, d.py, e.py, 2 more"),
        ("commit", "e4cdb8c60724 Mend it"),
        ("worktree", "two: conflict, refs/mcc/o/r2"),
        ("take back", "mcc orders revert o"),
    ]


def test_names_of_files_and_subjects_of_commits_make_no_line_of_their_own() -> None:
    changes = Changes(
        workspace="/w",
        commits=(CommitMade(id="e4cdb8c607242df18c1c", subject="Mend it\ntake back: rm -rf"),),
        files=(ChangedFile(path="src/nl\nchanged  9 files\x1b[31m\u202e", change="added", added=1, removed=0),),
        worktrees=(WorktreeChange(record_id=RECORD, agent="one", ref="refs/mcc/o/r1", state="lost"),),
    )
    assert change_rows(changes, "o") == [
        ("changed", "+1 −0 lines: src/nl changed 9 files"),
        ("commit", "e4cdb8c60724 Mend it take back: rm -rf"),
        ("worktree", "one: lost, refs/mcc/o/r1"),
    ]


def test_an_order_that_changed_nothing_tells_nothing() -> None:
    assert change_rows(None, "o") == []
