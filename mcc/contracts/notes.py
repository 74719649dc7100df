"""What agents write down for later orders of the same project: memory, plans and tasks, each with its versions."""

from typing import Annotated, Literal, TypeAlias

from pydantic import StringConstraints

from mcc.contracts.shape import Closed, Identifier, Moment, Text

NoteKind: TypeAlias = Literal["memory", "plan", "task"]
TaskStatus: TypeAlias = Literal["open", "in_progress", "done", "dropped"]

NAME_CHARACTERS = 100
TITLE_CHARACTERS = 200
TEXT_CHARACTERS = 20_000

MOST_NOTES = 1_000
"""Notes of one kind that a project may have at a time."""

NoteName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_./ -]{0,99}$")]


class Note(Closed):
    """One version of a note. `project` is the key of a workspace, or the session of an order without one; `workspace`
    is where that was when this was written.

    `order_id` and `agent` are None where a person wrote it, who is `principal`. `seq` is the number of the entry of the
    call that wrote it, in the journal of `order_id`. `verified_at`: when it was last written or found to be still so.
    `deleted`: from this version on it is not there. `status` is that of a task.
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


class NewNote(Closed):
    """A version to be written; None leaves title, text and status as they were. `name` None: the next number."""

    kind: NoteKind
    name: NoteName | None = None
    title: Annotated[str, StringConstraints(max_length=TITLE_CHARACTERS)] | None = None
    text: Annotated[str, StringConstraints(max_length=TEXT_CHARACTERS)] | None = None
    status: TaskStatus | None = None
    expires_at: Moment | None = None
