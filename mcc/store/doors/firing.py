"""Firing schedules: what is due, and the transaction that places an order for an instant and moves on.

No instant is run twice, however many services look: the run's row has the instant in its key, and each step is taken
only from the instant that it was planned from. None is passed over: a schedule moves on with what was done alone.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import Actor
from mcc.contracts.ids import is_identifier
from mcc.contracts.order import NewOrder
from mcc.contracts.schedules import MOST_HELD, NewSchedule, ScheduleRun
from mcc.documents import change
from mcc.documents.blueprint import Blueprint
from mcc.schedules.catching_up import ScheduleStep, next_step
from mcc.schedules.cron import ZONE_DATA, BadTiming
from mcc.schedules.timing import Timing
from mcc.store.database.clock import CLOCKS_DIFFER, id_at, micros, moment
from mcc.store.database.engine import Database
from mcc.store.database.errors import BadEntry, SomeRefused, StoreRefused, UnknownSchedule
from mcc.store.database.tables import AUDIT, SCHEDULE_RUNS, SCHEDULES, SESSIONS
from mcc.store.documents.changes import OpenChanges
from mcc.store.doors.running import (
    add_missed,
    add_run,
    cancel_all,
    first_held,
    forget_old,
    held_runs,
    previous_run,
    settle_held,
    unfinished,
)
from mcc.store.doors.schedules import run_of, spec_of, time_of, upcoming
from mcc.store.rows.actors import token_name
from mcc.store.rows.audit import add_note
from mcc.store.rows.order_rows import text_of
from mcc.store.rows.session_rows import IS_THERE
from mcc.store.rows.texts import parsed, text_digest
from mcc.store.rows.transitions import IDEMPOTENCY_HOURS
from mcc.store.work.document_orders import OrderedDocument, ordered_document
from mcc.store.work.documents import DocumentStore
from mcc.store.work.orders import OrderStore
from mcc.store.work.placing import Placing

AT_ONCE = 50
"""Schedules that are looked at in one round."""

_SCHEDULE = sa.select(SCHEDULES, token_name(SCHEDULES))
_DUE = (
    _SCHEDULE.where(SCHEDULES.c.due_at <= sa.bindparam("now")).order_by(SCHEDULES.c.due_at).limit(sa.bindparam("most"))
)
_WITH_HELD = _SCHEDULE.where(
    SCHEDULES.c.id.in_(
        sa.select(SCHEDULE_RUNS.c.schedule_id).where(SCHEDULE_RUNS.c.outcome == sa.literal_column("'held'"))
    ),
    SCHEDULES.c.paused.is_(False),
)
_ONE = _SCHEDULE.where(SCHEDULES.c.id == sa.bindparam("wanted"))
_AS_PLANNED = (
    sa.select(SCHEDULES.c.session_id)
    .where(
        SCHEDULES.c.id == sa.bindparam("wanted"),
        SCHEDULES.c.version == sa.bindparam("planned_version"),
        SCHEDULES.c.last_instant == sa.bindparam("planned_last"),
    )
    .with_for_update()
)
_MOVE_ON = sa.update(SCHEDULES).where(SCHEDULES.c.id == sa.bindparam("wanted"))
_OLD_ZONES = _SCHEDULE.where(SCHEDULES.c.due_at.is_not(None), SCHEDULES.c.zone_data < ZONE_DATA)
_ASKED = (
    sa.select(AUDIT.c.detail_json)
    .where(
        AUDIT.c.principal == sa.bindparam("who"),
        AUDIT.c.kind == sa.literal_column("'schedule.run'"),
        AUDIT.c.id >= sa.bindparam("lowest"),
        AUDIT.c.at >= sa.bindparam("since", type_=sa.BigInteger),
        # Not one after the other here: a person may have had many runs within a day.
        AUDIT.c.detail_json.like(sa.bindparam("having")),
    )
    .order_by(AUDIT.c.id.desc())
)
_AT_INSTANT = sa.select(SCHEDULE_RUNS).where(
    SCHEDULE_RUNS.c.schedule_id == sa.bindparam("wanted"), SCHEDULE_RUNS.c.instant == sa.bindparam("at_instant")
)
_SESSION = sa.select(SESSIONS.c.id).where(SESSIONS.c.id == sa.bindparam("wanted"), IS_THERE)

RunKind = Literal["due", "held", "asked"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DueRun:
    """A step of a schedule, as planned: the instant that is run, None: only others are passed over.

    `kind`: it is due, was held until there is room, or somebody asked for it now. `by`: as whose its order is placed.
    `last`, `version`: what it was planned from. `previous`: the run before it, as expressions see it. `key`: by which
    who asked for it will know it again.
    """

    schedule_id: str
    spec: NewSchedule
    kind: RunKind
    by: Actor
    version: int
    last: datetime
    now: datetime
    instant: datetime | None
    previous: Mapping[str, str | None]
    session_id: str | None = None
    step: ScheduleStep | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """The order of a run, with the blueprint that it names. `new` None: it cannot be placed, and `why`. `anybodys`: it
    may control a turn that somebody else placed."""

    new: NewOrder | None
    blueprint: Blueprint | None = None
    why: str = ""
    anybodys: bool = False


NOTHING = PreparedRun(None)


@dataclass(frozen=True, slots=True)
class FiredRun:
    """What was done: the run, None where others were only passed over; the orders that made way for it; the session
    that it has begun, where all of its orders are turns of one. `is_known`: it is that of an earlier request with the
    same key, and nothing was done."""

    run: ScheduleRun | None
    cancelled: Sequence[str] = ()
    session_id: str | None = None
    is_known: bool = False


class Firing:
    """Every method blocks."""

    def __init__(self, database: Database, orders: OrderStore, documents: DocumentStore) -> None:
        self._database = database
        self._orders = orders
        self._documents = documents
        self._told: set[tuple[str, int]] = set()

    def due(self, most: int = AT_ONCE) -> Sequence[DueRun]:
        """The next step of each schedule that is due, and of those that have room for a run that was held."""

        def look(connection: Connection) -> Sequence[DueRun]:
            now = time_of(connection, self._database)
            rows = connection.execute(_DUE, {"now": micros(now), "most": most}).mappings().all()
            held = connection.execute(_WITH_HELD).mappings().all()
            steps = [_due(connection, row, now) for row in self._plannable(rows)]
            return [*steps, *_with_room(connection, self._plannable(held), now)]

        return self._database.read(look)

    def asked(self, schedule_id: str, *, by: Actor, key: str | None = None) -> DueRun:
        """A run now, beside its timetable, as its principal. Of who is that, the token counts by which they ask: it
        must not spend more by asking than by placing. With a `key` of theirs it is run once within a day. Raises
        `UnknownSchedule`."""

        def look(connection: Connection) -> DueRun:
            wanted = schedule_id if is_identifier(schedule_id) else ""
            row = connection.execute(_ONE, {"wanted": wanted}).mappings().first()
            if row is None:
                raise UnknownSchedule("there is no such schedule")
            now = time_of(connection, self._database)
            due = replace(_planned(connection, row, now, "asked", now), key=None if key is None else text_digest(key))
            if by.principal != due.by.principal:
                return due
            return replace(due, by=replace(due.by, token_id=by.token_id, token=by.token))

        return self._database.read(look)

    def by_newer_zones(self) -> int:
        """Look anew when schedules are due that were planned by older tables of the zones; answers how many."""

        def look(connection: Connection) -> int:
            rows = connection.execute(_OLD_ZONES).mappings().all()
            for row in self._plannable(rows):
                last = moment(row["last_instant"])
                planned = {"wanted": row["id"], "planned_version": row["version"], "planned_last": row["last_instant"]}
                if connection.execute(_AS_PLANNED, planned).first() is not None:
                    values = upcoming(row["id"], Timing.of(spec_of(row)), last)
                    connection.execute(_MOVE_ON, {"wanted": row["id"], **values})
            return len(rows)

        return self._database.write(look, repeatable=True)

    def _plannable(self, rows: Sequence[sa.RowMapping]) -> Sequence[sa.RowMapping]:
        """Those that this process understands. The others, whose zone it does not know or which another version saved,
        are told once and keep nobody else from being fired."""
        plannable = []
        for row in rows:
            try:
                Timing.of(spec_of(row))
                plannable.append(row)
            except ValueError as problem:
                if (known := (row["id"], row["version"])) not in self._told:
                    self._told.add(known)
                    why = str(problem) if isinstance(problem, BadTiming) else "another version of MCC saved it."
                    log.warning("schedule %s cannot be fired here: %s", row["name"], why)
        return plannable

    def fire(self, due: DueRun, prepared: PreparedRun = NOTHING, *, asked_by: Actor | None = None) -> FiredRun | None:
        """Take the step in one transaction; None: it is not as planned any more, as another service took it.

        An order that the database refuses makes a run `refused`. `asked_by`: who asked for it now.
        """
        at = self._database.clock.now()
        document: OrderedDocument | None = None
        try:
            if prepared.new is not None:
                document = ordered_document(self._documents, prepared.new, due.by, at, prepared.blueprint)
            return self._fire(due, prepared, document, at, asked_by)
        except (SomeRefused, StoreRefused, BadEntry, change.DispatchRefused) as problem:
            if prepared.new is None:
                raise
            log.info("schedule %s: its order is refused: %s", due.spec.name, problem)
            return self._fire(due, PreparedRun(None, why=str(problem)), None, at, asked_by)

    def _fire(
        self, due: DueRun, prepared: PreparedRun, document: OrderedDocument | None, at: datetime, asked_by: Actor | None
    ) -> FiredRun | None:
        opened: list[OpenChanges] = []
        planned = {"wanted": due.schedule_id, "planned_version": due.version, "planned_last": micros(due.last)}

        def take(connection: Connection) -> FiredRun | None:
            # Anew at each attempt: what an undone transaction changed in memory must not be taken over.
            opened[:] = [self._documents.opened(connection)]
            row = connection.execute(_AS_PLANNED, planned).first()
            if row is None or (due.kind == "held" and first_held(connection, due.schedule_id) != due.instant):
                return None
            if asked_by is not None:
                # The lock on the schedule's row lets one of several requests with the same key be the first.
                if (known := _known_run(connection, due, asked_by)) is not None:
                    return FiredRun(known, is_known=True)
                detail: dict[str, Any] = {"schedule": due.schedule_id, "name": due.spec.name}
                if due.key is not None:
                    detail |= {"key": due.key, "instant": micros(due.now)}
                add_note(connection, due.now, "schedule.run", by=asked_by, order_id=None, detail=detail)
            moved = _moved(connection, due)
            if due.instant is None:
                fired = FiredRun(None)
            else:
                placing = self._placing(connection, due, prepared, document, at, row.session_id)
                fired = self._run(connection, opened[0], due, placing, prepared.why)
            if fired.session_id is not None:
                moved["session_id"] = fired.session_id
            if moved:
                connection.execute(_MOVE_ON, {"wanted": due.schedule_id, **moved})
            return fired

        # Whoever takes a step again that was committed finds it taken; of a run beside the timetable its key tells.
        fired = self._database.write(take, repeatable=due.kind != "asked" or due.key is not None)
        opened[0].committed()
        return fired

    def _placing(
        self,
        connection: Connection,
        due: DueRun,
        prepared: PreparedRun,
        document: OrderedDocument | None,
        at: datetime,
        session_id: str | None,
    ) -> Placing | None:
        """The order of a run, as a turn of the schedule's session where there is one. None: it cannot be placed."""
        new = prepared.new
        if new is None:
            return None
        if due.spec.session == "same" and session_id and connection.scalar(_SESSION, {"wanted": session_id}):
            new = new.model_copy(update={"session_id": session_id})
        return Placing(new, due.by, None, at, self._database.time, None, document, anybodys=prepared.anybodys)

    def _run(
        self, connection: Connection, changes: OpenChanges, due: DueRun, placing: Placing | None, why: str
    ) -> FiredRun:
        """Place the order if there is room for it, and keep what happened."""
        instant, spec = due.instant or due.now, due.spec
        running = unfinished(connection, due.schedule_id, closing=True)
        cancelled: Sequence[str] = ()
        session_id: str | None = None
        if placing is None:
            run = ScheduleRun(instant=instant, outcome="refused", why=why)
        elif len(running) >= spec.max_running and spec.when_full != "cancel_older":
            if due.kind == "held":
                return FiredRun(None)
            run = _without_room(due, instant, len(running), held_runs(connection, due.schedule_id))
        else:
            surplus = running[: max(0, len(running) - spec.max_running + 1)]
            reason = f"the schedule {spec.name} places its next order"
            cancelled = cancel_all(connection, surplus, reason, due.by, placing.at)
            (accepted,) = self._orders.place_within(connection, changes, [placing])
            if spec.session == "same" and accepted.order is not None:
                session_id = accepted.order.session_id
            told = f"{len(cancelled)} older of its orders made way" if cancelled else ""
            run = ScheduleRun(instant=instant, outcome="placed", order_id=accepted.order_id, why=told)
        (settle_held if due.kind == "held" else add_run)(connection, due.schedule_id, run)
        return FiredRun(run, cancelled, session_id)


def _known_run(connection: Connection, due: DueRun, asked_by: Actor) -> ScheduleRun | None:
    """The run of an earlier request with the same key, by the note of the audit that was added with it."""
    if due.key is None:
        return None
    since = due.now - timedelta(hours=IDEMPOTENCY_HOURS)
    asked = {
        "who": asked_by.principal,
        "lowest": id_at(since, -CLOCKS_DIFFER),
        "since": micros(since),
        "having": f"%{due.key}%",
    }
    for note in connection.execute(_ASKED, asked).scalars():
        detail = parsed(note)
        if (detail["schedule"], detail.get("key")) == (due.schedule_id, due.key):
            at = {"wanted": due.schedule_id, "at_instant": detail["instant"]}
            row = connection.execute(_AT_INSTANT, at).mappings().first()
            return None if row is None else run_of(row)
    return None


def _moved(connection: Connection, due: DueRun) -> dict[str, Any]:
    """Keep what was missed; answers the columns that say how far the schedule has come."""
    if due.step is None:
        return {}
    if due.step.missed is not None:
        add_missed(connection, due.schedule_id, due.step.missed, due.last)
    forget_old(connection, due.schedule_id, due.now)
    return dict(upcoming(due.schedule_id, Timing.of(due.spec), due.step.last))


def _without_room(due: DueRun, instant: datetime, running: int, held: int) -> ScheduleRun:
    why = f"{running} of its orders are unfinished, and it has at most {due.spec.max_running} at once"
    if due.spec.when_full == "queue" and held < MOST_HELD:
        return ScheduleRun(instant=instant, outcome="held", why=why)
    if due.spec.when_full == "queue":
        why += f"; {MOST_HELD} runs wait already"
    return ScheduleRun(instant=instant, outcome="skipped", why=why)


def _due(connection: Connection, row: sa.RowMapping, now: datetime) -> DueRun:
    spec, last = spec_of(row), moment(row["last_instant"])
    # Nothing is due where it was planned by other tables of the zones: then it is only planned anew.
    step = next_step(Timing.of(spec), row["id"], spec.catch_up, last, now) or ScheduleStep(None, None, last)
    return replace(_planned(connection, row, now, "due", step.instant), step=step)


def _with_room(connection: Connection, rows: Sequence[sa.RowMapping], now: datetime) -> Sequence[DueRun]:
    runs: list[DueRun] = []
    for row in rows:
        held = first_held(connection, row["id"])
        if held is not None and len(unfinished(connection, row["id"])) < spec_of(row).max_running:
            runs.append(_planned(connection, row, now, "held", held))
    return runs


def _planned(
    connection: Connection, row: sa.RowMapping, now: datetime, kind: RunKind, instant: datetime | None
) -> DueRun:
    return DueRun(
        schedule_id=row["id"],
        spec=spec_of(row),
        kind=kind,
        by=Actor(row["principal"], f"schedule/{row['name']}", row["token_id"], text_of(row["token_json"])),
        version=row["version"],
        last=moment(row["last_instant"]),
        now=now,
        instant=instant,
        previous=previous_run(connection, row["id"]),
        session_id=row["session_id"],
    )
