"""This room is for what a store promises; `mcc.store.sql` keeps it on SQLite and PostgreSQL, `mcc.testing` in memory.

All methods are synchronous, short, and safe to call from several threads; an event loop calls them through `Offload`.
Every method may raise `StoreUnavailable`.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from mcc.contracts.audit import AuditNote
from mcc.contracts.control import Control, ControlKind, NewControl
from mcc.contracts.drones import Drone, Registration
from mcc.contracts.journal import Entry
from mcc.contracts.order import EarlierTurn, NewFork, NewOrder, NewSession, Session, WorkOrder
from mcc.contracts.record import ChatRecord
from mcc.contracts.shape import JsonObject
from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.store.examined import Examined, Health, SeenOrder, StaleLock
from mcc.store.outline import Outline, Place
from mcc.store.values import (
    Appended,
    Batch,
    Claim,
    Claimable,
    Ending,
    Page,
    Parking,
    Placed,
    Reached,
    Swept,
    Waiting,
    WorkspaceHold,
)


class Orders(Protocol):
    def place(self, new: NewOrder, *, principal: str, idempotency_key: str | None = None) -> Placed:
        """Row and first entry in one transaction; `when_busy` decided under the session's, then the order's lock.

        Raises `IdempotencyConflict`, `SessionBusy`, `UnknownSession`, `QueueFull`.
        """

    def retry(self, order_id: str, *, principal: str, idempotency_key: str | None = None) -> Placed:
        """A new order from the same input, as the next turn of the same session; it waits for earlier ones.

        Raises `UnknownOrder`, `OrderIsUnfinished`, `IdempotencyConflict`, `QueueFull`.
        """

    def fork(self, order_id: str, asked: NewFork, *, principal: str, idempotency_key: str | None = None) -> Placed:
        """A new order in a new session that goes on from entry `asked.after`, rounded down to where no call is open.

        Raises `UnknownOrder`, `CannotFork`, `IdempotencyConflict`, `QueueFull`.
        """

    def roll_back(self, order_id: str, *, principal: str) -> WorkOrder:
        """Leave a finished turn out of its session's context from here on; again changes nothing.

        Raises `UnknownOrder`, `OrderIsUnfinished`.
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

    def workspace(self, order_id: str) -> str | None:
        """The workspace that an order names, in one small read; None for one that names none, or is not known."""


class Claims(Protocol):
    def claimable(self, queues: Sequence[str], limit: int, *, besides: Collection[str] = ()) -> Sequence[Claimable]:
        """Orders that a drone could claim now, best first: heads of their sessions, due, by priority, then age.

        `besides` are ids to leave out, of orders whose workspace is taken, say: they must not hide those behind them.
        """

    def claim(
        self,
        order_id: str,
        *,
        incarnation: str,
        claim_token: str,
        drone: str,
        alone: bool = True,
        workspace: WorkspaceHold | None = None,
        unseen: bool = True,
    ) -> Claim | None:
        """One conditional UPDATE; epoch + 1, attempt + 1, entry `order.claimed`. None: not claimable (any more).

        `alone` says that this process holds no other order: some orders are claimed only so. `workspace` is locked with
        the claim, for as long as the order runs under it; None is answered, and nothing changed, while another running
        order holds it in a way that does not go together with this one. The same token again gives the same claim.
        The first one with a lasting key is where the order begins: `AnotherWorkspace` is raised for another key, and
        nothing changed, until a resume of the order, while it waits because that one was found, lets it go on there.
        `unseen` False: an order that names a workspace is claimed with `workspace` only; without it `WorkspaceNeeded`
        is raised, and nothing changed.
        """

    def hand_back(self, held: Sequence[tuple[str, int]], *, drone: str, message: str) -> Sequence[str]:
        """Requeue these (order id, epoch) pairs that are still held; answers the ids.

        What is open stays open, for the next holder to go on with. An order that is to be cancelled ends instead.
        """

    def park(self, parking: Parking) -> int:
        """The held order waits, without a holder, for at most a day after it could have gone on (or until it expires);
        answers the number of the entry `order.waiting`, also when this very parking was committed before.

        Raises `Fenced`, or `ControlsPending` when a control came after `control_seq`, or when a cancel or a resume of
        the whole order is not settled, whatever its number.
        """

    def waiting(self, reason: WaitingReason, limit: int, *, after: str = "") -> Sequence[Waiting]:
        """Orders that wait for this reason, by id (oldest first), those after the id `after`."""

    def wake(self, order_id: str, reason: WaitingReason, message: str) -> bool:
        """An order that waits for this reason is queued again, with an entry that says `message`.

        False: it does not wait (any more), or for another reason.
        """

    def finish(self, ending: Ending) -> int:
        """Final status, outcome, record rows and last entries in one transaction; answers the last sequence number.

        Open receipts are settled. Raises `Fenced`, or `ControlsPending` when a control came after `control_seq`.
        """


class Journal(Protocol):
    def append(self, batches: Sequence[Batch]) -> Appended:
        """All batches in one transaction, each fenced by its order's row; unknown outcomes are settled by rereading."""

    def read(self, order_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        """Entries after number `after`, in order, large texts put back. Raises `UnknownOrder`."""

    def outlined(self, order_id: str, outline: Outline, *, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        """As `read`, with marks of `outline` in the place of long texts, which are not read. Raises `UnknownOrder`."""

    def texts(self, order_id: str, places: Sequence[Place]) -> Sequence[bytes]:
        """The texts of these places of an outline, each as JSON has it between its quotes."""

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

    def renew(
        self,
        incarnation: str,
        *,
        lease_seconds: float,
        active: int,
        draining: bool = False,
        refused_messages: int = 0,
    ) -> bool:
        """The lease anew, with what there is to say of the drone. False: it was declared lost, and stays so."""

    def leave(self, incarnation: str) -> None:
        """The process ends in good order."""

    def drones(self) -> Sequence[Drone]:
        """All whose heartbeat is younger than a day and that did not leave.

        One that was declared lost holds nothing, and is left out once a later one of its name is live.
        """

    def registrations(self) -> Sequence[Registration]:
        """Of the drones that are up or draining."""


class Sweeper(Protocol):
    def beat(self, sweeper: str) -> None:
        """One small write of its own; a sweeper whose beats failed must not declare others lost."""

    def sweep(self, *, may_expire: bool, steady_seconds: float = math.inf) -> Swept:
        """Requeue orders of lost incarnations, end expired ones, resume due ones.

        `may_expire` False: do not declare incarnations lost (the caller's own heartbeat has not been steady).
        `steady_seconds`: for how long it has been. An incarnation that was not heard of in that time may only have been
        cut off by an outage: it is declared so a little later, and its orders go back without being counted as lost.
        An order that cannot be looked after does not keep the others from it.
        """


class Controls(Protocol):
    def request(self, order_id: str, kind: ControlKind, asked: NewControl, *, principal: str) -> Control:
        """A row and `control_seq` + 1 under the order's lock.

        Of an order that no drone runs: a cancel ends it at once, a resume or the cancel of one agent lets a waiting one
        go on, and what only its agents can do stays open for the next holder (of one that was never claimed, what is
        asked of a single agent is refused). Raises `UnknownOrder`, `OrderIsFinal`.
        """

    def pending(self, held: Mapping[str, int]) -> Sequence[Control]:
        """Open controls of these orders (id -> highest control number seen); marks them delivered."""

    def refuse(self, control_id: str, why: str, *, epoch: int | None = None) -> bool:
        """Close an open receipt with why; answers whether it was open.

        `epoch`: only while its order runs under this epoch, so that no former holder speaks for the present one.
        """

    def of_order(self, order_id: str) -> Sequence[Control]:
        """Raises `UnknownOrder`."""


class Sessions(Protocol):
    def open(self, new: NewSession, *, principal: str) -> Session: ...

    def get(self, session_id: str) -> Session:
        """Raises `UnknownSession`."""

    def list(self, *, cursor: str | None = None, limit: int = 50) -> Page[Session]: ...

    def context(self, order: WorkOrder, *, characters: int) -> Sequence[EarlierTurn]:
        """What a turn goes on from: the turns of its session before it that have ended, in their order.

        Those that were rolled back are left out, and of a retry the turn that it repeats. The newest ones are answered,
        200 at most, as many as have at most so many characters together.
        """


class Audit(Protocol):
    """What was done about orders beside their journals. Notes are added, never changed."""

    def note(self, kind: str, *, principal: str, order_id: str | None = None, detail: JsonObject) -> str:
        """Answers the note's id. Raises `BadEntry` for a detail that is not JSON."""

    def of_order(self, order_id: str) -> Sequence[AuditNote]:
        """Oldest first."""

    def list(self, limit: int = 50) -> Sequence[AuditNote]:
        """Newest first."""


class Examiner(Protocol):
    """Looks the store over and changes nothing."""

    def look(self, *, limit: int = 1_000) -> Examined:
        """Drones, at most `limit` unfinished orders, and what was left behind; each statement sees its own moment."""

    def orders(self, order_ids: Sequence[str]) -> Mapping[str, SeenOrder]:
        """The known ones of these, final ones as well."""

    def health(self, *, seconds: float) -> Health:
        """The database itself; its own check of a file is given up after `seconds`."""


class Mender(Protocol):
    """Clears away what was left behind; what an order uses that runs is never touched."""

    def unlock(self, stale: StaleLock) -> bool:
        """False: there was nothing to do any more."""

    def settle(self, order_id: str) -> int:
        """Refuse the controls that are open although the order is final; answers how many."""


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
    @property
    def audit(self) -> Audit: ...
    @property
    def examiner(self) -> Examiner: ...
    @property
    def mender(self) -> Mender: ...

    def schema_problem(self) -> str | None:
        """None when the schema is the one this code was written for, else a sentence that says what to do."""

    def close(self) -> None: ...
