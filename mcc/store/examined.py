"""This room is for what an examination of the store finds: facts without judgement, as they stood at one moment."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from mcc.contracts.limits import Limits
from mcc.contracts.status import OrderStatus

DOCTOR = "doctor"
"""Who repairs: the principal of its notes, and the name under which it sweeps."""


@dataclass(frozen=True, slots=True)
class SeenDrone:
    """One incarnation. `in_time`: its lease has not run out, whatever `state` (live, lost, left, …) says."""

    incarnation: str
    name: str
    host: str
    pid: int
    queues: tuple[str, ...]
    slots: int
    active: int
    draining: bool
    state: str
    in_time: bool
    started_at: datetime
    heartbeat_at: datetime
    refused_messages: int = 0

    @property
    def up(self) -> bool:
        return self.state == "live" and self.in_time


@dataclass(frozen=True, slots=True)
class SeenOrder:
    """An order's row, joined. `moved_at` is when it came to its status, `last_entry_at` that of its newest entry.

    `expires_at` is that of an order which never began. `claimable`: a drone of its queue could claim it now.
    `blocked_by` is the unfinished order of its session before it, for queued orders.
    """

    id: str
    session_id: str
    queue: str
    priority: int
    status: OrderStatus
    reason: str | None
    epoch: int
    incarnation: str | None
    last_seq: int
    not_before: datetime | None
    expires_at: datetime | None
    waits_until: datetime | None
    moved_at: datetime
    last_entry_at: datetime
    claimable: bool
    blocked_by: str | None
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True)
class StaleLock:
    """A lock on a workspace whose order does not run under the epoch that took it."""

    workspace_key: str
    order_id: str
    epoch: int
    exclusive: bool


@dataclass(frozen=True, slots=True)
class LateReceipt:
    """A control that is still open although its order is final."""

    control_id: str
    order_id: str
    kind: str


@dataclass(frozen=True, slots=True)
class Examined:
    """What stands in the store at `now` (the store's clock).

    `drones`: all heard of within a day, and whoever an unfinished order names. `orders`: the unfinished ones, running
    and waiting before queued, oldest first; `whole` False: there are more than were asked for. `swept_at`: when a
    sweeper, the doctor apart, last said that it is there; None when none ever did, or when the store does not know.
    """

    now: datetime
    drones: Sequence[SeenDrone]
    orders: Sequence[SeenOrder]
    whole: bool
    locks: Sequence[StaleLock]
    receipts: Sequence[LateReceipt]
    swept_at: datetime | None


@dataclass(frozen=True, slots=True)
class IdleTransaction:
    """A connection that holds a transaction open and does nothing; `blocks`: how many others wait for it."""

    pid: int
    program: str
    seconds: float
    blocks: int


@dataclass(frozen=True, slots=True)
class Health:
    """The database itself. `problems`: what its own check of its file says; `checked` False: it took too long."""

    idle: Sequence[IdleTransaction] = ()
    problems: Sequence[str] = ()
    checked: bool = True
