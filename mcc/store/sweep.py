"""The sweep: orders of lost drones go back in the queue, expired ones end, due ones go on."""

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import lru_cache, partial

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.entry import fact_of
from mcc.contracts.journal import ToolFinished
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.status import OrderStatus, sources_of
from mcc.store.approvals import settle_overdue
from mcc.store.claims import resume
from mcc.store.clock import micros
from mcc.store.control_rows import controls_of
from mcc.store.endings import IS_ENDABLE, end_by_store, may_end
from mcc.store.engine import Database, DatabaseTime
from mcc.store.errors import StoreUnavailable
from mcc.store.inbox_rows import PENDING
from mcc.store.inbox_tables import APPROVALS
from mcc.store.leases import CUT, LIVE, LOST, in_time
from mcc.store.rows import State, kept_blobs, lock, write
from mcc.store.tables import DRONES, JOURNAL, STATE
from mcc.store.texts import digests, whole
from mcc.store.transitions import (
    DOUBT_SECONDS,
    Counted,
    Verdict,
    after_loss,
    cancelled_by,
    expiry,
    is_progress,
    order_draft,
    requeued,
    stops_all,
)
from mcc.store.values import Swept
from mcc.store.views import has_status, is_status

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
"""Orders of one kind that one sweep looks after; the next sweep comes soon."""


def _some(index: str, *conditions: sa.ColumnElement[bool]) -> sa.Select[str]:
    """SQLite, which does not count what is in a table, would take another index, one that begins with the status."""
    found = sa.select(STATE.c.order_id).where(*conditions).limit(MOST)
    return found.with_hint(STATE, f"INDEXED BY {index}", "sqlite")


_LIVE = sa.select(DRONES.c.incarnation).where(DRONES.c.incarnation == STATE.c.incarnation, DRONES.c.state == LIVE)
_ORPHANED = _some("orders_by_status", is_status(STATE.c.status, OrderStatus.RUNNING), ~_LIVE.exists())


_NOW = sa.bindparam("now", type_=sa.BigInteger)
"""Given as a number, of which a database knows how many times are before it; of a clock that moves it knows nothing."""
_WAITS = is_status(STATE.c.status, OrderStatus.WAITING)
_CAN_EXPIRE = has_status(STATE.c.status, sources_of("expire", "expire_waiting"))
NEVER_BEGAN = _some("orders_to_expire", _CAN_EXPIRE, STATE.c.expires_at <= _NOW, STATE.c.attempt == 0, IS_ENDABLE)
WAITED_TOO_LONG = _some("waiting_orders_over", _WAITS, STATE.c.waits_until <= _NOW, IS_ENDABLE)
DUE = _some("waiting_orders_due", _WAITS, STATE.c.not_before <= _NOW)
"""Orders that never began in time, that waited for too long, and that have waited until the time that they named."""
_UNDECIDED = (
    sa.select(APPROVALS.c.order_id)
    .where(PENDING, APPROVALS.c.expires_at <= _NOW)
    .distinct()
    .limit(MOST)
    .with_hint(APPROVALS, "INDEXED BY items_to_expire", "sqlite")
)
"""Orders of which an item of the inbox was not decided in time."""


@lru_cache(maxsize=8)
def _overdue(time: DatabaseTime) -> sa.Select[str]:
    return sa.select(DRONES.c.incarnation).where(DRONES.c.state == LIVE, ~in_time(time))


class Sweeper:
    def __init__(self, database: Database, beats: Database) -> None:
        self._database = database
        self._beats = beats

    def beat(self, sweeper: str) -> None:
        """One small write of its own; a sweeper whose beats failed must not declare others lost."""
        row = {"name": sweeper, "at": micros(self._beats.clock.now())}
        self._beats.write(lambda connection: connection.execute(_BEAT, row), repeatable=True)

    def sweep(self, *, may_expire: bool, steady_seconds: float = math.inf) -> Swept:
        """Requeue orders of lost incarnations, end expired ones, resume due ones.

        `may_expire` False: do not declare incarnations lost (the caller's own heartbeat has not been steady).
        `steady_seconds`: for how long it has been. An incarnation that was not heard of in that time may only have been
        cut off by an outage: it is declared so a little later, and its orders go back without being counted as lost.
        An order that cannot be looked after does not keep the others from it.
        """
        declared = self._declare_lost(steady_seconds) if may_expire else ()
        orphaned, never_began, waited, due, undecided = self._database.read(self._found)
        troubled: dict[str, str] = {}
        # First, so that an order which also goes on by the clock knows what it was not told.
        settled = list(self._each(undecided, settle_overdue, troubled))
        queued = [state.order_id for state in settled if state.status is OrderStatus.QUEUED]
        ended = [state.order_id for state in self._each(dict.fromkeys((*never_began, *waited)), _expire, troubled)]
        resumed = queued + [state.order_id for state in self._each(due, _resume, troubled)]
        requeued: list[str] = []
        for state in self._each(orphaned, _take_back, troubled):
            (requeued if state.status is OrderStatus.QUEUED else ended).append(state.order_id)
        lost = tuple(incarnation for incarnation, _ in declared)
        cut = tuple(incarnation for incarnation, state in declared if state == CUT)
        return Swept(lost, tuple(requeued), tuple(ended), tuple(resumed), cut, troubled)

    def _found(self, connection: Connection) -> Sequence[Sequence[str]]:
        now = {"now": connection.scalar(sa.select(self._database.time.now))}
        wanted = (_ORPHANED, NEVER_BEGAN, WAITED_TOO_LONG, DUE, _UNDECIDED)
        return [connection.execute(found, now).scalars().all() for found in wanted]

    def _declare_lost(self, steady_seconds: float) -> Sequence[tuple[str, str]]:
        time = self._database.time
        if not self._database.read(lambda connection: connection.execute(_overdue(time)).first()):
            return ()
        asked = {"steady": round(min(steady_seconds, _LONG_SECONDS) * 1_000_000)}
        rows = self._database.write(lambda connection: connection.execute(_lose(time), asked).all(), repeatable=True)
        return [(row.incarnation, row.state) for row in rows]

    def _each(
        self,
        order_ids: Iterable[str],
        act: Callable[[Connection, State, datetime, int], State | None],
        troubled: dict[str, str],
    ) -> Iterable[State]:
        """The orders that `act` changed, each under its lock and in a transaction of its own."""

        def work(connection: Connection, order_id: str) -> State | None:
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
            except StoreUnavailable:
                raise
            except Exception as problem:
                troubled[order_id] = f"{type(problem).__name__}: {problem}"
            else:
                if state is not None:
                    yield state


def _expire(connection: Connection, state: State, at: datetime, now: int) -> State | None:
    waiting = state.status in sources_of("expire_waiting")
    latest = [state.expires_at if state.attempt == 0 else None, state.waits_until if waiting else None]
    late = any(moment is not None and moment <= now for moment in latest)
    if state.status not in sources_of("expire", "expire_waiting") or not late:
        return None
    return end_by_store(connection, state, expiry(), at)


def _resume(connection: Connection, state: State, at: datetime, now: int) -> State | None:
    if state.status is not OrderStatus.WAITING or state.not_before is None or state.not_before > now:
        return None
    return resume(connection, state, at, "its time has come")


def _take_back(connection: Connection, state: State, at: datetime, now: int) -> State | None:
    """What becomes of an order whose drone is gone."""
    holder = connection.execute(_HOLDER, {"wanted": state.incarnation}).first()
    if state.status not in sources_of("requeue") or (holder and holder.state == LIVE):
        return None
    lease = holder.state if holder else LOST
    endable = may_end(connection, state)
    controls = controls_of(connection, state.order_id) if state.control_seq else []
    cancel = next((control for control in controls if stops_all(control)), None)
    if cancel is not None and endable:
        return end_by_store(connection, state, cancelled_by(cancel), at)
    before = Counted(state.takeovers, state.barren)
    counted = after_loss(before, lease, progress=_has_progress(connection, state))
    if isinstance(counted, Verdict):
        if endable:
            return end_by_store(connection, state, counted, at)
        counted = before
    fact = requeued(state.epoch + 1, (holder.name if holder else state.incarnation) or "", lease)
    release = {"epoch": fact.epoch, "incarnation": None, "claim_token": None}
    counts = {"takeovers": counted.takeovers, "barren": counted.barren}
    return write(connection, state, [order_draft(at, fact)], status=OrderStatus.QUEUED, **release, **counts)


def _has_progress(connection: Connection, state: State) -> bool:
    """Whether anything under this claim got the order further."""
    asked = {"wanted": state.order_id, "under": state.epoch}
    if connection.execute(_ANY, {**asked, "kind": ModelReplied.kind}).first() is not None:
        return True
    rows = connection.execute(_DATA, {**asked, "kind": ToolFinished.kind}).all()
    blobs = kept_blobs(connection, digests(row.large_json for row in rows))
    return any(is_progress(fact_of(row.kind, whole(row.data_json, row.large_json, blobs))) for row in rows)


@lru_cache(maxsize=8)
def _lose(time: DatabaseTime) -> sa.UpdateBase:
    """Parameter `steady`: for how many microseconds the sweeper has been there."""
    seen = DRONES.c.heartbeat_at >= time.now - sa.bindparam("steady", type_=sa.BigInteger)
    doubt = round(DOUBT_SECONDS * 1_000_000)
    undoubted = sa.or_(DRONES.c.boot != time.boot, DRONES.c.lease_until <= time.uptime - doubt)
    return (
        sa.update(DRONES)
        .where(DRONES.c.state == LIVE, ~in_time(time), sa.or_(seen, undoubted))
        .values(state=sa.case((seen, LOST), else_=CUT))
        .returning(DRONES.c.incarnation, DRONES.c.state)
    )
