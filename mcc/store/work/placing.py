"""The transaction that places orders: idempotency keys, turns of sessions, busy sessions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import Actor
from mcc.contracts.control import Control, ControlKind, NewControl, merged
from mcc.contracts.journal import JOURNAL_VERSION
from mcc.contracts.order import NewOrder, WhenBusy
from mcc.contracts.permission import OnAsk
from mcc.contracts.shape import digest, to_json
from mcc.contracts.status import UNFINISHED, OrderStatus, WaitingReason
from mcc.documents import change
from mcc.store.database.clock import micros
from mcc.store.database.engine import DatabaseTime
from mcc.store.database.errors import (
    BadEntry,
    BudgetUsedUp,
    IdempotencyConflict,
    OrderOfOthers,
    SessionBusy,
    SomeRefused,
    StoreRefused,
    UnknownSession,
)
from mcc.store.database.tables import SESSIONS, STATE
from mcc.store.documents.changes import OpenChanges
from mcc.store.rows.artifact_rows import held_for
from mcc.store.rows.budget_rows import NewReservation, Reserved, reserve
from mcc.store.rows.control_rows import (
    add_control,
    check_room,
    controls_of,
    joins,
    why_not_taken,
)
from mcc.store.rows.facets import told_when_ready
from mcc.store.rows.forking import DerivedOrder
from mcc.store.rows.new_rows import AcceptedOrder, NewRows, Row
from mcc.store.rows.order_rows import OrderState, lock, text_json
from mcc.store.rows.session_rows import IS_THERE, source_of_fork
from mcc.store.rows.session_words import reads_words, take_words
from mcc.store.rows.texts import text_digest
from mcc.store.rows.transcript_rows import leave_out
from mcc.store.rows.transitions import (
    CONTROLLING,
    busy_sentence,
    cancelled_by,
    cancels_order,
    new_control,
    others_sentence,
    queued_draft,
    said_by,
    title_of,
    waits_until,
)
from mcc.store.rows.views import fresh_order, has_status, hold_source
from mcc.store.work.document_orders import OrderedDocument, check_chat
from mcc.store.work.endings import end_by_store, may_end
from mcc.store.work.known_keys import USED_OTHERWISE, KnownKeys, known_keys
from mcc.store.work.resuming import resume

_SESSION = sa.select(SESSIONS.c.turns).where(SESSIONS.c.id == sa.bindparam("wanted"), IS_THERE).with_for_update()
_NEXT_TURN = (
    sa.update(SESSIONS)
    .where(SESSIONS.c.id == sa.bindparam("wanted"))
    .values(turns=sa.bindparam("turn"), last_order_id=sa.bindparam("last"))
)
_NAME = (
    sa.update(SESSIONS)
    .where(SESSIONS.c.id == sa.bindparam("wanted"), SESSIONS.c.title_json == text_json(""))
    .values(title_json=sa.bindparam("title"))
)
_UNFINISHED = (
    sa.select(STATE.c.order_id)
    .where(STATE.c.session_id == sa.bindparam("wanted"), has_status(STATE.c.status, UNFINISHED))
    .order_by(STATE.c.session_seq)
    .limit(2)
)
"""The first unfinished order of a session, and the second one if there is one."""
_SHARE_TEXTS = sa.text(
    "INSERT INTO text_uses (digest, owner) SELECT digest, :to_order FROM text_uses WHERE owner = :from_order"
    " ON CONFLICT DO NOTHING"
)
_ADD_ITS_SESSION = sa.text(
    "INSERT INTO sessions (id, title_json, principal, door, token_id, created_at, turns)"
    " VALUES (:id, :title_json, :principal, :door, :token_id, :created_at, :turns) ON CONFLICT (id) DO NOTHING"
)


@dataclass(frozen=True, slots=True)
class Placing:
    """One request for an order; `place` carries it out inside a transaction."""

    new: NewOrder
    by: Actor
    key: str | None
    at: datetime
    time: DatabaseTime
    derived: DerivedOrder | None = None
    """The new order as derived from another one (retry, fork, revert)."""
    document: OrderedDocument | None = None
    """The document that a generate order works on."""
    on_ask: OnAsk = "deny"
    """Applies if the order does not set it."""
    request: NewOrder | None = None
    """The order as its caller gave it; None: `new` is that."""
    anybodys: bool = False
    """Whether it may also steer an unfinished turn that somebody else placed, or take its place."""
    key_digest: str = field(init=False, default="")
    body_digest: str = field(init=False, default="")

    def __post_init__(self) -> None:
        if self.key is not None:
            object.__setattr__(self, "key_digest", text_digest(self.key))
            # Of what was sent: a session's defaults may have changed before the same request is sent again.
            request = self.derived.request if self.derived else self.request or self.new
            object.__setattr__(self, "body_digest", digest(request))

    def place(self, connection: Connection, changes: OpenChanges, rows: NewRows, known: KnownKeys) -> AcceptedOrder:
        """Add the new rows to `rows`, which the caller inserts. Raises what `Orders.place` does."""
        # Before anything is checked: a repeated request gets its first answer, even where it would be refused by now.
        if self.key_digest in known:
            return self._accepted_before(connection, rows, known[self.key_digest])
        if self.new.session_id is None and self.document is None:
            check_chat(connection, self.new)
            accepted = self._begin_session(connection, rows)
        elif self.document is None:
            rows.insert(connection)
            check_chat(connection, self.new)
            accepted = self._place_in(connection, rows, str(self.new.session_id))
        else:
            rows.insert(connection)
            accepted = self._place_for_document(connection, changes, rows, self.document)
        if self.key is not None:
            known[self.key_digest] = row = self._key_row(accepted)
            rows.keys.append(row)
        return accepted

    def _begin_session(self, connection: Connection, rows: NewRows) -> AcceptedOrder:
        session = self._session(next(rows.ids))
        accepted = self._insert(connection, rows, session["id"], 1, [])
        fork = self.derived.origin.order_id if self.derived and self.derived.origin.kind == "fork" else None
        source = source_of_fork(connection, fork)
        rows.sessions.append({**session, **source, "turns": 1, "last_order_id": accepted.order_id})
        order = fresh_order(
            self.new, rows.orders[-1], rows.states[-1], session, by=self.by, on_ask=self.new.on_ask or self.on_ask
        )
        return AcceptedOrder(accepted.order_id, created=True, order=order, entries=accepted.entries)

    def _accepted_before(self, connection: Connection, rows: NewRows, row: Mapping[str, Any]) -> AcceptedOrder:
        if row["body_digest"] != self.body_digest:
            raise IdempotencyConflict(USED_OTHERWISE)
        if row["control_id"] is None:
            return AcceptedOrder(row["order_id"], created=False)
        steer = next(
            (control for control in controls_of(connection, row["order_id"]) if control.id == row["control_id"]), None
        )
        return AcceptedOrder(row["order_id"], created=False, steer=steer)

    def _key_row(self, accepted: AcceptedOrder) -> Mapping[str, Any]:
        return {
            "principal": self.by.principal,
            "key_digest": self.key_digest,
            "body_digest": self.body_digest,
            "order_id": accepted.order_id,
            "control_id": accepted.steer.id if accepted.steer else None,
            "created_at": micros(self.at),
        }

    def _place_for_document(
        self, connection: Connection, changes: OpenChanges, rows: NewRows, document: OrderedDocument
    ) -> AcceptedOrder:
        """Locks in the order that all transactions keep: the session, its unfinished order, then the document."""
        connection.execute(_ADD_ITS_SESSION, self._session(document.id, document.title))
        if document.begun is not None:
            changes.begin(document.begun.blueprint, document.begun.change, document.author)
            return self.insert_turn(connection, rows, document.id, 1, [])
        accepted = self._place_in(connection, rows, document.id)
        changes.locked(document.id)
        if accepted.created and document.commands:
            changes.apply(document.id, document.commands, document.author)
        return accepted

    def _session(self, session_id: str, title: str = "") -> Mapping[str, Any]:
        """The row of a new session, without turns."""
        return {
            "id": session_id,
            "title_json": text_json(title or (self.derived and self.derived.title) or title_of(self.new.prompt)),
            **self.by.columns,
            "created_at": micros(self.at),
            "turns": 0,
        }

    def _place_in(self, connection: Connection, rows: NewRows, session_id: str) -> AcceptedOrder:
        turns = connection.execute(_SESSION, {"wanted": session_id}).scalar()
        if turns is None:
            raise UnknownSession(f"there is no session {session_id}")
        before = connection.execute(_UNFINISHED, {"wanted": session_id}).scalars().all()
        head = lock(connection, before[0]) if before else None
        # Read before the lock, the order may have ended by now.
        if head is None or head.status not in UNFINISHED:
            return self.insert_turn(connection, rows, session_id, turns + 1, before[1:])
        return self._place_behind(connection, rows, head, turns + 1, before)

    def _place_behind(
        self, connection: Connection, rows: NewRows, head: OrderState, turn: int, before: Sequence[str]
    ) -> AcceptedOrder:
        if self.new.when_busy in CONTROLLING and not (self.anybodys or joins(connection, head.order_id, self.by)):
            raise OrderOfOthers(others_sentence(head.order_id, self.new.when_busy))
        match self.new.when_busy:
            case WhenBusy.REJECT:
                raise SessionBusy(busy_sentence(head.session_id, head.order_id, head.status))
            case WhenBusy.STEER if (
                self.document is None
                and not self.new.attachments  # A steer is words; a file has to wait for a turn of its own.
                and head.status is OrderStatus.RUNNING
                and why_not_taken(connection, head.order_id, ControlKind.STEER) is None
            ):
                check_room(connection, head.order_id, ControlKind.STEER)
                steer = self._control(head, ControlKind.STEER, self.new.prompt)
                add_control(connection, head, steer, self.by)
                return AcceptedOrder(head.order_id, created=False, steer=steer)
            case WhenBusy.INTERRUPT | WhenBusy.ROLLBACK:
                ended = self._interrupt(connection, head)
                behind = before[1:] if ended else before
                accepted = self.insert_turn(connection, rows, head.session_id, turn, behind)
                return AcceptedOrder(accepted.order_id, created=True, interrupted=head.order_id)
            case WhenBusy.ENQUEUE | WhenBusy.STEER:
                return self.insert_turn(connection, rows, head.session_id, turn, before)

    def _interrupt(self, connection: Connection, head: OrderState) -> bool:
        """Cancel the unfinished order `head`; answers True if it ended at once, because no drone runs it.

        An order whose journal only a later version can read does not end at once: the drone of that version that claims
        it finds the cancel.
        """
        if self.new.when_busy is WhenBusy.ROLLBACK:
            leave_out(connection, head.order_id, self.at, self.by)
        is_cancelled = any(map(cancels_order, controls_of(connection, head.order_id)))
        cancel = self._control(head, ControlKind.CANCEL, None, reason="another turn of the session took its place")
        # Of two turns that interrupt, the second finds the first one's cancel.
        if not is_cancelled:
            add_control(connection, head, cancel, self.by)
        if head.status is OrderStatus.RUNNING:
            return False
        state = lock(connection, head.order_id) or head
        if may_end(connection, state):
            end_by_store(connection, state, cancelled_by(cancel), self.at)
            return True
        if state.status is OrderStatus.WAITING:
            resume(connection, state, self.at, said_by(cancel))
        return False

    def _control(self, head: OrderState, kind: ControlKind, message: str | None, reason: str | None = None) -> Control:
        asked = NewControl.model_construct(message=message, reason=reason)
        return new_control(head.order_id, head.control_seq + 1, kind, asked, self.by, self.at)

    def insert_turn(
        self, connection: Connection, rows: NewRows, session_id: str, turn: int, before: Sequence[str]
    ) -> AcceptedOrder:
        """Insert the next turn of an existing session, whose row is locked; the first names one that has no title."""
        if turn == 1:
            connection.execute(_NAME, {"wanted": session_id, "title": text_json(title_of(self.new.prompt))})
        accepted = self._insert(connection, rows, session_id, turn, before)
        connection.execute(_NEXT_TURN, {"wanted": session_id, "turn": turn, "last": accepted.order_id})
        return accepted

    def _insert(
        self, connection: Connection, rows: NewRows, session_id: str, turn: int, before: Sequence[str]
    ) -> AcceptedOrder:
        new, derived = self.new, self.derived
        beginning = derived.beginning if derived else None
        source = derived.origin.order_id if derived and beginning else None
        if source is not None:
            hold_source(connection, source, forked=derived is not None and derived.origin.kind == "fork")
        order_id = beginning.order_id if beginning else next(rows.ids)
        words, on_ask = derived.words if derived else (), new.on_ask or self.on_ask
        if turn > 1 and reads_words(new.kind):
            words = (*words, *take_words(connection, session_id, order_id))
        first = queued_draft(
            new,
            session_id,
            turn,
            self.at,
            retry_of=derived.retry_of if derived else None,
            forked=derived.forked if derived else None,
            words=words,
            by=self.by,
        )
        drafts = [first, *(beginning.drafts if beginning else ())]
        entries = rows.write(order_id, drafts)
        cold = {
            "id": order_id,
            "session_id": session_id,
            "session_seq": turn,
            **self.by.columns,
            "spec_json": to_json(self._in_force).decode(),
            "created_at": micros(self.at),
            "origin_json": to_json(derived.origin).decode() if derived else None,
            "words_json": to_json(words).decode() if words else None,
            "agent": new.agent,
            "model": new.model,
            "inbox": told_when_ready(on_ask, session_id),
            "has_webhook": new.webhook_url is not None,
            **dict.fromkeys(("budget_day", "reserved", "budget_json")),
        }
        rows.orders.append(cold)
        hot = self._state(connection, order_id, session_id, turn, waits=not before)
        rows.states.append({**hot, "last_seq": len(drafts)})
        # Of a derived order the caller chose nothing: what was removed since then is missing there, and told.
        files = held_for(connection, new.attachments, self.by.principal, all_of_them=derived is None)
        rows.attachments += ({"artifact_id": file, "order_id": order_id} for file in files)
        rows.labels += ({"order_id": order_id, "label": label} for label in dict.fromkeys(new.labels))
        if source is not None:
            # The copy refers to the texts of its source, which may be pruned before it.
            connection.execute(_SHARE_TEXTS, {"from_order": source, "to_order": order_id})
        return AcceptedOrder(order_id, created=True, entries=entries)

    def budgeted(self, reserved: Reserved) -> Row:
        """The columns of the order's row that say what was reserved for it."""
        spec = self._in_force.model_copy(update={"limits": reserved.limits})
        return {"spec_json": to_json(spec).decode(), **reserved.columns}

    @property
    def _in_force(self) -> NewOrder:
        return self.new.model_copy(update={"on_ask": self.new.on_ask or self.on_ask})

    def _state(
        self, connection: Connection, order_id: str, session_id: str, turn: int, *, waits: bool
    ) -> dict[str, object]:
        new = self.new
        due = micros(new.not_before) if new.not_before else None
        expires_at = micros(new.expires_at) if new.expires_at else None
        # Only the head of a session waits with a date of its own: one behind it stays queued, and its date is looked at
        # when it is claimed.
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


def place_all(connection: Connection, changes: OpenChanges, placings: Sequence[Placing]) -> list[AcceptedOrder]:
    """Place all in sequence, or none: `SomeRefused` names the problem of each refused one, by its index."""
    keys = [placing.key_digest for placing in placings if placing.key is not None]
    known = known_keys(connection, placings[0].by.principal, keys, placings[0].at) if keys else {}
    rows = NewRows()
    accepted: list[AcceptedOrder] = []
    refused: dict[int, Exception] = {}
    for index, placing in enumerate(placings):
        try:
            accepted.append(placing.place(connection, changes, rows, known))
        # The others are tried all the same, so that the caller learns of every mistake in a batch at once.
        except (StoreRefused, BadEntry, change.DispatchRefused) as problem:
            refused[index] = problem
    if refused:
        raise SomeRefused(refused)
    accepted = _reserved(connection, rows, placings, accepted)
    rows.insert(connection)
    return accepted


def _reserved(
    connection: Connection, rows: NewRows, placings: Sequence[Placing], accepted: Sequence[AcceptedOrder]
) -> list[AcceptedOrder]:
    """The accepted orders, with what the budgets let them spend. Last, as nothing is locked after budgets. Raises
    `BudgetUsedUp`."""
    answers, changes = list(accepted), dict[str, Row]()
    created = [index for index, answer in enumerate(accepted) if answer.created]
    wishes = [NewReservation(placings[index].new, placings[index].by, placings[index].at) for index in created]
    for index, reserved in zip(created, reserve(connection, wishes), strict=True):
        if isinstance(reserved, BudgetUsedUp):
            raise reserved
        if reserved is None:
            continue
        changes[accepted[index].order_id] = placings[index].budgeted(reserved)
        if (order := accepted[index].order) is not None:
            limited = order.model_copy(update={"limits": reserved.limits, "requested_limits": reserved.told})
            answers[index] = replace(accepted[index], order=limited)
    if changes:
        rows.change_orders(connection, changes)
    return answers
