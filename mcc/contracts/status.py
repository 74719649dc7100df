"""The state machine of an order: statuses, reasons, and the table of moves between statuses."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class OrderStatus(StrEnum):
    QUEUED = "queued"  # a row exists; any drone may claim it
    RUNNING = "running"  # one drone holds its lease
    WAITING = "waiting"  # parked: a person or a clock must speak first; no drone holds it
    SUCCEEDED = "succeeded"  # final: the answer passed its gate
    FAILED = "failed"  # final: the reason says who may act
    CANCELLED = "cancelled"  # final: someone stopped it


FINAL = frozenset({OrderStatus.SUCCEEDED, OrderStatus.FAILED, OrderStatus.CANCELLED})
UNFINISHED = frozenset(OrderStatus) - FINAL


class WaitingReason(StrEnum):
    APPROVAL = "approval"
    QUESTION = "question"
    RATE_LIMIT = "rate_limit"
    PROVIDER = "provider"
    PAUSED = "paused"
    NOT_BEFORE = "not_before"
    WORKSPACE = "workspace"
    DISK = "disk"
    MEMORY = "memory"
    FUNCTION = "function"
    DELIVERY = "delivery"


class FailureReason(StrEnum):
    MODEL_ERROR = "model_error"
    LIMIT_REACHED = "limit_reached"
    BUDGET_EXHAUSTED = "budget_exhausted"
    GATE_FAILED = "gate_failed"
    REFUSED = "refused"
    NOT_DONE = "not_done"
    NOT_DELIVERED = "not_delivered"
    POISON = "poison"
    EXPIRED = "expired"
    INVALID = "invalid"
    INTERNAL = "internal"


Reason: TypeAlias = WaitingReason | FailureReason


@dataclass(frozen=True, slots=True)
class Move:
    """One allowed transition: source and target status, who makes it (`by`), and the kind of its journal entry."""

    name: str
    source: OrderStatus | None
    target: OrderStatus
    by: str
    entry: str


S = OrderStatus
MOVES: tuple[Move, ...] = (
    Move("accept", None, S.QUEUED, "mcc", "order.queued"),
    Move("accept_for_later", None, S.WAITING, "mcc", "order.queued"),
    Move("claim", S.QUEUED, S.RUNNING, "drone", "order.claimed"),
    Move("requeue", S.RUNNING, S.QUEUED, "sweeper", "order.requeued"),
    Move("hand_back", S.RUNNING, S.QUEUED, "drone", "order.handed_back"),
    Move("park", S.RUNNING, S.WAITING, "drone", "order.waiting"),
    Move("resume", S.WAITING, S.QUEUED, "mcc", "order.resumed"),
    Move("succeed", S.RUNNING, S.SUCCEEDED, "drone", "order.finished"),
    Move("fail", S.RUNNING, S.FAILED, "drone", "order.finished"),
    Move("cancel", S.RUNNING, S.CANCELLED, "drone", "order.finished"),
    Move("expire", S.QUEUED, S.FAILED, "sweeper", "order.finished"),
    Move("cancel_queued", S.QUEUED, S.CANCELLED, "mcc", "order.finished"),
    Move("expire_waiting", S.WAITING, S.FAILED, "sweeper", "order.finished"),
    Move("cancel_waiting", S.WAITING, S.CANCELLED, "mcc", "order.finished"),
)
del S


def sources_of(*names: str) -> frozenset[OrderStatus]:
    """The statuses that the moves called `names` start from; the store builds its `WHERE status IN` from them."""
    return frozenset(move.source for move in MOVES if move.name in names and move.source is not None)
