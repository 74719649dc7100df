"""What an order changed in its workspace, and how it is asked to be taken back."""

from typing import Annotated, Literal

from pydantic import Field

from mcc.contracts.git_facts import WorktreeState
from mcc.contracts.shape import Closed, Identifier, Text


class ChangedFile(Closed):
    """`path` relative to the workspace, `source` what it was called before; lines `added` and `removed`, 0 of binary
    files."""

    path: Text
    change: Literal["added", "modified", "deleted", "renamed"]
    source: Annotated[Text | None, Field(alias="from")] = None
    added: int = 0
    removed: int = 0


class CommitMade(Closed):
    id: str
    subject: Text


class CheckpointTaken(Closed):
    """What the workspace held after entry `after` of the order's journal is kept under this id."""

    after: int
    id: str


class WorktreeChange(Closed):
    """What a subagent did in a worktree of its own, kept under `ref`; `conflicts` are paths."""

    record_id: Identifier
    agent: str
    ref: str
    state: WorktreeState
    conflicts: tuple[Text, ...] = ()


class Changes(Closed):
    """What an order did to its workspace. `base`: the commit that it began on, None without git; `diff`: the artifact
    that shows all of it."""

    workspace: Text
    base: str | None = None
    branch: str | None = None
    commits: tuple[CommitMade, ...] = ()
    files: tuple[ChangedFile, ...] = ()
    diff: str | None = None
    checkpoints: tuple[CheckpointTaken, ...] = ()
    worktrees: tuple[WorktreeChange, ...] = ()


class NewRevert(Closed):
    """How far an order's changes are taken back: to what its workspace held after its entry `to`, None = before its
    first write. `overwrite`: also what somebody else changed since."""

    to: Annotated[int, Field(ge=0, le=10**15, strict=True)] | None = None
    overwrite: bool = False
