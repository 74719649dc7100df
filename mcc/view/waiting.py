"""This room is for waiting orders in words: what one waits for, and what people can do about it."""

from datetime import datetime

from mcc.contracts.journal import OrderWaiting
from mcc.contracts.record import ChatRecord, RecordStatus
from mcc.contracts.status import WaitingReason

_BY_A_RESUME = frozenset({WaitingReason.PAUSED, WaitingReason.RATE_LIMIT, WaitingReason.NOT_BEFORE})


def waiting_in_brief(waiting: OrderWaiting) -> str:
    until = f", until {clock(waiting.until)}" if waiting.until is not None else ""
    return f"waiting ({waiting.reason.value}{until}): {waiting.message}"


def what_to_do(order_id: str, reason: str | None) -> str | None:
    """The command that lets a waiting order go on; None where there is none, or nothing to be done."""
    if reason not in _BY_A_RESUME:
        return None
    agents = " (one agent of it: --record RECORD)" if reason == WaitingReason.PAUSED else " (it goes on by itself too)"
    return f"mcc orders resume {order_id}{agents}"


def paused_in(record: ChatRecord) -> str | None:
    """Who rests in the tree of a running order, in words that go on after its status; None when nobody does."""
    if record.status is RecordStatus.WAITING:
        return "paused"
    resting = _resting(record)
    if not resting:
        return None
    return f"{len(resting)} of its agents paused: {', '.join(child.id for child in resting)}"


def _resting(record: ChatRecord) -> list[ChatRecord]:
    """The topmost ones below a record."""
    found: list[ChatRecord] = []
    for child in record.subagent_history:
        found += [child] if child.status is RecordStatus.WAITING else _resting(child)
    return found


def clock(at: datetime) -> str:
    """A time as this machine's clock shows it."""
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}"
