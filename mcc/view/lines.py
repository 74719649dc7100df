"""This room is for an order as plain lines: one per entry that a person would want to read."""

import json
from collections import Counter

from mcc.contracts.fence import unfenced
from mcc.contracts.journal import (
    AgentFinished,
    AgentReused,
    AgentStarted,
    AgentStep,
    ApprovalRequested,
    BudgetWarned,
    ControlApplied,
    Entry,
    GateChecked,
    ModelFellBack,
    ModelRetried,
    OrderClaimed,
    OrderFinished,
    OrderHandedBack,
    OrderQueued,
    OrderRequeued,
    OrderResumed,
    OrderWaiting,
    QuestionAsked,
    ToolFinished,
    ToolStarted,
)
from mcc.view import figures
from mcc.view.arguments import in_brief
from mcc.view.asked import asked_in_brief
from mcc.view.clean import clean, one_line
from mcc.view.origin import workspace_file
from mcc.view.waiting import waiting_in_brief, what_to_do

CHARACTERS = 200
WAITING_CHARACTERS = 600
"""Of a line that says what an order waits for: it ends with the command that lets it go on."""

_GATED = frozenset({"submit_result", "validate", "done"})
"""Tools whose refusals are told by the entries of the gate."""


class Lines:
    """The lines of one order. Agents of one name are told apart by a number, from the second on."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._count: Counter[str] = Counter()

    def line_of(self, entry: Entry) -> str | None:
        """`entry` as one line, indented by its place in the tree; None when it is not worth one."""
        who = self._name(entry)
        told = _told_of_order(entry) or _told_of_agent(entry)
        if told is None:
            return None
        indent = "  " * entry.depth if entry.record_id else ""
        width = WAITING_CHARACTERS if isinstance(entry.data, OrderWaiting) else CHARACTERS
        said = f"{who}: {one_line(told, width)}" if who else one_line(told, width)
        return f"{entry.at.astimezone():%H:%M:%S} {indent}{said}"

    def _name(self, entry: Entry) -> str:
        agent = clean(entry.agent or "")
        if isinstance(entry.data, AgentStarted) and entry.record_id is not None:
            self._count[agent] += 1
            number = self._count[agent]
            self._names[entry.record_id] = agent if number == 1 else f"{agent} {number}"
        return self._names.get(entry.record_id or "", agent)


def _told_of_order(entry: Entry) -> str | None:
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
        case OrderFinished(status=status, reason=reason, detail=detail, usage=usage):
            why = f" ({reason})" if reason else ""
            return f"order {status}{why}: {detail or figures.spent(usage)}"
    return None


def _told_of_agent(entry: Entry) -> str | None:
    match entry.data:
        case AgentStarted(title=title, model=model) as started:
            file = workspace_file(started)
            origin = f", from {file}" if file else ""
            record = f" (record {entry.record_id})" if entry.parent_id else ""
            return f"starts with {model.effective}{origin}{record}" + (f": {title}" if title else "")
        case AgentFinished(status=status, error=error):
            return f"{status}" + (f": {error}" if error else "")
        case ToolStarted(name=name, arguments=arguments):
            return f"{name} {in_brief(arguments)}".rstrip()
        case ToolFinished(is_error=True, name=name, content=content):
            return None if name in _GATED else f"{name} failed: {_in_words(content)}"
        case ToolFinished(artifact=str() as digest, name=name):
            return f"{name} brought more than fits; the whole is artifact {digest[:16]}"
        case ModelRetried(model=model, error=error, wait_seconds=wait):
            return f"{model} is asked again in {figures.wait(wait)}: {error}"
        case ModelFellBack(source=source, target=target, error=error):
            return f"{target} instead of {source}: {error}"
        case GateChecked() as checked:
            return _told_of_gate(checked)
        case AgentStep(name="nudge", message=message):
            return f"goes round in circles and is told so: {message}"
        case AgentReused(turn=turn, message=message):
            return f"is asked again (turn {turn}): {message}"
        case BudgetWarned(message=message) | AgentStep(message=message):
            return message
        case ControlApplied() as applied:
            return asked_in_brief(applied) if entry.record_id else f"order {asked_in_brief(applied)}"
        case ApprovalRequested(tool=tool):
            return f"asks whether it may use {tool}"
        case QuestionAsked(question=question):
            return f"asks: {question}"
    return None


def _in_words(content: str) -> str:
    """A result that is a report is JSON for the model; people are told its summary."""
    content = unfenced(content)
    try:
        said = json.loads(content) if content.startswith("{") else None
    except (ValueError, RecursionError):
        return content
    summary = said.get("summary") if isinstance(said, dict) else None
    return summary if isinstance(summary, str) and summary else content


def _told_of_gate(checked: GateChecked) -> str:
    """`validate` asks beforehand; everything else was meant as the end."""
    wrong = "; ".join(checked.errors)
    if checked.tool == "validate":
        return "its result would be accepted" if checked.ok else f"its result would not be accepted yet: {wrong}"
    return "its result was accepted" if checked.ok else f"its result was sent back (attempt {checked.attempt}): {wrong}"
