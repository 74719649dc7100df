"""Accepting an order: idempotency, the turn of its session, a busy session, and the bound of the queue."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.control import Control, ControlKind, merged
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import JOURNAL_VERSION
from mcc.contracts.order import NewOrder, WhenBusy
from mcc.contracts.permission import OnAsk
from mcc.contracts.shape import digest, to_json
from mcc.contracts.status import UNFINISHED, OrderStatus, WaitingReason
from mcc.store.audit import add_note
from mcc.store.claims import resume
from mcc.store.clock import Clock, micros
from mcc.store.control_rows import add_control, controls_of, why_not_taken
from mcc.store.document_changes import OpenChanges
from mcc.store.document_orders import OrderedDocument, check_chat
from mcc.store.endings import end_by_store, may_end
from mcc.store.engine import DatabaseTime
from mcc.store.errors import ForkOfPruned, IdempotencyConflict, QueueFull, SessionBusy, UnknownSession
from mcc.store.forking import ROLLED_BACK, Made
from mcc.store.rows import State, insert_entries, lock, text_json
from mcc.store.tables import KEYS, LABELS, ORDERS, SESSIONS, STATE
from mcc.store.texts import text_digest
from mcc.store.transitions import (
    IDEMPOTENCY_HOURS,
    busy_sentence,
    cancelled_by,
    queued_draft,
    said_by,
    stops_all,
    title_of,
    waits_until,
)
from mcc.store.views import has_status

COUNT_SECONDS = 1.0
MOST_SECONDS = 60.0
OTHERS_A_SECOND = 1_000
"""A count is used for a second, and for up to a minute while there is room for what others may place. Of what this
process placed meanwhile it knows; of what began or ended it does not."""


class QueueBound:
    """At most `most` orders are queued, or wait for the time before which they may not begin; None: any number.

    Safe for several threads. On PostgreSQL two open transactions do not see each other, and processes that place orders
    in one database count for themselves: what those place within a second may come on top.
    """

    def __init__(self, most: int | None, clock: Clock) -> None:
        self._most = most
        self._clock = clock
        self._lock = Lock()
        self._counted_at = self._count_at = float("-inf")
        self._queued = 0

    def take(self, count: Callable[[int], int]) -> None:
        """Take a place for an order that stands in the open transaction already; raises `QueueFull`, which undoes it.

        `count` tells how many there are with it, and looks no further than the number that it is given.
        """
        if self._most is None:
            return
        with self._lock:
            now = self._clock.uptime()
            # Places of orders that were undone are counted here until the next count, which no refusal goes without.
            looks_full = self._queued >= self._most and now >= self._counted_at + COUNT_SECONDS
            if now >= self._count_at or looks_full:
                self._queued = count(self._most + 1) - 1
                room = self._most - self._queued
                self._counted_at = now
                self._count_at = now + min(max(room / OTHERS_A_SECOND, COUNT_SECONDS), MOST_SECONDS)
            if self._queued >= self._most:
                raise queue_full(self._most)
            self._queued += 1


def queue_full(most: int) -> QueueFull:
    return QueueFull(
        f"{most:,} orders are queued, which is as many as are taken (MCC_MAX_QUEUED_ORDERS): wait until some of them "
        "are done, cancel some, or start more drones"
    )


_SESSION = sa.select(SESSIONS.c.turns).where(SESSIONS.c.id == sa.bindparam("wanted")).with_for_update()
_NEXT_TURN = (
    sa.update(SESSIONS)
    .where(SESSIONS.c.id == sa.bindparam("wanted"))
    .values(turns=sa.bindparam("turn"), last_order_id=sa.bindparam("last"))
)
_UNFINISHED = (
    sa.select(STATE.c.order_id)
    .where(STATE.c.session_id == sa.bindparam("wanted"), has_status(STATE.c.status, UNFINISHED))
    .order_by(STATE.c.session_seq)
)
_KEY = sa.select(KEYS).where(KEYS.c.principal == sa.bindparam("of"), KEYS.c.key_digest == sa.bindparam("wanted"))
_FORGET_KEYS = sa.delete(KEYS).where(KEYS.c.created_at < sa.bindparam("before"))
_LEAVE_OUT = (
    sa.update(ORDERS).where(ORDERS.c.id == sa.bindparam("wanted"), ORDERS.c.left_out.is_(False)).values(left_out=True)
)
_SOURCE = sa.select(ORDERS.c.pruned_at).where(ORDERS.c.id == sa.bindparam("wanted")).with_for_update(read=True)
_SHARE_TEXTS = sa.text(
    "INSERT INTO text_uses (digest, owner) SELECT digest, :to_order FROM text_uses WHERE owner = :from_order"
    " ON CONFLICT DO NOTHING"
)
_ADD_ITS_SESSION = sa.text(
    "INSERT INTO sessions (id, title_json, principal, created_at, turns)"
    " VALUES (:id, :title_json, :principal, :created_at, :turns) ON CONFLICT (id) DO NOTHING"
)
_ADD_SESSION, _ADD_ORDER, _ADD_STATE = sa.insert(SESSIONS), sa.insert(ORDERS), sa.insert(STATE)
_ADD_LABEL, _ADD_KEY = sa.insert(LABELS), sa.insert(KEYS)


@dataclass(frozen=True, slots=True)
class Accepted:
    """Which order answers the request, and why: newly made, known by its key, or steered by `steer`."""

    order_id: str
    created: bool
    steer: Control | None = None
    interrupted: str | None = None


@dataclass(frozen=True, slots=True)
class Placing:
    """One request for an order; `place` is the whole of it, inside a transaction. `made`: it comes of another order;
    `document`: the one that a generate order works on; `on_ask` counts where the order does not say.
    """

    new: NewOrder
    principal: str
    key: str | None
    at: datetime
    time: DatabaseTime
    made: Made | None = None
    document: OrderedDocument | None = None
    on_ask: OnAsk = "deny"

    def place(self, connection: Connection, changes: OpenChanges) -> Accepted:
        if self.key is not None and (known := self._known(connection)):
            return known
        if self.document is not None:
            accepted = self._place_for(connection, changes, self.document)
        elif self.new.session_id is None:
            check_chat(connection, self.new)
            accepted = self._insert(connection, self._open_session(connection), 1, [])
        else:
            check_chat(connection, self.new)
            accepted = self._place_in(connection, self.new.session_id)
        if self.key is not None:
            self._keep_key(connection, accepted)
        return accepted

    def _known(self, connection: Connection) -> Accepted | None:
        oldest = micros(self.at - timedelta(hours=IDEMPOTENCY_HOURS))
        connection.execute(_FORGET_KEYS, {"before": oldest})
        row = connection.execute(_KEY, {"of": self.principal, "wanted": text_digest(self.key or "")}).first()
        if row is None:
            return None
        if row.body_digest != self._body_digest:
            raise IdempotencyConflict(
                "this Idempotency-Key was used with another body: take a new key, or send the same body again"
            )
        steer = next((one for one in controls_of(connection, row.order_id) if one.id == row.control_id), None)
        return Accepted(row.order_id, created=False, steer=steer)

    @property
    def _body_digest(self) -> str:
        return digest(self.made.asked if self.made else self.new)

    def _keep_key(self, connection: Connection, accepted: Accepted) -> None:
        row = {
            "principal": self.principal,
            "key_digest": text_digest(self.key or ""),
            "body_digest": self._body_digest,
            "order_id": accepted.order_id,
            "control_id": accepted.steer.id if accepted.steer else None,
            "created_at": micros(self.at),
        }
        connection.execute(_ADD_KEY, row)

    def _place_for(self, connection: Connection, changes: OpenChanges, document: OrderedDocument) -> Accepted:
        """Locks as all others do: the session, the order before, then the document."""
        session_id = self._open_session(connection, document.id, document.title)
        if document.begun is not None:
            changes.begin(document.begun.blueprint, document.begun.change, document.author)
            return self._insert(connection, session_id, 1, [])
        accepted = self._place_in(connection, session_id)
        changes.locked(document.id)
        if accepted.created and document.commands:
            changes.apply(document.id, document.commands, document.author)
        return accepted

    def _open_session(self, connection: Connection, session_id: str | None = None, title: str = "") -> str:
        """`session_id`: that of a document, which may have its session already."""
        row = {
            "id": session_id or fresh_id(),
            "title_json": text_json(title or (self.made and self.made.title) or title_of(self.new.prompt)),
            "principal": self.principal,
            "created_at": micros(self.at),
            "turns": 0,
        }
        connection.execute(_ADD_SESSION if session_id is None else _ADD_ITS_SESSION, row)
        return str(row["id"])

    def _place_in(self, connection: Connection, session_id: str) -> Accepted:
        turns = connection.execute(_SESSION, {"wanted": session_id}).scalar()
        if turns is None:
            raise UnknownSession(f"there is no session {session_id}")
        before = connection.execute(_UNFINISHED, {"wanted": session_id}).scalars().all()
        head = lock(connection, before[0]) if before else None
        if head is None or head.status not in UNFINISHED:
            return self._insert(connection, session_id, turns + 1, before[1:])
        return self._place_behind(connection, head, turns + 1, before)

    def _place_behind(self, connection: Connection, head: State, turn: int, before: Sequence[str]) -> Accepted:
        match self.new.when_busy:
            case WhenBusy.REJECT:
                raise SessionBusy(busy_sentence(head.session_id, head.order_id, head.status))
            case WhenBusy.STEER if self.document is None and self._may_steer(connection, head):
                steer = self._control(head, ControlKind.STEER, self.new.prompt)
                add_control(connection, head, steer, self.principal)
                return Accepted(head.order_id, created=False, steer=steer)
            case WhenBusy.INTERRUPT | WhenBusy.ROLLBACK:
                ended = self._interrupt(connection, head)
                accepted = self._insert(connection, head.session_id, turn, before[1:] if ended else before)
                return Accepted(accepted.order_id, created=True, interrupted=head.order_id)
            case WhenBusy.ENQUEUE | WhenBusy.STEER:
                return self._insert(connection, head.session_id, turn, before)

    def _may_steer(self, connection: Connection, head: State) -> bool:
        running = head.status is OrderStatus.RUNNING
        return running and why_not_taken(connection, head.order_id, ControlKind.STEER) is None

    def _interrupt(self, connection: Connection, head: State) -> bool:
        """True when the head ended at once, because no drone runs it.

        One that only those may end who know its journal goes on: whoever of them claims it finds the cancel.
        """
        if self.new.when_busy is WhenBusy.ROLLBACK:
            leave_out(connection, head.order_id, self.at, self.principal)
        is_cancelled = any(stops_all(control) for control in controls_of(connection, head.order_id))
        cancel = self._control(head, ControlKind.CANCEL, None, reason="another turn of the session took its place")
        if not is_cancelled:
            add_control(connection, head, cancel, self.principal)
        if head.status is OrderStatus.RUNNING:
            return False
        seen = lock(connection, head.order_id) or head
        if may_end(connection, seen):
            end_by_store(connection, seen, cancelled_by(cancel), self.at)
            return True
        if seen.status is OrderStatus.WAITING:
            resume(connection, seen, self.at, said_by(cancel))
        return False

    def _control(self, head: State, kind: ControlKind, message: str | None, reason: str | None = None) -> Control:
        return Control(
            id=fresh_id(),
            order_id=head.order_id,
            number=head.control_seq + 1,
            kind=kind,
            message=message,
            reason=reason,
            requested_at=self.at,
        )

    def _insert(self, connection: Connection, session_id: str, turn: int, before: Sequence[str]) -> Accepted:
        new, made = self.new, self.made
        beginning = made.beginning if made else None
        source = made.origin.order_id if made and beginning else None
        if source is not None:
            self._hold_source(connection, source, forked=made is not None and made.origin.kind == "fork")
        order_id = beginning.order_id if beginning else fresh_id()
        first = queued_draft(
            new,
            session_id,
            turn,
            self.at,
            retry_of=made.retry_of if made else None,
            forked=made.forked if made else None,
        )
        drafts = [first, *(beginning.drafts if beginning else ())]
        cold = {
            "id": order_id,
            "session_id": session_id,
            "session_seq": turn,
            "principal": self.principal,
            "spec_json": to_json(new.model_copy(update={"on_ask": new.on_ask or self.on_ask})).decode(),
            "created_at": micros(self.at),
            "origin_json": to_json(made.origin).decode() if made else None,
        }
        hot = self._state(connection, order_id, session_id, turn, waits=not before)
        connection.execute(_ADD_ORDER, cold)
        connection.execute(_ADD_STATE, {**hot, "last_seq": len(drafts)})
        connection.execute(_NEXT_TURN, {"wanted": session_id, "turn": turn, "last": order_id})
        if new.labels:
            rows = [{"order_id": order_id, "label": label} for label in dict.fromkeys(new.labels)]
            connection.execute(_ADD_LABEL, rows)
        state = lock(connection, order_id)
        assert state is not None
        insert_entries(connection, state, drafts, first=1)
        if source is not None:
            connection.execute(_SHARE_TEXTS, {"from_order": source, "to_order": order_id})
        return Accepted(order_id, created=True)

    def _hold_source(self, connection: Connection, source: str, *, forked: bool) -> None:
        """Nobody prunes it until this transaction ends. Raises `ForkOfPruned`.

        A retry of a fork takes over what the fork began with, which no pruning takes away.
        """
        pruned_at = connection.execute(_SOURCE, {"wanted": source}).scalar()
        if forked and pruned_at is not None:
            raise ForkOfPruned(source)

    def _state(
        self, connection: Connection, order_id: str, session_id: str, turn: int, *, waits: bool
    ) -> dict[str, object]:
        new = self.new
        due = micros(new.not_before) if new.not_before else None
        expires_at = micros(new.expires_at) if new.expires_at else None
        waiting = waits and due is not None and due > int(connection.scalar(sa.select(self.time.now)) or 0)
        return {
            "order_id": order_id,
            "session_id": session_id,
            "session_seq": turn,
            "queue": new.queue,
            "priority": new.priority,
            "status": (OrderStatus.WAITING if waiting else OrderStatus.QUEUED).value,
            "reason": WaitingReason.NOT_BEFORE.value if waiting else None,
            "not_before": due,
            "expires_at": expires_at,
            "waits_until": waits_until(due, expires_at) if waiting and due is not None else None,
            "journal_version": JOURNAL_VERSION,
            "metadata_json": to_json(merged({}, new.metadata)).decode() if new.metadata else None,
        }


def leave_out(connection: Connection, order_id: str, at: datetime, principal: str) -> None:
    """Take a turn out of its session's context; noted once."""
    if connection.execute(_LEAVE_OUT, {"wanted": order_id}).rowcount:
        add_note(connection, at, ROLLED_BACK, principal=principal, order_id=order_id, detail={})
