"""This room is for what a store promises; `mcc.store.sql` keeps it on SQLite and PostgreSQL, `mcc.testing` in memory.

All methods are synchronous, short, and safe to call from several threads; an event loop calls them through `Offload`.
Every method may raise `StoreUnavailable`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from mcc.contracts.control import Control, ControlKind, NewControl, Receipt
from mcc.contracts.drones import Drone, Registration
from mcc.contracts.journal import Draft, Entry
from mcc.contracts.order import NewOrder, NewSession, Outcome, Session, WorkOrder
from mcc.contracts.record import ChatRecord
from mcc.contracts.status import OrderStatus

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
    order_id: str
    queue: str
    priority: int


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
class Swept:
    """What one sweep did: incarnations found lost, orders requeued, orders ended, orders resumed (all ids)."""

    lost: Sequence[str] = ()
    requeued: Sequence[str] = ()
    ended: Sequence[str] = ()
    resumed: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Reached:
    """How far an order's journal is."""

    seq: int
    status: OrderStatus


class Orders(Protocol):
    def place(self, new: NewOrder, *, principal: str, idempotency_key: str | None = None) -> Placed:
        """Row and first entry in one transaction; `when_busy` decided under the session's, then the order's lock.

        Raises `IdempotencyConflict`, `SessionBusy`, `UnknownSession`.
        """

    def get(self, order_id: str) -> WorkOrder:
        """Raises `UnknownOrder`."""

    def list(
        self,
        *,
        status: OrderStatus | None = None,
        session_id: str | None = None,
        label: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[WorkOrder]:
        """Newest first. Raises `BadCursor`."""

    def counts(self) -> Mapping[OrderStatus, int]:
        """How many orders have each status; a status that none has may be missing."""

    def record(self, order_id: str) -> ChatRecord | None:
        """The record stored when the order ended; None while it has not."""


class Claims(Protocol):
    def claimable(self, queues: Sequence[str], limit: int) -> Sequence[Claimable]:
        """Orders that a drone could claim now, best first: heads of their sessions, due, by priority, then age."""

    def claim(self, order_id: str, *, incarnation: str, claim_token: str, drone: str) -> Claim | None:
        """One conditional UPDATE; epoch + 1, attempt + 1, entry `order.claimed`. None: not claimable (any more).

        The same token again gives the same claim.
        """

    def hand_back(self, held: Sequence[tuple[str, int]], *, drone: str, message: str) -> Sequence[str]:
        """Requeue these (order id, epoch) pairs that are still held, closing what is open; answers the ids."""

    def finish(self, ending: Ending) -> int:
        """Final status, outcome, record rows and last entries in one transaction; answers the last sequence number.

        Open receipts are settled. Raises `Fenced`, or `ControlsPending` when a control came after `control_seq`.
        """


class Journal(Protocol):
    def append(self, batches: Sequence[Batch]) -> Appended:
        """All batches in one transaction, each fenced by its order's row; unknown outcomes are settled by rereading."""

    def read(self, order_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        """Entries after number `after`, in order, large texts put back. Raises `UnknownOrder`."""

    def reached(self, order_ids: Sequence[str]) -> Mapping[str, Reached]:
        """For the known ones among `order_ids`, in one query."""


class Texts(Protocol):
    def keep(self, text: str) -> str:
        """Store `text` once under its SHA-256, which is answered (hex)."""

    def kept(self, digest: str) -> str:
        """Raises `KeyError`."""


class Leases(Protocol):
    def register(self, registration: Registration, *, lease_seconds: float) -> None:
        """A new incarnation with a lease. Raises ValueError when the incarnation exists."""

    def renew(self, incarnation: str, *, lease_seconds: float, active: int, draining: bool = False) -> bool:
        """False: the incarnation was declared lost, and stays so."""

    def leave(self, incarnation: str) -> None:
        """The process ends in good order."""

    def drones(self) -> Sequence[Drone]:
        """All whose heartbeat is younger than a day and that did not leave."""

    def registrations(self) -> Sequence[Registration]:
        """Of the drones that are up or draining."""


class Sweeper(Protocol):
    def beat(self, sweeper: str) -> None:
        """One small write of its own; a sweeper whose beats failed must not declare others lost."""

    def sweep(self, *, may_expire: bool) -> Swept:
        """Requeue orders of lost incarnations, end expired ones, resume due ones.

        `may_expire` False: do not declare incarnations lost (the caller's own heartbeat has not been steady).
        """


class Controls(Protocol):
    def request(self, order_id: str, kind: ControlKind, asked: NewControl, *, principal: str) -> Control:
        """A row and `control_seq` + 1 under the order's lock. Cancelling an order that no drone runs ends it at once.

        Raises `UnknownOrder`, `OrderIsFinal`.
        """

    def pending(self, held: Mapping[str, int]) -> Sequence[Control]:
        """Open controls of these orders (id -> highest control number seen); marks them delivered."""

    def refuse(self, control_id: str, why: str) -> None: ...

    def of_order(self, order_id: str) -> Sequence[Control]:
        """Raises `UnknownOrder`."""


class Sessions(Protocol):
    def open(self, new: NewSession, *, principal: str) -> Session: ...

    def get(self, session_id: str) -> Session:
        """Raises `UnknownSession`."""

    def list(self, *, cursor: str | None = None, limit: int = 50) -> Page[Session]: ...


class Store(Protocol):
    """All of it. An assembly names one implementation; other code asks for the part it needs."""

    @property
    def orders(self) -> Orders: ...
    @property
    def claims(self) -> Claims: ...
    @property
    def journal(self) -> Journal: ...
    @property
    def texts(self) -> Texts: ...
    @property
    def leases(self) -> Leases: ...
    @property
    def sweeper(self) -> Sweeper: ...
    @property
    def controls(self) -> Controls: ...
    @property
    def sessions(self) -> Sessions: ...

    def schema_problem(self) -> str | None:
        """None when the schema is the one this code was written for, else a sentence that says what to do."""

    def close(self) -> None: ...
