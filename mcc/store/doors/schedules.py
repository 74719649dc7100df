"""Schedules as rows: saved, changed, listed with what comes next and what happened last."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import Actor
from mcc.contracts.ids import fresh_id, is_identifier
from mcc.contracts.schedules import (
    MOST_SCHEDULES,
    NEXT,
    Missed,
    NewSchedule,
    Schedule,
    ScheduleRun,
)
from mcc.contracts.shape import to_json
from mcc.schedules.cron import ZONE_DATA, BadTiming
from mcc.schedules.timing import Timing
from mcc.store.database.clock import micros, moment
from mcc.store.database.engine import Database
from mcc.store.database.errors import (
    BadCursor,
    ScheduleChanged,
    ScheduleNameTaken,
    TooManySchedules,
    UnknownSchedule,
)
from mcc.store.database.tables import SCHEDULE_RUNS, SCHEDULES
from mcc.store.rows.audit import add_note
from mcc.store.rows.order_rows import text_of
from mcc.store.rows.texts import parsed
from mcc.store.rows.values import Page

_NEWEST = sa.select(sa.func.max(SCHEDULE_RUNS.c.instant)).where(SCHEDULE_RUNS.c.schedule_id == SCHEDULES.c.id)
_WITH_LAST = sa.select(*SCHEDULES.c, *(column.label(f"run_{column.name}") for column in SCHEDULE_RUNS.c)).outerjoin(
    SCHEDULE_RUNS,
    sa.and_(
        SCHEDULE_RUNS.c.schedule_id == SCHEDULES.c.id,
        SCHEDULE_RUNS.c.instant == _NEWEST.correlate(SCHEDULES).scalar_subquery(),
    ),
)
_ALL = _WITH_LAST.order_by(SCHEDULES.c.name)
_ONE = _WITH_LAST.where(SCHEDULES.c.id == sa.bindparam("wanted"))
_LOCKED = sa.select(SCHEDULES).where(SCHEDULES.c.id == sa.bindparam("wanted")).with_for_update()
_BY_NAME = sa.select(SCHEDULES.c.id).where(SCHEDULES.c.name == sa.bindparam("named"))
_COUNT = sa.select(sa.func.count()).select_from(SCHEDULES)
_CHANGE = sa.update(SCHEDULES).where(SCHEDULES.c.id == sa.bindparam("wanted"))
_DELETE = sa.delete(SCHEDULES).where(SCHEDULES.c.id == sa.bindparam("wanted"))
_DELETE_RUNS = sa.delete(SCHEDULE_RUNS).where(SCHEDULE_RUNS.c.schedule_id == sa.bindparam("wanted"))
_RUNS = (
    sa.select(SCHEDULE_RUNS)
    .where(SCHEDULE_RUNS.c.schedule_id == sa.bindparam("wanted"), SCHEDULE_RUNS.c.instant < sa.bindparam("before"))
    .order_by(SCHEDULE_RUNS.c.instant.desc())
    .limit(sa.bindparam("most"))
)
_MISSED = (
    sa.select(SCHEDULES.c.name, SCHEDULE_RUNS)
    .join(SCHEDULES, SCHEDULES.c.id == SCHEDULE_RUNS.c.schedule_id)
    .where(SCHEDULE_RUNS.c.outcome == sa.literal_column("'missed'"), SCHEDULE_RUNS.c.instant >= sa.bindparam("since"))
    .order_by(SCHEDULE_RUNS.c.instant.desc())
    .limit(sa.bindparam("most"))
)
_FOR_EVER = 2**62


class ScheduleStore:
    """Every method blocks. `by`: who does it, for the audit."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, new: NewSchedule, *, by: Actor) -> Schedule:
        """A schedule that begins now, whose orders are placed as `by`'s. Raises `TooManySchedules`,
        `ScheduleNameTaken`, and `BadTiming` for a timetable that cannot be."""

        def work(connection: Connection) -> Schedule:
            now = time_of(connection, self._database)
            begun = _begun(new, now)
            schedule_id = fresh_id()
            _refuse_name(connection, begun.name, schedule_id)
            if int(connection.scalar(_COUNT) or 0) >= MOST_SCHEDULES:
                raise TooManySchedules(f"there are {MOST_SCHEDULES:,} schedules, as many as are kept: remove one")
            row = {
                "id": schedule_id,
                "principal": by.principal,
                "created_at": micros(now),
                "version": 1,
                **_saved(schedule_id, begun, by, now),
            }
            connection.execute(sa.insert(SCHEDULES), row)
            _note(connection, now, "schedule.added", by, schedule_id, begun)
            return _shown(connection, schedule_id)

        return self._database.write(work)

    def list(self, *, skip: int = 0, most: int | None = None) -> Sequence[Schedule]:
        """All by their names, or so many of them: a millisecond for each, as its next instants are computed."""
        wanted = _ALL.offset(skip).limit(most)
        rows = self._database.read(lambda connection: connection.execute(wanted).mappings().all())
        return [_schedule(row) for row in rows]

    def get(self, schedule_id: str) -> Schedule:
        """Raises `UnknownSchedule`."""
        return self._database.read(lambda connection: _shown(connection, schedule_id))

    def change(self, schedule_id: str, version: int, changed: NewSchedule, *, by: Actor) -> Schedule:
        """The schedule of this version becomes `changed`, and begins now. Raises `UnknownSchedule`, `ScheduleChanged`,
        `ScheduleNameTaken`, `BadTiming`."""

        def work(connection: Connection) -> Schedule:
            now = time_of(connection, self._database)
            row = _locked(connection, schedule_id)
            if row["version"] != version:
                raise ScheduleChanged(f"somebody has changed the schedule {row['name']} meanwhile: look at it again")
            begun = _begun(changed, now)
            _refuse_name(connection, begun.name, schedule_id)
            values = {"version": version + 1, **_saved(schedule_id, begun, by, now)}
            if begun.session == "new":
                values["session_id"] = None
            connection.execute(_CHANGE, {"wanted": schedule_id, **values})
            paused = {True: "schedule.paused", False: "schedule.resumed"}
            kind = "schedule.changed" if begun.paused == row["paused"] else paused[begun.paused]
            _note(connection, now, kind, by, schedule_id, begun)
            return _shown(connection, schedule_id)

        return self._database.write(work)

    def remove(self, schedule_id: str, *, by: Actor) -> None:
        """Its orders stay, and run on. Raises `UnknownSchedule`."""

        def work(connection: Connection) -> None:
            row = _locked(connection, schedule_id)
            connection.execute(_DELETE_RUNS, {"wanted": schedule_id})
            connection.execute(_DELETE, {"wanted": schedule_id})
            detail = {"schedule": schedule_id, "name": row["name"]}
            now = time_of(connection, self._database)
            add_note(connection, now, "schedule.removed", by=by, order_id=None, detail=detail)

        self._database.write(work)

    def runs(self, schedule_id: str, *, cursor: str | None = None, limit: int = 50) -> Page[ScheduleRun]:
        """Newest first. Raises `UnknownSchedule`, `BadCursor`."""
        if cursor is not None and not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 18):
            raise BadCursor("this cursor is not one that a page of runs gave; begin without one")
        self.get(schedule_id)
        asked = {"wanted": schedule_id, "before": int(cursor or _FOR_EVER), "most": limit + 1}
        rows = self._database.read(lambda connection: connection.execute(_RUNS, asked).mappings().all())
        more = str(rows[limit - 1]["instant"]) if len(rows) > limit else None
        return Page([run_of(row) for row in rows[:limit]], more)

    def missed(self, days: float, most: int = 20) -> Sequence[tuple[str, Missed]]:
        """What was missed in the last `days`, newest first, each with the name of its schedule."""

        def read(connection: Connection) -> Sequence[tuple[str, Missed]]:
            since = micros(time_of(connection, self._database) - timedelta(days=days))
            rows = connection.execute(_MISSED, {"since": since, "most": most}).mappings().all()
            runs = [(row["name"], run_of(row).missed) for row in rows]
            return [(name, missed) for name, missed in runs if missed is not None]

        return self._database.read(read)


def time_of(connection: Connection, database: Database) -> datetime:
    """The database's clock, by which all services agree."""
    return moment(int(connection.scalar(sa.select(database.time.now)) or 0))


def spec_of(row: sa.RowMapping) -> NewSchedule:
    return NewSchedule.model_validate({**parsed(row["spec_json"]), "name": row["name"], "paused": row["paused"]})


def run_of(row: sa.RowMapping, prefix: str = "") -> ScheduleRun:
    instant, count = moment(row[f"{prefix}instant"]), row[f"{prefix}count"]
    missed = None if count is None else Missed(count=count, since=moment(row[f"{prefix}since"]), until=instant)
    return ScheduleRun(
        instant=instant,
        outcome=row[f"{prefix}outcome"],
        order_id=row[f"{prefix}order_id"],
        why=text_of(row[f"{prefix}why_json"]) or "",
        missed=missed,
    )


def upcoming(schedule_id: str, timing: Timing, last: datetime) -> Mapping[str, int | str | None]:
    """The columns that say what comes after the instant `last`."""
    following = next(timing.after(last), None)
    return {
        "last_instant": micros(last),
        "next_instant": None if following is None else micros(following),
        "due_at": None if following is None else micros(timing.due(schedule_id, following)),
        "zone_data": ZONE_DATA,
    }


def _begun(new: NewSchedule, now: datetime) -> NewSchedule:
    """With the moment from which an interval counts, so that it keeps its pace through all changes. Raises `BadTiming`
    where it would end before."""
    if new.every_seconds is None or new.starts_at is not None:
        return new
    starts_at = now.replace(microsecond=0)
    if new.until is not None and new.until < starts_at:
        raise BadTiming("until", "it is over already: an interval without starts_at begins now.")
    return new.model_copy(update={"starts_at": starts_at})


def _saved(schedule_id: str, new: NewSchedule, by: Actor, now: datetime) -> dict[str, Any]:
    """The columns of a schedule that is saved now."""
    timing = Timing.of(new)
    timing.check_jitter(now)
    spec = {name: value for name, value in new if name not in ("name", "paused")}
    columns = {
        "name": new.name,
        "spec_json": to_json(spec).decode(),
        "token_id": by.token_id,
        "paused": new.paused,
        **upcoming(schedule_id, timing, timing.begun(now)),
    }
    return {**columns, "due_at": None} if new.paused else columns


def _locked(connection: Connection, schedule_id: str) -> sa.RowMapping:
    wanted = schedule_id if is_identifier(schedule_id) else ""
    row = connection.execute(_LOCKED, {"wanted": wanted}).mappings().first()
    if row is None:
        raise _unknown()
    return row


def _refuse_name(connection: Connection, name: str, schedule_id: str) -> None:
    if connection.scalar(_BY_NAME, {"named": name}) not in (None, schedule_id):
        raise ScheduleNameTaken(f"there is a schedule {name} already: take another name, or change that one")


def _note(connection: Connection, at: datetime, kind: str, by: Actor, schedule_id: str, saved: NewSchedule) -> None:
    when = saved.cron if saved.cron is not None else f"every {saved.every_seconds} s"
    detail = {"schedule": schedule_id, "name": saved.name, "when": when, "zone": saved.zone}
    add_note(connection, at, kind, by=by, order_id=None, detail=detail)


def _shown(connection: Connection, schedule_id: str) -> Schedule:
    # A malformed id cannot be in the database, and PostgreSQL takes no NUL.
    wanted = schedule_id if is_identifier(schedule_id) else ""
    row = connection.execute(_ONE, {"wanted": wanted}).mappings().first()
    if row is None:
        raise _unknown()
    return _schedule(row)


def _schedule(row: sa.RowMapping) -> Schedule:
    spec = spec_of(row)
    last = moment(row["last_instant"])
    try:
        coming = () if spec.paused else tuple(islice(Timing.of(spec).after(last), NEXT))
    except BadTiming:  # Its zone is not known any more, and has to be changed.
        coming = ()
    return Schedule(
        **dict(spec),
        id=row["id"],
        principal=row["principal"],
        version=row["version"],
        created_at=moment(row["created_at"]),
        next=coming,
        last=None if row["run_instant"] is None else run_of(row, "run_"),
    )


def _unknown() -> UnknownSchedule:
    return UnknownSchedule("there is no such schedule")
