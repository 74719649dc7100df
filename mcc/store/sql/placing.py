"""This room is for accepting an order: idempotency, its session's turn, and what happens when the session is busy."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.control import Control, ControlKind
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import JOURNAL_VERSION
from mcc.contracts.order import NewOrder, WhenBusy
from mcc.contracts.shape import digest, to_json
from mcc.contracts.status import UNFINISHED, OrderStatus, WaitingReason
from mcc.store.again import ROLLED_BACK, Made
from mcc.store.clock import micros
from mcc.store.entries import (
    IDEMPOTENCY_HOURS,
    busy_sentence,
    cancelled_by,
    queued,
    stops_all,
    title_of,
)
from mcc.store.errors import IdempotencyConflict, SessionBusy, UnknownSession
from mcc.store.large import text_digest
from mcc.store.sql.audit import add_note
from mcc.store.sql.endings import end_by_store, may_end
from mcc.store.sql.engine import DatabaseTime
from mcc.store.sql.parking import resume
from mcc.store.sql.receipts import add_control, controls_of
from mcc.store.sql.rows import State, insert_entries, lock, text_json
from mcc.store.sql.tables import KEYS, LABELS, ORDERS, SESSIONS, STATE
from mcc.store.sql.views import is_any
from mcc.store.waiting import said_by, waits_until

_SESSION = sa.select(SESSIONS.c.turns).where(SESSIONS.c.id == sa.bindparam("wanted")).with_for_update()
_NEXT_TURN = (
    sa.update(SESSIONS)
    .where(SESSIONS.c.id == sa.bindparam("wanted"))
    .values(turns=sa.bindparam("turn"), last_order_id=sa.bindparam("last"))
)
_UNFINISHED = (
    sa.select(STATE.c.order_id)
    .where(STATE.c.session_id == sa.bindparam("wanted"), is_any(STATE.c.status, UNFINISHED))
    .order_by(STATE.c.session_seq)
)
_KEY = sa.select(KEYS).where(KEYS.c.principal == sa.bindparam("of"), KEYS.c.key_digest == sa.bindparam("wanted"))
_FORGET_KEYS = sa.delete(KEYS).where(KEYS.c.created_at < sa.bindparam("before"))
_LEAVE_OUT = (
    sa.update(ORDERS).where(ORDERS.c.id == sa.bindparam("wanted"), ORDERS.c.left_out.is_(False)).values(left_out=True)
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
    """One request for an order; `place` is the whole of it, inside a transaction. `made`: it comes of another order."""

    new: NewOrder
    principal: str
    key: str | None
    at: datetime
    time: DatabaseTime
    made: Made | None = None

    def place(self, connection: Connection) -> Accepted:
        if self.key is not None and (known := self._known(connection)):
            return known
        if self.new.session_id is None:
            accepted = self._insert(connection, self._open_session(connection), 1, [])
        else:
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

    def _open_session(self, connection: Connection) -> str:
        session_id = fresh_id()
        row = {
            "id": session_id,
            "title_json": text_json((self.made and self.made.title) or title_of(self.new.prompt)),
            "principal": self.principal,
            "created_at": micros(self.at),
            "turns": 0,
        }
        connection.execute(_ADD_SESSION, row)
        return session_id

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
            case WhenBusy.STEER if head.status is OrderStatus.RUNNING:
                steer = self._control(head, ControlKind.STEER, self.new.prompt)
                add_control(connection, head, steer, self.principal)
                return Accepted(head.order_id, created=False, steer=steer)
            case WhenBusy.INTERRUPT | WhenBusy.ROLLBACK:
                ended = self._interrupt(connection, head)
                accepted = self._insert(connection, head.session_id, turn, before[1:] if ended else before)
                return Accepted(accepted.order_id, created=True, interrupted=head.order_id)
            case WhenBusy.ENQUEUE | WhenBusy.STEER:
                return self._insert(connection, head.session_id, turn, before)

    def _interrupt(self, connection: Connection, head: State) -> bool:
        """True when the head ended at once, because no drone runs it.

        One that only those may end who know its journal goes on: whoever of them claims it finds the cancel.
        """
        if self.new.when_busy is WhenBusy.ROLLBACK:
            leave_out(connection, head.order_id, self.at, self.principal)
        asked = any(stops_all(control) for control in controls_of(connection, head.order_id))
        cancel = self._control(head, ControlKind.CANCEL, None, reason="another turn of the session took its place")
        if not asked:
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
        order_id = beginning.order_id if beginning else fresh_id()
        first = queued(
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
            "spec_json": to_json(new).decode(),
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
        return Accepted(order_id, created=True)

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
        }


def leave_out(connection: Connection, order_id: str, at: datetime, principal: str) -> None:
    """Take a turn out of its session's context; noted once."""
    if connection.execute(_LEAVE_OUT, {"wanted": order_id}).rowcount:
        add_note(connection, at, ROLLED_BACK, principal=principal, order_id=order_id, detail={})
