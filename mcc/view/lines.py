"""An order as plain lines: one per journal entry worth showing, names of its agents, and short forms of its parts."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime

from mcc.contracts.changes import Changes
from mcc.contracts.control import SteerMode
from mcc.contracts.entry import Entry
from mcc.contracts.fact import NotedFact
from mcc.contracts.fence import unfenced
from mcc.contracts.inbox_facts import ApprovalRequested, QuestionAsked
from mcc.contracts.journal import (
    AgentFinished,
    AgentReused,
    AgentStarted,
    AgentStep,
    ControlApplied,
    GateChecked,
    ToolFinished,
    ToolStarted,
    VerifyChecked,
)
from mcc.contracts.model_facts import ModelFellBack, ModelReplied, ModelRetried
from mcc.contracts.order_facts import (
    OrderClaimed,
    OrderFinished,
    OrderHandedBack,
    OrderQueued,
    OrderRequeued,
    OrderResumed,
    OrderWaiting,
)
from mcc.contracts.record import ChatRecord, RecordStatus
from mcc.contracts.status import WaitingReason
from mcc.view import figures
from mcc.view.output import brief, exact_line, one_line

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
    {WaitingReason.PAUSED, WaitingReason.RATE_LIMIT, WaitingReason.PROVIDER, WaitingReason.NOT_BEFORE}
)


_SHOWN_PATHS = 5
_PATH_CHARACTERS = 4_096
"""The longest path that Linux takes (PATH_MAX)."""


class Names:
    """Gives each agent of an order its own display name, in the order of their starts: "explore", "explore 2", …"""

    def __init__(self) -> None:
        self._count: Counter[str] = Counter()

    def next_of(self, agent: str) -> str:
        """The name for one more start of `agent`. Call it once per start, in the journal's order."""
        self._count[agent] += 1
        return agent if self._count[agent] == 1 else f"{agent} {self._count[agent]}"


def by_name(record: ChatRecord) -> Mapping[str, ChatRecord]:
    """The agents of a tree by the display names that `Names` gives them."""
    names = Names()
    return {names.next_of(one.agent): one for one in sorted(_walk(record), key=lambda one: one.started_at)}


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

    def line_of(self, entry: Entry) -> str | None:
        """`entry` as one line, indented by its agent's depth in the tree; None when it is not worth a line."""
        who = self._name(entry)
        text = _order_line(entry) or self._repeated_retry(entry) or _agent_line(entry)
        if text is None:
            return None
        indent = "  " * entry.depth if entry.record_id else ""
        width = WAITING_CHARACTERS if isinstance(entry.data, OrderWaiting) else CHARACTERS
        line = f"{exact_line(who)}: {one_line(text, width)}" if who else one_line(text, width)
        return f"{entry.at.astimezone():%H:%M:%S} {indent}{line}"

    def _repeated_retry(self, entry: Entry) -> str | None:
        """A shorter line for a retry whose error is the one shown last for this agent; None for any other entry."""
        data, record = entry.data, entry.record_id or ""
        if isinstance(data, ModelReplied):
            self._last_error.pop(record, None)
        if not isinstance(data, ModelRetried):
            return None
        last_error, self._last_error[record] = self._last_error.get(record), data.error
        same = last_error == data.error
        return f"{data.model} is asked again in {figures.wait(data.wait_seconds)}: the same" if same else None

    def _name(self, entry: Entry) -> str:
        agent = entry.agent or ""
        if isinstance(entry.data, AgentStarted) and entry.record_id is not None:
            self._names[entry.record_id] = _node_name(entry.data, agent) or self._numbered.next_of(agent)
        return self._names.get(entry.record_id or "", agent)


def _node_name(started: AgentStarted, agent: str) -> str | None:
    """The name of an agent that works on a node of a document: the node's path; None for any other agent."""
    if started.node is None:
        return None
    part = agent.rpartition("/")[2].partition(":")[2]
    return brief(started.node, CHARACTERS) + (f" ({part})" if part else "")


def _order_line(entry: Entry) -> str | None:
    match entry.data:
        case OrderQueued(queue=queue):
            return f"order {entry.order_id} queued on {queue}"
        case OrderClaimed(drone=drone, attempt=attempt):
            return f"order claimed by {drone}" + (f", attempt {attempt}" if attempt > 1 else "")
        case OrderWaiting() as waiting:
            advice = what_to_do(entry.order_id, waiting.reason)
            return f"order {waiting_in_brief(waiting)}" + (f" - go on: {advice}" if advice else "")
        case OrderRequeued(message=message) | OrderHandedBack(message=message) | OrderResumed(message=message):
            return f"order queued again: {message}"
        case OrderFinished(status=status, reason=reason, usage=usage):
            # The message is left out: the command prints it once, with how the order ended.
            why = f" ({reason})" if reason else ""
            return f"order {status}{why}: {figures.spent(usage)}"
    return None


def _agent_line(entry: Entry) -> str | None:
    match entry.data:
        case AgentStarted(title=title, model=model) as started:
            file = workspace_file(started)
            origin = f", from {file}" if file else ""
            record = f" (record {entry.record_id})" if entry.parent_id else ""
            asks = f" with {model.effective}" if model else ""
            return f"starts{asks}{origin}{record}" + (f": {title}" if title else "")
        case AgentFinished(status=status, error=error):
            return f"{status}" + (f": {error}" if error and entry.parent_id else "")
        case ToolStarted(name=name, arguments=arguments):
            return f"{name} {call_in_brief(arguments)}".rstrip()
        case ToolFinished(is_error=True, name=name, content=content):
            return None if name in _GATED else f"{name} failed: {_failure(content)}"
        case ToolFinished(exit_code=int() as code, name=name) if code:
            return f"{name} ended with status {code}"
        case ToolFinished(artifact=str() as digest, name=name):
            return f"{name} brought more than fits; the whole is artifact {digest[:16]}"
        case ModelRetried(model=model, error=error, wait_seconds=wait):
            return f"{model} is asked again in {figures.wait(wait)}: {error}"
        case ModelFellBack(source=source, target=target, error=error):
            return f"{target} instead of {source}: {error}"
        case GateChecked() as checked:
            return _gate_line(checked)
        case VerifyChecked() as verdict:
            return verdict_in_brief(verdict)
        case AgentStep(name="nudge", message=message):
            return f"is told: {message}"
        case AgentReused(turn=turn, message=message):
            return f"is asked again (turn {turn}): {message}"
        case ControlApplied() as applied:
            return control_in_brief(applied) if entry.record_id else f"order {control_in_brief(applied)}"
        case ApprovalRequested(tool="outline"):
            return "asks whether the outline may count"
        case ApprovalRequested(tool=tool):
            return f"asks whether it may use {tool}"
        case QuestionAsked(question=question):
            return f"asks: {question}"
        case NotedFact() as note:
            return note.in_words
    return None


def _failure(content: str) -> str:
    """The content of a failed call; where that is a subagent's report (JSON), only its summary."""
    content = unfenced(content)
    try:
        result = json.loads(content) if content.startswith("{") else None
    except (ValueError, RecursionError):
        return content
    summary = result.get("summary") if isinstance(result, dict) else None
    return summary if isinstance(summary, str) and summary else content


def _gate_line(checked: GateChecked) -> str:
    errors, warnings = "; ".join(checked.errors), "".join(f"; {one}" for one in checked.warnings)
    if checked.check_only:
        return "its result would be accepted" if checked.ok else f"its result would not be accepted yet: {errors}"
    if checked.ok:
        return f"its result was accepted{warnings}"
    return f"its result was sent back (attempt {checked.attempt}): {errors}{warnings}"


def verdict_in_brief(verdict: VerifyChecked) -> str:
    """A verifier's verdict, as words to follow the agent's name."""
    if verdict.passed is None:
        return f"not verified: {verdict.error}"
    if verdict.passed:
        return f"verified by {verdict.verifier}"
    what = "sent back" if verdict.message else "not accepted"
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


def control_in_brief(applied: ControlApplied) -> str:
    """An applied control, as words to follow the agent's name."""
    parts = [_APPLIED[applied.control]] if applied.control in _APPLIED else []
    if applied.control == "steer" and applied.message is not None:
        redirected = applied.mode == SteerMode.REDIRECT
        parts.append(f"{'has a new task' if redirected else 'is told'}: {applied.message}")
    if applied.tools_removed:
        parts.append(f"loses {', '.join(applied.tools_removed)}")
    parts += [f"metadata: {key} = {json.dumps(value)}" for key, value in (applied.metadata or {}).items()]
    why = f" ({applied.reason})" if applied.reason else ""
    return "; ".join(parts) + why


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


def clock(at: datetime) -> str:
    """A time in this machine's time zone."""
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}"


def change_rows(changes: Changes | None, order_id: str) -> list[tuple[str, str]]:
    """What an order changed in its workspace, as (name, text) rows; none for None.

    The rows: files with line counts, commits, worktrees that were not merged, and the command that reverts it all.
    """
    if changes is None:
        return []
    added, removed = sum(one.added for one in changes.files), sum(one.removed for one in changes.files)
    paths = [brief(one.path, _PATH_CHARACTERS) for one in changes.files]
    more = [f"{len(paths) - _SHOWN_PATHS} more"] if len(paths) > _SHOWN_PATHS else []
    rows = [("changed", f"+{added} −{removed} lines: {', '.join(paths[:_SHOWN_PATHS] + more)}")] if paths else []
    rows += [("commit", f"{one.id[:12]} {brief(one.subject, _PATH_CHARACTERS)}") for one in changes.commits]
    rows += [
        ("worktree", f"{one.agent}: {one.state}, {one.ref}")
        for one in changes.worktrees
        if one.state in ("conflict", "kept", "lost")
    ]
    return [*rows, ("take back", f"mcc orders revert {order_id}")] if changes.checkpoints else rows
