"""The changes in an order's outcome list what it did with git."""

from drone.worktrees.git_changes import with_git_facts
from mcc.contracts.changes import Changes
from mcc.contracts.git_facts import WorkspaceCommitted, WorktreeEnded, WorktreeMade, WorktreeState

X, Y = "01900000-0000-7000-8000-00000000000a", "01900000-0000-7000-8000-00000000000b"


def test_the_changes_list_base_commits_and_worktrees() -> None:
    made = WorktreeMade(child_id=X, child="coder", ref="refs/mcc/o/x", base="1" * 40, head="0" * 40)
    ended = WorktreeEnded(
        child_id=X, child="coder", ref=made.ref, state=WorktreeState.CONFLICT, commit="2" * 40, conflicts=("a",)
    )
    left = made.model_copy(update={"child_id": Y, "ref": "refs/mcc/o/y"})
    commits = [
        WorkspaceCommitted(call_id="c", commit=number * 40, parent="0" * 40, branch="mcc/0199a3c0", subject=number)
        for number in "34"
    ]
    theirs = commits[0].model_copy(update={"commit": "9" * 40, "worktree": True})
    told = with_git_facts(Changes(workspace="/work"), [made, left, theirs, ended, *commits])
    assert (told.base, told.branch) == ("0" * 40, "mcc/0199a3c0")
    assert [(one.id[0], one.subject) for one in told.commits] == [("3", "3"), ("4", "4")]
    assert [(one.record_id, one.state, one.conflicts) for one in told.worktrees] == [
        (X, WorktreeState.CONFLICT, ("a",)),
        (Y, WorktreeState.KEPT, ()),
    ]
