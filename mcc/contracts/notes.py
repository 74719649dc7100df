"""Notes that agents write for later orders of the same project: memory, plans and tasks, each with its versions."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, StringConstraints

from mcc.contracts.shape import Closed, Identifier, Moment, Text

NoteKind: TypeAlias = Literal["memory", "plan", "task"]
NoteState: TypeAlias = Literal["pending", "accepted", "rejected"]
NoteDecision: TypeAlias = Literal["accept", "reject"]
TaskStatus: TypeAlias = Literal["open", "in_progress", "done", "dropped"]

NAME_CHARACTERS = 100
TITLE_CHARACTERS = 200
TEXT_CHARACTERS = 20_000

MAX_NOTES = 1_000
"""Most notes of one kind that a project may have at a time."""

NoteName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_./ -]{0,99}$")]


class Note(Closed):
    """One version of a note. `project` is the key of a workspace, or the session for an order without one; `workspace`
    is the workspace's path at the time of writing.

    When a person wrote the note, `principal` names the person, and `order_id` and `agent` are None. `seq` is the number
    of the entry of the call that wrote the note, in the journal of `order_id`. `verified_at`: when the note was last
    written or confirmed. `deleted`: this version deletes the note. `status` is for tasks only.

    The newest accepted version counts; only versions of a memory are ever pending or rejected. `tainted`: its agent, or
    an agent below it, had been shown text from outside, such as a web page. `decided_by` accepted or rejected the
    version; None with `decided_at`: a later version took its place before anybody decided. `stale`: a memory that
    nobody has verified for a long time.
    """

    project: str
    kind: NoteKind
    name: str
    version: int
    title: Text = ""
    text: Text = ""
    status: TaskStatus | None = None
    deleted: bool = False
    workspace: Text | None = None
    principal: Text | None = None
    order_id: Identifier | None = None
    record_id: Identifier | None = None
    agent: Text | None = None
    seq: int | None = None
    written_at: Moment
    verified_at: Moment
    expires_at: Moment | None = None
    state: NoteState = "accepted"
    stale: bool = False
    tainted: bool = False
    decided_by: Text | None = None
    decided_at: Moment | None = None


class NewNote(Closed):
    """A version to write. `title`, `text` or `status` None: unchanged. `name` None: named by the next number."""

    kind: NoteKind
    name: NoteName | None = None
    title: Annotated[str, StringConstraints(max_length=TITLE_CHARACTERS)] | None = None
    text: Annotated[str, StringConstraints(max_length=TEXT_CHARACTERS)] | None = None
    status: TaskStatus | None = None
    expires_at: Moment | None = None


class DecideNote(Closed):
    """Accepts or rejects one pending version of a memory."""

    project: Annotated[str, StringConstraints(max_length=200)]
    name: Annotated[str, StringConstraints(max_length=200)]
    version: Annotated[int, Field(ge=1, le=2_147_483_647)]
    decision: NoteDecision
