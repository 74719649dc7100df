"""What moves an order: entries that the store writes itself, the rules about controls, waiting and lost drones."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum, auto

from mcc.contracts.control import Control, ControlKind, NewControl, SteerMode
from mcc.contracts.entry import ORDER, Draft, Entry
from mcc.contracts.fact import Fact
from mcc.contracts.fold import Fold
from mcc.contracts.ids import fresh_id, root_record_id
from mcc.contracts.journal import ControlApplied, ToolFinished
from mcc.contracts.journal import Outcome as CallOutcome
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.order import NewOrder, Outcome
from mcc.contracts.order_facts import Forked, OrderFinished, OrderQueued, OrderRequeued, OrderWaiting
from mcc.contracts.record import AgentEnd, RecordStatus
from mcc.contracts.status import FINAL, FailureReason, OrderStatus, Reason, WaitingReason
from mcc.contracts.usage import Usage
from mcc.store.errors import AnotherWorkspace
from mcc.store.values import Ending, Parking, WorkspaceHold

TITLE_CHARACTERS = 60
IDEMPOTENCY_HOURS = 24
POSITIONS = 200
"""The place of an order in the queue is counted so far; orders behind it have none."""

ENDED = "the order had ended"


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


def queued_draft(
    new: NewOrder,
    session_id: str,
    session_seq: int,
    at: datetime,
    *,
    retry_of: str | None = None,
    forked: Forked | None = None,
) -> Draft:
    fact = OrderQueued.of(new, session_id, session_seq, retry_of=retry_of, forked=forked)
    return Draft(at=at, origin=ORDER, data=fact)


def order_draft(at: datetime, fact: Fact) -> Draft:
    """An entry of the order's own."""
    return Draft(at=at, origin=ORDER, data=fact)


def new_control(order_id: str, number: int, kind: ControlKind, request: NewControl, at: datetime) -> Control:
    """The control that a request makes. The master's record stands for the whole order."""
    return Control(
        id=fresh_id(),
        order_id=order_id,
        number=number,
        kind=kind,
        record_id=None if request.record_id == root_record_id(order_id) else request.record_id,
        message=request.message,
        reason=request.reason,
        mode=(request.mode or SteerMode.INJECT) if kind is ControlKind.STEER else None,
        remove_tools=request.remove_tools,
        metadata=request.metadata,
        requested_at=at,
    )


def applied_draft(control: Control, at: datetime) -> Draft:
    fact = ControlApplied(
        control_id=control.id, control=control.kind.value, message=control.message, reason=control.reason
    )
    return order_draft(at, fact)


def cancelled_by(control: Control) -> Verdict:
    return Verdict(OrderStatus.CANCELLED, None, control.reason or "cancelled on request", control)


def expiry() -> Verdict:
    return Verdict(OrderStatus.FAILED, FailureReason.EXPIRED, "the order was not done before it expired")


def ended_by_store(fold: Fold, seen: int, verdict: Verdict, at: datetime) -> tuple[list[Draft], Outcome]:
    """Entries after number `seen` that close what is open and end the order, with the outcome to keep."""
    drafts = [applied_draft(verdict.control, at)] if verdict.control else []
    end: AgentEnd = RecordStatus.FAILED
    if verdict.status is OrderStatus.CANCELLED:
        end = RecordStatus.CANCELLED
    drafts += fold.closing(at, end, verdict.detail)
    for number, draft in enumerate(drafts, start=seen + 1):
        fold.add(draft.numbered(fold.order_id, number))
    last, outcome = _end(verdict, fold.spent, at)
    return [*drafts, last], outcome


def ended_unread(verdict: Verdict, used: Usage, at: datetime) -> tuple[list[Draft], Outcome]:
    """As `ended_by_store`, for an order whose journal cannot be folded: nothing in it can be closed."""
    last, outcome = _end(verdict, used, at)
    return [*([applied_draft(verdict.control, at)] if verdict.control else []), last], outcome


def fold_or_none(order_id: str, session_id: str, read: Callable[[], Iterable[Entry]]) -> Fold | None:
    """The journal that `read` answers; None when it does not make sense, so that nothing can be learnt from it."""
    fold = Fold(order_id, session_id)
    try:
        for entry in read():
            fold.add(entry)
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError):
        return None
    return fold


def _end(verdict: Verdict, used: Usage, at: datetime) -> tuple[Draft, Outcome]:
    end = {"status": verdict.status, "reason": verdict.reason, "detail": verdict.detail, "usage": used}
    finished = OrderFinished.model_validate(end)
    outcome = Outcome(status=finished.status, reason=verdict.reason, detail=verdict.detail, usage=used)
    return order_draft(at, finished), outcome


def check_ending(ending: Ending) -> None:
    """ValueError unless the last entry, and only that one, ends the order, and says the same as the outcome."""
    ends = [draft.data for draft in ending.drafts if isinstance(draft.data, OrderFinished)]
    if len(ends) != 1 or ending.drafts[-1].data is not ends[0] or ends[0].status != ending.outcome.status:
        raise ValueError("the drafts of an ending close with one order.finished that has the status of the outcome")


def must_be_read(control: Control, ending: Ending) -> bool:
    """True when the holder must read this control first: one that is new to it, or a cancel that `ending` ignores."""
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


def busy_sentence(session_id: str, order_id: str, status: OrderStatus) -> str:
    return f"session {session_id} is busy: order {order_id} is {status.value}; wait for it, or choose another when_busy"


def final_sentence(order_id: str, status: OrderStatus) -> str:
    assert status in FINAL
    return f"order {order_id} is {status.value} already; nothing can be asked of it any more"


def unsettled(controls: Sequence[Control], number: int) -> int:
    """The highest control number up to which all are settled; `number` is that of the newest control."""
    return min((control.number - 1 for control in controls if control.open), default=number)


WAITING_HOURS = 24
"""A waiting order that names no expiry of its own expires so long after it could have gone on."""

WAKES = frozenset(
    {
        WaitingReason.PAUSED,
        WaitingReason.NOT_BEFORE,
        WaitingReason.RATE_LIMIT,
        WaitingReason.PROVIDER,
        WaitingReason.WORKSPACE,
        WaitingReason.DISK,
        WaitingReason.MEMORY,
        WaitingReason.FUNCTION,
    }
)
"""What a `resume` ends; an approval or a question needs its answer."""


class Effect(Enum):
    """What a control does to an order that no drone runs."""

    REFUSED = auto()  # it has no agents yet
    ENDS = auto()
    RESUMES = auto()  # it is applied at once, and the order goes on
    WAKES = auto()  # it stays open for the next holder, and the order goes on
    STAYS = auto()  # it stays open for the next holder


def effect_of(
    control: Control,
    status: OrderStatus,
    reason: Reason | str | None,
    *,
    attempt: int,
    before: Sequence[Control] = (),
    endable: bool = True,
) -> Effect:
    """`attempt` counts the claims of the order so far, `before` are its earlier controls.

    An order that is not `endable` here, because its agents have begun and its journal is of a version that this one
    does not know, is ended by the next holder, who does.
    A pause is lifted by the holder alone, who has the agents; all else that is waited for ends without one. A resume
    that takes a pause back says nothing against the time that an order waits for.
    """
    if control.record_id and attempt == 0:
        return Effect.REFUSED
    if stops_all(control) and endable:
        return Effect.ENDS
    if stops_all(control):
        return Effect.WAKES if status is OrderStatus.WAITING else Effect.STAYS
    if status is not OrderStatus.WAITING or not _wakes(control, reason):
        return Effect.STAYS
    pauses = any(one.open and one.kind is ControlKind.PAUSE for one in before)
    if pauses and reason == WaitingReason.NOT_BEFORE:
        return Effect.STAYS
    paused = pauses or reason == WaitingReason.PAUSED
    return Effect.WAKES if paused or control.record_id else Effect.RESUMES


def why_refused(effect: Effect) -> str | None:
    if effect is not Effect.REFUSED:
        return None
    return "no drone has begun this order yet, so none of its records can be addressed"


def accepted_by(control: Control, last: Fact) -> str | None:
    """Key of the directory that this control lets an order go on in, which waits as its `last` entry says."""
    whole = control.kind is ControlKind.RESUME and control.record_id is None
    return last.found if whole and isinstance(last, OrderWaiting) else None


def check_workspace(order_id: str, began_in: str | None, hold: WorkspaceHold) -> None:
    """Raises `AnotherWorkspace` when the order has begun in a directory that this is not."""
    if began_in is not None and began_in != hold.key:
        raise AnotherWorkspace(order_id, hold.key)


def said_by(control: Control) -> str:
    """The message of the entry `order.resumed` of an order that goes on because of this control."""
    if control.kind is ControlKind.CANCEL:
        return "woken to be cancelled" if control.record_id is None else "woken to cancel one of its agents"
    return "resumed on request" if control.record_id is None else "woken to resume one of its agents"


def keeps_from_waiting(control: Control, parking: Parking) -> bool:
    """True when the holder must see to this control before the order may wait.

    It is new to the holder, or asks to end or to resume the whole order and is not settled: nothing would come of it
    any more.
    """
    if not control.open:
        return False
    whole = control.record_id is None and (stops_all(control) or _wakes(control, parking.reason))
    return control.number > parking.control_seq or whole


def waits_until(due: int, expires_at: int | None) -> int:
    """Microseconds at which an order that waits from, or until, `due` expires.

    `expires_at` is the time that it names itself; one that had begun and worked beyond that has a day, as all others.
    """
    return expires_at if expires_at is not None and expires_at > due else due + WAITING_HOURS * 3_600_000_000


def _wakes(control: Control, reason: Reason | str | None) -> bool:
    """A cancelled agent may have been the one that all others waited for."""
    if control.kind is ControlKind.CANCEL:
        return control.record_id is not None
    return control.kind is ControlKind.RESUME and reason in WAKES


TAKEOVERS = 10
"""A drone may be lost under an order so often; the next loss ends the order as poison."""

SOLO = 2
"""After so many losses in a row without progress an order runs only in a process that holds no other; one more such
loss ends it as poison."""

DOUBT_SECONDS = 1.5
"""A sweeper that was not there at a drone's last heartbeat cannot tell a kill from an outage; it leaves the judgement
to those who were, for this long."""

REAL = frozenset({CallOutcome.OK, CallOutcome.ERROR, CallOutcome.TIMEOUT})
"""How a tool call ends that was really made."""


class LeaseState(StrEnum):
    """What is known of an incarnation; only a live one may hold orders, and none comes back to life."""

    LIVE = "live"
    LOST = "lost"  # its lease ran out while the database was there
    CUT = "cut"  # its lease ran out, perhaps only because the database was away
    LEFT = "left"  # it ended in good order


@dataclass(frozen=True, slots=True)
class Counted:
    """The counters of an order that is taken over once more."""

    takeovers: int
    barren: int


def is_progress(fact: Fact) -> bool:
    """Whether an order got further with this."""
    return isinstance(fact, ModelReplied) or (isinstance(fact, ToolFinished) and fact.outcome in REAL)


def after_loss(before: Counted, lease: str, *, progress: bool) -> Counted | Verdict:
    """What becomes of an order whose holder, with a lease in this state, is gone; `progress` was made since its claim.

    A drone that was cut off does not count, and one that left in good order was not killed by what it did.
    """
    if lease == LeaseState.CUT:
        return before
    barren = before.barren
    if lease != LeaseState.LEFT:
        barren = 0 if progress else barren + 1
    if barren > SOLO:
        return _poison(
            f"{barren} drones in a row were lost while they ran this order, before any model replied or any tool call"
            " ended; the last of them held no other order"
        )
    if before.takeovers >= TAKEOVERS:
        return _poison(f"{before.takeovers + 1} drones were lost while they ran this order")
    return Counted(before.takeovers + 1, barren)


def is_solo(barren: int) -> bool:
    return barren >= SOLO


def requeued(epoch: int, drone: str, lease: str) -> OrderRequeued:
    """The entry for an order that is taken back from `drone`, and runs under `epoch` at the earliest."""
    how = {
        LeaseState.CUT: "was cut off while the database was away",
        LeaseState.LEFT: "ended without handing this order back",
    }.get(LeaseState(lease), "was lost")
    return OrderRequeued(epoch=epoch, lost=drone, message=f"drone {drone} {how}; another one takes over")


def _poison(detail: str) -> Verdict:
    return Verdict(OrderStatus.FAILED, FailureReason.POISON, detail)
