"""This room is for what the loss of a drone means for the orders that it held: taken over, run alone, or poison."""

from dataclasses import dataclass
from enum import StrEnum

from mcc.contracts.journal import Fact, ModelReplied, OrderRequeued, Outcome, ToolFinished
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.store.entries import Verdict

TAKEOVERS = 10
"""A drone may be lost under an order so often; the next loss ends the order as poison."""

SOLO = 2
"""After so many losses in a row without progress an order runs only in a process that holds no other; one more such
loss ends it as poison."""

DOUBT_SECONDS = 1.5
"""A sweeper that was not there at a drone's last heartbeat cannot tell a kill from an outage; it leaves the judgement
to those who were, for this long."""

REAL = frozenset({Outcome.OK, Outcome.ERROR, Outcome.TIMEOUT})
"""How a tool call ends that was really made."""


class Lease(StrEnum):
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
    if lease == Lease.CUT:
        return before
    barren = before.barren
    if lease != Lease.LEFT:
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
        Lease.CUT: "was cut off while the database was away",
        Lease.LEFT: "ended without handing this order back",
    }.get(Lease(lease), "was lost")
    return OrderRequeued(epoch=epoch, lost=drone, message=f"drone {drone} {how}; another one takes over")


def _poison(detail: str) -> Verdict:
    return Verdict(OrderStatus.FAILED, FailureReason.POISON, detail)
