"""This room is for what a store is given and gives back, where the shapes of `mcc.contracts` do not do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from mcc.contracts.control import Receipt
from mcc.contracts.journal import Draft, Entry
from mcc.contracts.order import Outcome, WorkOrder
from mcc.contracts.record import ChatRecord
from mcc.contracts.status import OrderStatus, WaitingReason

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Placed:
    """Result of `place`. `created` False: the idempotency key was known. `receipt`: the prompt became a steer."""

    order: WorkOrder
    created: bool
    receipt: Receipt | None = None
    interrupted: str | None = None


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    items: Sequence[T]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Claimable:
    """An order that could be claimed now; `alone`: only by a process that holds no other order."""

    order_id: str
    queue: str
    priority: int
    alone: bool = False


@dataclass(frozen=True, slots=True)
class WorkspaceHold:
    """How an order needs its workspace: `exclusive` when it may write there, else together with other readers.

    `lasting`: whoever sees this directory gives it this key, so that another key means another directory. `by_path` is
    the key that it has on this machine as long as it has no other: both are locked, for it may get one at any time.
    """

    key: str
    exclusive: bool
    lasting: bool = True
    by_path: str | None = None

    @property
    def keys(self) -> Sequence[str]:
        """All that are locked, sorted."""
        return sorted({self.key, self.by_path or self.key})


@dataclass(frozen=True, slots=True)
class Claim:
    """A held order: every later write of its holder names `epoch`, and numbers entries after `last_seq`."""

    order: WorkOrder
    epoch: int
    attempt: int
    last_seq: int
    control_seq: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Entries of one order, numbered from `last_seq` + 1 on; the newest may carry the order's text blobs."""

    order_id: str
    epoch: int
    last_seq: int
    entries: Sequence[Entry]


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
class Parking:
    """How a drone lays an order aside: why, in a sentence for people, and when it goes on by itself, if it does.

    `found` is the key of a directory that has the place of the one that it has begun in: a resume accepts it.
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
    """An order that waits since then; `workspace` is the one that it names, `key` that of the one it has begun in."""

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
