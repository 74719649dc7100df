"""The lock of an order that writes in its workspace, and the line of the orders that want to."""

import json
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.status import OrderStatus
from mcc.store.database.direct import execute_later
from mcc.store.database.tables import JOURNAL, STATE, WORKSPACE_LOCKS, among
from mcc.store.rows.values import WorkspaceHold, above, below

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
        # Otherwise its order is in the line, and writes nowhere.
        WORKSPACE_LOCKS.c.exclusive,
        _IS_LIVE,
    )
    .limit(1)
)
_BEFORE = (
    sa.select(STATE.c.order_id)
    .where(
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
_BEFORE_THERE_OR_ABOVE = _BEFORE.where(among(STATE.c.wants_key, "keys"))
_WAITS_BELOW = sa.and_(among(WORKSPACE_LOCKS.c.workspace_key, "below"), ~WORKSPACE_LOCKS.c.exclusive)
_BEFORE_BELOW = _BEFORE.join(WORKSPACE_LOCKS, WORKSPACE_LOCKS.c.order_id == STATE.c.order_id).where(_WAITS_BELOW)
_TAKE = {
    dialect: sa.text(
        "INSERT INTO workspace_locks (workspace_key, order_id, epoch, exclusive)"
        # Without the WHERE, SQLite would parse ON CONFLICT as the ON of a join.
        f" SELECT value, :by, :epoch, :exclusive FROM {keys} WHERE true"
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
_RELEASE_IN_LINE = _RELEASE.where(WORKSPACE_LOCKS.c.exclusive)
_LEAVE_LINE = _RELEASE.where(~WORKSPACE_LOCKS.c.exclusive)
_ABOVE = sa.select(WORKSPACE_LOCKS.c.workspace_key).where(
    WORKSPACE_LOCKS.c.order_id == sa.bindparam("of"), ~WORKSPACE_LOCKS.c.exclusive
)
_BEHIND = STATE.alias("behind")
_MAY_OVERTAKE = (
    sa.select(_BEHIND.c.order_id)
    .join(STATE, STATE.c.order_id == sa.bindparam("by"))
    .where(
        _BEHIND.c.wants_key.is_not(None),
        sa.or_(
            among(_BEHIND.c.wants_key, "keys"),
            _BEHIND.c.order_id.in_(sa.select(WORKSPACE_LOCKS.c.order_id).where(_WAITS_BELOW)),
        ),
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
    """The first of the orders that want to write in the workspace `key`, since `wants_at`. `since`: when its newest
    entry was written, or when it joined the line if that is later. Times in microseconds."""

    order_id: str
    key: str
    wants_at: int
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
    """The id of an order that wanted to write in this workspace, above or below it, before `since`, the time at which
    this order joined the line; None where there is none."""
    wanted = {"by": order_id, "since": since}
    row = connection.execute(_BEFORE_THERE_OR_ABOVE, {**wanted, "keys": [*hold.keys, *hold.above]}).first()
    row = row or connection.execute(_BEFORE_BELOW, {**wanted, "below": [*map(below, hold.keys)]}).first()
    return None if row is None else str(row.order_id)


def has_lock(connection: Connection, order_id: str, epoch: int, hold: WorkspaceHold) -> bool:
    """Whether the order writes in this workspace already, under this epoch."""
    row = connection.execute(_HELD, {"key": hold.key, "by": order_id, "epoch": epoch}).first()
    return row is not None


def lock_workspace(connection: Connection, order_id: str, epoch: int, hold: WorkspaceHold) -> None:
    """Write the lock of an order that nobody is in the way of."""
    taken = json.dumps(list(dict.fromkeys(hold.taken)))
    row = {"by": order_id, "keys": taken, "epoch": epoch, "exclusive": True}
    execute_later(connection, _TAKE[connection.dialect.name], row)


def stand_in_line(connection: Connection, order_id: str, epoch: int, hold: WorkspaceHold) -> None:
    """Tell those that want to write above this workspace that this order waits below them."""
    if hold.above:
        keys = json.dumps([*map(below, dict.fromkeys(hold.above))])
        row = {"by": order_id, "keys": keys, "epoch": epoch, "exclusive": False}
        execute_later(connection, _TAKE[connection.dialect.name], row)


def leave_line(connection: Connection, order_id: str) -> None:
    """Take back what `stand_in_line` has told."""
    execute_later(connection, _LEAVE_LINE, {"of": order_id})


def unlock_workspace(connection: Connection, order_id: str, *, stays_in_line: bool) -> None:
    """Remove the order's lock on its workspace."""
    execute_later(connection, _RELEASE_IN_LINE if stays_in_line else _RELEASE, {"of": order_id})


def first_in_line(connection: Connection, after: str) -> FirstInLine | None:
    """The first of the next line behind the key `after`."""
    row = connection.execute(_FIRST, {"after": after}).first()
    if row is None:
        return None
    return FirstInLine(row.order_id, row.wants_key, row.wants_at, OrderStatus(row.status), max(row.at, row.wants_at))


def is_free(connection: Connection, first: FirstInLine) -> bool:
    """Whether it is this order's turn: nobody writes in its workspace, above or below it, or came there before it."""
    hold = _wanted(connection, first.order_id, first.key)
    return (
        writer_in_the_way(connection, first.order_id, hold) is None
        and before_in_line(connection, first.order_id, hold, first.wants_at) is None
    )


def others_can_go_first(connection: Connection, order_id: str, key: str) -> bool:
    """Whether an order that may wait for this one, which is queued, is at work already, or is queued elsewhere."""
    hold = _wanted(connection, order_id, key)
    others = {"by": order_id, "keys": [*hold.keys, *hold.above], "below": [*map(below, hold.keys)]}
    return connection.execute(_MAY_OVERTAKE, others).first() is not None


def _wanted(connection: Connection, order_id: str, key: str) -> WorkspaceHold:
    """What an order in the line wants to hold."""
    return WorkspaceHold(key, above=tuple(above(connection.execute(_ABOVE, {"of": order_id}).scalars().all())))
