"""What a store is given and gives back, where the shapes of `mcc.contracts` do not do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from mcc.contracts.control import Receipt
from mcc.contracts.drones import NOTHING_COUNTED, DroneCounters
from mcc.contracts.entry import Draft, Entry
from mcc.contracts.limits import Limits
from mcc.contracts.order import NewOrder, Outcome, WorkOrder
from mcc.contracts.record import ChatRecord
from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.documents.blueprint import Blueprint

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AskedOrder:
    """One of several orders that are placed together; `blueprint` is the one that it names."""

    new: NewOrder
    idempotency_key: str | None = None
    blueprint: Blueprint | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """Result of `place`. `created` False: the idempotency key was known. `receipt`: the prompt became a steer.

    `entries`: the first ones of an order that was created.
    """

    order: WorkOrder
    created: bool
    receipt: Receipt | None = None
    interrupted: str | None = None
    entries: Sequence[Entry] = ()


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    items: Sequence[T]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Claimable:
    """An order that could be claimed now, whose journal stands at `last_seq`; `alone`: only by a process that holds no
    other order."""

    order_id: str
    queue: str
    priority: int
    last_seq: int
    alone: bool = False


def _below(key: str) -> str:
    """The key of all that is below a directory, which many orders hold side by side."""
    return f"below {key}"


@dataclass(frozen=True, slots=True)
class WorkspaceHold:
    """How an order needs its workspace: `exclusive` when the order may write there, else together with other readers.

    `lasting`: every machine that sees the directory gives it this key, so that another key means another directory.
    `by_path` is the key by which this machine knows a directory without a lasting key. Both are locked, because such a
    directory may get a lasting key at any time. `above` are the keys of the directories that it lies in: who writes to
    one of them writes to this one as well.
    """

    key: str
    exclusive: bool
    lasting: bool = True
    by_path: str | None = None
    above: tuple[str, ...] = ()

    @property
    def keys(self) -> Sequence[str]:
        """Its own, sorted."""
        return sorted({self.key, self.by_path or self.key})

    @property
    def taken(self) -> Sequence[str]:
        """All that it takes: its own, and that there is somebody below those above."""
        return [*self.keys, *map(_below, self.above)]

    @property
    def in_its_way(self) -> Sequence[str]:
        """Where others are that it would meet: in the same directory, above and below it."""
        return [*self.keys, *self.above, *map(_below, self.keys)]


@dataclass(frozen=True, slots=True)
class Claim:
    """A held order: every later write of its holder names `epoch`, and numbers entries after `last_seq`.

    `entry` is the one that the claim wrote; None when the same claim is answered again. `asked`: something is open that
    was asked of the order before.
    """

    order: WorkOrder
    epoch: int
    attempt: int
    last_seq: int
    control_seq: int
    entry: Entry | None = field(default=None, compare=False)
    asked: bool = True


@dataclass(frozen=True, slots=True)
class ToClaim:
    """An order that a drone would have, with the `workspace` that it needs as far as that was looked for; `unseen`:
    without it even if the order names one."""

    order_id: str
    workspace: WorkspaceHold | None = None
    unseen: bool = True


@dataclass(frozen=True, slots=True)
class ClaimedBy:
    """Who claims: a drone's name and incarnation, and the token by which it knows its claim again. `alone`: its process
    holds no other order."""

    drone: str
    incarnation: str
    claim_token: str
    alone: bool = True


@dataclass(frozen=True, slots=True)
class Batch:
    """Entries of one order, numbered from `last_seq` + 1 on, and `texts` by digest that are kept with them."""

    order_id: str
    epoch: int
    last_seq: int
    entries: Sequence[Entry]
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Appended:
    """What became of a batch: committed unless named here. `culprits` holds orders whose data the database refuses."""

    fenced: frozenset[str] = frozenset()
    culprits: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a drone ends an order: its last entries (closings, then `order.finished`) with outcome and record tree."""

    order_id: str
    epoch: int
    last_seq: int
    control_seq: int
    drafts: Sequence[Draft]
    outcome: Outcome
    record: ChatRecord | None


@dataclass(frozen=True, slots=True)
class Ended:
    """An order has ended at entry `last_seq`; `following` is the queued turn of its session that is the next one."""

    last_seq: int
    following: Claimable | None = None


@dataclass(frozen=True, slots=True)
class Parking:
    """How a drone lays an order aside: why, in a sentence for people, and when it goes on by itself, if it does.

    `found` is the key of another directory at the path of the one in which the order has begun: a resume accepts it.
    """

    order_id: str
    epoch: int
    last_seq: int
    control_seq: int
    reason: WaitingReason
    message: str
    until: datetime | None = None
    found: str | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A waiting order, and since when it waits. `workspace` is the path that the order names, None when it names none.

    `key` is the lasting key of the directory in which the order has begun, None before it did in one.
    """

    order_id: str
    workspace: str | None
    since: datetime
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Swept:
    """What one sweep did: incarnations found lost, orders requeued, orders ended, orders resumed (all ids).

    `cut` are those of the lost that may only have been cut off. `troubled` says of orders why nothing could be done.
    """

    lost: Sequence[str] = ()
    requeued: Sequence[str] = ()
    ended: Sequence[str] = ()
    resumed: Sequence[str] = ()
    cut: Sequence[str] = ()
    troubled: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reached:
    """How far an order's journal is."""

    seq: int
    status: OrderStatus


DOCTOR = "doctor"
"""Who repairs: the principal of its notes, and the name under which it sweeps."""

KEEPER = "retention"
"""Who removes what is old: the principal of its notes."""


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
    counters: DroneCounters = NOTHING_COUNTED

    @property
    def up(self) -> bool:
        return self.state == "live" and self.in_time


@dataclass(frozen=True, slots=True)
class SeenOrder:
    """An order's row, joined. `moved_at` is when the order came to its status, `last_entry_at` when it last wrote.

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

    `drones`: all heard of within a day, and whoever an unfinished order names. `orders`: unfinished ones, running and
    waiting before queued, oldest first, so many as were asked for; and behind them whatever else a look at all of them
    finds: late, without an end, unreadable, next in its queue, or holding up others. `whole` False: of one of these
    kinds there are more than were asked for.

    `counts` are of all unfinished orders, `queued` of those of each queue, `held_up` of those behind a waiting order,
    by its id. `swept_at`: when a sweeper, the doctor apart, last said that it is there; None when none ever did, or
    when the store does not know.
    """

    now: datetime
    drones: Sequence[SeenDrone]
    orders: Sequence[SeenOrder]
    whole: bool
    counts: Mapping[OrderStatus, int]
    queued: Mapping[str, int]
    held_up: Mapping[str, int]
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
