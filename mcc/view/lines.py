"""This room is for an order as plain lines: one per entry that a person would want to read."""

from mcc.contracts.journal import (
    AgentFinished,
    AgentReused,
    AgentStarted,
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
from mcc.view.clean import clean, one_line


def line_of(entry: Entry) -> str | None:
    """`entry` as one line, indented by its place in the tree; None when it is not worth one."""
    told = _told_of_order(entry) or _told_of_agent(entry)
    if told is None:
        return None
    indent = "  " * entry.depth if entry.record_id else ""
    who = f"{clean(entry.agent)}: " if entry.agent else ""
    return f"{entry.at.astimezone():%H:%M:%S} {indent}{who}{one_line(told, 200)}"


def _told_of_order(entry: Entry) -> str | None:
    match entry.data:
        case OrderQueued(queue=queue):
            return f"order {entry.order_id} queued on {queue}"
        case OrderClaimed(drone=drone, attempt=attempt):
            return f"order claimed by {drone}" + (f", attempt {attempt}" if attempt > 1 else "")
        case OrderWaiting(reason=reason, message=message):
            return f"order waits ({reason}): {message}"
        case OrderRequeued(message=message) | OrderHandedBack(message=message) | OrderResumed(message=message):
            return f"order queued again: {message}"
        case OrderFinished(status=status, reason=reason, detail=detail, usage=usage):
            why = f" ({reason})" if reason else ""
            return f"order {status}{why}: {detail or figures.spent(usage)}"
    return None


def _told_of_agent(entry: Entry) -> str | None:
    match entry.data:
        case AgentStarted(title=title, model=model):
            return f"starts with {model.effective}" + (f": {title}" if title else "")
        case AgentFinished(status=status, error=error):
            return f"{status}" + (f": {error}" if error else "")
        case ToolStarted(name=name, arguments=arguments):
            return f"{name} {in_brief(arguments)}".rstrip()
        case ToolFinished(is_error=True, name=name, content=content):
            return f"{name} failed: {content}"
        case ModelRetried(model=model, error=error, wait_seconds=wait):
            return f"{model} is asked again in {wait:g} s: {error}"
        case ModelFellBack(source=source, target=target, error=error):
            return f"{target} instead of {source}: {error}"
        case GateChecked(ok=False, errors=errors):
            return f"the answer was sent back: {'; '.join(errors)}"
        case BudgetWarned(message=message) | AgentReused(message=message):
            return message
        case ControlApplied(control=control, reason=reason, message=message):
            return f"{control} applied" + (f": {reason or message}" if reason or message else "")
        case ApprovalRequested(tool=tool):
            return f"asks whether it may use {tool}"
        case QuestionAsked(question=question):
            return f"asks: {question}"
    return None
