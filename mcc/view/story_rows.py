"""Rows of an order on the terminal: agents, calls of tools, controls and notes."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from mcc.contracts.fold import RecordNode
from mcc.contracts.journal import ToolFinished
from mcc.contracts.merging import ended_badly
from mcc.contracts.record import RecordStatus
from mcc.contracts.usage import Usage

KEPT_CHARACTERS = 4_000
"""How much of streamed text is kept, counted from its end."""


@dataclass(slots=True, eq=False)
class Speech:
    """Streamed output of an open model or tool call, as far as it is shown.

    `kind`: kind of the latest delta, "" before the first. `tail`: the end of the text of that kind. `characters`: its
    length so far. `called`: tool calls being written, by tool, with their argument characters so far.
    """

    kind: str = ""
    tail: str = ""
    characters: int = 0
    called: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str, text: str, offset: int | None = None, tool: str = "") -> None:
        """Add a delta of `kind` (as in `Delta`), preceded by `offset` characters of its kind; None = all so far."""
        if kind == "tool_call.delta":
            self.kind = kind
            self.called[tool] = (self.called.get(tool, 0) if offset is None else offset) + len(text)
            return
        if kind != self.kind or offset == 0:
            self.kind, self.tail, self.characters = kind, "", offset or 0
        known = 0 if offset is None else max(0, self.characters - offset)
        self.tail = (self.tail + text[known:])[-KEPT_CHARACTERS:]
        self.characters = self.characters + len(text) if offset is None else max(self.characters, offset + len(text))

    @property
    def last_line(self) -> str:
        """The last line that is not blank; "" where there is none."""
        return next((line for line in reversed(self.tail.split("\n")) if line.strip()), "")

    @property
    def in_brief(self) -> str:
        """What the model is doing, as words to stand before its text."""
        match self.kind:
            case "":
                return "waiting for the model"
            case "thinking.delta":
                return "thinking"
            case "tool_call.delta":
                return "writes " + ", ".join(f"{name or 'a call'} ({size:,})" for name, size in self.called.items())
        return ""


@dataclass(slots=True, eq=False)
class ToolLine:
    """One call of a tool: `brief`, its most telling argument; since when, or how long, it runs."""

    name: str
    brief: str
    began: datetime
    running: bool = True
    failed: bool = False
    """Whether it ended with an error or a status other than 0."""
    seconds: float = 0.0
    speech: Speech | None = None
    """Its output while it runs."""
    exit_code: int | None = None
    remark: str = ""
    """What else is worth telling of how it ended."""

    def end(self, call: ToolFinished, at: datetime, remark: str) -> None:
        self.running, self.speech, self.exit_code, self.remark = False, None, call.exit_code, remark
        self.failed = ended_badly(call.is_error, call.exit_code)
        self.seconds = call.seconds or (at - self.began).total_seconds()


@dataclass(slots=True, eq=False)
class ControlLine:
    """A control that was applied to an agent, or a verdict on its work; `carried`: once a request carried a message."""

    text: str
    carried: str | None = None


@dataclass(slots=True, eq=False)
class NoteLine:
    """What the runtime did or found: the newest of `count` notes of one kind about one agent."""

    text: str = ""
    count: int = 0


@dataclass(slots=True, eq=False)
class WarningLine:
    """The first warning about the agent files of the workspace, and how many there are."""

    text: str
    count: int = 1


@dataclass(slots=True, eq=False)
class StoryNode:
    """One agent's run: its record so far, and what else is shown.

    `name`: its display name, unique in the order. `origin`: the workspace file that defines it, "" for none. `model`:
    the model asked last. `speech`: that model's output while the call is open. `asks`: what it asks people, by item
    id, with the command that answers. `total`: what it and all below it spent. `calls`: those that are open, by id.
    `handed_on`: ids of calls whose row is that of the agent they started.
    """

    record: RecordNode
    name: str
    model: str
    origin: str = ""
    note: str = ""
    speech: Speech | None = None
    parent: "StoryNode | None" = None
    children: "list[StoryNode]" = field(default_factory=list)
    rows: "list[AnyRow]" = field(default_factory=list)
    total: Usage = field(default_factory=Usage)
    notes: dict[str, NoteLine] = field(default_factory=dict)
    asks: dict[str, str] = field(default_factory=dict)
    calls: dict[str, ToolLine] = field(default_factory=dict)
    handed_on: set[str] = field(default_factory=set)

    @property
    def status(self) -> RecordStatus:
        return RecordStatus(self.record.finished.status) if self.record.finished else RecordStatus.RUNNING

    @property
    def running(self) -> bool:
        return self.record.finished is None

    @property
    def at_work(self) -> bool:
        """Whether it, or an agent below it, has not ended."""
        return self.running or any(child.at_work for child in list(self.children))

    @property
    def ended_calls(self) -> str:
        """Its calls in words, "" for none."""
        calls = [row for row in list(self.rows) if isinstance(row, ToolLine)]
        failed = sum(call.failed for call in calls)
        told = f"{len(calls):,} call{'s' if len(calls) > 1 else ''}" if calls else ""
        return f"{told}, {failed:,} failed" if failed else told


AnyRow: TypeAlias = ToolLine | ControlLine | NoteLine | WarningLine
