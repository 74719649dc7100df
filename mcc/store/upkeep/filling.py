"""Fills in, for orders that a version before placed, what orders are found by; newest first."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.order import OrderOutcome
from mcc.contracts.status import OrderStatus
from mcc.store.database.engine import Database
from mcc.store.database.tables import DRONES, ORDERS, STATE, among, size_of
from mcc.store.rows.facets import fingerprint, told_when_failed, told_when_ready
from mcc.store.rows.texts import parsed

ORDERS_AT_ONCE, BYTES_AT_ONCE = 1_000, 20_000_000
"""Bounds of one transaction; the bytes are those of what was ordered."""

_EMPTY = ORDERS.c.agent.is_(None)
_NEXT = sa.select(ORDERS.c.id, size_of(ORDERS.c.spec_json).label("size")).where(_EMPTY).order_by(ORDERS.c.id.desc())
# Only rows of `orders` are locked, which whoever ends an order changes while it holds the order's own lock.
_WANTED = (
    sa.select(ORDERS.c.id, ORDERS.c.session_id, ORDERS.c.spec_json, ORDERS.c.outcome_json)
    .where(among(ORDERS.c.id, "ids"), _EMPTY)
    .with_for_update(skip_locked=True)
)
_LAST = (
    sa.select(DRONES.c.name)
    .join(STATE, STATE.c.incarnation == DRONES.c.incarnation)
    .where(STATE.c.order_id == ORDERS.c.id)
    .correlate(ORDERS)
)
_FILL = (
    sa.update(ORDERS)
    .where(ORDERS.c.id == sa.bindparam("of"))
    .values(
        agent=sa.bindparam("new_agent"),
        last_drone=sa.func.coalesce(ORDERS.c.last_drone, _LAST.scalar_subquery()),
        model=sa.func.coalesce(ORDERS.c.model, sa.bindparam("new_model", type_=sa.String())),
        fingerprint=sa.bindparam("new_fingerprint"),
        inbox=sa.bindparam("new_inbox"),
    )
)


class Filling:
    def __init__(self, database: Database) -> None:
        self._database = database

    def advance(self) -> int:
        """Fill in the newest orders that are not; answers how many were, 0 where none are left or others do it."""
        ids = self._database.read(_next)
        # Nearly always there are none, and a read locks nobody out.
        return self._database.write(lambda connection: _fill(connection, ids), repeatable=True) if ids else 0


def _next(connection: Connection) -> list[str]:
    ids: list[str] = []
    size = 0
    for row in connection.execute(_NEXT.limit(ORDERS_AT_ONCE)):
        size += row.size
        if ids and size > BYTES_AT_ONCE:
            break
        ids.append(row.id)
    return ids


def _fill(connection: Connection, ids: list[str]) -> int:
    rows = connection.execute(_WANTED, {"ids": ids}).all()
    if rows:
        connection.execute(_FILL, [_facets(row) for row in rows])
    return len(rows)


def _facets(row: Any) -> dict[str, str | None]:
    spec = parsed(row.spec_json)
    outcome = OrderOutcome.model_validate(parsed(row.outcome_json)) if row.outcome_json else None
    told = told_when_ready(spec.get("on_ask"), row.session_id)
    cause: str | None = None
    if outcome is not None and outcome.status is OrderStatus.CANCELLED:
        told = None
    if outcome is not None and outcome.status is OrderStatus.FAILED:
        told = told_when_failed(outcome.reason, row.session_id)
        cause = fingerprint(outcome.reason, spec.get("agent", "master"), outcome.detail or "")
    return {
        "of": row.id,
        "new_agent": spec.get("agent", "master"),
        "new_model": spec.get("model"),
        "new_fingerprint": cause,
        "new_inbox": told,
    }
