"""Orders: placing them, finding them, and the records that they left."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.changes import NewRevert
from mcc.contracts.control import Control, Receipt
from mcc.contracts.entry import Entry
from mcc.contracts.ids import is_identifier
from mcc.contracts.order import NewFork, NewOrder, WorkOrder
from mcc.contracts.permission import OnAsk
from mcc.contracts.record import ChatRecord
from mcc.contracts.status import FINAL, OrderStatus, WaitingReason
from mcc.documents import change
from mcc.documents.blueprint import Blueprint
from mcc.store.document_changes import OpenChanges
from mcc.store.document_orders import ordered_document
from mcc.store.documents import Documents
from mcc.store.endings import record_of
from mcc.store.engine import Database
from mcc.store.errors import BadCursor, BadEntry, CannotRevert, ForkOfPruned, OrderIsUnfinished, SomeRefused
from mcc.store.forking import Made, fork_of, retry_of, unfinished_sentence
from mcc.store.placing import Accepted, Placing, leave_out, place_all
from mcc.store.queue_bound import QueueBound
from mcc.store.reverting import revert_of
from mcc.store.rows import entries_after, lock
from mcc.store.selection import Filter, chosen_ids
from mcc.store.tables import ORDERS, STATE, among
from mcc.store.texts import parsed
from mcc.store.values import AskedOrder, Page, Placed
from mcc.store.views import ORDER, is_pruned, is_status, unknown_order, work_orders


def _up_to(*conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """How many orders are so, counted no further than `most`."""
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
"""In the very words of the index `queued_orders`, so that SQLite looks at nothing else."""
_DELAYED = _up_to(is_status(STATE.c.status, OrderStatus.WAITING), STATE.c.reason == WaitingReason.NOT_BEFORE.value)
RACES = 3
"""Two requests with one key at the same moment: the second one finds the first one's row when it tries again."""


def count_queued(connection: Connection, most: int) -> int:
    """Orders that are queued, or wait for the time before which they may not begin; no more than `most` of each."""
    return sum(int(connection.scalar(count, {"most": most}) or 0) for count in (_QUEUED, _DELAYED))


def receipt_of(control: Control) -> Receipt:
    return Receipt(id=control.id, requested_at=control.requested_at, order_id=control.order_id)


def _answered(accepted: Accepted, order: WorkOrder) -> Placed:
    receipt = receipt_of(accepted.steer) if accepted.steer else None
    return Placed(order, accepted.created, receipt, accepted.interrupted, accepted.entries)


class Orders:
    def __init__(self, database: Database, bound: QueueBound, documents: Documents) -> None:
        self._database = database
        self._bound = bound
        self._documents = documents

    def place(
        self,
        new: NewOrder,
        *,
        principal: str,
        idempotency_key: str | None = None,
        blueprint: Blueprint | None = None,
        on_ask: OnAsk = "deny",
    ) -> Placed:
        """Row and first entry in one transaction; `when_busy` decided under the session's, then the order's lock.

        A generate order that names a blueprint comes with that, and its document is made in the same transaction; one
        for a document is a turn of that document's session. `on_ask` counts where the order does not say.

        Raises `IdempotencyConflict`, `SessionBusy`, `UnknownSession`, `UnknownDocument`, `NotAConversation`,
        `QueueFull`, `mcc.documents.change.Refused`.
        """
        database, at = self._database, self._database.clock.now()
        document = ordered_document(self._documents, new, principal, at, blueprint)
        return self._placed(Placing(new, principal, idempotency_key, at, database.time, None, document, on_ask))

    def place_all(self, request: Sequence[AskedOrder], *, principal: str, on_ask: OnAsk = "deny") -> Sequence[Placed]:
        """As `place`, for all of these in one transaction and in this order, or for none of them.

        Raises `SomeRefused`, `QueueFull`.
        """
        database, at, placings = self._database, self._database.clock.now(), []
        refused: dict[int, Exception] = {}
        for index, one in enumerate(request):
            try:
                document = ordered_document(self._documents, one.new, principal, at, one.blueprint)
            except change.Refused as problem:
                refused[index] = problem
                continue
            placings.append(Placing(one.new, principal, one.idempotency_key, at, database.time, None, document, on_ask))
        if refused:
            raise SomeRefused(refused)
        accepted = self._accepted(placings)
        read = self._some([one.order_id for one in accepted if one.order is None])
        return [_answered(one, one.order or read[one.order_id]) for one in accepted]

    def retry(self, order_id: str, *, principal: str, idempotency_key: str | None = None) -> Placed:
        """A new order from the same input, as the next turn of the same session; it waits for earlier ones.

        Raises `UnknownOrder`, `OrderIsUnfinished`, `IdempotencyConflict`, `QueueFull`.
        """
        at, source = self._database.clock.now(), self.get(order_id)
        made = retry_of(source, self._version(order_id), lambda count: self._first(order_id, count), at)
        return self._place_made(made, principal, idempotency_key, at)

    def fork(self, order_id: str, request: NewFork, *, principal: str, idempotency_key: str | None = None) -> Placed:
        """A new order in a new session that goes on from entry `request.after`, rounded down to where no call is open.

        Raises `UnknownOrder`, `CannotFork`, `IdempotencyConflict`, `QueueFull`.
        """
        # What is taken over is committed and never changes, so it is read before the transaction begins. Only pruning
        # takes it away, so the transaction looks again whether it did.
        at, source = self._database.clock.now(), self.get(order_id)
        if self._database.read(lambda connection: is_pruned(connection, order_id)):
            raise ForkOfPruned(order_id)
        made = fork_of(source, self._version(order_id), lambda count: self._first(order_id, count), request, at)
        return self._place_made(made, principal, idempotency_key, at)

    def revert(
        self, order_id: str, request: NewRevert, *, principal: str, idempotency_key: str | None = None
    ) -> Placed:
        """A new order, in a session of its own, that takes back what this one did to its workspace.

        Raises `UnknownOrder`, `OrderIsUnfinished`, `CannotRevert`, `IdempotencyConflict`, `QueueFull`.
        """
        if request.to is not None and self._database.read(lambda connection: is_pruned(connection, order_id)):
            raise CannotRevert(
                f"the journal of order {order_id} was pruned: it can be reverted as a whole, without `to`"
            )
        made = revert_of(self.get(order_id), request)
        return self._place_made(made, principal, idempotency_key, self._database.clock.now())

    def roll_back(self, order_id: str, *, principal: str) -> WorkOrder:
        """Leave a finished turn out of its session's context from here on; again changes nothing.

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
            leave_out(connection, order_id, at, principal)

        self._database.write(left_out, repeatable=True)
        return self.get(order_id)

    def _version(self, order_id: str) -> int:
        return int(self._database.read(lambda connection: connection.scalar(_VERSION, {"wanted": order_id})) or 0)

    def _first(self, order_id: str, count: int) -> Sequence[Entry]:
        return self._database.read(lambda connection: entries_after(connection, order_id, limit=count))

    def _place_made(self, made: Made, principal: str, key: str | None, at: datetime) -> Placed:
        document = ordered_document(self._documents, made.new, principal, at)
        return self._placed(Placing(made.new, principal, key, at, self._database.time, made, document))

    def _placed(self, placing: Placing) -> Placed:
        try:
            accepted = self._accepted([placing])[0]
        except SomeRefused as refused:
            raise refused.refused[0] from None
        return _answered(accepted, self.get(accepted.order_id))

    def _accepted(self, placings: Sequence[Placing]) -> Sequence[Accepted]:
        """Raises `SomeRefused`, `QueueFull`; nothing was placed then."""
        opened: list[OpenChanges] = []

        def place(connection: Connection) -> Sequence[Accepted]:
            opened[:] = [self._documents.opened(connection)]
            accepted = place_all(connection, opened[0], placings)
            # What made no order needs no place in the queue: a known key, a steer.
            if created := sum(one.created for one in accepted):
                self._bound.take(lambda most: count_queued(connection, most), created)
            return accepted

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

    def _some(self, order_ids: Sequence[str]) -> Mapping[str, WorkOrder]:
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
        part: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[WorkOrder]:
        """Newest first; `part`: those whose id begins or ends so. Raises `BadCursor`."""
        if cursor is not None and not is_identifier(cursor):
            raise BadCursor("this cursor is not one that a page of orders gave; begin without one")
        if (session_id is not None and not is_identifier(session_id)) or (label is not None and "\0" in label):
            return Page(())
        chosen = chosen_ids(Filter(status, session_id, label, part, cursor), limit + 1)
        if chosen is None:
            return Page(())
        ids = chosen.subquery("chosen")
        statement = ORDER.join(ids, ids.c.id == ORDERS.c.id).order_by(ids.c.id.desc())

        def page(connection: Connection) -> Page[WorkOrder]:
            rows = connection.execute(statement).mappings().all()
            items = work_orders(connection, rows[:limit], self._database.time)
            return Page(items, items[-1].id if len(rows) > limit else None)

        return self._database.read(page)

    def counts(self) -> Mapping[OrderStatus, int]:
        """How many orders have each status; a status that none has may be missing."""
        rows = self._database.read(lambda connection: connection.execute(_COUNTS).all())
        return {OrderStatus(row.status): row.orders for row in rows}

    def record(self, order_id: str) -> ChatRecord | None:
        """The record of an order that has ended; None while it has not."""

        def stored(connection: Connection) -> ChatRecord | None:
            is_pruned(connection, order_id)
            return record_of(connection, order_id)

        return self._database.read(stored)

    def workspace(self, order_id: str) -> str | None:
        """The workspace that an order names, in one small read; None for one that names none, or is not known."""
        if not is_identifier(order_id):
            return None
        spec = self._database.read(lambda connection: connection.scalar(_SPEC, {"wanted": order_id}))
        named = parsed(spec).get("workspace") if spec else None
        return None if named is None else str(named)
