"""The sweep: requeues orders of lost drones, ends expired orders, resumes due ones and those whose turn it is."""

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import lru_cache, partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.entry import fact_of
from mcc.contracts.git_delivery import DeliveryFinished
from mcc.contracts.journal import ToolFinished
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.status import OrderStatus, sources_of
from mcc.store.database.clock import micros
from mcc.store.database.engine import Database, DatabaseTime
from mcc.store.database.errors import StoreUnavailable
from mcc.store.database.tables import APPROVALS, DRONES, JOURNAL, STATE
from mcc.store.rows.control_rows import controls_of
from mcc.store.rows.inbox_rows import PENDING
from mcc.store.rows.order_rows import OrderState, kept_blobs, lock, write
from mcc.store.rows.texts import digests, whole
from mcc.store.rows.transitions import (
    DOUBT_SECONDS,
    Losses,
    StoreEnding,
    after_loss,
    cancelled_by,
    cancels_order,
    expiry,
    is_progress,
    order_draft,
    requeued,
)
from mcc.store.rows.values import Swept
from mcc.store.rows.views import has_status, in_time, is_status
from mcc.store.work.approvals import settle_overdue
from mcc.store.work.endings import IS_ENDABLE, end_by_store, may_end
from mcc.store.work.leases import CUT, LIVE, LOST
from mcc.store.work.resuming import resume
from mcc.store.work.workspaces import to_wake, wake_first

_BEAT = sa.text(
    "INSERT INTO sweepers (name, beat_at) VALUES (:name, :at)"
    " ON CONFLICT (name) DO UPDATE SET beat_at = excluded.beat_at"
)
_HOLDER = sa.select(DRONES.c.state, DRONES.c.name).where(DRONES.c.incarnation == sa.bindparam("wanted"))
_UNDER_CLAIM = (
    JOURNAL.c.order_id == sa.bindparam("wanted"),
    JOURNAL.c.epoch == sa.bindparam("under"),
    JOURNAL.c.kind == sa.bindparam("kind"),
)
_ANY = sa.select(JOURNAL.c.seq).where(*_UNDER_CLAIM).limit(1)
_DATA = sa.select(JOURNAL.c.kind, JOURNAL.c.data_json, JOURNAL.c.large_json).where(*_UNDER_CLAIM)
_LONG_SECONDS = 1e9
MOST = 500
"""Orders of one kind that one sweep handles; the next sweep comes soon."""


def _some(index: str, by: sa.ColumnElement[Any], *conditions: sa.ColumnElement[bool]) -> sa.Select[str]:
    """A query that names its index: SQLite has no table statistics and would choose one that begins with the status.

    `by`: the column of the index. Because of its order, PostgreSQL chooses the index whatever the parameters are.
    """
    found = sa.select(STATE.c.order_id).where(*conditions).order_by(by).limit(MOST)
    return found.with_hint(STATE, f"INDEXED BY {index}", "sqlite")


_LIVE = sa.select(DRONES.c.incarnation).where(DRONES.c.incarnation == STATE.c.incarnation, DRONES.c.state == LIVE)
_ORPHANED = _some("orders_by_status", STATE.c.order_id, is_status(STATE.c.status, OrderStatus.RUNNING), ~_LIVE.exists())


_NOW = sa.bindparam("now", type_=sa.BigInteger)
_WAITS = is_status(STATE.c.status, OrderStatus.WAITING)
_CAN_EXPIRE = has_status(STATE.c.status, sources_of("expire", "expire_waiting"))
_OLD, _OVER, _BEGINS = STATE.c.expires_at, STATE.c.waits_until, STATE.c.not_before
NEVER_BEGAN = _some("orders_to_expire", _OLD, _CAN_EXPIRE, _OLD <= _NOW, STATE.c.attempt == 0, IS_ENDABLE)
WAITED_TOO_LONG = _some("waiting_orders_over", _OVER, _WAITS, _OVER <= _NOW, IS_ENDABLE)
DUE = _some("waiting_orders_due", _BEGINS, _WAITS, _BEGINS <= _NOW)
"""Orders that expired before they began, that waited too long, and whose waiting time is over."""
_UNDECIDED = (
    sa.select(APPROVALS.c.order_id)
    .where(PENDING, APPROVALS.c.expires_at <= _NOW)
    .order_by(APPROVALS.c.expires_at)
    .limit(MOST)
    .with_hint(APPROVALS, "INDEXED BY items_to_expire", "sqlite")
)
"""Orders with an inbox item that nobody decided in time."""


@lru_cache(maxsize=8)
def _overdue(time: DatabaseTime) -> sa.Select[str]:
    return sa.select(DRONES.c.incarnation).where(DRONES.c.state == LIVE, ~in_time(time))


class Sweeper:
    def __init__(self, database: Database, beats: Database) -> None:
        self._database = database
        self._beats = beats

    def beat(self, sweeper: str) -> None:
        """Write the sweeper's heartbeat. A sweeper whose heartbeats failed must not declare drones lost."""
        row = {"name": sweeper, "at": micros(self._beats.clock.now())}
        self._beats.write(lambda connection: connection.execute(_BEAT, row), repeatable=True)

    def sweep(self, *, may_expire: bool, steady_seconds: float = math.inf) -> Swept:
        """Requeue orders of lost incarnations, end expired orders, resume due ones.

        `may_expire` False: declare no incarnation lost, because the caller's own heartbeat was not steady.
        `steady_seconds`: for how long it has been steady. An incarnation without a heartbeat in that time may only have
        been cut off by an outage: it is declared `cut` a little later, and its orders are requeued without counting a
        loss. An order that cannot be handled does not affect the others.
        """
        # First, so that the orders of those declared lost are found by the queries that follow.
        declared = self._declare_lost(steady_seconds) if may_expire else ()
        orphaned, never_began, waited, due, undecided, first = self._database.read(self._found)
        failures: dict[str, str] = {}
        # Inbox items first: the journal of an order that is also due then holds the missing decision before it resumes.
        settled = list(self._each(undecided, settle_overdue, failures))
        queued = [state.order_id for state in settled if state.status is OrderStatus.QUEUED]
        ended = [state.order_id for state in self._each(dict.fromkeys((*never_began, *waited)), _expire, failures)]
        resumed = queued + [state.order_id for state in self._each(due, _resume, failures)]
        resumed += [state.order_id for state in self._each(first, wake_first, failures)]
        requeued: list[str] = []
        for state in self._each(orphaned, _take_back, failures):
            (requeued if state.status is OrderStatus.QUEUED else ended).append(state.order_id)
        lost = tuple(incarnation for incarnation, _ in declared)
        cut = tuple(incarnation for incarnation, state in declared if state == CUT)
        return Swept(lost, tuple(requeued), tuple(ended), tuple(resumed), cut, failures)

    def _found(self, connection: Connection) -> Sequence[Sequence[str]]:
        now = {"now": int(connection.scalar(sa.select(self._database.time.now)) or 0)}
        wanted = (_ORPHANED, NEVER_BEGAN, WAITED_TOO_LONG, DUE, _UNDECIDED)
        found = [list(dict.fromkeys(connection.execute(query, now).scalars())) for query in wanted]
        return [*found, to_wake(connection, now["now"])]

    def _declare_lost(self, steady_seconds: float) -> Sequence[tuple[str, str]]:
        time = self._database.time
        # Every process sweeps twice a second: nearly always there is nothing to write, and a read locks nobody out.
        if not self._database.read(lambda connection: connection.execute(_overdue(time)).first()):
            return ()
        steady = {"steady": round(min(steady_seconds, _LONG_SECONDS) * 1_000_000)}
        rows = self._database.write(lambda connection: connection.execute(_lose(time), steady).all(), repeatable=True)
        return [(row.incarnation, row.state) for row in rows]

    def _each(
        self,
        order_ids: Iterable[str],
        act: Callable[[Connection, OrderState, datetime, int], OrderState | None],
        failures: dict[str, str],
    ) -> Iterable[OrderState]:
        """Apply `act` to each order, under its lock and in a transaction of its own; yields the orders that it changed.

        Orders that somebody else has locked are skipped. Errors of `act` are added to `failures`.
        """

        def work(connection: Connection, order_id: str) -> OrderState | None:
            # Whoever has it locked changes it just now; the next sweep sees what became of it.
            state = lock(connection, order_id, skip=True)
            if state is None:
                return None
            return act(
                connection,
                state,
                self._database.clock.now(),
                int(connection.scalar(sa.select(self._database.time.now)) or 0),
            )

        for order_id in order_ids:
            try:
                state = self._database.write(partial(work, order_id=order_id))
            # Of the database, not of this order: every further one would wait for it as well.
            except StoreUnavailable:
                raise
            except Exception as problem:
                failures[order_id] = f"{type(problem).__name__}: {problem}"
            else:
                if state is not None:
                    yield state


def _expire(connection: Connection, state: OrderState, at: datetime, now: int) -> OrderState | None:
    waiting = state.status in sources_of("expire_waiting")
    latest = [state.expires_at if state.attempt == 0 else None, state.waits_until if waiting else None]
    late = any(moment is not None and moment <= now for moment in latest)
    # Looked at again under the lock: since the query, it may have been claimed or answered.
    if state.status not in sources_of("expire", "expire_waiting") or not late:
        return None
    return end_by_store(connection, state, expiry(), at)


def _resume(connection: Connection, state: OrderState, at: datetime, now: int) -> OrderState | None:
    if state.status is not OrderStatus.WAITING or state.not_before is None or state.not_before > now:
        return None
    return resume(connection, state, at, "its time has come")


def _take_back(connection: Connection, state: OrderState, at: datetime, now: int) -> OrderState | None:
    """Requeue or end an order whose drone is gone; None if its drone is live or nobody runs it."""
    holder = connection.execute(_HOLDER, {"wanted": state.incarnation}).first()
    if state.status not in sources_of("requeue") or (holder and holder.state == LIVE):
        return None
    lease = holder.state if holder else LOST
    endable = may_end(connection, state)
    controls = controls_of(connection, state.order_id) if state.control_seq else []
    cancel = next((control for control in controls if cancels_order(control)), None)
    if cancel is not None and endable:
        return end_by_store(connection, state, cancelled_by(cancel), at)
    before = Losses(state.takeovers, state.barren)
    in_line = state.wants_key is not None
    losses = after_loss(before, lease, progress=_has_progress(connection, state), in_line=in_line)
    if isinstance(losses, StoreEnding):
        if endable:
            return end_by_store(connection, state, losses, at)
        # An order that only a later version can read is not ended here, however often its drones were lost.
        losses = before
    fact = requeued(state.epoch + 1, (holder.name if holder else state.incarnation) or "", lease)
    release = {"epoch": fact.epoch, "incarnation": None, "claim_token": None}
    counts = {"takeovers": losses.takeovers, "barren": losses.barren}
    return write(connection, state, [order_draft(at, fact)], status=OrderStatus.QUEUED, **release, **counts)


def _has_progress(connection: Connection, state: OrderState) -> bool:
    """Whether the order made progress under its present claim."""
    claim = {"wanted": state.order_id, "under": state.epoch}
    if connection.execute(_ANY, {**claim, "kind": ModelReplied.kind}).first() is not None:
        return True
    kinds = (ToolFinished.kind, DeliveryFinished.kind)
    rows = [row for kind in kinds for row in connection.execute(_DATA, {**claim, "kind": kind})]
    blobs = kept_blobs(connection, digests(row.large_json for row in rows))
    return any(is_progress(fact_of(row.kind, whole(row.data_json, row.large_json, blobs))) for row in rows)


@lru_cache(maxsize=8)
def _lose(time: DatabaseTime) -> sa.UpdateBase:
    """Declares overdue incarnations lost, or cut off; parameter `steady`: microseconds since when the sweeper runs
    without a break."""
    seen = DRONES.c.heartbeat_at >= time.now - sa.bindparam("steady", type_=sa.BigInteger)
    doubt = round(DOUBT_SECONDS * 1_000_000)
    undoubted = sa.or_(DRONES.c.boot != time.boot, DRONES.c.lease_until <= time.uptime - doubt)
    return (
        sa.update(DRONES)
        .where(DRONES.c.state == LIVE, ~in_time(time), sa.or_(seen, undoubted))
        .values(state=sa.case((seen, LOST), else_=CUT))
        .returning(DRONES.c.incarnation, DRONES.c.state)
    )
