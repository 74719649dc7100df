"""The state of an order for display: the fold of its entries, with rows of tools, controls and notes."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import assert_never

from mcc.contracts.compaction import TranscriptCompacted
from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.entry import Entry
from mcc.contracts.fold import Fold, RecordNode
from mcc.contracts.git_facts import WorkspaceCommitted, WorktreeEnded, WorktreeMade
from mcc.contracts.inbox_facts import ApprovalDecided, ApprovalRequested, QuestionAnswered, QuestionAsked
from mcc.contracts.journal import (
    AgentFinished,
    AgentReused,
    AgentStarted,
    AgentStep,
    BudgetWarned,
    ControlApplied,
    DocumentChanged,
    GateChecked,
    ModelFact,
    OrderFact,
    ToolFinished,
    ToolStarted,
    VerifyChecked,
    WorkspaceCheckpointed,
    WorkspaceHeld,
)
from mcc.contracts.model_facts import ModelFellBack, ModelReplied, ModelRetried, ModelStarted
from mcc.contracts.order_facts import (
    OrderClaimed,
    OrderFinished,
    OrderHandedBack,
    OrderQueued,
    OrderRequeued,
    OrderResumed,
    OrderWaiting,
)
from mcc.contracts.record import RecordStatus
from mcc.contracts.usage import Usage
from mcc.contracts.waiting import retry_in_words
from mcc.contracts.waits import UNTOLD, WaitsFor
from mcc.view.lines import (
    Names,
    call_in_brief,
    control_in_brief,
    remark_in_brief,
    verdict_in_brief,
    waiting_in_brief,
    what_to_do,
    words_with_names,
    workspace_file,
)

_UNSAID = frozenset({"provisioned"})
"""Steps without a row: each tool that is used has one."""

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
    """All calls of one tool by one agent: how many in all, running and failed, and the newest in brief."""

    name: str
    calls: int = 0
    running: int = 0
    failed: int = 0
    brief: str = ""
    speech: Speech | None = None
    """Output of a running call."""
    exit_code: int | None = None
    """Of the call that ended last, None where it has none."""
    remark: str = ""
    """What else is worth telling of how that call ended."""


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
    the model asked last. `speech`: that model's output while the call is open.
    """

    record: RecordNode
    name: str
    model: str
    origin: str = ""
    note: str = ""
    speech: Speech | None = None
    rows: list["ToolLine | ControlLine | NoteLine | WarningLine | StoryNode"] = field(default_factory=list)
    tools: dict[str, ToolLine] = field(default_factory=dict)
    notes: dict[str, NoteLine] = field(default_factory=dict)
    calls: dict[str, str] = field(default_factory=dict)
    """Open calls: id → name of the tool."""

    @property
    def status(self) -> RecordStatus:
        return RecordStatus(self.record.finished.status) if self.record.finished else RecordStatus.RUNNING

    @property
    def running(self) -> bool:
        return self.record.finished is None

    def total(self) -> Usage:
        total = self.record.usage
        for row in self.rows:
            if isinstance(row, StoryNode):
                total = total.plus(row.total())
        return total


class Story:
    """An order's display state. Feed it every entry once, in order, from the first."""

    def __init__(self) -> None:
        self.fold = Fold("")
        self.root: StoryNode | None = None
        self.headline = ""
        self.waits_for: WaitsFor | None = None
        """As the service said last; what the journal does not tell of it stands in place of the headline."""
        self.began: datetime | None = None
        self.ended: datetime | None = None
        self.waiting = False
        self.advice = ""
        """The command that continues a waiting order; "" where there is none."""
        self.background: set[str] = set()  # records of agents whose parents go on meanwhile
        self._nodes: dict[str, StoryNode] = {}
        self._names = Names()

    @property
    def standing(self) -> str:
        """Where the order is, and what it waits for."""
        waits = self.waits_for
        if waits is None or waits.kind not in UNTOLD:
            return self.headline
        return f"{self.headline}, {waits.message}" if self.root is not None and not self.waiting else waits.message

    @classmethod
    def of(cls, entries: list[Entry]) -> "Story":
        story = cls()
        for entry in entries:
            story.add(entry)
        return story

    def add(self, entry: Entry) -> None:
        """Apply an entry. Raises ValueError when it does not follow the last one."""
        self.fold.order_id = entry.order_id
        self.fold.add(entry)
        self.began = self.began or entry.at
        node, fact = self._nodes.get(entry.record_id or ""), entry.fact
        match fact:
            case ModelStarted() | ModelReplied() | ModelRetried() | ModelFellBack():
                self._talk(entry, fact)
            case ToolStarted() | ToolFinished():
                self._call(entry, fact)
            case AgentStarted():
                self._start(entry, fact)
            case AgentFinished():
                if node is not None:
                    node.note, node.speech = fact.error or "", None
            case GateChecked():
                if not fact.check_only:
                    _set_note(node, "" if fact.ok else _sent_back(fact))
                self._add_note(entry, fact.kind)
            case ControlApplied():
                self._control(entry, fact)
            case VerifyChecked():
                if node is not None:
                    node.rows.append(ControlLine(verdict_in_brief(fact)))
            case ApprovalRequested():
                wish = f"may it use {fact.tool}?" if fact.call_id else "may the outline count?"
                _set_note(node, f"waits: {wish} (mcc inbox)")
            case QuestionAsked():
                _set_note(node, f"waits for an answer: {fact.question}")
            case ApprovalDecided() | QuestionAnswered():
                _set_note(node, "")
                self._add_note(entry, fact.kind)
            case AgentStep():
                if fact.name == "definition_warning":
                    self._warn(entry, fact.message)
                elif fact.name not in _UNSAID:
                    self._add_note(entry, fact.name)
            case AgentReused() | AgentDelivered() | BudgetWarned() | TranscriptCompacted() | DocumentChanged():
                self._add_note(entry, fact.kind)
            case WorkspaceCheckpointed() | WorkspaceHeld() | WorkspaceCommitted() | WorktreeMade() | WorktreeEnded():
                self._add_note(entry, fact.kind)
            case OrderQueued() | OrderClaimed() | OrderRequeued() | OrderHandedBack() | OrderResumed():
                self._order(entry, fact)
            case OrderWaiting() | OrderFinished():
                self._order(entry, fact)
            case _:
                assert_never(fact)

    def add_delta(self, record_id: str | None, kind: str, text: str, offset: int | None = None, tool: str = "") -> None:
        """Add streamed text, with the fields of `Delta`; it is dropped where no such call is open."""
        node = self._nodes.get(record_id or "")
        if node is not None and kind == "tool.progress":
            running = [line for line in node.tools.values() if line.running and tool in ("", line.name)]
            for line in running[-1:]:
                line.speech = line.speech or Speech()
                line.speech.add(kind, text, offset)
        elif node is not None and node.speech is not None:
            node.speech.add(kind, text, offset, tool)

    def _order(self, entry: Entry, fact: OrderFact) -> None:
        """An entry about the order as a whole."""
        self.waits_for = None
        if isinstance(fact, OrderWaiting | OrderResumed | OrderClaimed | OrderFinished):
            self.waiting, self.advice = False, ""
        match fact:
            case OrderQueued():
                self.headline = f"queued on {fact.queue}"
            case OrderClaimed():
                self.headline = f"on {fact.drone}" + (f", attempt {fact.attempt}" if fact.attempt > 1 else "")
            case OrderWaiting():
                self.waiting, self.headline = True, waiting_in_brief(fact)
                self.advice = what_to_do(entry.order_id, fact.reason) or ""
            case OrderRequeued() | OrderHandedBack() | OrderResumed():
                self.headline = f"queued again: {fact.message}"
            case OrderFinished():
                self.ended = entry.at
            case _:
                assert_never(fact)

    def _start(self, entry: Entry, started: AgentStarted) -> None:
        record = self.fold.node(entry.record_id)
        assert record is not None
        parent = self._nodes.get(entry.parent_id or "")
        if parent is None:
            self._names = Names()
        model = started.model.effective if started.model else ""
        node = StoryNode(record, self._names.next_of(record.agent, record.id), model, workspace_file(started) or "")
        if parent is None:
            self.root, self._nodes = node, {}
        else:
            parent.rows.append(node)
            self._forget_delegation(parent, started.call_id)
        self._nodes[record.id] = node

    def _add_note(self, entry: Entry, name: str) -> None:
        """Show the words of an entry in a row that all entries of this `name` by its agent share."""
        node = self._nodes.get(entry.record_id or "") or self.root
        if node is None:
            return
        if (line := node.notes.get(name)) is None:
            line = node.notes[name] = NoteLine()
            node.rows.append(line)
        line.text, line.count = words_with_names(entry, self._names.by_record) or "", line.count + 1

    def _warn(self, entry: Entry, message: str) -> None:
        node = self._nodes.get(entry.record_id or "")
        if node is None:
            return
        known = next((row for row in node.rows if isinstance(row, WarningLine)), None)
        if known is None:
            node.rows.append(WarningLine(message))
        else:
            known.count += 1

    def _control(self, entry: Entry, applied: ControlApplied) -> None:
        node = self._nodes.get(entry.record_id or "") or self.root
        # A pause shows as the state of its agents, which cannot say why.
        if node is not None and (applied.control not in ("pause", "resume") or applied.reason):
            node.rows.append(ControlLine(*(control_in_brief(applied, carried=carried) for carried in (False, True))))

    def _forget_delegation(self, parent: StoryNode, call_id: str | None) -> None:
        """Drop the tool call that started a child: the child's own row takes its place."""
        name = parent.calls.pop(call_id or "", None)
        line = parent.tools.get(name or "")
        if line is None:
            return
        line.calls, line.running = line.calls - 1, line.running - 1
        if not line.calls:
            parent.rows.remove(line)
            del parent.tools[line.name]

    def _call(self, entry: Entry, call: ToolStarted | ToolFinished) -> None:
        node = self._nodes.get(entry.record_id or "")
        if node is None:
            return
        if isinstance(call, ToolStarted):
            if (line := node.tools.get(call.name)) is None:
                line = node.tools[call.name] = ToolLine(call.name)
                node.rows.append(line)
            line.calls, line.running, line.brief = line.calls + 1, line.running + 1, call_in_brief(call.arguments)
            line.speech, line.exit_code, line.remark = None, None, ""
            node.calls[call.call_id] = call.name
            return
        self.background.update(call.background)
        open_line = node.tools.get(node.calls.pop(call.call_id, ""))
        if open_line is not None:
            open_line.running -= 1
            open_line.failed += call.is_error
            open_line.speech, open_line.exit_code, open_line.remark = None, call.exit_code, _remark(call)

    def _talk(self, entry: Entry, talk: ModelFact) -> None:
        node = self._nodes.get(entry.record_id or "")
        if node is None:
            return
        match talk:
            case ModelStarted():
                # Another try is written down together with the retry before it, and then waits.
                note = node.note if talk.attempt > 1 else ""
                node.model, node.note, node.speech = talk.model, note, Speech()
                for row in (row for row in node.rows if isinstance(row, ControlLine)):
                    row.text = row.carried or row.text
            case ModelReplied():
                node.model, node.note, node.speech = talk.model, "", None
            case ModelRetried():
                node.note, node.speech = retry_in_words(talk), Speech()
            case ModelFellBack():
                node.note, node.speech = words_with_names(entry, {}) or "", Speech()
            case _:
                assert_never(talk)


def _sent_back(checked: GateChecked) -> str:
    return f"sent back: {checked.errors[0] if checked.errors else 'its result was not accepted'}"


def _remark(finished: ToolFinished) -> str:
    """As `remark_in_brief`, without what the row's figures say."""
    remark = remark_in_brief(finished)
    return remark.removeprefix("failed: ") if finished.is_error else "" if finished.exit_code else remark


def _set_note(node: StoryNode | None, note: str) -> None:
    if node is not None:
        node.note = note
