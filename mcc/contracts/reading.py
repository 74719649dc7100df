"""What is read of one order: its overview, its rows and its time line, as of any of its entries."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, PlainValidator, StringConstraints, WithJsonSchema

from mcc.contracts.changes import ChangedFile, CommitMade, WorktreeChange
from mcc.contracts.control import Receipt
from mcc.contracts.order import WorkOrder
from mcc.contracts.record import ModelChoice, RecordStatus
from mcc.contracts.shape import Closed, Identifier, JsonObject, Moment, Text
from mcc.contracts.usage import Usage

Nodes: TypeAlias = Annotated[
    list[Any],
    PlainValidator(lambda value: value),
    WithJsonSchema(
        {
            "type": "array",
            "items": {"anyOf": [{"type": "string"}, {"type": "array", "items": {}}]},
            "description": "Rendered text: each node is a text, or [tag, attributes, …nodes].",
        }
    ),
]
"""Rendered text (`mcc.rendering.nodes`)."""


class IndexState(Closed):
    """How far the journal was read: `to` of `of` entries. While `to` is smaller, the answer tells of the first `to`
    entries, and the next request of more."""

    to: int
    of: int


class LastVerdict(Closed):
    """The last verdict on what an agent handed in. `rule`: the first that failed, `message`: all that was said."""

    ok: bool
    rule: Text | None = None
    message: Text = ""


WaitingKind: TypeAlias = Literal["approval", "question", "provider", "paused"]


class RecordOverview(Closed):
    """One agent's run. `call_id`: the call of its parent that started it. `steps`: replies of its model.

    `first_token_ms`: of its last reply. `waiting`: what it waits for. `background`: its parent went on meanwhile.
    """

    id: str
    parent_id: str | None
    call_id: str | None
    agent: str
    title: Text
    depth: int
    status: RecordStatus
    model: ModelChoice | None
    started_at: Moment
    finished_at: Moment | None
    first_seq: int
    last_seq: int
    steps: int
    tool_calls: int
    usage: Usage
    usage_total: Usage
    first_token_ms: float | None
    waiting: WaitingKind | None
    gate: LastVerdict | None
    background: bool


class Attempt(Closed):
    """One claim of the order by a drone; `ended` None: it holds the order."""

    n: int
    drone: str
    from_seq: int
    to_seq: int
    ended: Literal["finished", "lost", "handed_back", "parked"] | None


class Overview(Closed):
    """An order and its agents in the order of their starts, as of entry `at`; `last_seq`: the newest entry."""

    order: WorkOrder
    last_seq: int
    at: int
    index: IndexState
    records: tuple[RecordOverview, ...]
    attempts: tuple[Attempt, ...]
    next_cursor: str | None = None


RowKind: TypeAlias = Literal[
    "prompt",
    "model",
    "tool",
    "tools",
    "child",
    "gate",
    "steer",
    "approval",
    "question",
    "compacted",
    "note",
]


class ShownRow(Closed):
    """One row of what an agent did. `seq` is the entry with which it began and its place; `ms` None: it has not ended.

    `data` says what its kind has; `text` is the rendered text, `cut` whether it is only the beginning.
    """

    seq: int
    kind: RowKind
    record_id: str | None
    at: Moment
    ms: float | None = None
    data: JsonObject
    text: Nodes
    cut: bool = False


class Rows(Closed):
    """Neighbouring rows, by `seq`. `earlier`, `later`: there are more before or after them."""

    items: tuple[ShownRow, ...]
    earlier: bool
    later: bool
    last_seq: int
    at: int
    index: IndexState


BarKind: TypeAlias = Literal["agent", "model", "tool", "wait", "gate"]
MarkKind: TypeAlias = Literal[
    "retry", "fell_back", "takeover", "handed_back", "gate_refused", "approval", "steer", "compacted", "failed"
]
BarState: TypeAlias = Literal["running", "ok", "error"]
Bar: TypeAlias = tuple[BarKind, float, float, int, int, BarState, int]
"""Kind, start and length in milliseconds from the beginning of the time line, the entry that began it, how many it
stands for, how it ended, and the place of its name in `labels`."""

Gap: TypeAlias = tuple[Moment, Moment, Text]
"""From, to, and why nothing ran."""


class Lane(Closed):
    """The bars of one record, or of all records of one agent."""

    id: str
    agent: str
    title: Text
    bars: tuple[Bar, ...]


class Mark(Closed):
    at: Moment
    seq: int
    record_id: str | None
    kind: MarkKind


class Timeline(Closed):
    """Who ran when. `failure_path`: the records from the master down to the one that failed first."""

    from_: Annotated[Moment, Field(alias="from")]
    to: Moment
    gaps: tuple[Gap, ...]
    lanes: tuple[Lane, ...]
    labels: tuple[Text, ...]
    marks: tuple[Mark, ...]
    failure_path: tuple[str, ...]
    last_seq: int
    at: int
    index: IndexState


class ListedFile(ChangedFile):
    """A changed file, and whether it is a binary one, of which no lines are told."""

    binary: bool = False


class ChangesOfOrder(Closed):
    """What an order changed in its workspace, at most 200 `files` at a time. `commits` and `worktrees`, whose conflicts
    are cut as well, come with the first ones, as many as fit; the order itself has all of them."""

    base: str | None = None
    branch: str | None = None
    commits: tuple[CommitMade, ...] = ()
    worktrees: tuple[WorktreeChange, ...] = ()
    files: tuple[ListedFile, ...] = ()
    next_cursor: str | None = None


ShownLine: TypeAlias = tuple[str, int | None, int | None, list[tuple[str | None, Text]]]
"""Sign (" ", "+", "-"), number in the old and in the new file, and the text as pairs of a class and a part of it."""


class ShownHunk(Closed):
    header: Text
    lines: tuple[ShownLine, ...]


class FileChanges(Closed):
    """The changes in a file, at most 1,000 lines and 100,000 characters, 2,000 of a line. `language`: the end of its
    name. Classes are those of Pygments, and `ctl` of a character that nobody sees, and of what says that a line goes
    on."""

    path: Text
    language: Text | None
    hunks: tuple[ShownHunk, ...]
    next_cursor: str | None = None


class LineComment(Closed):
    """A comment on lines `line` to `end_line` of a changed file: at `path` once the order has ended, else of the call
    `call_id` that wrote it. `side`: whether the lines are those of the new or of the old file."""

    path: Annotated[str, StringConstraints(min_length=1, max_length=4_096)] | None = None
    call_id: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    side: Literal["new", "old"] = "new"
    line: Annotated[int, Field(ge=1, le=10**8, strict=True)]
    end_line: Annotated[int, Field(ge=1, le=10**8, strict=True)] | None = None
    text: Annotated[str, StringConstraints(min_length=1, max_length=10_000)]


class NewReview(Closed):
    """Comments on changed lines, and a `note` on all of it: one message to the agent of `record_id`, or the master; of
    an order that has ended, the next turn."""

    comments: Annotated[tuple[LineComment, ...], Field(max_length=100)] = ()
    note: Annotated[str, StringConstraints(max_length=10_000)] | None = None
    record_id: Identifier | None = None


class ReviewSent(Closed):
    """The receipt of the steer that the review became."""

    receipt: Receipt


class Drafts(Closed):
    """What a person has begun to write about an order; None: nothing."""

    drafts: JsonObject | None = None
    changed_at: Moment | None = None
