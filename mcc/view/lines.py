"""An order as plain lines: one per journal entry worth showing, names of its agents, and short forms of its parts."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import assert_never

from mcc.contracts.changes import Changes
from mcc.contracts.compaction import TranscriptCompacted
from mcc.contracts.control import SteerMode
from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.entry import Entry
from mcc.contracts.fence import unfenced
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
from mcc.contracts.record import ChatRecord, GateStep, NoteStep, RecordStatus, SteerStep, VerifyStep
from mcc.contracts.shape import now
from mcc.contracts.status import WaitingReason
from mcc.contracts.waiting import retry_in_brief, retry_in_words, wish_in_words
from mcc.contracts.waits import UNTOLD, WaitsFor
from mcc.view import figures
from mcc.view.output import brief, exact_line, one_line, short_id
from mcc.view.who import on_behalf

CHARACTERS = 200
WAITING_CHARACTERS = 600
"""Longer than other lines: this one ends with the command that continues the order."""

_GATED = frozenset({"submit_result", "validate", "done"})
"""Tools whose failures are not shown: the gate's own entry says the same."""


_SHOWN_ARGUMENTS = (
    "path",
    "pattern",
    "command",
    "url",
    "query",
    "name",
    "title",
    "agent_type",
    "source",
    "id",
    "prompt",
)
"""Tool arguments worth showing, the most telling first."""

_CALL_CHARACTERS = 60
_APPLIED = {"pause": "paused", "resume": "goes on", "cancel": "is cancelled"}
_BY_A_RESUME = frozenset(
    WaitingReason(reason) for reason in ("paused", "rate_limit", "provider", "not_before", "delivery")
)


_SHOWN_PATHS = 5
_PATH_CHARACTERS = 4_096
"""The longest path that Linux takes (PATH_MAX)."""


class Names:
    """Gives each agent of an order its own display name, in the order of their starts: "explore", "explore 2", …"""

    def __init__(self) -> None:
        self._count: Counter[str] = Counter()
        self.by_record: dict[str, str] = {}

    def next_of(self, agent: str, record_id: str) -> str:
        """The name for one more start of `agent`. Call it once per start, in the journal's order."""
        self._count[agent] += 1
        name = agent if self._count[agent] == 1 else f"{agent} {self._count[agent]}"
        self.by_record[record_id] = name
        return name


def by_name(record: ChatRecord) -> Mapping[str, ChatRecord]:
    """The agents of a tree by the display names that `Names` gives them."""
    names = Names()
    return {names.next_of(one.agent, one.id): one for one in sorted(_walk(record), key=lambda one: one.started_at)}


def _walk(record: ChatRecord) -> Iterator[ChatRecord]:
    yield record
    for child in record.subagent_history:
        yield from _walk(child)


class Lines:
    """Turns the entries of one order, fed in order, into lines."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._numbered = Names()
        self._last_error: dict[str, str] = {}
        self._waits: tuple[str, str | None] | None = None

    def line_of(self, entry: Entry) -> str | None:
        """`entry` as one line, indented by its agent's depth in the tree; None when it is not worth a line."""
        who = self._name(entry)
        text = self._repeated_retry(entry) or words_with_names(entry, self._names)
        if text is None:
            return None
        indent = "  " * entry.depth if entry.record_id else ""
        width = WAITING_CHARACTERS if isinstance(entry.data, OrderWaiting) else CHARACTERS
        line = f"{exact_line(who)}: {one_line(text, width)}" if who else one_line(text, width)
        return f"{entry.at.astimezone():%H:%M:%S} {indent}{line}"

    def waits_line(self, waits: WaitsFor | None) -> str | None:
        """What the order waits for as one line; None where its journal tells it, and for another place in the queue."""
        before, self._waits = self._waits, None if waits is None else (waits.kind, waits.order_id)
        if waits is None or waits.kind not in UNTOLD or self._waits == before:
            return None
        return f"{now().astimezone():%H:%M:%S} order {one_line(waits.message, CHARACTERS)}"

    def _repeated_retry(self, entry: Entry) -> str | None:
        """A shorter line for a retry whose error is the one shown last for this agent; None for any other entry."""
        data, record = entry.data, entry.record_id or ""
        if isinstance(data, ModelReplied):
            self._last_error.pop(record, None)
        if not isinstance(data, ModelRetried):
            return None
        last_error, self._last_error[record] = self._last_error.get(record), data.error
        return f"{data.model} is {retry_in_brief(data)}: the same" if last_error == data.error else None

    def _name(self, entry: Entry) -> str:
        agent = entry.agent or ""
        if isinstance(entry.data, AgentStarted) and entry.record_id is not None:
            self._names[entry.record_id] = _node_name(entry.data, agent) or self._numbered.next_of(
                agent, entry.record_id
            )
        return self._names.get(entry.record_id or "", agent)


def _node_name(started: AgentStarted, agent: str) -> str | None:
    """The name of an agent that works on a node of a document: the node's path; None for any other agent."""
    if started.node is None:
        return None
    part = agent.rpartition("/")[2].partition(":")[2]
    return brief(started.node, CHARACTERS) + (f" ({part})" if part else "")


def words_of(entry: Entry) -> str | None:
    """What an entry tells people, as words to follow its agent's name; None where it tells them nothing.

    Every rendering of a journal shows these words, or a state that says the same.
    """
    fact = entry.fact
    match fact:
        case ModelStarted() | ModelReplied():
            return None
        case ToolStarted():
            return f"{fact.name} {call_in_brief(fact.arguments)}".rstrip()
        case ToolFinished():
            remark = remark_in_brief(fact)
            return f"{fact.name} {remark}" if remark else None
        case AgentStarted():
            return _start_line(entry, fact)
        case AgentFinished():
            # The master's error is left out: the command prints it once, with how the order ended.
            return f"{fact.status}" + (f": {fact.error}" if fact.error and entry.parent_id else "")
        case ModelRetried():
            return f"{fact.model} is {retry_in_words(fact)}"
        case ModelFellBack():
            return f"{fact.target} instead of {fact.source}: {fact.error}"
        case GateChecked():
            return gate_in_brief(fact)
        case VerifyChecked():
            return verdict_in_brief(fact)
        case AgentStep():
            return f"is told: {fact.message}" if fact.name == "nudge" else fact.in_words
        case AgentReused():
            return f"is asked again (turn {fact.turn}): {fact.message}"
        case ControlApplied():
            brief_control = control_in_brief(fact, carried=False)
            return brief_control if entry.record_id else f"order {brief_control}"
        case ApprovalRequested():
            return wish_in_words(fact)
        case QuestionAsked():
            return f"asks: {fact.question}"
        case ApprovalDecided() | QuestionAnswered() | DeliveryFinished():
            return fact.in_words
        case AgentDelivered() | BudgetWarned() | TranscriptCompacted() | DocumentChanged() | DeliveryStarted():
            return fact.in_words
        case WorkspaceHeld() | WorkspaceCheckpointed() | WorkspaceCommitted() | WorktreeMade() | WorktreeEnded():
            return fact.in_words
            return fact.in_words
        case OrderQueued():
            return f"order {entry.order_id} queued on {fact.queue}{on_behalf(fact.principal)}"
        case OrderClaimed():
            return f"order claimed by {fact.drone}" + (f", attempt {fact.attempt}" if fact.attempt > 1 else "")
        case OrderWaiting():
            advice = what_to_do(entry.order_id, fact.reason)
            return f"order {waiting_in_brief(fact)}" + (f" - go on: {advice}" if advice else "")
        case OrderRequeued() | OrderHandedBack() | OrderResumed():
            return f"order queued again: {fact.message}"
        case OrderFinished():
            # The message is left out: the command prints it once, with how the order ended.
            why = f" ({fact.reason})" if fact.reason else ""
            return f"order {fact.status}{why}: {figures.spent(fact.usage)}"
        case _:
            assert_never(fact)


def words_with_names(entry: Entry, names: Mapping[str, str]) -> str | None:
    """The same, with display names of subagents, by their records' ids."""
    words = words_of(entry)
    return delivered_in_brief(words, names) if words and isinstance(entry.data, AgentDelivered) else words


def delivered_in_brief(words: str, names: Mapping[str, str]) -> str:
    """The words of an `AgentDelivered` with the subagent's display name in place of its record's id."""
    return " ".join(names.get(word, word) for word in words.split(" "))


def _start_line(entry: Entry, started: AgentStarted) -> str:
    file = workspace_file(started)
    origin = f", from {file}" if file else ""
    record = f" (record {entry.record_id})" if entry.parent_id else ""
    asks = f" with {started.model.effective}" if started.model else ""
    record += f", goes on from order {short_id(started.continues_order)}" if started.continues_order else ""
    return f"starts{asks}{origin}{record}" + (f": {started.title}" if started.title else "")


def remark_in_brief(finished: ToolFinished) -> str:
    """What is worth telling of how a call ended, as words to follow its tool's name; "" for nothing."""
    if finished.is_error:
        return "" if finished.name in _GATED else f"failed: {_failure(finished.content)}"
    if finished.exit_code:
        return f"ended with status {finished.exit_code}"
    if finished.background:
        count = len(finished.background)
        return f"leaves {'a subagent' if count == 1 else f'{count} subagents'} running in the background"
    if finished.artifact is not None:
        return f"brought more than fits; the whole is artifact {finished.artifact[:16]}"
    return ""


def _failure(content: str) -> str:
    """The content of a failed call; where that is a subagent's report (JSON), only its summary."""
    content = unfenced(content)
    try:
        result = json.loads(content) if content.startswith("{") else None
    except (ValueError, RecursionError):
        return content
    summary = result.get("summary") if isinstance(result, dict) else None
    return summary if isinstance(summary, str) and summary else content


def gate_in_brief(checked: GateChecked | GateStep) -> str:
    """The outcome of a gate check, as words to follow the agent's name."""
    errors, warnings = "; ".join(checked.errors), "".join(f"; {one}" for one in checked.warnings)
    if checked.check_only:
        return "its result would be accepted" if checked.ok else f"its result would not be accepted yet: {errors}"
    if checked.ok:
        return f"its result was accepted{warnings}"
    return f"its result was sent back (attempt {checked.attempt}): {errors}{warnings}"


def verdict_in_brief(verdict: VerifyChecked | VerifyStep) -> str:
    """A verifier's verdict, as words to follow the agent's name."""
    if verdict.passed is None:
        return f"not verified: {verdict.error}"
    if verdict.passed:
        return f"verified by {verdict.verifier}"
    sent_back = verdict.sent_back if isinstance(verdict, VerifyStep) else bool(verdict.message)
    what = "sent back" if sent_back else "not accepted"
    return f"{what} by the verifier {verdict.verifier}: {'; '.join(verdict.points)}"


def call_in_brief(arguments: Mapping[str, object] | str) -> str:
    """The most telling argument of a tool call as one short line; empty when there is none."""
    if isinstance(arguments, str):
        return brief(arguments, _CALL_CHARACTERS)
    for name in _SHOWN_ARGUMENTS:
        value = arguments.get(name)
        if isinstance(value, str) and value:
            return brief(value, _CALL_CHARACTERS)
    return brief(", ".join(f"{name}={value}" for name, value in arguments.items()), _CALL_CHARACTERS)


def control_in_brief(applied: ControlApplied | SteerStep, *, carried: bool) -> str:
    """An applied control, as words to follow the agent's name. `carried`: a request has carried a steer's message to
    the model; until then, nobody was told it."""
    parts = [_APPLIED[applied.control]] if applied.control in _APPLIED else []
    if applied.control == "steer" and applied.message is not None:
        redirected = applied.mode == SteerMode.REDIRECT
        told = "is told" if carried else "is to be told"
        parts.append(f"{'has a new task' if redirected else told}: {applied.message}")
    if applied.tools_removed:
        parts.append(f"loses {', '.join(applied.tools_removed)}")
    parts += [f"metadata: {key} = {json.dumps(value)}" for key, value in (applied.metadata or {}).items()]
    why = f" ({applied.reason})" if applied.reason else ""
    return "; ".join(parts) + on_behalf(applied.by) + why


def workspace_file(started: AgentStarted) -> str | None:
    """The file in the workspace that defines the agent; None when its definition comes from elsewhere."""
    origin = started.definition_origin
    return origin.path if origin is not None and origin.scope == "workspace" else None


def waiting_in_brief(waiting: OrderWaiting) -> str:
    until = f", until {clock(waiting.until)}" if waiting.until is not None else ""
    return f"waiting ({waiting.reason.value}{until}): {waiting.message}"


def what_to_do(order_id: str, reason: str | None) -> str | None:
    """The command that continues an order waiting for `reason`; None where no command does."""
    if reason == WaitingReason.APPROVAL:
        return f"mcc orders approve {order_id} (or deny; mcc inbox lists what waits)"
    if reason == WaitingReason.QUESTION:
        return f"mcc orders answer {order_id} TEXT (mcc inbox lists what waits)"
    if reason not in _BY_A_RESUME:
        return None
    agents = " (one agent of it: --record RECORD)" if reason == WaitingReason.PAUSED else " (it goes on by itself too)"
    return f"mcc orders resume {order_id}{agents}"


def paused_in(record: ChatRecord) -> str | None:
    """Which agents of a running order are paused, as words to follow its status; None when none is."""
    if record.status is RecordStatus.WAITING:
        return "paused"
    paused = _topmost_paused(record)
    return f"{len(paused)} of its agents paused: {', '.join(child.id for child in paused)}" if paused else None


def _topmost_paused(record: ChatRecord) -> list[ChatRecord]:
    found: list[ChatRecord] = []
    for child in record.subagent_history:
        found += [child] if child.status is RecordStatus.WAITING else _topmost_paused(child)
    return found


def last_retry(record: ChatRecord) -> str | None:
    """When and why a model of these agents was asked again last, and by which of them; None if none was."""
    retries = [
        (step.at, name, step.message)
        for name, agent in by_name(record).items()
        for step in agent.steps
        if isinstance(step, NoteStep) and step.name == ModelRetried.kind and step.at is not None
    ]
    at, name, message = max(retries, default=(None, "", ""))
    return None if at is None else f"{clock(at)} {name}: {message}"


def clock(at: datetime) -> str:
    """A time in this machine's time zone."""
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}"


def change_rows(changes: Changes | None, order_id: str) -> list[tuple[str, str]]:
    """What an order changed in its workspace, as (name, text) rows; none for None.

    The rows: files with line counts, commits, worktrees that were not merged, and the commands that show and revert
    all of it.
    """
    if changes is None:
        return []
    added, removed = sum(file.added for file in changes.files), sum(file.removed for file in changes.files)
    paths = [brief(file.path, _PATH_CHARACTERS) for file in changes.files]
    more = [f"{len(paths) - _SHOWN_PATHS} more"] if len(paths) > _SHOWN_PATHS else []
    rows = [("changed", f"+{added} −{removed} lines: {', '.join(paths[:_SHOWN_PATHS] + more)}")] if paths else []
    rows += [("commit", f"{commit.id[:12]} {brief(commit.subject, _PATH_CHARACTERS)}") for commit in changes.commits]
    rows += [
        ("worktree", f"{tree.agent}: {tree.state}, {tree.ref}")
        for tree in changes.worktrees
        if tree.state in ("conflict", "kept", "lost")
    ]
    rows += [("see it", f"mcc orders diff {order_id}")] if changes.diff is not None else []
    return [*rows, ("take back", f"mcc orders revert {order_id}")] if changes.checkpoints else rows
