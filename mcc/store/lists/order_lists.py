"""Lists of orders for people: found by any filters together, whole or as summaries, and counted."""

from collections.abc import Collection, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.answers import Needs, OrderSummary
from mcc.contracts.ids import is_identifier
from mcc.contracts.order import WorkOrder
from mcc.contracts.order_lists import OrderCount, OrderCriteria, OrderPage, SummaryPage
from mcc.contracts.status import UNFINISHED, OrderStatus, WaitingReason
from mcc.store.database.engine import Database
from mcc.store.database.errors import BadCursor
from mcc.store.database.tables import APPROVALS, ORDERS, STATE, among
from mcc.store.lists.order_scan import HIGHEST, ScanBounds, Scanned
from mcc.store.rows.inbox_rows import PENDING
from mcc.store.rows.views import ORDER, has_status
from mcc.store.rows.waiting import work_orders

_SOME = ORDER.where(among(ORDERS.c.id, "wanted")).order_by(ORDERS.c.id.desc())
_NEEDS = (
    sa.select(APPROVALS.c.order_id, APPROVALS.c.kind, sa.func.count().label("items"))
    .where(among(APPROVALS.c.order_id, "wanted"), PENDING)
    .group_by(APPROVALS.c.order_id, APPROVALS.c.kind)
)
_COUNTS = (
    sa.select(STATE.c.status, STATE.c.reason, sa.func.count().label("orders"))
    .where(has_status(STATE.c.status, UNFINISHED))
    .group_by(STATE.c.status, STATE.c.reason)
    .order_by(STATE.c.status, STATE.c.reason)
)


class OrderLists:
    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, filters: OrderCriteria, *, cursor: str | None = None, limit: int = 50) -> OrderPage:
        """Newest first. At most 20,000 orders are looked at: a page with fewer than `limit`, or none, may have a
        cursor. Raises `BadCursor`."""

        def page(connection: Connection) -> OrderPage:
            scanned = _scanned(connection, filters, cursor, limit)
            orders = tuple(self._orders(connection, scanned.ids))
            return OrderPage(items=orders, next_cursor=scanned.next_cursor, searched_to=scanned.searched_to)

        return self._database.read(page)

    def summaries(self, filters: OrderCriteria, *, cursor: str | None = None, limit: int = 50) -> SummaryPage:
        """As `find`, of summaries."""

        def page(connection: Connection) -> SummaryPage:
            scanned = _scanned(connection, filters, cursor, limit)
            items = tuple(self._summaries(connection, scanned.ids))
            return SummaryPage(items=items, next_cursor=scanned.next_cursor, searched_to=scanned.searched_to)

        return self._database.read(page)

    def summaries_of(self, order_ids: Collection[str]) -> Sequence[OrderSummary]:
        """These orders as they are now, newest first; those that do not exist are left out."""
        return self._database.read(lambda connection: self._summaries(connection, sorted(order_ids)))

    def counts(self) -> Sequence[OrderCount]:
        """Numbers of unfinished orders by status and reason."""
        rows = self._database.read(lambda connection: connection.execute(_COUNTS).all())
        return [
            OrderCount(
                status=OrderStatus(row.status),
                reason=None if row.reason is None else WaitingReason(row.reason),
                orders=row.orders,
            )
            for row in rows
        ]

    def _summaries(self, connection: Connection, ids: Sequence[str]) -> Sequence[OrderSummary]:
        orders = self._orders(connection, ids)
        needs = _needs(connection, ids)
        # An order may be deleted between two statements.
        return [OrderSummary.of(each, needs.get(each.id, Needs())) for each in orders]

    def _orders(self, connection: Connection, ids: Sequence[str]) -> Sequence[WorkOrder]:
        if not ids:
            return ()
        rows = connection.execute(_SOME, {"wanted": ids}).mappings().all()
        return work_orders(connection, rows, self._database.time)


def _scanned(connection: Connection, filters: OrderCriteria, cursor: str | None, limit: int) -> Scanned:
    if cursor is not None and not is_identifier(cursor.removesuffix(HIGHEST)):
        raise BadCursor("this cursor is not one that a page of orders gave; begin without one")
    return ScanBounds().ids(connection, filters, cursor, limit)


def _needs(connection: Connection, ids: Sequence[str]) -> Mapping[str, Needs]:
    """Of those of these orders for which people are waited."""
    waiting: dict[str, dict[str, int]] = {}
    for row in connection.execute(_NEEDS, {"wanted": ids}) if ids else ():
        kind = "questions" if row.kind == "question" else "approvals"
        counts = waiting.setdefault(row.order_id, {})
        counts[kind] = counts.get(kind, 0) + row.items
    return {order_id: Needs.model_validate(counts) for order_id, counts in waiting.items()}
