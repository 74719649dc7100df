"""This room is for orders as callers see them: the rows of one page, joined and completed."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.journal import JOURNAL_VERSION
from mcc.contracts.order import NewOrder, Outcome, WorkOrder
from mcc.contracts.status import FINAL, UNFINISHED, FailureReason, OrderStatus, WaitingReason, sources_of
from mcc.contracts.usage import Usage
from mcc.store.clock import moment
from mcc.store.entries import POSITIONS
from mcc.store.large import parsed
from mcc.store.sql.engine import DatabaseTime
from mcc.store.sql.rows import USAGE
from mcc.store.sql.tables import DRONES, ORDERS, STATE

COLUMNS = (
    ORDERS.c.id,
    ORDERS.c.session_id,
    ORDERS.c.session_seq,
    ORDERS.c.spec_json,
    ORDERS.c.outcome_json,
    ORDERS.c.created_at,
    ORDERS.c.finished_at,
    STATE.c.status,
    STATE.c.reason,
    STATE.c.attempt,
    STATE.c.started_at,
    STATE.c.last_seq,
    STATE.c.queue,
    *(STATE.c[name] for name in USAGE),
    DRONES.c.name.label("drone"),
)
ORDER = sa.select(*COLUMNS).select_from(
    ORDERS.join(STATE, STATE.c.order_id == ORDERS.c.id).outerjoin(DRONES, DRONES.c.incarnation == STATE.c.incarnation)
)


HELD = frozenset({OrderStatus.RUNNING, OrderStatus.WAITING})


def is_any(column: sa.ColumnElement[Any], statuses: frozenset[OrderStatus]) -> sa.ColumnElement[bool]:
    """Written out, not bound, and with the very words of the partial indexes: SQLite looks no further than these."""
    wider = [indexed for indexed in (UNFINISHED, HELD) if statuses < indexed]
    return sa.and_(*(_among(column, one) for one in (*wider, statuses)))


def _among(column: sa.ColumnElement[Any], statuses: frozenset[OrderStatus]) -> sa.ColumnElement[bool]:
    written: list[sa.ColumnElement[str]] = [sa.literal_column(f"'{status.value}'") for status in sorted(statuses)]
    return column.in_(written)


def is_head(state: sa.FromClause = STATE) -> sa.ColumnElement[bool]:
    """No earlier order of the session is unfinished."""
    earlier = STATE.alias("earlier")
    blocking = (
        sa.select(earlier.c.order_id)
        .where(
            earlier.c.session_id == state.c.session_id,
            earlier.c.session_seq < state.c.session_seq,
            is_any(earlier.c.status, UNFINISHED),
        )
        .correlate(state)
    )
    return ~blocking.exists()


def is_claimable(time: DatabaseTime) -> sa.ColumnElement[bool]:
    return sa.and_(
        is_any(STATE.c.status, sources_of("claim")),
        sa.or_(STATE.c.not_before.is_(None), STATE.c.not_before <= time.now),
        sa.or_(STATE.c.expires_at.is_(None), STATE.c.expires_at > time.now),
        STATE.c.journal_version == JOURNAL_VERSION,
        is_head(),
    )


def claimable(time: DatabaseTime) -> sa.Select[Any]:
    """Best first; parameters `queues` and `most`."""
    return (
        sa.select(STATE.c.order_id, STATE.c.queue, STATE.c.priority)
        .where(STATE.c.queue.in_(sa.bindparam("queues", expanding=True)), is_claimable(time))
        .order_by(STATE.c.priority, STATE.c.order_id)
        .limit(sa.bindparam("most"))
    )


class Views:
    def __init__(self, time: DatabaseTime) -> None:
        self._claimable = claimable(time)
        head = STATE.alias("head")
        self._heads = (
            sa.select(STATE.c.order_id, sa.func.min(head.c.session_seq).label("seq"), head.c.session_id)
            .join(head, sa.and_(head.c.session_id == STATE.c.session_id, head.c.session_seq < STATE.c.session_seq))
            .where(STATE.c.order_id.in_(sa.bindparam("ids", expanding=True)), is_any(head.c.status, UNFINISHED))
            .group_by(STATE.c.order_id, head.c.session_id)
            .subquery()
        )
        self._blocking = sa.select(self._heads.c.order_id, ORDERS.c.id).join(
            ORDERS,
            sa.and_(ORDERS.c.session_id == self._heads.c.session_id, ORDERS.c.session_seq == self._heads.c.seq),
        )

    def whole(self, connection: Connection, rows: Sequence[sa.RowMapping]) -> list[WorkOrder]:
        """The orders of these rows of `ORDER`, with their places in the queue or what blocks them."""
        waiting = [row for row in rows if row["status"] == OrderStatus.QUEUED.value]
        if not waiting:
            return [work_order(row) for row in rows]
        places = self._places(connection, {row["queue"] for row in waiting})
        blocked = self._blocked(connection, [row["id"] for row in waiting])
        return [work_order(row, places.get(row["id"]), blocked.get(row["id"])) for row in rows]

    def _places(self, connection: Connection, queues: set[str]) -> dict[str, int]:
        places: dict[str, int] = {}
        for queue in queues:
            first = connection.execute(self._claimable, {"queues": [queue], "most": POSITIONS})
            places.update({row.order_id: place for place, row in enumerate(first, start=1)})
        return places

    def _blocked(self, connection: Connection, ids: list[str]) -> dict[str, str]:
        rows = connection.execute(self._blocking, {"ids": ids})
        return {row.order_id: row.id for row in rows}


def work_order(row: sa.RowMapping, place: int | None = None, blocked_by: str | None = None) -> WorkOrder:
    """One row of `ORDER` as callers see it."""
    spec = NewOrder.model_validate(parsed(row["spec_json"]))
    status = OrderStatus(row["status"])
    asked = {name: value for name, value in spec if name not in ("session_id",)}
    ended = Outcome.model_validate(parsed(row["outcome_json"])) if row["outcome_json"] else None
    return WorkOrder.model_construct(
        **asked,
        id=row["id"],
        session_id=row["session_id"],
        session_seq=row["session_seq"],
        status=status,
        reason=_reason(status, row["reason"]),
        detail=ended.detail if ended else None,
        answer=ended.answer if ended else None,
        result=ended.result if ended else None,
        usage=ended.usage if ended else Usage.model_construct(**{name: row[name] for name in USAGE}),
        attempt=row["attempt"],
        drone=row["drone"],
        created_at=moment(row["created_at"]),
        started_at=_moment(row["started_at"]),
        finished_at=_moment(row["finished_at"]),
        last_seq=row["last_seq"],
        queue_position=place,
        blocked_by=blocked_by,
    )


def _reason(status: OrderStatus, reason: str | None) -> WaitingReason | FailureReason | None:
    if reason is None:
        return None
    return FailureReason(reason) if status in FINAL else WaitingReason(reason)


def _moment(microseconds: int | None) -> Any:
    return None if microseconds is None else moment(microseconds)
