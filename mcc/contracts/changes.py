"""What an order changed in its workspace, and the request to revert it."""

from typing import Annotated, Literal

from pydantic import Field

from mcc.contracts.git_facts import WorktreeState
from mcc.contracts.shape import Closed, Identifier, Text


class ChangedFile(Closed):
    """`path` is relative to the workspace, `source` (JSON: `from`) the path before a rename. `added` and `removed`
    count lines, 0 for binary files."""

    path: Text
    change: Literal["added", "modified", "deleted", "renamed"]
    source: Annotated[Text | None, Field(alias="from")] = None
    added: int = 0
    removed: int = 0


class CommitMade(Closed):
    id: str
    subject: Text


class CheckpointTaken(Closed):
    """The checkpoint `id` holds the workspace as it was after entry `after` of the order's journal."""

    after: int
    id: str


class WorktreeChange(Closed):
    """A subagent's work in its own worktree, stored under `ref`; `conflicts` are paths."""

    record_id: Identifier
    agent: str
    ref: str
    state: WorktreeState
    conflicts: tuple[Text, ...] = ()


class Changes(Closed):
    """What an order did to its workspace. `base`: the commit it started from, None without git; `diff`: the id of the
    artifact with the whole diff."""

    workspace: Text
    base: str | None = None
    branch: str | None = None
    commits: tuple[CommitMade, ...] = ()
    files: tuple[ChangedFile, ...] = ()
    diff: str | None = None
    checkpoints: tuple[CheckpointTaken, ...] = ()
    worktrees: tuple[WorktreeChange, ...] = ()


class NewRevert(Closed):
    """Revert the workspace to its state after the order's entry `to`, None = before the order's first write.
    `overwrite`: also undo what somebody else changed since."""

    to: Annotated[int, Field(ge=0, le=10**15, strict=True)] | None = None
    overwrite: bool = False
