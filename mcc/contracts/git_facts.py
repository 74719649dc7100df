"""What agents of an order did with git: commits, and worktrees of their own with what became of them."""

from enum import StrEnum
from typing import ClassVar

from mcc.contracts.fact import Note
from mcc.contracts.shape import Text


class WorktreeState(StrEnum):
    """What became of the work in a worktree; its ref has it, but for an empty one. Of a lost one somebody deleted the
    directory, and its ref has what its agent committed."""

    MERGED = "merged"
    CONFLICT = "conflict"
    KEPT = "kept"
    EMPTY = "empty"
    LOST = "lost"


class WorkspaceCommitted(Note):
    """A commit that the call of a tool made in the workspace. `parent` None: the first one; `branch` None: on none.

    `worktree`: it was made in a subagent's worktree, on the ref of that.
    """

    kind: ClassVar[str] = "workspace.committed"
    call_id: str
    commit: str
    parent: str | None = None
    branch: Text | None = None
    subject: Text = ""
    worktree: bool = False

    @property
    def in_words(self) -> Text:
        return f"commit {self.commit[:10]} on {self.branch or 'no branch'}: {self.subject}"


class WorktreeMade(Note):
    """An entry of a parent's: its child `child_id` begins to work in a worktree of its own.

    `base` is the commit of what the parent's workspace held then, `head` the last commit before that, if there was one.
    """

    kind: ClassVar[str] = "worktree.made"
    child_id: str
    child: str
    ref: str
    base: str
    head: str | None = None

    @property
    def in_words(self) -> Text:
        return f"{self.child} works in a worktree of its own, {self.ref}"


class WorktreeEnded(Note):
    """An entry of a parent's: what became of its child's worktree. `conflicts` are paths that were not merged;
    `commit` is the last of `ref`, None when nothing was committed. `message` tells the parent."""

    kind: ClassVar[str] = "worktree.ended"
    child_id: str
    child: str
    ref: str
    state: WorktreeState
    commit: str | None = None
    conflicts: tuple[Text, ...] = ()
    message: Text = ""

    @property
    def in_words(self) -> Text:
        return f"the worktree of {self.child}: {self.state}"
