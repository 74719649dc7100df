"""This room is for orders in memory: placed, found, seen from outside."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta

from mcc.contracts.control import Control, ControlKind, Receipt
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import OrderWaiting
from mcc.contracts.order import NewFork, NewOrder, Session, WhenBusy, WorkOrder
from mcc.contracts.record import ChatRecord
from mcc.contracts.shape import digest, to_json
from mcc.contracts.status import FINAL, OrderStatus, WaitingReason
from mcc.contracts.usage import Usage
from mcc.store.again import ROLLED_BACK, Made, fork_of, retry_of, unfinished_sentence
from mcc.store.bound import queue_full
from mcc.store.clock import micros, moment
from mcc.store.entries import (
    IDEMPOTENCY_HOURS,
    POSITIONS,
    busy_sentence,
    cancelled_by,
    queued,
    title_of,
)
from mcc.store.errors import BadCursor, IdempotencyConflict, OrderIsUnfinished, SessionBusy, UnknownSession
from mcc.store.large import parsed, text_digest
from mcc.store.values import Page, Placed
from mcc.store.waiting import said_by, waits_until
from mcc.testing.audit import add_note
from mcc.testing.requests import resume
from mcc.testing.shelf import Kept, Key, Shelf


class MemoryOrders:
    def __init__(self, shelf: Shelf, max_queued: int | None = None) -> None:
        self._shelf = shelf
        self._max_queued = max_queued

    def place(self, new: NewOrder, *, principal: str, idempotency_key: str | None = None) -> Placed:
        with self._shelf.lock:
            return self._once(new, None, principal, idempotency_key)

    def retry(self, order_id: str, *, principal: str, idempotency_key: str | None = None) -> Placed:
        with self._shelf.lock:
            kept = self._shelf.order(order_id)
            at = self._shelf.clock.now()
            made = retry_of(self._seen(kept), kept.journal_version, lambda count: kept.entries[:count], at)
            return self._once(made.new, made, principal, idempotency_key)

    def fork(self, order_id: str, asked: NewFork, *, principal: str, idempotency_key: str | None = None) -> Placed:
        with self._shelf.lock:
            kept = self._shelf.order(order_id)
            at = self._shelf.clock.now()
            made = fork_of(self._seen(kept), kept.journal_version, lambda count: kept.entries[:count], asked, at)
            return self._once(made.new, made, principal, idempotency_key)

    def roll_back(self, order_id: str, *, principal: str) -> WorkOrder:
        with self._shelf.lock:
            kept = self._shelf.order(order_id)
            if kept.status not in FINAL:
                raise OrderIsUnfinished(unfinished_sentence(order_id, kept.status))
            self._leave_out(kept, principal)
            return self._seen(kept)

    def _leave_out(self, kept: Kept, principal: str) -> None:
        if not kept.left_out:
            kept.left_out = True
            add_note(self._shelf, ROLLED_BACK, principal=principal, order_id=kept.id, detail={})

    def _once(self, new: NewOrder, made: Made | None, principal: str, key: str | None) -> Placed:
        if key is None:
            return self._place(new, made, principal)
        name, body = (principal, text_digest(key)), digest(made.asked if made else new)
        placed = self._known(name, body)
        if placed is None:
            placed = self._place(new, made, principal)
            steer = placed.receipt.id if placed.receipt else None
            self._shelf.keys[name] = Key(body, placed.order.id, steer, self._shelf.clock.now())
        return placed

    def _known(self, name: tuple[str, str], body: str) -> Placed | None:
        key = self._shelf.keys.get(name)
        if key is None or key.created_at < self._shelf.clock.now() - timedelta(hours=IDEMPOTENCY_HOURS):
            return None
        if key.body_digest != body:
            raise IdempotencyConflict(
                "this Idempotency-Key was used with another body: take a new key, or send the same body again"
            )
        kept = self._shelf.order(key.order_id)
        steer = next((control for control in kept.controls if control.id == key.control_id), None)
        return Placed(self._seen(kept), created=False, receipt=_receipt(steer) if steer else None)

    def _place(self, new: NewOrder, made: Made | None, principal: str) -> Placed:
        if new.session_id is None:
            self._check_room()
            session_id = self._open_session((made and made.title) or title_of(new.prompt))
            return Placed(self._seen(self._insert(new, session_id, made)), created=True)
        if new.session_id not in self._shelf.sessions:
            raise UnknownSession(f"there is no session {new.session_id}")
        head = self._shelf.head(new.session_id)
        if head is None:
            self._check_room()
            return Placed(self._seen(self._insert(new, new.session_id, made)), created=True)
        return self._place_behind(new, head, made, principal)

    def _place_behind(self, new: NewOrder, head: Kept, made: Made | None, principal: str) -> Placed:
        match new.when_busy:
            case WhenBusy.REJECT:
                raise SessionBusy(busy_sentence(head.session_id, head.id, head.status))
            case WhenBusy.STEER if head.status is OrderStatus.RUNNING:
                steer = self._ask(head, ControlKind.STEER, message=new.prompt)
                return Placed(self._seen(head), created=False, receipt=_receipt(steer))
            case WhenBusy.INTERRUPT | WhenBusy.ROLLBACK:
                self._check_room()
                self._interrupt(new, head, principal)
                return Placed(self._seen(self._insert(new, head.session_id, made)), created=True, interrupted=head.id)
            case WhenBusy.ENQUEUE | WhenBusy.STEER:
                self._check_room()
                return Placed(self._seen(self._insert(new, head.session_id, made)), created=True)

    def _check_room(self) -> None:
        waiting = [
            kept
            for kept in self._shelf.orders.values()
            if kept.status is OrderStatus.QUEUED or kept.reason is WaitingReason.NOT_BEFORE
        ]
        if self._max_queued is not None and len(waiting) >= self._max_queued:
            raise queue_full(self._max_queued)

    def _interrupt(self, new: NewOrder, head: Kept, principal: str) -> None:
        if new.when_busy is WhenBusy.ROLLBACK:
            self._leave_out(head, principal)
        cancel = head.open_cancel()
        if cancel is None:
            cancel = self._ask(head, ControlKind.CANCEL, reason="another turn of the session took its place")
        if head.status is OrderStatus.RUNNING:
            return
        if head.endable:
            head.end_by_store(cancelled_by(cancel), self._shelf.clock.now())
        elif head.status is OrderStatus.WAITING:
            resume(self._shelf, head, said_by(cancel))

    def _ask(self, head: Kept, kind: ControlKind, message: str | None = None, reason: str | None = None) -> Control:
        control = Control(
            id=fresh_id(),
            order_id=head.id,
            number=head.control_seq + 1,
            kind=kind,
            message=message,
            reason=reason,
            requested_at=self._shelf.clock.now(),
        )
        head.controls.append(control)
        return control

    def _open_session(self, title: str) -> str:
        session = Session(id=fresh_id(), title=title, created_at=self._shelf.clock.now(), turns=0)
        self._shelf.sessions[session.id] = session
        return session.id

    def _insert(self, new: NewOrder, session_id: str, made: Made | None) -> Kept:
        shelf, now = self._shelf, self._shelf.clock.now()
        beginning = made.beginning if made else None
        order_id = beginning.order_id if beginning else fresh_id()
        free = shelf.head(session_id) is None
        kept = Kept(
            id=order_id,
            session_id=session_id,
            session_seq=shelf.count_turn(session_id, order_id),
            spec=NewOrder.model_validate(parsed(to_json(new))),
            created_at=now,
            status=OrderStatus.QUEUED,
            not_before=new.not_before,
            origin=made.origin if made else None,
        )
        if free and new.not_before and new.not_before > now:
            kept.status, kept.reason = OrderStatus.WAITING, WaitingReason.NOT_BEFORE
            expires_at = micros(new.expires_at) if new.expires_at else None
            kept.waits_until = moment(waits_until(micros(new.not_before), expires_at))
        first = queued(
            new,
            session_id,
            kept.session_seq,
            now,
            retry_of=made.retry_of if made else None,
            forked=made.forked if made else None,
        )
        kept.write([first, *(beginning.drafts if beginning else ())])
        kept.usage = Usage()
        shelf.orders[order_id] = kept
        return kept

    def get(self, order_id: str) -> WorkOrder:
        with self._shelf.lock:
            return self._seen(self._shelf.order(order_id))

    def list(
        self,
        *,
        status: OrderStatus | None = None,
        session_id: str | None = None,
        label: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[WorkOrder]:
        with self._shelf.lock:
            if cursor is not None and cursor not in self._shelf.orders:
                raise BadCursor("this cursor is not one that a page of orders gave; begin without one")
            found = [
                kept
                for kept in sorted(self._shelf.orders.values(), key=lambda one: one.id, reverse=True)
                if status in (None, kept.status)
                and session_id in (None, kept.session_id)
                and (label is None or label in kept.spec.labels)
                and (cursor is None or kept.id < cursor)
            ]
            return Page(self._all_seen(found[:limit]), found[limit - 1].id if len(found) > limit else None)

    def counts(self) -> Mapping[OrderStatus, int]:
        with self._shelf.lock:
            return Counter(kept.status for kept in self._shelf.orders.values())

    def record(self, order_id: str) -> ChatRecord | None:
        with self._shelf.lock:
            return self._shelf.order(order_id).record

    def workspace(self, order_id: str) -> str | None:
        with self._shelf.lock:
            kept = self._shelf.orders.get(order_id)
            return kept.spec.workspace if kept else None

    def _all_seen(self, found: Sequence[Kept]) -> Sequence[WorkOrder]:
        return [self._seen(kept) for kept in found]

    def _seen(self, kept: Kept) -> WorkOrder:
        return seen(self._shelf, kept)


def seen(shelf: Shelf, kept: Kept) -> WorkOrder:
    """The order as callers see it."""
    ended = kept.outcome
    lease = shelf.leases.get(kept.incarnation or "")
    return WorkOrder.model_construct(
        **{name: value for name, value in kept.spec if name != "session_id"},
        id=kept.id,
        session_id=kept.session_id,
        session_seq=kept.session_seq,
        status=kept.status,
        reason=kept.reason,
        detail=ended.detail if ended else _why_it_waits(kept),
        answer=ended.answer if ended else None,
        result=ended.result if ended else None,
        usage=ended.usage if ended else kept.usage,
        attempt=kept.attempt,
        drone=lease.registration.name if lease else None,
        created_at=kept.created_at,
        started_at=kept.started_at,
        finished_at=kept.finished_at,
        last_seq=kept.last_seq,
        queue_position=_place(shelf, kept),
        blocked_by=_blocking(shelf, kept),
        origin=kept.origin,
        left_out=kept.left_out,
    )


def _why_it_waits(kept: Kept) -> str | None:
    last = kept.entries[-1].data if kept.status is OrderStatus.WAITING else None
    return last.message if isinstance(last, OrderWaiting) else None


def _place(shelf: Shelf, kept: Kept) -> int | None:
    if not shelf.is_claimable(kept):
        return None
    place = shelf.claimable(kept.spec.queue).index(kept) + 1
    return place if place <= POSITIONS else None


def _blocking(shelf: Shelf, kept: Kept) -> str | None:
    head = shelf.head(kept.session_id) if kept.status is OrderStatus.QUEUED else None
    return head.id if head and head is not kept else None


def _receipt(control: Control) -> Receipt:
    return Receipt(id=control.id, requested_at=control.requested_at, order_id=control.order_id)
