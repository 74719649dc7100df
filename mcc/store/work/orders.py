"""Orders as the service uses them: place, retry, fork, revert, list; the bound of the queue."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from threading import Lock
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import Actor
from mcc.contracts.changes import NewRevert
from mcc.contracts.control import Receipt
from mcc.contracts.entry import Entry
from mcc.contracts.git_delivery import Deliver
from mcc.contracts.ids import is_identifier
from mcc.contracts.order import NewFork, NewOrder, OrderKind, WorkOrder
from mcc.contracts.permission import OnAsk
from mcc.contracts.record import ChatRecord
from mcc.contracts.status import FINAL, OrderStatus, WaitingReason
from mcc.contracts.waits import WaitsFor
from mcc.documents import change
from mcc.documents.blueprint import Blueprint
from mcc.store.database.clock import Clock
from mcc.store.database.engine import Database
from mcc.store.database.errors import (
    BadCursor,
    BadEntry,
    ForkOfPruned,
    NotRevertible,
    OrderIsUnfinished,
    QueueFull,
    SomeRefused,
)
from mcc.store.database.tables import ORDERS, STATE, among
from mcc.store.documents.changes import OpenChanges
from mcc.store.rows.following import deliver_of, revert_of
from mcc.store.rows.forking import DerivedOrder, fork_of, retry_of, unfinished_sentence
from mcc.store.rows.new_rows import AcceptedOrder
from mcc.store.rows.order_rows import entries_after, lock
from mcc.store.rows.texts import parsed
from mcc.store.rows.transcript_rows import leave_out
from mcc.store.rows.values import BatchOrder, Page, Placed
from mcc.store.rows.views import ORDER, is_pruned, is_status, unknown_order
from mcc.store.rows.waiting import in_line, waits_of, work_orders
from mcc.store.work.document_orders import ordered_document
from mcc.store.work.documents import DocumentStore
from mcc.store.work.endings import record_of
from mcc.store.work.placing import Placing, place_all
from mcc.store.work.selection import Filter, search


def _up_to(*conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """The number of orders that meet the conditions; counting stops at the parameter `most`."""
    found: sa.Select[Any] = (
        sa.select(sa.literal_column("1")).select_from(STATE).where(*conditions).limit(sa.bindparam("most"))
    )
    return sa.select(sa.func.count()).select_from(found.subquery())


_SOME = ORDER.where(among(ORDERS.c.id, "wanted"))
_ONE = ORDER.where(ORDERS.c.id == sa.bindparam("wanted"))
_COUNTS = sa.select(STATE.c.status, sa.func.count().label("orders")).group_by(STATE.c.status)
_SPEC = sa.select(ORDERS.c.spec_json).where(ORDERS.c.id == sa.bindparam("wanted"))
_VERSION = sa.select(STATE.c.journal_version).where(STATE.c.order_id == sa.bindparam("wanted"))
_QUEUED = _up_to(STATE.c.status.in_([sa.literal_column(f"'{OrderStatus.QUEUED.value}'")]))
"""The condition is spelled as in the partial index `queued_orders`, so that SQLite reads only that index."""
_DELAYED = _up_to(is_status(STATE.c.status, OrderStatus.WAITING), STATE.c.reason == WaitingReason.NOT_BEFORE.value)
RACES = 3
"""Attempts for requests with an idempotency key: of two concurrent ones with the same key, the second fails, and finds
the row of the first when it is repeated."""

COUNT_SECONDS = 1.0
MOST_SECONDS = 60.0
OTHERS_A_SECOND = 1_000
"""A count is reused for `COUNT_SECONDS`, and longer while there is room for what other processes may place at the rate
`OTHERS_A_SECOND`, but for `MOST_SECONDS` at most. Meanwhile the orders that this process places are added to it; orders
that begin or end are not subtracted."""


def count_queued(connection: Connection, most: int) -> int:
    """The number of orders that are queued or wait for their `not_before`; at most `most` of each kind are counted."""
    return sum(int(connection.scalar(count, {"most": most}) or 0) for count in (_QUEUED, _DELAYED))


class QueueBound:
    """Keeps the number of orders that are queued, or wait for their `not_before`, at `most`; None: any number.

    Safe for several threads. On PostgreSQL two open transactions do not see each other's orders, and each process keeps
    its own count, so orders that other processes place within a second may exceed the bound.
    """

    def __init__(self, most: int | None, clock: Clock) -> None:
        self._most = most
        self._clock = clock
        self._lock = Lock()
        self._counted_at = self._count_at = float("-inf")
        self._queued = 0

    def take(self, count: Callable[[int], int], places: int = 1) -> None:
        """Reserve places for orders that the open transaction has inserted. Raises `QueueFull`, which rolls it back.

        `count` answers how many orders there are including those, and stops counting at the number it is given.
        """
        if self._most is None:
            return
        with self._lock:
            now = self._clock.uptime()
            # Orders that were rolled back still count until the next count, so nothing is refused without a new count.
            looks_full = self._queued + places > self._most and now >= self._counted_at + COUNT_SECONDS
            if now >= self._count_at or looks_full:
                self._queued = count(self._most + places) - places
                room = self._most - self._queued
                self._counted_at = now
                self._count_at = now + min(max(room / OTHERS_A_SECOND, COUNT_SECONDS), MOST_SECONDS)
            if self._queued + places > self._most:
                raise queue_full(self._most, places)
            self._queued += places


def queue_full(most: int, places: int = 1) -> QueueFull:
    queued = f"{most:,} orders are queued, which is as many as are taken (MCC_MAX_QUEUED_ORDERS)"
    if places > 1:
        queued = f"with these {places:,}, more than {most:,} orders would be queued (MCC_MAX_QUEUED_ORDERS)"
    return QueueFull(f"{queued}: wait until some of them are done, cancel some, or start more drones")


def _answered(accepted: AcceptedOrder, order: WorkOrder) -> Placed:
    steer = accepted.steer
    receipt = Receipt(id=steer.id, requested_at=steer.requested_at, order_id=steer.order_id) if steer else None
    return Placed(order, accepted.created, receipt, accepted.interrupted, accepted.entries)


class OrderStore:
    def __init__(self, database: Database, bound: QueueBound, documents: DocumentStore) -> None:
        self._database = database
        self._bound = bound
        self._documents = documents

    def place(
        self,
        new: NewOrder,
        *,
        by: Actor,
        idempotency_key: str | None = None,
        blueprint: Blueprint | None = None,
        on_ask: OnAsk = "deny",
        request: NewOrder | None = None,
        anybodys: bool = False,
    ) -> Placed:
        """Insert the order and its first entry in one transaction, which locks the session, then its running order.

        `when_busy` is decided under these locks. A generate order that names a blueprint is placed with that
        `blueprint`, and its document is made in the same transaction; one for an existing document becomes a turn of
        that document's session. `on_ask` applies if the order does not set it. `request`: the order as its caller gave
        it, by which a repeated one is known; None: `new` is that. `anybodys`: it may control a turn that somebody else
        placed.

        Raises `IdempotencyConflict`, `SessionBusy`, `OrderOfOthers`, `UnknownSession`, `UnknownDocument`,
        `NotAConversation`, `BudgetUsedUp`, `QueueFull`, `mcc.documents.change.DispatchRefused`.
        """
        database, at = self._database, self._database.clock.now()
        document = ordered_document(self._documents, new, by, at, blueprint)
        placing = Placing(new, by, idempotency_key, at, database.time, None, document, on_ask, request, anybodys)
        return self._placed(placing)

    def place_all(
        self, request: Sequence[BatchOrder], *, by: Actor, on_ask: OnAsk = "deny", anybodys: bool = False
    ) -> Sequence[Placed]:
        """As `place`, for all of these orders in one transaction and in this sequence, or for none of them.

        Raises `SomeRefused`, `BudgetUsedUp`, `QueueFull`.
        """
        database, at, placings = self._database, self._database.clock.now(), []
        refused: dict[int, Exception] = {}
        for index, batch_order in enumerate(request):
            try:
                document = ordered_document(self._documents, batch_order.new, by, at, batch_order.blueprint)
            except change.DispatchRefused as problem:
                refused[index] = problem
                continue
            new, key = batch_order.new, batch_order.idempotency_key
            asked = batch_order.request
            placings.append(Placing(new, by, key, at, database.time, None, document, on_ask, asked, anybodys))
        if refused:
            raise SomeRefused(refused)
        accepted = self._accepted(placings)
        read = self.some([batch_order.order_id for batch_order in accepted if batch_order.order is None])
        return [_answered(batch_order, batch_order.order or read[batch_order.order_id]) for batch_order in accepted]

    def retry(self, order_id: str, *, by: Actor, idempotency_key: str | None = None) -> Placed:
        """A new order from the same input, as the next turn of the same session; it waits for earlier ones.

        Raises `UnknownOrder`, `OrderIsUnfinished`, `IdempotencyConflict`, `BudgetUsedUp`, `QueueFull`.
        """
        at, source = self._database.clock.now(), self.get(order_id)
        made = retry_of(source, self._version(order_id), lambda count: self._first(order_id, count), at)
        return self._place_derived(made, by, idempotency_key, at)

    def fork(self, order_id: str, request: NewFork, *, by: Actor, idempotency_key: str | None = None) -> Placed:
        """A new order in a new session that continues from entry `request.after`, or the last entry before it at which
        no call is open; without the `webhook_url` of somebody else.

        Raises `UnknownOrder`, `CannotFork`, `IdempotencyConflict`, `BudgetUsedUp`, `QueueFull`.
        """
        # Committed entries never change, so they are read before the transaction begins. Only pruning removes them,
        # which the transaction checks again.
        at, source = self._database.clock.now(), self.get(order_id)
        if self._database.read(lambda connection: is_pruned(connection, order_id)):
            raise ForkOfPruned(order_id)
        made = fork_of(source, self._version(order_id), lambda count: self._first(order_id, count), request, at)
        if source.principal != by.principal:
            # Its query may hold what lets its owner in there, which is shown to nobody.
            made = replace(made, new=made.new.model_copy(update={"webhook_url": None}))
        return self._place_derived(made, by, idempotency_key, at)

    def revert(self, order_id: str, request: NewRevert, *, by: Actor, idempotency_key: str | None = None) -> Placed:
        """A new order, in a session of its own, that restores the workspace as it was before this order changed it.

        Raises `UnknownOrder`, `OrderIsUnfinished`, `NotRevertible`, `IdempotencyConflict`, `BudgetUsedUp`, `QueueFull`.
        """
        if request.to is not None and self._database.read(lambda connection: is_pruned(connection, order_id)):
            raise NotRevertible(
                f"the journal of order {order_id} was pruned: it can be reverted as a whole, without `to`"
            )
        made = revert_of(self.get(order_id), request)
        return self._place_derived(made, by, idempotency_key, self._database.clock.now())

    def deliver(
        self,
        order_id: str,
        wish: Deliver | None,
        *,
        by: Actor,
        idempotency_key: str | None = None,
        on_ask: OnAsk = "deny",
    ) -> Placed:
        """A new order, as the next turn of the same session, that delivers what this one did.

        Raises `UnknownOrder`, `OrderIsUnfinished`, `NotDeliverable`, `IdempotencyConflict`, `BudgetUsedUp`,
        `QueueFull`.
        """
        made, at = deliver_of(self.get(order_id), wish), self._database.clock.now()
        return self._placed(Placing(made.new, by, idempotency_key, at, self._database.time, made, None, on_ask))

    def roll_back(self, order_id: str, *, by: Actor) -> WorkOrder:
        """Leave a finished turn out of its session's context from now on; repeating it changes nothing.

        Raises `UnknownOrder`, `OrderIsUnfinished`.
        """
        if not is_identifier(order_id):
            raise unknown_order(order_id)
        at = self._database.clock.now()

        def left_out(connection: Connection) -> None:
            state = lock(connection, order_id)
            if state is None:
                raise unknown_order(order_id)
            if state.status not in FINAL:
                raise OrderIsUnfinished(unfinished_sentence(order_id, state.status))
            leave_out(connection, order_id, at, by)

        self._database.write(left_out, repeatable=True)
        return self.get(order_id)

    def _version(self, order_id: str) -> int:
        return int(self._database.read(lambda connection: connection.scalar(_VERSION, {"wanted": order_id})) or 0)

    def _first(self, order_id: str, count: int) -> Sequence[Entry]:
        return self._database.read(lambda connection: entries_after(connection, order_id, limit=count))

    def _place_derived(self, made: DerivedOrder, by: Actor, key: str | None, at: datetime) -> Placed:
        document = ordered_document(self._documents, made.new, by, at)
        return self._placed(Placing(made.new, by, key, at, self._database.time, made, document))

    def _placed(self, placing: Placing) -> Placed:
        try:
            accepted = self._accepted([placing])[0]
        except SomeRefused as refused:
            raise refused.refused[0] from None
        order, time = accepted.order, self._database.time
        if order is None or placing.derived is not None or order.status is not OrderStatus.QUEUED:
            return _answered(accepted, self.get(accepted.order_id))
        # What was just written is not read again, which would be half of the work.
        return _answered(accepted, self._database.read(lambda connection: in_line(connection, order, time)))

    def place_within(
        self, connection: Connection, changes: OpenChanges, placings: Sequence[Placing]
    ) -> Sequence[AcceptedOrder]:
        """Place all in a transaction of the caller's, who undoes it on every error, and else calls `committed` of the
        `changes` after its commit. Raises `SomeRefused`, `QueueFull`."""
        accepted = place_all(connection, changes, placings)
        # A known key and a steer make no order, so they need no place in the queue.
        if created := sum(placed.created for placed in accepted):
            self._bound.take(lambda most: count_queued(connection, most), created)
        return accepted

    def _accepted(self, placings: Sequence[Placing]) -> Sequence[AcceptedOrder]:
        """Place all in one transaction. Raises `SomeRefused`, `BudgetUsedUp`, `QueueFull`, and places nothing then."""
        opened: list[OpenChanges] = []

        def place(connection: Connection) -> Sequence[AcceptedOrder]:
            # Anew at each attempt: what an undone transaction changed in memory must not be taken over.
            opened[:] = [self._documents.opened(connection)]
            return self.place_within(connection, opened[0], placings)

        # Only keys make a repetition harmless: without one, a placed order whose answer was lost would be placed twice.
        keyed = all(placing.key is not None for placing in placings)
        for race in range(1, RACES + 1):
            try:
                accepted = self._database.write(place, repeatable=keyed)
                break
            except BadEntry:
                if not keyed or race == RACES:
                    raise
        opened[0].committed()
        return accepted

    def get(self, order_id: str) -> WorkOrder:
        """Raises `UnknownOrder`."""
        if not is_identifier(order_id):
            raise unknown_order(order_id)

        def order(connection: Connection) -> WorkOrder:
            rows = connection.execute(_ONE, {"wanted": order_id}).mappings().all()
            if not rows:
                raise unknown_order(order_id)
            return work_orders(connection, rows, self._database.time)[0]

        return self._database.read(order)

    def some(self, order_ids: Sequence[str]) -> Mapping[str, WorkOrder]:
        """Those of these orders that exist, by id."""
        if not order_ids:
            return {}

        def found(connection: Connection) -> Mapping[str, WorkOrder]:
            rows = connection.execute(_SOME, {"wanted": order_ids}).mappings().all()
            return {order.id: order for order in work_orders(connection, rows, self._database.time)}

        return self._database.read(found)

    def list(
        self,
        *,
        status: OrderStatus | None = None,
        session_id: str | None = None,
        label: str | None = None,
        agent: str | None = None,
        workspace: str | None = None,
        kind: OrderKind | None = None,
        since: datetime | None = None,
        part: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[WorkOrder]:
        """Newest first. `part`: orders whose id begins or ends with it. `since`: placed at this time or later.
        `kind`: those that compact a session are listed by theirs alone.

        With `agent`, `workspace` or another kind, at most `SEARCHED` orders are looked through: a page with fewer than
        `limit` of them, or none, then has a cursor. Raises `BadCursor`.
        """
        if cursor is not None and not is_identifier(cursor):
            raise BadCursor("this cursor is not one that a page of orders gave; begin without one")
        if (session_id is not None and not is_identifier(session_id)) or (label is not None and "\0" in label):
            return Page(())
        wanted = Filter(status, session_id, label, part, cursor, since, kind=kind)

        def page(connection: Connection) -> Page[WorkOrder]:
            rows, following = search(connection, wanted, agent, workspace, limit)
            return Page(work_orders(connection, rows, self._database.time), following)

        return self._database.read(page)

    def waits(self, order_ids: Sequence[str]) -> Mapping[str, WaitsFor | None]:
        """What each of these orders waits for; None for those that go on or have ended."""
        return self._database.read(lambda connection: waits_of(connection, order_ids, self._database.time))

    def counts(self) -> Mapping[OrderStatus, int]:
        """Numbers of orders by status; a status without orders may be missing."""
        rows = self._database.read(lambda connection: connection.execute(_COUNTS).all())
        return {OrderStatus(row.status): row.orders for row in rows}

    def record(self, order_id: str) -> ChatRecord | None:
        """The record of an ended order; None for an unfinished one, or when no agent began. Raises `UnknownOrder`."""

        def stored(connection: Connection) -> ChatRecord | None:
            is_pruned(connection, order_id)
            return record_of(connection, order_id)

        return self._database.read(stored)

    def workspace(self, order_id: str) -> str | None:
        """The workspace that an order names, in one small read; None if it names none or there is no such order."""
        if not is_identifier(order_id):
            return None
        spec = self._database.read(lambda connection: connection.scalar(_SPEC, {"wanted": order_id}))
        named = parsed(spec).get("workspace") if spec else None
        return None if named is None else str(named)
