"""This room is for what every store decides alike: the entries it writes itself, and the rules about controls."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from mcc.contracts.control import Control, ControlKind, NewControl, SteerMode
from mcc.contracts.fold import Fold
from mcc.contracts.ids import fresh_id, root_record_id
from mcc.contracts.journal import (
    ORDER,
    AgentStep,
    ControlApplied,
    Draft,
    Entry,
    Fact,
    Forked,
    ModelReplied,
    OrderFinished,
    OrderQueued,
    ToolFinished,
)
from mcc.contracts.order import NewOrder, Outcome
from mcc.contracts.record import AgentEnd, RecordStatus
from mcc.contracts.status import FINAL, FailureReason, OrderStatus
from mcc.contracts.usage import Usage
from mcc.store.values import Ending

TITLE_CHARACTERS = 60
IDEMPOTENCY_HOURS = 24
POSITIONS = 200
"""So far is counted when an order is told its place in the queue."""

ENDED = "the order had ended"

_ONE_TOOL_CALL = Usage(tool_calls=1)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why the store itself ends an order, and the cancel that asked for it, if one did."""

    status: OrderStatus
    reason: FailureReason | None
    detail: str
    control: Control | None = None


def title_of(prompt: str) -> str:
    """The first characters of a prompt on one line."""
    return " ".join(prompt.split())[:TITLE_CHARACTERS]


def queued(
    new: NewOrder,
    session_id: str,
    session_seq: int,
    at: datetime,
    *,
    retry_of: str | None = None,
    forked: Forked | None = None,
) -> Draft:
    fact = OrderQueued(
        session_id=session_id,
        session_seq=session_seq,
        agent=new.agent,
        queue=new.queue,
        priority=new.priority,
        model=new.model,
        workspace=new.workspace,
        not_before=new.not_before,
        retry_of=retry_of,
        forked=forked,
    )
    return Draft(at=at, origin=ORDER, data=fact)


def told(at: datetime, fact: Fact) -> Draft:
    """An entry of the order's own."""
    return Draft(at=at, origin=ORDER, data=fact)


def requested(order_id: str, number: int, kind: ControlKind, asked: NewControl, at: datetime) -> Control:
    """The control that a request makes. The master's record stands for the whole order."""
    return Control(
        id=fresh_id(),
        order_id=order_id,
        number=number,
        kind=kind,
        record_id=None if asked.record_id == root_record_id(order_id) else asked.record_id,
        message=asked.message,
        reason=asked.reason,
        mode=(asked.mode or SteerMode.INJECT) if kind is ControlKind.STEER else None,
        remove_tools=asked.remove_tools,
        requested_at=at,
    )


def applied(control: Control, at: datetime) -> Draft:
    fact = ControlApplied(
        control_id=control.id, control=control.kind.value, message=control.message, reason=control.reason
    )
    return told(at, fact)


def cancelled_by(control: Control) -> Verdict:
    return Verdict(OrderStatus.CANCELLED, None, control.reason or "cancelled on request", control)


def expired() -> Verdict:
    return Verdict(OrderStatus.FAILED, FailureReason.EXPIRED, "the order was not done before it expired")


def ended_by_store(fold: Fold, seen: int, verdict: Verdict, at: datetime) -> tuple[list[Draft], Outcome]:
    """Entries after number `seen` that close what is open and end the order, with the outcome to keep."""
    drafts = [applied(verdict.control, at)] if verdict.control else []
    end: AgentEnd = RecordStatus.FAILED
    if verdict.status is OrderStatus.CANCELLED:
        end = RecordStatus.CANCELLED
    drafts += fold.closing(at, end, verdict.detail)
    for number, draft in enumerate(drafts, start=seen + 1):
        fold.add(draft.numbered(fold.order_id, number))
    last, outcome = _end(verdict, fold.spent, at)
    return [*drafts, last], outcome


def ended_unread(verdict: Verdict, used: Usage, at: datetime) -> tuple[list[Draft], Outcome]:
    """The same for an order whose journal cannot be folded: it must end too, and nothing in it can be closed."""
    last, outcome = _end(verdict, used, at)
    return [*([applied(verdict.control, at)] if verdict.control else []), last], outcome


def folded(order_id: str, session_id: str, read: Callable[[], Iterable[Entry]]) -> Fold | None:
    """The journal that `read` answers; None when it does not make sense, so that nothing can be told from it."""
    fold = Fold(order_id, session_id)
    try:
        for entry in read():
            fold.add(entry)
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError):
        return None
    return fold


def _end(verdict: Verdict, used: Usage, at: datetime) -> tuple[Draft, Outcome]:
    told_last = {"status": verdict.status, "reason": verdict.reason, "detail": verdict.detail, "usage": used}
    finished = OrderFinished.model_validate(told_last)
    outcome = Outcome(status=finished.status, reason=verdict.reason, detail=verdict.detail, usage=used)
    return told(at, finished), outcome


def checked(ending: Ending) -> None:
    """ValueError unless the last entry, and only that one, ends the order, and says the same as the outcome."""
    ends = [draft.data for draft in ending.drafts if isinstance(draft.data, OrderFinished)]
    if len(ends) != 1 or ending.drafts[-1].data is not ends[0] or ends[0].status != ending.outcome.status:
        raise ValueError("the drafts of an ending close with one order.finished that has the status of the outcome")


def must_be_read(control: Control, ending: Ending) -> bool:
    """True when this control keeps the order from ending so: it is new to the holder, or a cancel not honoured."""
    if not control.open:
        return False
    if control.number > ending.control_seq:
        return True
    honoured = ending.outcome.status is OrderStatus.CANCELLED or control.id in applied_in(ending.drafts)
    return stops_all(control) and not honoured


def stops_all(control: Control) -> bool:
    return control.open and control.kind is ControlKind.CANCEL and control.record_id is None


def applied_in(drafts: Sequence[Draft | Entry]) -> frozenset[str]:
    return frozenset(draft.data.control_id for draft in drafts if isinstance(draft.data, ControlApplied))


def spent(fact: Fact) -> Usage | None:
    """What an entry adds to the usage of its order, as `Fold` counts it."""
    if isinstance(fact, ModelReplied | AgentStep):
        return fact.usage
    return _ONE_TOOL_CALL if isinstance(fact, ToolFinished) else None


def busy_sentence(session_id: str, order_id: str, status: OrderStatus) -> str:
    return f"session {session_id} is busy: order {order_id} is {status.value}; wait for it, or choose another when_busy"


def final_sentence(order_id: str, status: OrderStatus) -> str:
    assert status in FINAL
    return f"order {order_id} is {status.value} already; nothing can be asked of it any more"


def unsettled(controls: Sequence[Control], number: int) -> int:
    """The highest control number up to which all are settled; `number` is that of the newest control."""
    return min((control.number - 1 for control in controls if control.open), default=number)
