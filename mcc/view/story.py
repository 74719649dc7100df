"""The state of an order for display: the fold of its entries, with rows of tools, controls and notes."""

from datetime import datetime
from typing import assert_never

from mcc.contracts.compaction import TranscriptCompacted
from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.entry import Entry
from mcc.contracts.fold import Fold
from mcc.contracts.git_delivery import DeliveryFinished, DeliveryStarted
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
from mcc.contracts.status import WaitingReason
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
from mcc.view.output import brief, exact_line, short_id
from mcc.view.story_rows import ControlLine, NoteLine, Speech, StoryNode, ToolLine, WarningLine
from mcc.view.who import on_behalf

_UNSAID = frozenset({"provisioned"})
"""Steps without a row: each tool that is used has one."""


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
        self.reason: WaitingReason | None = None
        """Why it waits while `waiting`."""
        self.away: tuple[datetime, str] | None = None
        """Since when nothing is heard of the order, and why."""
        self.advice = ""
        """The command that continues a waiting order; "" where there is none."""
        self.background: set[str] = set()  # records of agents whose parents go on meanwhile
        self._nodes: dict[str, StoryNode] = {}
        self._names = Names()

    def heard_until(self, at: datetime) -> datetime:
        """The time as of which the order is known: `at`, but nothing goes on of what is not heard of."""
        return at if self.away is None else self.away[0]

    @property
    def asks(self) -> bool:
        """Whether an agent asks people something, and says itself how it is answered."""
        return any(node.asks for node in list(self._nodes.values()))

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
        spender = node
        while spender is not None and (used := entry.data.added_usage) is not None:
            spender.total, spender = spender.total.plus(used), spender.parent
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
                    node.asks.clear()
            case GateChecked():
                if node is not None and not fact.check_only:
                    node.note = "" if fact.ok else _sent_back(fact)
                self._add_note(entry, fact.kind)
            case ControlApplied():
                self._control(entry, fact)
            case VerifyChecked():
                if node is not None:
                    node.rows.append(ControlLine(verdict_in_brief(fact)))
            case ApprovalRequested() | QuestionAsked() | ApprovalDecided() | QuestionAnswered():
                self._ask(entry, fact)
            case AgentStep():
                if fact.name == "definition_warning":
                    self._warn(entry, fact.message)
                elif fact.name not in _UNSAID:
                    self._add_note(entry, fact.name)
            case AgentReused() | AgentDelivered() | BudgetWarned() | TranscriptCompacted() | DocumentChanged():
                self._add_note(entry, fact.kind)
            case WorkspaceCheckpointed() | WorkspaceHeld() | WorkspaceCommitted() | WorktreeMade() | WorktreeEnded():
                self._add_note(entry, fact.kind)
            case DeliveryStarted() | DeliveryFinished():
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
            for line in [line for line in node.calls.values() if tool in ("", line.name)][-1:]:
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
                self.headline = f"queued on {fact.queue}{on_behalf(fact.principal)}"
            case OrderClaimed():
                self.headline = f"on {fact.drone}" + (f", attempt {fact.attempt}" if fact.attempt > 1 else "")
            case OrderWaiting():
                self.waiting, self.reason, self.headline = True, fact.reason, waiting_in_brief(fact)
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
            node.parent = parent
            parent.children.append(node)
            # The child's own row takes the place of the call that started it.
            parent.handed_on.add(started.call_id or "")
            if (line := parent.calls.pop(started.call_id or "", None)) is not None:
                parent.rows.remove(line)
        self._nodes[record.id] = node

    def _ask(self, entry: Entry, fact: ApprovalRequested | QuestionAsked | ApprovalDecided | QuestionAnswered) -> None:
        """A person is asked, or has answered."""
        node = self._nodes.get(entry.record_id or "") or self.root
        if node is None:
            return
        match fact:
            case ApprovalRequested():
                wish = "may the outline count?"
                if fact.call_id:
                    wish = " ".join((f"may it use {exact_line(fact.tool, 60)}?", call_in_brief(fact.arguments))).strip()
                node.asks[fact.approval_id] = f"{wish} · mcc orders approve {short_id(fact.approval_id)} (or deny)"
            case QuestionAsked():
                more = f" (and {len(fact.all_questions) - 1} more: mcc inbox)" if len(fact.all_questions) > 1 else ""
                question = brief(fact.question, 120)
                node.asks[fact.question_id] = f"{question}{more} · mcc orders answer {short_id(fact.question_id)} TEXT"
            case ApprovalDecided():
                node.asks.pop(fact.approval_id, None)
                self._add_note(entry, fact.kind)
            case QuestionAnswered():
                node.asks.pop(fact.question_id, None)
                self._add_note(entry, fact.kind)
            case _:
                assert_never(fact)

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

    def _call(self, entry: Entry, call: ToolStarted | ToolFinished) -> None:
        node = self._nodes.get(entry.record_id or "")
        if node is None:
            return
        if isinstance(call, ToolStarted):
            line = node.calls[call.call_id] = ToolLine(call.name, call_in_brief(call.arguments), entry.at)
            node.rows.append(line)
            return
        self.background.update(call.background)
        ended = node.calls.pop(call.call_id, None)
        if ended is None and call.call_id not in node.handed_on:
            # A call that was refused never began, and yet has its row.
            ended = ToolLine(call.name, "", entry.at)
            node.rows.append(ended)
        if ended is not None:
            ended.end(call, entry.at, _remark(call))

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
