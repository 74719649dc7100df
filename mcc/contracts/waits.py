"""What an unfinished order waits for, in the words that the API, lists and live pictures share."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from mcc.contracts import durations
from mcc.contracts.shape import Closed, Identifier, Moment, Text
from mcc.contracts.status import OrderStatus, WaitingReason

WaitsKind: TypeAlias = Literal[
    "workspace",
    "session",
    "slot",
    "drone",
    "not_before",
    "provider",
    "person",
    "function",
    "disk",
    "memory",
    "paused",
    "delivery",
]


class WaitsFor(Closed):
    """What keeps an order from going on now. `message` says all of it in words.

    `order_id`: the order that has what this one waits for. `position`: its place in the queue, from 1 on. `until`: when
    the wait ends at the latest, or the model or the forge is asked again, for the `tries`-th time.
    """

    kind: WaitsKind
    order_id: Identifier | None = None
    position: int | None = None
    until: Moment | None = None
    tries: int | None = None
    message: Text


UNTOLD: frozenset[WaitsKind] = frozenset({"workspace", "session", "slot", "drone"})
"""What no journal tells: it depends on other orders, and on the drones there are."""


@dataclass(frozen=True, slots=True)
class Queued:
    """What the database says of a queued order.

    `earlier_turn`: the order that its session waits for. `workspace_of`: the order that has its workspace. `position`:
    its place among the claimable orders of its queue, None = not counted. `drones` are those that take orders of the
    queue, `leaving` those that finish what they have; `active` of the `slots` of the former are taken.
    """

    queue: str
    earlier_turn: Identifier | None = None
    workspace_of: Identifier | None = None
    position: int | None = None
    drones: int = 0
    leaving: int = 0
    slots: int = 0
    active: int = 0


KINDS: Mapping[WaitingReason, WaitsKind] = {
    WaitingReason.APPROVAL: "person",
    WaitingReason.QUESTION: "person",
    WaitingReason.RATE_LIMIT: "provider",
    WaitingReason.PROVIDER: "provider",
    WaitingReason.PAUSED: "paused",
    WaitingReason.NOT_BEFORE: "not_before",
    WaitingReason.WORKSPACE: "workspace",
    WaitingReason.DISK: "disk",
    WaitingReason.MEMORY: "memory",
    WaitingReason.FUNCTION: "function",
    WaitingReason.DELIVERY: "delivery",
}


def in_queue(queued: Queued) -> WaitsFor:
    """What a queued order waits for."""
    if queued.earlier_turn is not None:
        message = f"waits for an earlier turn of its session, order {_short(queued.earlier_turn)}"
        return WaitsFor(kind="session", order_id=queued.earlier_turn, message=message)
    if not queued.drones:
        left = f"; {queued.leaving} finish what they have and leave" if queued.leaving else ""
        message = f"no drone takes orders of the queue {queued.queue}{left}"
        return WaitsFor(kind="drone", position=queued.position, message=message)
    if queued.workspace_of is not None:
        return for_workspace(queued.workspace_of, queued.position)
    place = "queued" if queued.position is None else f"{durations.ordinal(queued.position)} in line"
    taken = f"{queued.active:,} of {queued.slots:,} slots are taken"
    return WaitsFor(kind="slot", position=queued.position, message=f"{place} on {queued.queue}: {taken}")


def for_workspace(order_id: str, position: int | None = None) -> WaitsFor:
    """`order_id`: the order that has the workspace."""
    message = f"waits for the workspace of order {_short(order_id)}"
    return WaitsFor(kind="workspace", order_id=order_id, position=position, message=message)


def parked(reason: WaitingReason, not_before: datetime | None) -> WaitsFor:
    """What an order waits for whose last entry does not say it."""
    if reason is WaitingReason.NOT_BEFORE:
        begins = "not before its time" if not_before is None else f"not before {not_before:%Y-%m-%d %H:%M:%S} UTC"
        return WaitsFor(kind="not_before", until=not_before, message=begins)
    return WaitsFor(kind=KINDS[reason], message=f"waits: {reason.value.replace('_', ' ')}")


def waits_for(
    status: OrderStatus,
    reason: WaitingReason | None = None,
    *,
    queued: Queued | None = None,
    not_before: datetime | None = None,
    workspace_of: str | None = None,
    after: WaitsFor | None = None,
) -> WaitsFor | None:
    """What an order waits for; None: it has ended, or goes on.

    `queued` is for one that is queued, `not_before` for one that waits. `workspace_of`: the order that has the
    workspace which a call of a running one wants. `after`: what its last entry says (`after_entry`).
    """
    match status:
        case OrderStatus.QUEUED:
            return None if queued is None else in_queue(queued)
        case OrderStatus.RUNNING:
            return after if workspace_of is None else for_workspace(workspace_of)
        case OrderStatus.WAITING if reason is not None:
            told = after or parked(reason, not_before)
            return told if workspace_of is None else told.model_copy(update={"order_id": workspace_of})
    return None


def _short(order_id: str) -> str:
    return order_id[-12:]
