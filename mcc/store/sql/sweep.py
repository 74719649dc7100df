"""This room is for the sweep: orders of lost drones go back in the queue, expired ones end, due ones go on."""

from collections.abc import Callable, Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.journal import OrderRequeued
from mcc.contracts.status import OrderStatus, WaitingReason, sources_of
from mcc.store.clock import micros
from mcc.store.entries import TAKEOVERS, cancelled_by, expired, poisoned, stops_all, told
from mcc.store.ports import Swept
from mcc.store.sql.controls import resume
from mcc.store.sql.endings import end_by_store
from mcc.store.sql.engine import Database
from mcc.store.sql.leases import LIVE, LOST, in_time
from mcc.store.sql.receipts import controls_of
from mcc.store.sql.rows import State, lock, write
from mcc.store.sql.tables import DRONES, STATE
from mcc.store.sql.views import is_any

_BEAT = sa.text(
    "INSERT INTO sweepers (name, beat_at) VALUES (:name, :at)"
    " ON CONFLICT (name) DO UPDATE SET beat_at = excluded.beat_at"
)
_HOLDER = sa.select(DRONES.c.state, DRONES.c.name).where(DRONES.c.incarnation == sa.bindparam("wanted"))
MOST = 500
"""Orders of one kind that one sweep looks after; the next sweep comes soon."""


class SqlSweeper:
    def __init__(self, database: Database, beats: Database) -> None:
        self._database = database
        self._beats = beats
        time = database.time
        self._now = sa.select(time.now)
        self._overdue = sa.select(DRONES.c.incarnation).where(DRONES.c.state == LIVE, ~in_time(time))
        self._lose = (
            sa.update(DRONES)
            .where(DRONES.c.state == LIVE, ~in_time(time))
            .values(state=LOST)
            .returning(DRONES.c.incarnation)
        )
        live = sa.select(DRONES.c.incarnation).where(
            DRONES.c.incarnation == STATE.c.incarnation, DRONES.c.state == LIVE
        )
        self._orphaned = _some(is_any(STATE.c.status, sources_of("requeue")), ~live.exists())
        self._late = _some(
            is_any(STATE.c.status, sources_of("expire", "expire_waiting")),
            sa.or_(
                STATE.c.expires_at <= time.now,
                sa.and_(is_any(STATE.c.status, sources_of("expire_waiting")), STATE.c.waits_until <= time.now),
            ),
        )
        self._due = _some(
            is_any(STATE.c.status, sources_of("resume")),
            STATE.c.reason == WaitingReason.NOT_BEFORE.value,
            STATE.c.not_before <= time.now,
        )

    def beat(self, sweeper: str) -> None:
        row = {"name": sweeper, "at": micros(self._beats.clock.now())}
        self._beats.write(lambda connection: connection.execute(_BEAT, row), repeatable=True)

    def sweep(self, *, may_expire: bool) -> Swept:
        lost = self._declare_lost() if may_expire else ()
        orphaned, late, due = self._database.read(self._found)
        ended = [order_id for order_id in late if self._locked(order_id, _expire)]
        resumed = [order_id for order_id in due if self._locked(order_id, _resume)]
        requeued: list[str] = []
        for order_id in orphaned:
            if state := self._locked(order_id, _take_back):
                (requeued if state.status is OrderStatus.QUEUED else ended).append(order_id)
        return Swept(tuple(lost), tuple(requeued), tuple(ended), tuple(resumed))

    def _declare_lost(self) -> Sequence[str]:
        if not self._database.read(lambda connection: connection.execute(self._overdue).first()):
            return ()
        return self._database.write(lambda connection: connection.execute(self._lose).scalars().all(), repeatable=True)

    def _found(self, connection: Connection) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
        return (
            _ids(connection, self._orphaned),
            _ids(connection, self._late),
            _ids(connection, self._due),
        )

    def _locked(self, order_id: str, act: Callable[[Connection, State, datetime, int], State | None]) -> State | None:
        """`act` on the locked row, each order in a transaction of its own; None when there was nothing left to do."""

        def work(connection: Connection) -> State | None:
            state = lock(connection, order_id, skip=True)
            if state is None:
                return None
            now = int(connection.scalar(self._now) or 0)
            return act(connection, state, self._database.clock.now(), now)

        return self._database.write(work)


def _ids(connection: Connection, statement: sa.Select[str]) -> Sequence[str]:
    return connection.execute(statement).scalars().all()


def _some(*conditions: sa.ColumnElement[bool]) -> sa.Select[str]:
    return sa.select(STATE.c.order_id).where(*conditions).limit(MOST)


def _expire(connection: Connection, state: State, at: datetime, now: int) -> State | None:
    waiting = state.status in sources_of("expire_waiting")
    latest = [state.expires_at, state.waits_until if waiting else None]
    late = any(moment is not None and moment <= now for moment in latest)
    if state.status not in sources_of("expire", "expire_waiting") or not late:
        return None
    return end_by_store(connection, state, expired(), at)


def _resume(connection: Connection, state: State, at: datetime, now: int) -> State | None:
    waits = state.status is OrderStatus.WAITING and state.reason == WaitingReason.NOT_BEFORE.value
    if not waits or state.not_before is None or state.not_before > now:
        return None
    return resume(connection, state, at, "its time has come")


def _take_back(connection: Connection, state: State, at: datetime, now: int) -> State | None:
    """What becomes of an order whose drone is gone."""
    holder = connection.execute(_HOLDER, {"wanted": state.incarnation}).first()
    if state.status not in sources_of("requeue") or (holder and holder.state == LIVE):
        return None
    controls = controls_of(connection, state.order_id) if state.control_seq else []
    cancel = next((control for control in controls if stops_all(control)), None)
    if cancel is not None:
        return end_by_store(connection, state, cancelled_by(cancel), at)
    if state.takeovers >= TAKEOVERS:
        return end_by_store(connection, state, poisoned(state.takeovers), at)
    name = holder.name if holder else state.incarnation
    fact = OrderRequeued(
        epoch=state.epoch + 1, lost=name or "", message=f"drone {name} was lost; another one takes over"
    )
    release = {"epoch": state.epoch + 1, "takeovers": state.takeovers + 1, "incarnation": None, "claim_token": None}
    return write(connection, state, [told(at, fact)], status=OrderStatus.QUEUED, **release)
