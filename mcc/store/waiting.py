"""This room is for orders that wait: what keeps one from being parked, and what a control does to one nobody runs."""

from collections.abc import Sequence
from enum import Enum, auto

from mcc.contracts.control import Control, ControlKind
from mcc.contracts.journal import Fact, OrderWaiting
from mcc.contracts.status import OrderStatus, Reason, WaitingReason
from mcc.store.entries import stops_all
from mcc.store.errors import AnotherWorkspace
from mcc.store.values import Parking, WorkspaceHold

WAITING_HOURS = 24
"""A waiting order always has an expiry; this long after it could have gone on, unless it names its own."""

WAKES = frozenset(
    {
        WaitingReason.PAUSED,
        WaitingReason.NOT_BEFORE,
        WaitingReason.RATE_LIMIT,
        WaitingReason.WORKSPACE,
        WaitingReason.DISK,
        WaitingReason.MEMORY,
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
    """What is told of an order that goes on because of this control."""
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
