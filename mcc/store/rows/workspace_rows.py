"""The lock of an order that writes in its workspace, and the line of the orders that want to."""

import json
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.status import OrderStatus
from mcc.store.database.direct import execute_later
from mcc.store.database.tables import JOURNAL, STATE, WORKSPACE_LOCKS, among
from mcc.store.rows.values import WorkspaceHold

_NAMESPACE = 0x4D4343
# The keys are locked in list order. All transactions sort their lists the same way, so no two can deadlock.
_LOCK_KEYS = sa.text(
    "SELECT pg_advisory_xact_lock(:namespace, hashtext(key))"
    " FROM json_array_elements_text(CAST(:keys AS json)) AS keys (key)"
)
_IS_LIVE = (
    # Neither a join nor EXISTS: a database could begin either of them with all running orders.
    sa.select(STATE.c.status)
    .where(STATE.c.order_id == WORKSPACE_LOCKS.c.order_id, STATE.c.epoch == WORKSPACE_LOCKS.c.epoch)
    .scalar_subquery()
    == OrderStatus.RUNNING.value
)
_IN_THE_WAY = (
    sa.select(WORKSPACE_LOCKS.c.order_id)
    .where(
        among(WORKSPACE_LOCKS.c.workspace_key, "keys"),
        WORKSPACE_LOCKS.c.order_id != sa.bindparam("by"),
        # Drones of earlier versions also lock for orders that only read, which are in nobody's way.
        WORKSPACE_LOCKS.c.exclusive,
        _IS_LIVE,
    )
    .limit(1)
)
_BEFORE = (
    sa.select(STATE.c.order_id)
    .where(
        among(STATE.c.wants_key, "keys"),
        STATE.c.wants_key.is_not(None),
        STATE.c.order_id != sa.bindparam("by"),
        sa.or_(
            sa.bindparam("since", type_=sa.BigInteger).is_(None),
            STATE.c.wants_at < sa.bindparam("since", type_=sa.BigInteger),
            sa.and_(
                STATE.c.wants_at == sa.bindparam("since", type_=sa.BigInteger), STATE.c.order_id < sa.bindparam("by")
            ),
        ),
    )
    .order_by(STATE.c.wants_at, STATE.c.order_id)
    .limit(1)
)
_TAKE = {
    dialect: sa.text(
        "INSERT INTO workspace_locks (workspace_key, order_id, epoch, exclusive)"
        # Without the WHERE, SQLite would parse ON CONFLICT as the ON of a join.
        f" SELECT value, :by, :epoch, true FROM {keys} WHERE true"
        " ON CONFLICT (workspace_key, order_id) DO UPDATE SET epoch = excluded.epoch, exclusive = excluded.exclusive"
    )
    for dialect, keys in {
        "postgresql": "json_array_elements_text(CAST(:keys AS json)) AS keys (value)",
        "sqlite": "json_each(:keys)",
    }.items()
}
"""Inserts all keys with one statement, to save a round trip to the server for each."""
_HELD = sa.select(WORKSPACE_LOCKS.c.order_id).where(
    WORKSPACE_LOCKS.c.workspace_key == sa.bindparam("key"),
    WORKSPACE_LOCKS.c.order_id == sa.bindparam("by"),
    WORKSPACE_LOCKS.c.epoch == sa.bindparam("epoch"),
)
_RELEASE = sa.delete(WORKSPACE_LOCKS).where(WORKSPACE_LOCKS.c.order_id == sa.bindparam("of"))
_BEHIND = STATE.alias("behind")
_MAY_OVERTAKE = (
    sa.select(_BEHIND.c.order_id)
    .join(STATE, STATE.c.order_id == sa.bindparam("by"))
    .where(
        _BEHIND.c.wants_key == sa.bindparam("key"),
        _BEHIND.c.order_id != STATE.c.order_id,
        sa.or_(_BEHIND.c.status == OrderStatus.RUNNING.value, _BEHIND.c.queue != STATE.c.queue),
    )
    .limit(1)
)
_FIRST = (
    sa.select(STATE.c.order_id, STATE.c.wants_key, STATE.c.wants_at, STATE.c.status, JOURNAL.c.at)
    .join(JOURNAL, sa.and_(JOURNAL.c.order_id == STATE.c.order_id, JOURNAL.c.seq == STATE.c.last_seq))
    .where(STATE.c.wants_key.is_not(None), STATE.c.wants_key > sa.bindparam("after"))
    .order_by(STATE.c.wants_key, STATE.c.wants_at, STATE.c.order_id)
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class FirstInLine:
    """The first of the orders that want to write in the workspace `key`. `since`: when its newest entry was written, in
    microseconds, or when it joined the line if that is later."""

    order_id: str
    key: str
    status: OrderStatus
    since: int


def serialize(connection: Connection, hold: WorkspaceHold) -> None:
    """Let no other order acquire this workspace, or one inside the other, until this transaction ends: on PostgreSQL
    by advisory locks on the keys, on SQLite because all writes are serialized."""
    if connection.dialect.name == "postgresql":
        keys = json.dumps(sorted({*hold.keys, *hold.above}))
        execute_later(connection, _LOCK_KEYS, {"namespace": _NAMESPACE, "keys": keys})


def writer_in_the_way(connection: Connection, order_id: str, hold: WorkspaceHold) -> str | None:
    """The id of a running order that writes in this workspace, above or below it; None where there is none."""
    wanted = {"by": order_id, "keys": hold.in_its_way}
    row = connection.execute(_IN_THE_WAY, wanted).first()
    return None if row is None else str(row.order_id)


def before_in_line(connection: Connection, order_id: str, hold: WorkspaceHold, since: int | None) -> str | None:
    """The id of the first order that wanted to write in this workspace, or above it, before `since`, the time at which
    this order joined the line; None where there is none."""
    wanted = {"by": order_id, "keys": [*hold.keys, *hold.above], "since": since}
    row = connection.execute(_BEFORE, wanted).first()
    return None if row is None else str(row.order_id)


def has_lock(connection: Connection, order_id: str, epoch: int, hold: WorkspaceHold) -> bool:
    """Whether the order writes in this workspace already, under this epoch."""
    row = connection.execute(_HELD, {"key": hold.key, "by": order_id, "epoch": epoch}).first()
    return row is not None


def lock_workspace(connection: Connection, order_id: str, epoch: int, hold: WorkspaceHold) -> None:
    """Write the lock of an order that nobody is in the way of."""
    taken = json.dumps(list(dict.fromkeys(hold.taken)))
    execute_later(connection, _TAKE[connection.dialect.name], {"by": order_id, "keys": taken, "epoch": epoch})


def unlock_workspace(connection: Connection, order_id: str) -> None:
    """Remove the order's lock on its workspace."""
    execute_later(connection, _RELEASE, {"of": order_id})


def first_in_line(connection: Connection, after: str) -> FirstInLine | None:
    """The first of the next line behind the key `after`."""
    row = connection.execute(_FIRST, {"after": after}).first()
    if row is None:
        return None
    return FirstInLine(row.order_id, row.wants_key, OrderStatus(row.status), max(row.at, row.wants_at))


def is_free(connection: Connection, first: FirstInLine) -> bool:
    """Whether no running order writes in the workspace or below it. Orders that write above it are not known here."""
    return writer_in_the_way(connection, first.order_id, WorkspaceHold(first.key)) is None


def others_can_go_first(connection: Connection, order_id: str, key: str) -> bool:
    """Whether an order behind this one, which is queued, is at work already, or is queued elsewhere."""
    return connection.execute(_MAY_OVERTAKE, {"by": order_id, "key": key}).first() is not None
