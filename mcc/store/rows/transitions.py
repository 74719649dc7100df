"""Rules by which the store moves orders: its own entries, effects of controls, waiting times, lost drones."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum, auto

from mcc.contracts.callers import Actor
from mcc.contracts.control import Control, ControlKind, NewControl, SteerMode
from mcc.contracts.entry import ORDER, Draft, Entry
from mcc.contracts.fact import Fact
from mcc.contracts.fold import Fold
from mcc.contracts.git_delivery import DeliveryFinished
from mcc.contracts.ids import fresh_id, root_record_id
from mcc.contracts.journal import ControlApplied, Outcome, ToolFinished
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.order import NewOrder, OrderOutcome, WhenBusy
from mcc.contracts.order_facts import Forked, OrderFinished, OrderQueued, OrderRequeued, OrderWaiting
from mcc.contracts.questions import SessionWords
from mcc.contracts.record import AgentEnd, RecordStatus
from mcc.contracts.status import FINAL, FailureReason, OrderStatus, Reason, WaitingReason
from mcc.contracts.usage import Usage
from mcc.store.database.errors import AnotherWorkspace
from mcc.store.rows.values import Ending, Parking, WorkspaceHold

TITLE_CHARACTERS = 60
IDEMPOTENCY_HOURS = 24
POSITIONS = 200
"""Places in a queue are counted up to this number; orders behind it have no place."""

ENDED = "the order had ended"


@dataclass(frozen=True, slots=True)
class StoreEnding:
    """The status and reason with which the store itself ends an order, and the cancel that demanded it, if one did."""

    status: OrderStatus
    reason: FailureReason | None
    detail: str
    control: Control | None = None


def title_of(prompt: str) -> str:
    """The first characters of a prompt, on one line."""
    return " ".join(prompt.split())[:TITLE_CHARACTERS]


def queued_draft(
    new: NewOrder,
    session_id: str,
    session_seq: int,
    at: datetime,
    *,
    retry_of: str | None = None,
    forked: Forked | None = None,
    words: tuple[SessionWords, ...] = (),
    by: Actor | None = None,
) -> Draft:
    fact = OrderQueued.of(new, session_id, session_seq, retry_of=retry_of, forked=forked, words=words, by=by)
    return Draft(at=at, origin=ORDER, data=fact)


def order_draft(at: datetime, fact: Fact) -> Draft:
    """An entry that belongs to the order as a whole, not to one of its records."""
    return Draft(at=at, origin=ORDER, data=fact)


def new_control(order_id: str, number: int, kind: ControlKind, request: NewControl, by: Actor, at: datetime) -> Control:
    """The control for a request. A request that names the master's record addresses the whole order."""
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
        principal=by.principal,
        door=by.door,
        token=by.token,
        requested_at=at,
    )


def applied_draft(control: Control, at: datetime) -> Draft:
    fact = ControlApplied(
        control_id=control.id,
        control=control.kind.value,
        message=control.message,
        reason=control.reason,
        by=control.principal,
        door=control.door,
        at=control.requested_at,
    )
    return order_draft(at, fact)


def cancelled_by(control: Control) -> StoreEnding:
    return StoreEnding(OrderStatus.CANCELLED, None, control.reason or "cancelled on request", control)


def expiry() -> StoreEnding:
    return StoreEnding(OrderStatus.FAILED, FailureReason.EXPIRED, "the order was not done before it expired")


def ended_by_store(fold: Fold, last_seq: int, verdict: StoreEnding, at: datetime) -> tuple[list[Draft], OrderOutcome]:
    """The entries after number `last_seq` that close open calls and end the order, and the outcome to store."""
    drafts = [applied_draft(verdict.control, at)] if verdict.control else []
    end: AgentEnd = RecordStatus.FAILED
    if verdict.status is OrderStatus.CANCELLED:
        end = RecordStatus.CANCELLED
    drafts += fold.closing(at, end, verdict.detail)
    for number, draft in enumerate(drafts, start=last_seq + 1):
        fold.add(draft.numbered(fold.order_id, number))
    last, outcome = _end(verdict, fold.spent, at)
    return [*drafts, last], outcome


def ended_unread(verdict: StoreEnding, used: Usage, at: datetime) -> tuple[list[Draft], OrderOutcome]:
    """As `ended_by_store`, for an order whose journal cannot be folded: its open calls cannot be closed."""
    last, outcome = _end(verdict, used, at)
    return [*([applied_draft(verdict.control, at)] if verdict.control else []), last], outcome


def fold_or_none(order_id: str, session_id: str, read: Callable[[], Iterable[Entry]]) -> Fold | None:
    """The fold of the entries that `read` returns; None when the journal is malformed."""
    fold = Fold(order_id, session_id)
    try:
        for entry in read():
            fold.add(entry)
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError):
        return None
    return fold


def _end(verdict: StoreEnding, used: Usage, at: datetime) -> tuple[Draft, OrderOutcome]:
    end = {"status": verdict.status, "reason": verdict.reason, "detail": verdict.detail, "usage": used}
    finished = OrderFinished.model_validate(end)
    outcome = OrderOutcome(status=finished.status, reason=verdict.reason, detail=verdict.detail, usage=used)
    return order_draft(at, finished), outcome


def check_ending(ending: Ending) -> None:
    """Raises ValueError unless exactly one draft, the last one, is `order.finished`, with the status of the outcome."""
    ends = [draft.data for draft in ending.drafts if isinstance(draft.data, OrderFinished)]
    if len(ends) != 1 or ending.drafts[-1].data is not ends[0] or ends[0].status != ending.outcome.status:
        raise ValueError("the drafts of an ending close with one order.finished that has the status of the outcome")


def must_be_read(control: Control, ending: Ending) -> bool:
    """Whether the holder has to read this open control before it ends the order: a new one, or a cancel of the whole
    order that `ending` does not honour."""
    if not control.open:
        return False
    if control.number > ending.control_seq:
        return True
    honoured = ending.outcome.status is OrderStatus.CANCELLED or control.id in applied_in(ending.drafts)
    return cancels_order(control) and not honoured


def cancels_order(control: Control) -> bool:
    """Whether this is an open cancel of the whole order."""
    return control.open and control.kind is ControlKind.CANCEL and control.record_id is None


def applied_in(drafts: Sequence[Draft | Entry]) -> frozenset[str]:
    """Ids of the controls that these entries apply."""
    return frozenset(draft.data.control_id for draft in drafts if isinstance(draft.data, ControlApplied))


def busy_sentence(session_id: str, order_id: str, status: OrderStatus) -> str:
    return f"session {session_id} is busy: order {order_id} is {status.value}; wait for it, or choose another when_busy"


CONTROLLING = frozenset({WhenBusy.INTERRUPT, WhenBusy.ROLLBACK, WhenBusy.STEER})
"""Ways to come into a busy session that tell its unfinished turn something, or have it make way."""


def others_sentence(order_id: str, when_busy: WhenBusy) -> str:
    return (
        f"somebody else placed order {order_id}, which is unfinished: to {when_busy.value} it needs the right "
        "'operate'; choose another when_busy"
    )


def final_sentence(order_id: str, status: OrderStatus) -> str:
    assert status in FINAL
    return f"order {order_id} is {status.value} already; nothing can be asked of it any more"


def unsettled(controls: Sequence[Control], number: int) -> int:
    """The highest number up to which all controls are settled; `number` is that of the newest control."""
    return min((control.number - 1 for control in controls if control.open), default=number)


WAITING_HOURS = 24
"""A waiting order without an expiry of its own expires this long after it could have resumed."""

RESUMABLE = frozenset(
    {
        WaitingReason.PAUSED,
        WaitingReason.NOT_BEFORE,
        WaitingReason.RATE_LIMIT,
        WaitingReason.PROVIDER,
        WaitingReason.WORKSPACE,
        WaitingReason.DISK,
        WaitingReason.MEMORY,
        WaitingReason.FUNCTION,
        WaitingReason.DELIVERY,
    }
)
"""Reasons for waiting that a `resume` ends; an order that waits for an approval or a question needs an answer."""


class ControlEffect(Enum):
    """What a control does to an order that no drone runs."""

    REFUSED = auto()  # it addresses an agent of an order that has none yet
    ENDS = auto()  # the order ends
    RESUMES = auto()  # the control is applied at once, and the order is queued
    REQUEUES = auto()  # the control stays open for the next holder, and the order is queued
    STAYS = auto()  # the control stays open for the next holder, and the order does not move


def effect_of(
    control: Control,
    status: OrderStatus,
    reason: Reason | str | None,
    *,
    attempt: int,
    before: Sequence[Control] = (),
    endable: bool = True,
) -> ControlEffect:
    """The effect of a control on an order that no drone runs, which has this status and reason.

    `attempt`: number of claims so far; `before`: earlier controls of the order. `endable` False: the agents have begun
    and the journal is of a version unknown here, so that only a later version may end the order.

    Only a holder, which has the agents, can lift a pause; every other wait can end without a holder. A resume that
    takes back a pause does not shorten a wait for a point in time.
    """
    if control.record_id and attempt == 0:
        return ControlEffect.REFUSED
    if cancels_order(control) and endable:
        return ControlEffect.ENDS
    if cancels_order(control):
        return ControlEffect.REQUEUES if status is OrderStatus.WAITING else ControlEffect.STAYS
    if status is not OrderStatus.WAITING or not _ends_wait(control, reason):
        return ControlEffect.STAYS
    pauses = any(earlier.open and earlier.kind is ControlKind.PAUSE for earlier in before)
    if pauses and reason == WaitingReason.NOT_BEFORE:
        return ControlEffect.STAYS
    paused = pauses or reason == WaitingReason.PAUSED
    return ControlEffect.REQUEUES if paused or control.record_id else ControlEffect.RESUMES


def why_refused(effect: ControlEffect) -> str | None:
    """The sentence with which a control of this effect is refused; None when it is not refused."""
    if effect is not ControlEffect.REFUSED:
        return None
    return "no drone has begun this order yet, so none of its records can be addressed"


def accepted_by(control: Control, last: Fact) -> str | None:
    """Key of the other directory in which this control lets the order continue, according to the order's `last` entry;
    None if the order did not wait for that."""
    whole = control.kind is ControlKind.RESUME and control.record_id is None
    return last.found if whole and isinstance(last, OrderWaiting) else None


def check_workspace(order_id: str, began_in: str | None, hold: WorkspaceHold) -> None:
    """Raises `AnotherWorkspace` when the order has begun in a directory with another key."""
    if began_in is not None and began_in != hold.key:
        raise AnotherWorkspace(order_id, hold.key)


def said_by(control: Control) -> str:
    """The message of the entry `order.resumed` that this control causes."""
    if control.kind is ControlKind.CANCEL:
        return "woken to be cancelled" if control.record_id is None else "woken to cancel one of its agents"
    return "resumed on request" if control.record_id is None else "woken to resume one of its agents"


def prevents_parking(control: Control, parking: Parking) -> bool:
    """Whether the holder has to handle this open control before the order may wait.

    The holder does not know it yet, or it would end or resume the whole order: parked, the order would never handle it.
    """
    if not control.open:
        return False
    of_order = control.record_id is None and (cancels_order(control) or _ends_wait(control, parking.reason))
    return control.number > parking.control_seq or of_order


def waits_until(due: int, expires_at: int | None) -> int:
    """When a waiting order expires, in microseconds; `due` is when it could resume at the earliest.

    `expires_at` is the expiry that the order itself names. An order that has begun may work beyond it; when such an
    order waits, it expires a day after `due`, like all others.
    """
    return expires_at if expires_at is not None and expires_at > due else due + WAITING_HOURS * 3_600_000_000


def _ends_wait(control: Control, reason: Reason | str | None) -> bool:
    """Whether the control ends a wait for this reason.

    A cancel of one agent always does: that agent may be the one for which all others wait.
    """
    if control.kind is ControlKind.CANCEL:
        return control.record_id is not None
    return control.kind is ControlKind.RESUME and reason in RESUMABLE


TAKEOVERS = 10
"""Number of lost drones that an order survives; the next loss ends the order as poison."""

SOLO = 2
"""After this many losses in a row without progress (`barren`), an order runs only in a process that holds no other
order; one more such loss ends it as poison."""

DOUBT_SECONDS = 1.5
"""A sweeper that did not run at a drone's last heartbeat cannot tell a killed drone from a database outage. It gives
sweepers that did run this much time to decide first."""

REAL = frozenset({Outcome.OK, Outcome.ERROR, Outcome.TIMEOUT})
"""Outcomes of tool calls that were actually executed."""


class LeaseState(StrEnum):
    """The state of an incarnation's lease. Only a live one may hold orders; the other states are final."""

    LIVE = "live"
    LOST = "lost"  # the lease ran out while the database was reachable
    CUT = "cut"  # the lease ran out, perhaps only because the database was unreachable
    LEFT = "left"  # the drone shut down in good order


@dataclass(frozen=True, slots=True)
class Losses:
    """Counters of an order's lost drones: all `takeovers`, and the `barren` ones in a row without progress."""

    takeovers: int
    barren: int


def is_progress(fact: Fact) -> bool:
    """Whether this fact is progress of an order: a model reply, a tool call that was executed, or a step of its
    delivery."""
    match fact:
        case ModelReplied():
            return True
        case ToolFinished():
            return fact.outcome in REAL
        case DeliveryFinished():
            return fact.ok
        case _:
            return False


def after_loss(before: Losses, lease: str, *, progress: bool, in_line: bool) -> Losses | StoreEnding:
    """The counters of an order whose holder is gone, or the verdict that ends the order as poison.

    `lease`: state of the holder's lease; `progress`: whether the order made progress under the holder's claim;
    `in_line`: whether it waited for its turn to write in its workspace. A holder that was cut off does not count as
    lost; one that left in good order, or held an order in line, counts as a takeover, but not as barren.
    """
    if lease == LeaseState.CUT:
        return before
    barren = before.barren
    if lease != LeaseState.LEFT and (progress or not in_line):
        barren = 0 if progress else barren + 1
    if barren > SOLO:
        return _poison(
            f"{barren} drones in a row were lost while they ran this order, before any model replied or any tool call"
            " ended; the last of them held no other order"
        )
    if before.takeovers >= TAKEOVERS:
        return _poison(f"{before.takeovers + 1} drones were lost while they ran this order")
    return Losses(before.takeovers + 1, barren)


def requeued(epoch: int, drone: str, lease: str) -> OrderRequeued:
    """The fact `order.requeued` for an order that is taken back from `drone`; `epoch` is the order's new epoch."""
    how = {
        LeaseState.CUT: "was cut off while the database was away",
        LeaseState.LEFT: "ended without handing this order back",
    }.get(LeaseState(lease), "was lost")
    return OrderRequeued(epoch=epoch, lost=drone, message=f"drone {drone} {how}; another one takes over")


def _poison(detail: str) -> StoreEnding:
    return StoreEnding(OrderStatus.FAILED, FailureReason.POISON, detail)
