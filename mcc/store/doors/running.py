"""Runs of schedules as rows, within the transaction that fires a schedule."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.schedules import Missed, ScheduleRun
from mcc.contracts.status import UNFINISHED, OrderStatus
from mcc.store.database.clock import micros, moment
from mcc.store.database.errors import StoreRefused
from mcc.store.database.tables import SCHEDULE_RUNS, STATE
from mcc.store.rows.control_rows import controls_of
from mcc.store.rows.order_rows import text_json
from mcc.store.rows.transitions import cancels_order
from mcc.store.work.controls import requested

KEPT_DAYS = 90
"""How long runs are kept, but for those whose order is unfinished or that wait for room."""

_OF_SCHEDULE = SCHEDULE_RUNS.c.schedule_id == sa.bindparam("wanted")
_HELD = SCHEDULE_RUNS.c.outcome == sa.literal_column("'held'")
# As the partial indexes spell it: SQLite would not use one for `is_open = 1`.
_IS_OPEN = sa.text("schedule_runs.is_open")
_OPEN = (
    sa.select(SCHEDULE_RUNS.c.instant, SCHEDULE_RUNS.c.order_id, STATE.c.status)
    .outerjoin(STATE, STATE.c.order_id == SCHEDULE_RUNS.c.order_id)
    .where(_OF_SCHEDULE, _IS_OPEN)
    .order_by(SCHEDULE_RUNS.c.instant)
)
_CLOSE = (
    sa.update(SCHEDULE_RUNS)
    .where(_OF_SCHEDULE, SCHEDULE_RUNS.c.instant == sa.bindparam("at_instant"))
    .values(is_open=False)
)
_COUNT_HELD = sa.select(sa.func.count()).select_from(SCHEDULE_RUNS).where(_OF_SCHEDULE, _HELD)
_FIRST_HELD = sa.select(sa.func.min(SCHEDULE_RUNS.c.instant)).where(_OF_SCHEDULE, _HELD)
_PREVIOUS = (
    sa.select(SCHEDULE_RUNS.c.instant, SCHEDULE_RUNS.c.order_id, STATE.c.status)
    .outerjoin(STATE, STATE.c.order_id == SCHEDULE_RUNS.c.order_id)
    .where(_OF_SCHEDULE, SCHEDULE_RUNS.c.order_id.is_not(None))
    .order_by(SCHEDULE_RUNS.c.instant.desc())
    .limit(1)
)
_MORE_MISSED = (
    sa.update(SCHEDULE_RUNS)
    .where(
        _OF_SCHEDULE,
        SCHEDULE_RUNS.c.instant == sa.bindparam("at_instant"),
        SCHEDULE_RUNS.c.outcome == sa.literal_column("'missed'"),
    )
    .values(instant=sa.bindparam("until"), count=SCHEDULE_RUNS.c.count + sa.bindparam("more"))
)
# As the database itself notes that such a run was added.
_TELL_MISSED = sa.text(
    "INSERT INTO webhook_events (order_id, seq, kind) SELECT :schedule, :until, 'schedule.missed' WHERE EXISTS"
    " (SELECT 1 FROM webhook_endpoints WHERE off_at IS NULL AND secrets_json IS NOT NULL AND url IS NOT NULL)"
)
_SETTLE_HELD = (
    sa.update(SCHEDULE_RUNS)
    .where(_OF_SCHEDULE, SCHEDULE_RUNS.c.instant == sa.bindparam("at_instant"), _HELD)
    .values({name: sa.bindparam(f"new_{name}") for name in ("outcome", "order_id", "why_json", "is_open")})
)
_FORGET = sa.delete(SCHEDULE_RUNS).where(
    _OF_SCHEDULE,
    SCHEDULE_RUNS.c.instant < sa.bindparam("before"),
    SCHEDULE_RUNS.c.is_open.is_(False),
    sa.not_(_HELD),
)


def unfinished(connection: Connection, schedule_id: str, *, closing: bool = False) -> Sequence[str]:
    """Ids of its runs' orders that are unfinished, oldest first. `closing`: the others are not looked at again."""
    rows = connection.execute(_OPEN, {"wanted": schedule_id}).all()
    ended = [row for row in rows if row.status is None or OrderStatus(row.status) not in UNFINISHED]
    if closing and ended:
        connection.execute(_CLOSE, [{"wanted": schedule_id, "at_instant": row.instant} for row in ended])
    return [row.order_id for row in rows if row not in ended]


def held_runs(connection: Connection, schedule_id: str) -> int:
    return int(connection.scalar(_COUNT_HELD, {"wanted": schedule_id}) or 0)


def first_held(connection: Connection, schedule_id: str) -> datetime | None:
    instant = connection.scalar(_FIRST_HELD, {"wanted": schedule_id})
    return None if instant is None else moment(instant)


def previous_run(connection: Connection, schedule_id: str) -> Mapping[str, str | None]:
    """The newest run that has an order, as expressions see it; all null where there is none."""
    row = connection.execute(_PREVIOUS, {"wanted": schedule_id}).first()
    if row is None:
        return {"instant": None, "order_id": None, "status": None}
    return {"instant": as_text(moment(row.instant)), "order_id": row.order_id, "status": row.status}


def as_text(instant: datetime) -> str:
    return instant.isoformat().replace("+00:00", "Z")


def add_run(connection: Connection, schedule_id: str, run: ScheduleRun) -> None:
    """Raises for a second run of the same instant, which the key forbids."""
    columns = {
        "outcome": run.outcome,
        "order_id": run.order_id,
        "why_json": text_json(run.why or None),
        "is_open": run.order_id is not None,
    }
    connection.execute(
        sa.insert(SCHEDULE_RUNS), {"schedule_id": schedule_id, "instant": micros(run.instant), **columns}
    )


def settle_held(connection: Connection, schedule_id: str, run: ScheduleRun) -> None:
    """What became of a run that was held."""
    values = {
        "new_outcome": run.outcome,
        "new_order_id": run.order_id,
        "new_why_json": text_json(run.why or None),
        "new_is_open": run.order_id is not None,
    }
    at = {"wanted": schedule_id, "at_instant": micros(run.instant)}
    connection.execute(_SETTLE_HELD, {**at, **values})


def add_missed(connection: Connection, schedule_id: str, missed: Missed, last: datetime) -> None:
    """One run for all of them, joined with the one that was told just before, up to the instant `last`."""
    joined = {"wanted": schedule_id, "at_instant": micros(last), "until": micros(missed.until), "more": missed.count}
    if connection.execute(_MORE_MISSED, joined).rowcount:
        connection.execute(_TELL_MISSED, {"schedule": schedule_id, "until": micros(missed.until)})
        return
    row = {"instant": micros(missed.until), "since": micros(missed.since), "count": missed.count, "outcome": "missed"}
    connection.execute(sa.insert(SCHEDULE_RUNS), {"schedule_id": schedule_id, "is_open": False, **row})


def forget_old(connection: Connection, schedule_id: str, now: datetime) -> None:
    before = micros(now - timedelta(days=KEPT_DAYS))
    connection.execute(_FORGET, {"wanted": schedule_id, "before": before})


def cancel_all(connection: Connection, order_ids: Sequence[str], reason: str, by: Actor, at: datetime) -> Sequence[str]:
    """Cancel these orders; answers those that were not cancelled before."""
    cancelled: list[str] = []
    # In the order of their ids, as everybody locks several orders.
    for order_id in sorted(order_ids):
        if any(map(cancels_order, controls_of(connection, order_id))):
            continue
        try:
            requested(connection, order_id, ControlKind.CANCEL, NewControl(reason=reason), by, at)
        except StoreRefused:  # It has ended meanwhile.
            continue
        cancelled.append(order_id)
    return cancelled
