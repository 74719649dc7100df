"""Facts of what agents did with git: commits, and worktrees of subagents."""

from enum import StrEnum
from typing import ClassVar

from mcc.contracts.fact import NotedFact
from mcc.contracts.shape import Text


class WorktreeState(StrEnum):
    """What became of the work in a worktree. Except for an empty one, its ref holds the work. Lost: somebody deleted
    the directory, so the ref holds only what the agent had committed."""

    MERGED = "merged"
    CONFLICT = "conflict"
    KEPT = "kept"
    EMPTY = "empty"
    LOST = "lost"


class WorkspaceCommitted(NotedFact):
    """A tool call made a commit in the workspace. `parent` None: the first commit; `branch` None: not on a branch.

    `worktree`: the commit was made in a subagent's worktree, on its ref.
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


class WorktreeMade(NotedFact):
    """The child `child_id` of this record's agent starts to work in its own worktree.

    `base` is a commit of the parent's workspace as it was at that time, `head` the last commit before it, if any.
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


class WorktreeEnded(NotedFact):
    """What became of the worktree of a child of this record's agent. `conflicts` are paths that were not merged;
    `commit` is the last one on `ref`, None when there is none. `message` is for the parent's model."""

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
