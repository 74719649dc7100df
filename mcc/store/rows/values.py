"""Arguments and results of store methods that `mcc.contracts` does not define."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from mcc.contracts.control import Receipt
from mcc.contracts.drones import NOTHING_COUNTED, DroneCounters
from mcc.contracts.entry import Draft, Entry
from mcc.contracts.limits import Limits
from mcc.contracts.order import NewOrder, OrderOutcome, WorkOrder
from mcc.contracts.record import ChatRecord
from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.documents.blueprint import Blueprint
from mcc.store.rows.stored_turns import NewBase, PlannedCompaction, StoredTurn

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BatchOrder:
    """One of several orders that are placed together. `blueprint`: the parsed blueprint that `new` names. `request`:
    the order as its caller gave it; None: `new` is that."""

    new: NewOrder
    idempotency_key: str | None = None
    blueprint: Blueprint | None = None
    request: NewOrder | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """The result of placing an order."""

    order: WorkOrder
    created: bool
    """False: the idempotency key was known, or the prompt became a steer of a running order."""
    receipt: Receipt | None = None
    """That of the steer."""
    interrupted: str | None = None
    """Id of the order that the new one interrupts."""
    entries: Sequence[Entry] = ()
    """The first journal entries of a created order."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    items: Sequence[T]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Claimable:
    """An order that can be claimed now. `last_seq`: number of its newest journal entry; `alone`: only a process that
    holds no other order may claim it."""

    order_id: str
    queue: str
    priority: int
    last_seq: int
    alone: bool = False


_BELOW = "below "


def below(key: str) -> str:
    """The key of each order that writes, or waits to write, in a directory below this one; many may bear it."""
    return f"{_BELOW}{key}"


def above(keys: Sequence[str]) -> Sequence[str]:
    """The directories below which these keys of `below` are."""
    return [key.removeprefix(_BELOW) for key in keys]


@dataclass(frozen=True, slots=True)
class WorkspaceHold:
    """The keys under which an order holds its workspace while it writes there.

    `lasting`: every machine that sees the directory derives the same `key`, so another key means another directory.
    `by_path`: the key that this machine derives from the path for a directory without a lasting key. Both are locked,
    because such a directory may get a lasting key at any time. `above`: the keys of the directories that contain it,
    since writing to one of those writes to this one as well.
    """

    key: str
    lasting: bool = True
    by_path: str | None = None
    above: tuple[str, ...] = ()

    @property
    def keys(self) -> Sequence[str]:
        """The keys of the directory itself, sorted."""
        return sorted({self.key, self.by_path or self.key})

    @property
    def taken(self) -> Sequence[str]:
        """All keys to lock: its own, and for each directory above it that an order works below that directory."""
        return [*self.keys, *map(below, self.above)]

    @property
    def in_its_way(self) -> Sequence[str]:
        """The keys that conflict with it: of the same directory, of those above it, and of those below it."""
        return [*self.keys, *self.above, *map(below, self.keys)]


@dataclass(frozen=True, slots=True)
class Claim:
    """A claimed order. Every later write of its holder names `epoch` and numbers entries from `last_seq` + 1 on.

    `entry`: the entry `order.claimed` of this claim; None when the same claim is answered again. `has_open_controls`:
    controls that were requested earlier are still open. `writes`: it wrote in its workspace under an
    earlier claim; `wants_since`: it has stood in the line for that since then.
    """

    order: WorkOrder
    epoch: int
    attempt: int
    last_seq: int
    control_seq: int
    entry: Entry | None = field(default=None, compare=False)
    has_open_controls: bool = True
    writes: bool = False
    wants_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """A drone's request to claim an order, with the lock on its workspace if the drone has looked that up.

    `workspace_optional`: claim it without `workspace` even if the order names one.
    """

    order_id: str
    workspace: WorkspaceHold | None = None
    workspace_optional: bool = True


@dataclass(frozen=True, slots=True)
class ClaimingDrone:
    """The drone that claims: its name, its incarnation, and a token that identifies the claim when it is repeated.
    `alone`: the drone's process holds no other order."""

    drone: str
    incarnation: str
    claim_token: str
    alone: bool = True


@dataclass(frozen=True, slots=True)
class Batch:
    """Entries of one order, numbered from `last_seq` + 1 on, and the `texts` to store with them, by digest."""

    order_id: str
    epoch: int
    last_seq: int
    entries: Sequence[Entry]
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Appended:
    """The result of an append: batches of all orders not named here were committed.

    `fenced`: orders held under another epoch, or at another number. `culprits`: orders whose data the database refuses,
    with the reason.
    """

    fenced: frozenset[str] = frozenset()
    culprits: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ending:
    """A drone's request to end an order: last entries (closings, then `order.finished`), outcome and record tree.

    `turn`: what the turn adds to its session; None: a later turn computes it. `base`: what its session is shown from
    now on in place of everything through this turn; `begun_with`: in place of what a fork has from its source.
    `compaction`: when its session is compacted, if nobody speaks
    in it until then; None: not at all.
    """

    order_id: str
    epoch: int
    last_seq: int
    control_seq: int
    drafts: Sequence[Draft]
    outcome: OrderOutcome
    record: ChatRecord | None
    turn: StoredTurn | None = None
    base: NewBase | None = None
    begun_with: NewBase | None = None
    compaction: PlannedCompaction | None = None


@dataclass(frozen=True, slots=True)
class EndedOrder:
    """An order has ended at entry `last_seq`; `following` is the next queued turn of its session, if there is one."""

    last_seq: int
    following: Claimable | None = None


@dataclass(frozen=True, slots=True)
class Parking:
    """A drone's request to park an order.

    `message`: the reason in a sentence for people. `until`: when the order resumes by itself; None: never. `found`: the
    lasting key of a different directory that now lies at the path where the order began; a resume accepts that one.
    `in_line`: it waits for its turn to write in its workspace, and keeps its place in the line for that. `tries`: as in
    `OrderWaiting`.
    """

    order_id: str
    epoch: int
    last_seq: int
    control_seq: int
    reason: WaitingReason
    message: str
    until: datetime | None = None
    found: str | None = None
    in_line: bool = False
    tries: int | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A waiting order and the start of its wait. `workspace`: the path that the order names, if any.

    `key`: the lasting key of the directory in which the order began; None if it has not begun in one.
    """

    order_id: str
    workspace: str | None
    since: datetime
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Swept:
    """What one sweep did: ids of incarnations declared lost, and of orders requeued, ended and resumed.

    `cut`: the lost incarnations that may only have been cut off from the database. `failures`: why nothing could be
    done about an order, by its id. `besides`: ids of other orders that were changed in the same round.
    """

    lost: Sequence[str] = ()
    requeued: Sequence[str] = ()
    ended: Sequence[str] = ()
    resumed: Sequence[str] = ()
    cut: Sequence[str] = ()
    failures: Mapping[str, str] = field(default_factory=dict)
    besides: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Reached:
    """An order's status, and the number of its newest journal entry."""

    seq: int
    status: OrderStatus


DOCTOR = "doctor"
"""Principal of the doctor's audit notes, and the name under which it sweeps."""

KEEPER = "retention"
"""Principal of retention's audit notes."""


@dataclass(frozen=True, slots=True)
class SeenDrone:
    """One incarnation of a drone. `in_time`: its lease has not run out, whatever `state` (live, lost, left, …) is."""

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
    """An order as the examiner reads it. `moved_at`: when it got its status; `last_entry_at`: time of its newest entry.

    `expires_at`: set only while the order was never claimed. `claimable`: a drone of its queue could claim it now.
    `blocked_by`: for a queued order, the first unfinished order before it in its session.
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
    """A workspace lock whose order does not run under the epoch that took the lock."""

    workspace_key: str
    order_id: str
    epoch: int
    exclusive: bool


@dataclass(frozen=True, slots=True)
class LateReceipt:
    """A control that is still open although its order has ended."""

    control_id: str
    order_id: str
    kind: str


@dataclass(frozen=True, slots=True)
class Examined:
    """The contents of the store at `now` (the store's clock).

    `drones`: all with a heartbeat within a day, and those that an unfinished order names. `orders`: unfinished orders,
    running and waiting before queued, oldest first, up to the limit; after them orders that a search through all of
    them finds: overdue, without an end, unreadable, next in a queue, or blocking others. `whole` False: one of these
    kinds has more orders than the limit.

    `counts`: numbers of unfinished orders by status; `queued`: by queue; `held_up`: numbers of orders that a waiting
    order blocks, by the id of the waiting order. `swept_at`: the last heartbeat of a sweeper other than the doctor;
    None if there was none, or if the store does not know.
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
    """A connection that is idle in an open transaction. `blocks`: how many other connections wait for its locks."""

    pid: int
    program: str
    seconds: float
    blocks: int


@dataclass(frozen=True, slots=True)
class Health:
    """The state of the database itself. `problems`: findings of SQLite's check of its file; `checked` False: the check
    took too long."""

    idle: Sequence[IdleTransaction] = ()
    problems: Sequence[str] = ()
    checked: bool = True
