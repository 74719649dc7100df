"""Examination of a store for the doctor, and two repairs: stale workspace locks, late controls."""

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.drones import Registration
from mcc.contracts.ids import is_identifier
from mcc.contracts.journal import READABLE_VERSIONS
from mcc.contracts.limits import Limits
from mcc.contracts.status import FINAL, UNFINISHED, OrderStatus
from mcc.store.database.clock import moment, moment_or_none
from mcc.store.database.engine import Database, DatabaseTime
from mcc.store.database.tables import CONTROLS, DRONES, JOURNAL, ORDERS, STATE, SWEEPERS, WORKSPACE_LOCKS, among
from mcc.store.rows.control_rows import IS_OPEN, refuse_open_controls
from mcc.store.rows.order_rows import lock
from mcc.store.rows.texts import parsed
from mcc.store.rows.transitions import ENDED
from mcc.store.rows.values import (
    DOCTOR,
    Examined,
    Health,
    IdleTransaction,
    LateReceipt,
    SeenDrone,
    SeenOrder,
    StaleLock,
)
from mcc.store.rows.views import claimable, first_before, has_status, in_time, is_claimable, is_status
from mcc.store.work.leases import LIVE, SHOWN_SECONDS, counters_of
from mcc.store.work.sweep import DUE, NEVER_BEGAN, WAITED_TOO_LONG

AT_ONCE = 500
"""Ids per query."""

LEFTOVERS = 1_000
"""The most stale locks, and the most late receipts, that one examination lists."""

CHECK_STEPS = 10_000
"""Instructions of SQLite's virtual machine between two checks of the time limit."""

_HELD_NOW = sa.and_(
    STATE.c.order_id == WORKSPACE_LOCKS.c.order_id,
    sa.or_(
        sa.and_(STATE.c.epoch == WORKSPACE_LOCKS.c.epoch, STATE.c.status == OrderStatus.RUNNING.value),
        # The mark of an order in the line outlasts its claims.
        sa.and_(~WORKSPACE_LOCKS.c.exclusive, STATE.c.wants_key.is_not(None)),
    ),
)
_STALE = ~sa.select(STATE.c.order_id).where(_HELD_NOW).exists()
_LOCKS = sa.select(WORKSPACE_LOCKS).where(_STALE).order_by(WORKSPACE_LOCKS.c.order_id).limit(LEFTOVERS)
_UNLOCK = sa.delete(WORKSPACE_LOCKS).where(
    WORKSPACE_LOCKS.c.workspace_key == sa.bindparam("key"),
    WORKSPACE_LOCKS.c.order_id == sa.bindparam("of"),
    WORKSPACE_LOCKS.c.epoch == sa.bindparam("under"),
    _STALE,
)
_RECEIPTS = (
    sa.select(CONTROLS.c.id, CONTROLS.c.order_id, CONTROLS.c.kind)
    .join(STATE, STATE.c.order_id == CONTROLS.c.order_id)
    .where(IS_OPEN, has_status(STATE.c.status, FINAL))
    .order_by(CONTROLS.c.order_id, CONTROLS.c.number)
    .limit(LEFTOVERS)
)
_OPEN = sa.select(CONTROLS.c.id).where(CONTROLS.c.order_id == sa.bindparam("of"), IS_OPEN)
_WAITS = is_status(STATE.c.status, OrderStatus.WAITING)
_IS_QUEUED = has_status(STATE.c.status, frozenset({OrderStatus.QUEUED}))
_OLDEST = {
    status: sa.select(STATE.c.order_id).where(is_status(STATE.c.status, status)).order_by(STATE.c.order_id)
    for status in (OrderStatus.RUNNING, OrderStatus.WAITING, OrderStatus.QUEUED)
}
_COUNTS = {
    status: sa.select(sa.func.count()).select_from(STATE).where(is_status(STATE.c.status, status))
    for status in UNFINISHED - {OrderStatus.QUEUED}
}
_QUEUES = (
    sa.select(STATE.c.queue, sa.func.count().label("orders"), sa.func.min(STATE.c.order_id).label("oldest"))
    .where(_IS_QUEUED)
    .group_by(STATE.c.queue)
)
_ENDLESS = sa.select(STATE.c.order_id).where(_WAITS, STATE.c.waits_until.is_(None), STATE.c.expires_at.is_(None))
_UNREADABLE = sa.select(STATE.c.order_id).where(_IS_QUEUED, STATE.c.journal_version.not_in(READABLE_VERSIONS))
_LATER = STATE.alias("later")
_BEHIND = (
    sa.select(sa.func.count())
    .select_from(_LATER)
    .where(
        _LATER.c.session_id == STATE.c.session_id,
        _LATER.c.session_seq > STATE.c.session_seq,
        has_status(_LATER.c.status, UNFINISHED),
    )
    .correlate(STATE)
    .scalar_subquery()
)
_BLOCKING = sa.select(STATE.c.order_id, _BEHIND.label("behind")).where(_WAITS, _BEHIND > 0)
_BEATEN = sa.select(sa.func.max(SWEEPERS.c.beat_at)).where(SWEEPERS.c.name != DOCTOR)
_IDLE = sa.text(
    "SELECT pid, application_name AS program, extract(epoch FROM clock_timestamp() - state_change) AS seconds,"
    " (SELECT count(*) FROM pg_stat_activity waiting"
    "  WHERE waiting.wait_event_type = 'Lock' AND holder.pid = ANY(pg_blocking_pids(waiting.pid))) AS blocks"
    " FROM pg_stat_activity holder WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND state LIKE 'idle in transaction%' ORDER BY seconds DESC LIMIT 100"
)


class Examiner:
    """Reads the store as a whole; changes nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def look(self, *, limit: int = 1_000) -> Examined:
        """Drones, unfinished orders (at most `limit`, and at most `limit` of each suspicious kind), and leftovers.

        The statements do not share a transaction, so each sees its own moment.
        """
        return self._database.read(lambda connection: self._look(connection, limit))

    def orders(self, order_ids: Sequence[str]) -> Mapping[str, SeenOrder]:
        """The known ones of these orders, ended ones included, by id."""
        ids = [order_id for order_id in dict.fromkeys(order_ids) if is_identifier(order_id)]
        return self._database.read(lambda connection: {one.id: one for one in self._seen(connection, ids)})

    def health(self, *, seconds: float) -> Health:
        """The state of the database itself; SQLite's check of its file is stopped after `seconds`."""
        if self._database.dialect == "sqlite":
            return self._database.read(lambda connection: _quick_check(connection, seconds))
        rows = self._database.read(lambda connection: connection.execute(_IDLE).all())
        return Health(idle=[IdleTransaction(row.pid, row.program, float(row.seconds), row.blocks) for row in rows])

    def _look(self, connection: Connection, limit: int) -> Examined:
        queues = connection.execute(_QUEUES).all()
        counts = {status: int(connection.scalar(count) or 0) for status, count in _COUNTS.items()}
        counts[OrderStatus.QUEUED] = sum(row.orders for row in queues)
        held_up = {row.order_id: row.behind for row in connection.execute(_BLOCKING.limit(limit))}
        suspicious = [held_up, *self._suspicious(connection, limit)]
        ids = [*self._oldest(connection, limit), *chain(*suspicious), *self._next(connection, queues, limit)]
        orders = [order for order in self._seen(connection, list(dict.fromkeys(ids))) if order.status in UNFINISHED]
        drones = [_drone(row) for row in connection.execute(_drones(self._database.time)).mappings()]
        locks = [
            StaleLock(row.workspace_key, row.order_id, row.epoch, row.exclusive) for row in connection.execute(_LOCKS)
        ]
        receipts = [LateReceipt(row.id, row.order_id, row.kind) for row in connection.execute(_RECEIPTS)]
        beaten = connection.execute(_BEATEN).scalar()
        return Examined(
            now=moment(connection.execute(sa.select(self._database.time.now)).scalar_one()),
            drones=drones,
            orders=orders,
            # Only of the suspicious kinds: those that are well may be left out of what is looked at.
            whole=all(len(kind) < limit for kind in suspicious),
            counts={status: count for status, count in counts.items() if count},
            queued={row.queue: row.orders for row in queues},
            held_up=held_up,
            locks=locks,
            receipts=receipts,
            swept_at=None if beaten is None else moment(beaten),
        )

    def _oldest(self, connection: Connection, limit: int) -> Iterator[str]:
        """The oldest unfinished orders: running ones, then waiting ones, then queued ones; `limit` in total."""
        for oldest in _OLDEST.values():
            found = connection.execute(oldest.limit(limit)).scalars().all() if limit else []
            yield from found
            limit -= len(found)

    def _suspicious(self, connection: Connection, limit: int) -> Iterator[Sequence[str]]:
        """Ids of orders that may have a problem, kind by kind; each kind is found by an index of its own."""
        now = {"now": connection.scalar(sa.select(self._database.time.now))}
        for found in (NEVER_BEGAN, WAITED_TOO_LONG, DUE, _ENDLESS, _UNREADABLE):
            yield connection.execute(found.limit(limit), now).scalars().all()

    def _next(self, connection: Connection, queues: Sequence[Any], limit: int) -> Iterator[str]:
        """For each queue, the orders that should be claimed next, and the oldest one."""
        for row in queues:
            first = connection.execute(claimable(self._database.time, limit), {"wanted": row.queue})
            yield from (one.order_id for one in first)
            yield row.oldest

    def _seen(self, connection: Connection, order_ids: Sequence[str]) -> Iterator[SeenOrder]:
        """The known ones of these orders, in this sequence."""
        statement = _orders(self._database.time)
        for start in range(0, len(order_ids), AT_ONCE):
            ids = order_ids[start : start + AT_ONCE]
            rows = {row["order_id"]: row for row in connection.execute(statement, {"ids": ids}).mappings()}
            yield from (_order(rows[order_id]) for order_id in ids if order_id in rows)


class Mender:
    """Removes leftovers; never touches anything that a running order uses."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def unlock(self, stale: StaleLock) -> bool:
        """Remove a stale lock; False if it is gone, or no longer stale."""
        row = {"key": stale.workspace_key, "of": stale.order_id, "under": stale.epoch}

        def work(connection: Connection) -> bool:
            # The order's row first: a claim that is just being made takes this lock before that of its workspace.
            lock(connection, stale.order_id)
            return connection.execute(_UNLOCK, row).rowcount == 1

        return self._database.write(work)

    def settle(self, order_id: str) -> int:
        """Refuse the controls that are still open although the order has ended; answers how many."""

        def work(connection: Connection) -> int:
            state = lock(connection, order_id)
            if state is None or state.status not in FINAL:
                return 0
            late = connection.execute(_OPEN, {"of": order_id}).all()
            refuse_open_controls(connection, order_id, ENDED)
            return len(late)

        return self._database.write(work) if is_identifier(order_id) else 0


@lru_cache(maxsize=8)
def _drones(time: DatabaseTime) -> sa.Select[Any]:
    """Incarnations with a heartbeat within a day, live ones, and those that a running order names."""
    named = sa.select(STATE.c.incarnation).where(
        is_status(STATE.c.status, OrderStatus.RUNNING), STATE.c.incarnation.is_not(None)
    )
    return (
        sa.select(DRONES, in_time(time).label("in_time"))
        .where(
            sa.or_(
                DRONES.c.heartbeat_at > time.now - SHOWN_SECONDS * 1_000_000,
                DRONES.c.state == LIVE,
                DRONES.c.incarnation.in_(named),
            )
        )
        .order_by(DRONES.c.name, DRONES.c.started_at, DRONES.c.incarnation)
    )


@lru_cache(maxsize=8)
def _orders(time: DatabaseTime) -> sa.Select[Any]:
    """The rows of `SeenOrder` for the orders `ids`."""
    newest = JOURNAL.alias("newest")
    moved = JOURNAL.alias("moved")
    moved_at = (
        sa.select(moved.c.at)
        .where(moved.c.order_id == STATE.c.order_id, moved.c.kind.like("order.%"))
        .order_by(moved.c.seq.desc())
        .limit(1)
        .correlate(STATE)
        .scalar_subquery()
    )
    last = sa.and_(newest.c.order_id == STATE.c.order_id, newest.c.seq == STATE.c.last_seq)
    return (
        sa.select(
            STATE,
            ORDERS.c.spec_json,
            ORDERS.c.created_at,
            newest.c.at.label("last_at"),
            moved_at.label("moved_at"),
            first_before().label("blocked_by"),
            is_claimable(time).label("claimable"),
        )
        .select_from(STATE.join(ORDERS, ORDERS.c.id == STATE.c.order_id).outerjoin(newest, last))
        .where(among(STATE.c.order_id, "ids"))
    )


def _order(row: sa.RowMapping) -> SeenOrder:
    status = OrderStatus(row["status"])
    return SeenOrder(
        id=row["order_id"],
        session_id=row["session_id"],
        queue=row["queue"],
        priority=row["priority"],
        status=status,
        reason=row["reason"],
        epoch=row["epoch"],
        incarnation=row["incarnation"] if status is OrderStatus.RUNNING else None,
        last_seq=row["last_seq"],
        not_before=moment_or_none(row["not_before"]),
        expires_at=moment_or_none(row["expires_at"]) if row["attempt"] == 0 else None,
        waits_until=moment_or_none(row["waits_until"]),
        moved_at=moment(row["moved_at"] or row["created_at"]),
        last_entry_at=moment(row["last_at"] or row["created_at"]),
        claimable=bool(row["claimable"]),
        blocked_by=row["blocked_by"] if status is OrderStatus.QUEUED else None,
        limits=Limits.model_validate(parsed(row["spec_json"]).get("limits") or {}),
    )


def _drone(row: sa.RowMapping) -> SeenDrone:
    registration = Registration.model_validate(parsed(row["registration_json"]))
    return SeenDrone(
        incarnation=registration.incarnation,
        name=registration.name,
        host=registration.host,
        pid=registration.pid,
        queues=registration.queues,
        slots=registration.slots,
        active=row["active"],
        draining=bool(row["draining"]),
        state=row["state"],
        in_time=bool(row["in_time"]),
        started_at=moment(row["started_at"]),
        heartbeat_at=moment(row["heartbeat_at"]),
        counters=counters_of(row),
    )


def _quick_check(connection: Connection, seconds: float) -> Health:
    with _interrupted_after(connection, seconds) as raw:
        try:
            lines = [str(row[0]) for row in raw.execute("PRAGMA quick_check(20)")]
        except sqlite3.OperationalError as error:
            if "interrupted" in str(error):
                return Health(checked=False)
            raise
        except sqlite3.DatabaseError as error:
            return Health(problems=[str(error)])
    return Health(problems=[line for line in lines if line != "ok"])


@contextmanager
def _interrupted_after(connection: Connection, seconds: float) -> Iterator[sqlite3.Connection]:
    """The driver's connection, which interrupts statements when `seconds` are over."""
    raw = connection.connection.driver_connection
    assert isinstance(raw, sqlite3.Connection)
    until = time.monotonic() + seconds
    raw.set_progress_handler(lambda: time.monotonic() > until, CHECK_STEPS)
    try:
        yield raw
    finally:
        # The connection goes back to its pool: the next statement on it must not be interrupted.
        raw.set_progress_handler(None, 0)
