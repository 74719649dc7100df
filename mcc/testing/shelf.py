"""This room is for what the memory store holds: the same things as the tables, as plain objects under one lock."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from threading import RLock

from mcc.contracts.audit import AuditNote
from mcc.contracts.control import Control
from mcc.contracts.drones import Registration
from mcc.contracts.fold import Fold
from mcc.contracts.journal import JOURNAL_VERSION, READABLE_VERSIONS, Draft, Entry, fact_of
from mcc.contracts.order import NewOrder, OrderOrigin, Outcome, Session
from mcc.contracts.record import ChatRecord
from mcc.contracts.shape import to_json
from mcc.contracts.status import UNFINISHED, OrderStatus, Reason
from mcc.contracts.usage import Usage
from mcc.store.clock import Clock
from mcc.store.entries import ENDED, Verdict, applied_in, ended_by_store, ended_unread, folded, spent, stops_all
from mcc.store.errors import BadEntry, UnknownOrder
from mcc.store.large import parsed
from mcc.store.values import WorkspaceHold

ONCE = {
    "order.finished": "kind",
    "agent.started": "record_id",
    "agent.finished": "record_id",
    "tool.finished": "call_id",
}
"""Entries that may be there once only, and per what: the tables' unique indexes."""


@dataclass(slots=True)
class Kept:
    """One order with everything that hangs on it."""

    id: str
    session_id: str
    session_seq: int
    spec: NewOrder
    created_at: datetime
    status: OrderStatus
    reason: Reason | None = None
    not_before: datetime | None = None
    waits_until: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    epoch: int = 0
    attempt: int = 0
    takeovers: int = 0
    barren: int = 0
    workspace: WorkspaceHold | None = None
    began_in: str | None = None
    journal_version: int = JOURNAL_VERSION
    incarnation: str | None = None
    claim_token: str | None = None
    usage: Usage = Usage()
    outcome: Outcome | None = None
    record: ChatRecord | None = None
    left_out: bool = False
    origin: OrderOrigin | None = None
    entries: list[Entry] = field(default_factory=list)
    controls: list[Control] = field(default_factory=list)
    once: set[tuple[str, str | None]] = field(default_factory=set)

    @property
    def last_seq(self) -> int:
        return len(self.entries)

    @property
    def control_seq(self) -> int:
        return len(self.controls)

    def write(self, drafts: Sequence[Draft]) -> None:
        """All of them, or none when the tables would refuse one (`BadEntry`)."""
        self.add([draft.numbered(self.id, seq) for seq, draft in enumerate(drafts, start=self.last_seq + 1)])

    def add(self, entries: Sequence[Entry]) -> None:
        copies = [_copied(entry) for entry in entries]
        once = [key for entry in copies if (key := _once(entry))]
        if len(set(once)) < len(once) or self.once.intersection(once):
            raise BadEntry("the journal refuses this data: an entry of which there may be one is there already")
        self.once.update(once)
        self.entries.extend(copies)
        for entry in copies:
            self._take_in(entry)

    def _take_in(self, entry: Entry) -> None:
        used = spent(entry.data)
        if used is not None:
            self.usage = self.usage.plus(used)
        for control_id in applied_in([entry]):
            self.settle(control_id, applied_at=entry.at, applied_seq=entry.seq)

    def settle(self, control_id: str, **how: object) -> bool:
        """Change a control that is still open; False: there is none."""
        for index, control in enumerate(self.controls):
            if control.id == control_id and control.open:
                delivered = {"delivered_at": control.delivered_at or how["applied_at"]} if "applied_at" in how else {}
                self.controls[index] = control.model_copy(update={**how, **delivered})
                return True
        return False

    @property
    def endable(self) -> bool:
        """Whether its journal can be read here, or no agent has written in it."""
        return self.journal_version in READABLE_VERSIONS or not any(entry.record_id for entry in self.entries)

    def fold(self) -> Fold | None:
        """None when the journal does not make sense."""
        return folded(self.id, self.session_id, lambda: self.entries)

    def open_cancel(self) -> Control | None:
        return next((control for control in self.controls if stops_all(control)), None)

    def release(self, status: OrderStatus) -> None:
        """Nobody holds it from here on, whoever thinks so."""
        self.status = status
        self.epoch += 1
        self.incarnation = self.claim_token = self.waits_until = self.workspace = None

    def end_by_store(self, verdict: Verdict, at: datetime) -> None:
        fold = self.fold()
        if fold is None:
            drafts, outcome = ended_unread(verdict, self.usage, at)
        else:
            drafts, outcome = ended_by_store(fold, self.last_seq, verdict, at)
        self.end(drafts, outcome, fold.record() if fold else None)
        self.epoch += 1

    def end(self, drafts: Sequence[Draft], outcome: Outcome, record: ChatRecord | None) -> None:
        self.journal_version = max(self.journal_version, JOURNAL_VERSION)
        self.write(drafts)
        at = drafts[-1].at
        self.status, self.reason, self.outcome, self.record = outcome.status, outcome.reason, outcome, record
        self.finished_at = at
        self.claim_token = self.waits_until = self.workspace = None
        for control in [one for one in self.controls if one.open]:
            if outcome.status is OrderStatus.CANCELLED and stops_all(control):
                self.settle(control.id, applied_at=at, applied_seq=self.last_seq)
            else:
                self.settle(control.id, refused=ENDED)


@dataclass(slots=True)
class Lease:
    registration: Registration
    state: str
    started_at: datetime
    heartbeat_at: datetime
    until: float
    boot: str
    active: int = 0
    draining: bool = False
    refused_messages: int = 0


@dataclass(frozen=True, slots=True)
class Key:
    body_digest: str
    order_id: str
    control_id: str | None
    created_at: datetime


@dataclass(slots=True)
class Shelf:
    """Everything, and the one lock that every method of the memory store takes."""

    clock: Clock
    lock: RLock = field(default_factory=RLock)
    orders: dict[str, Kept] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    keys: dict[tuple[str, str], Key] = field(default_factory=dict)
    leases: dict[str, Lease] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    audit: list[AuditNote] = field(default_factory=list)

    def order(self, order_id: str) -> Kept:
        if order_id not in self.orders:
            raise UnknownOrder(f"there is no order {order_id!r}")
        return self.orders[order_id]

    def turns(self, session_id: str) -> Iterator[Kept]:
        """Unfinished orders of a session, in their order."""
        unfinished = (kept for kept in self.orders.values() if kept.session_id == session_id)
        yield from sorted((one for one in unfinished if one.status in UNFINISHED), key=lambda one: one.session_seq)

    def head(self, session_id: str) -> Kept | None:
        return next(self.turns(session_id), None)

    def is_live(self, incarnation: str | None) -> bool:
        lease = self.leases.get(incarnation or "")
        return lease is not None and lease.state == "live"

    def holds(self, order_id: str, epoch: int) -> Kept | None:
        """The order, while it runs under this epoch."""
        kept = self.orders.get(order_id)
        return kept if kept and kept.status is OrderStatus.RUNNING and kept.epoch == epoch else None

    def is_free(self, wanted: WorkspaceHold, order_id: str) -> bool:
        """Whether no other running order holds the workspace in a way that does not go together with this."""
        others = [kept.workspace for kept in self.orders.values() if kept.workspace and kept.id != order_id]
        same = [one for one in others if not set(one.keys).isdisjoint(wanted.keys)]
        return not any(one.exclusive or wanted.exclusive for one in same)

    def in_time(self, lease: Lease) -> bool:
        return lease.until > self.clock.uptime() and lease.boot == self.clock.boot()

    def is_claimable(self, kept: Kept) -> bool:
        now = self.clock.now()
        due = kept.not_before is None or kept.not_before <= now
        fresh = kept.spec.expires_at is None or kept.spec.expires_at > now or kept.attempt > 0
        known = kept.journal_version in READABLE_VERSIONS
        return kept.status is OrderStatus.QUEUED and due and fresh and known and self.head(kept.session_id) is kept

    def claimable(self, queue: str) -> list[Kept]:
        """Best first."""
        found = [kept for kept in self.orders.values() if kept.spec.queue == queue and self.is_claimable(kept)]
        return sorted(found, key=lambda kept: (kept.spec.priority, kept.id))

    def count_turn(self, session_id: str, order_id: str) -> int:
        session = self.sessions[session_id]
        turn = session.turns + 1
        self.sessions[session_id] = session.model_copy(update={"turns": turn, "last_order_id": order_id})
        return turn


def _copied(entry: Entry) -> Entry:
    """What a database would give back: through JSON and out again."""
    try:
        document = to_json(entry.data)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadEntry(f"this {entry.kind} cannot be written as JSON: {error}") from error
    return entry.model_copy(update={"data": fact_of(entry.kind, parsed(document))})


def _once(entry: Entry) -> tuple[str, str | None] | None:
    by = ONCE.get(entry.kind)
    if by is None:
        return None
    return entry.kind, getattr(entry if by != "call_id" else entry.data, by)
