"""This room is for the doctor's look at what others must be reached for: database, leases, Redis, Celery, orders."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mcc.cli.findings import Patient
from mcc.doctor.finding import Finding

if TYPE_CHECKING:
    from mcc.contracts.drones import Drone, Registration
    from mcc.doctor.chart import Chart, Node
    from mcc.doctor.redis_seen import RedisSeen
    from mcc.doctor.repairs import Repair
    from mcc.store.sql import SqlStore

TOLERATED_SKEW_SECONDS = 2.0
START_DRONES = "start one: mcc up, or drone work"


@contextmanager
def opened(patient: Patient) -> "Iterator[SqlStore]":
    """The patient's store, with the schema of this version. Raises `StoreError`, and ValueError for no such address."""
    from mcc.store.errors import StoreUnavailable
    from mcc.store.sql import open_store

    settings = patient.settings
    if settings.has_own_database and not (settings.data_dir / "mcc.db").exists():
        raise StoreUnavailable(f"there is no database in {settings.data_dir} yet")
    if patient.unreachable:
        raise StoreUnavailable(patient.unreachable)
    store = open_store(settings.database_url)
    try:
        if problem := store.schema_problem():
            raise StoreUnavailable(problem)
        yield store
    finally:
        store.close()


def look_at_database(patient: Patient) -> Iterator[Finding]:
    """Reachable, of this version's schema; then what is in it about drones and leases, and its clock."""
    from mcc.doctor.leftovers import health_of
    from mcc.store.errors import StoreError
    from mcc.store.sql import open_store

    settings = patient.settings
    if settings.has_own_database and not (settings.data_dir / "mcc.db").exists():
        yield Finding(
            "database", "warning", f"there is none in {settings.data_dir} yet", "mcc up makes it, or mcc db upgrade"
        )
        return
    try:
        if patient.unreachable:
            yield _out_of_reach(patient.unreachable)
            return
        store = open_store(settings.database_url)
    except ValueError as error:
        yield Finding("database", "broken", str(error), "correct MCC_DATABASE_URL")
        return
    try:
        problem = store.schema_problem()
        yield _schema(problem, store)
        if problem is None:
            yield from health_of(store.examiner.health(seconds=patient.seconds))
            yield from _drones(store)
            yield _clock(store)
    except StoreError as error:
        yield _out_of_reach(str(error))
    finally:
        store.close()


def _out_of_reach(problem: str) -> Finding:
    return Finding("database", "broken", problem, "start it, correct MCC_DATABASE_URL, or end what holds it locked")


def _schema(problem: str | None, store: "SqlStore") -> Finding:
    if problem is None:
        return Finding("database", "ok", f"{store.database.dialect}, schema of this version")
    detail, _, advice = problem.partition(": ")
    return Finding("database", "broken", detail, advice)


def _drones(store: "SqlStore") -> Iterator[Finding]:
    found = store.leases.drones()
    yield _up([one for one in found if one.status != "silent"])
    yield _leases(found)
    yield from _problems(store.leases.registrations())


def _up(drones: "Sequence[Drone]") -> Finding:
    if not drones:
        return Finding("drones", "warning", "none is up: orders are kept and wait", START_DRONES)
    slots, active = sum(one.slots for one in drones), sum(one.active for one in drones)
    names = ", ".join(one.name for one in drones)
    if active >= slots:
        return Finding("drones", "warning", f"all {slots} slots are taken ({names})", "add drones, or wait")
    return Finding("drones", "ok", f"{len(drones)} up with {slots} slots, {active} of them taken ({names})")


def _leases(found: "Sequence[Drone]") -> Finding:
    """A process that lost its lease and registered again is one of those that are up."""
    there = {(one.host, one.pid) for one in found if one.status != "silent"}
    silent = [one for one in found if one.status == "silent" and (one.host, one.pid) not in there]
    if not silent:
        return Finding("leases", "ok", "every drone of the last day renews its lease or left in good order")
    names = ", ".join(one.name for one in silent)
    held = sum(one.active for one in silent)
    detail = f"{len(silent)} silent ({names}), with {held} orders when last heard of; a sweep gives those to others"
    return Finding("leases", "warning", detail, "see their logs if you did not stop them")


def _problems(registrations: "Sequence[Registration]") -> Iterator[Finding]:
    """What drones say of their own models, agents and tools, each problem once."""
    for what in ("models", "agents", "tools"):
        told = {f"{one.name}: {one.problem}" for drone in registrations for one in getattr(drone, what) if one.problem}
        for problem in sorted(told):
            yield Finding(what, "warning", problem, "as it says; the drone reads its configuration when it starts")


def _clock(store: "SqlStore") -> Finding:
    from datetime import UTC, datetime

    import sqlalchemy as sa

    from mcc.store.clock import moment

    if store.database.dialect == "sqlite":
        return Finding("clock", "ok", "the database uses this machine's clock")
    before = datetime.now(UTC)
    there = moment(store.database.read(lambda link: link.execute(sa.select(store.database.time.now)).scalar_one()))
    after = datetime.now(UTC)
    skew = max((before - there).total_seconds(), (there - after).total_seconds(), 0.0)
    if skew > TOLERATED_SKEW_SECONDS:
        detail = f"this machine and the database differ by {skew:.1f} s"
        return Finding("clock", "warning", detail, "set both by NTP; leases are safe, times shown are not")
    return Finding("clock", "ok", f"this machine and the database differ by less than {TOLERATED_SKEW_SECONDS:g} s")


def look_at_redis(patient: Patient) -> Iterable[Finding]:
    """Whether it is there, can be written, keeps what it is given, and what lies in the queues."""
    from mcc.dispatch.errors import DispatchUnavailable
    from mcc.doctor.redis_judged import canaries_of, redis_of

    match patient.redis:
        case None:
            return [_redis_program()]
        case DispatchUnavailable() as problem:
            return [Finding("redis", "broken", str(problem), "orders still run, seconds later; start Redis")]
        case seen:
            found = [*redis_of(seen), *canaries_of(forgotten(patient, seen))]
            well = not any(finding.what == "redis" for finding in found)
            where = Finding("redis", "ok", f"answers at {_without_password(patient.redis_url)}, and can be written")
            return [where, *found] if well else found


def _redis_program() -> Finding:
    from mcc.local.errors import NoRedis
    from mcc.local.redis import RedisBinary, find_redis

    try:
        found = find_redis(None)
    except NoRedis as error:
        return Finding("redis", "broken", "none was found", str(error))
    assert isinstance(found, RedisBinary)
    return Finding("redis", "ok", f"{found.path} ({found.origin}) is there for mcc up; it does not run now")


def forgotten(patient: Patient, seen: "RedisSeen") -> Sequence[str]:
    """Queues of single drones that none of those who answer reads."""
    from mcc.doctor.redis_judged import ownerless

    return ownerless(seen.canaries, _answers(patient)) if seen.canaries else ()


def _answers(patient: Patient) -> "Sequence[Node] | None":
    """The workers that answered; None when they could not be asked."""
    from mcc.dispatch.errors import DispatchUnavailable

    return None if isinstance(patient.nodes, DispatchUnavailable) else patient.nodes


def look_at_celery(patient: Patient) -> Iterable[Finding]:
    """Which workers answer over the broker."""
    from mcc.dispatch.errors import DispatchUnavailable

    match patient.nodes:
        case None:
            return [Finding("celery", "warning", "not asked: no Redis runs", "mcc up")]
        case DispatchUnavailable() as problem:
            return [Finding("celery", "broken", str(problem), "see redis above")]
        case []:
            detail = "no worker answers; drones that are up find orders in the database, seconds later"
            return [Finding("celery", "warning", detail, START_DRONES)]
        case nodes:
            names = ", ".join(node.name for node in nodes)
            tasks = sum(len(node.tasks) for node in nodes)
            detail = f"{len(nodes)} answer on queues {', '.join(patient.settings.queues)}, {tasks} tasks: {names}"
            return [Finding("celery", "ok", detail)]


def look_at_orders(patient: Patient) -> Iterable[Finding]:
    """What database, Celery and processes say of the same orders and drones, compared."""
    from mcc.doctor.judgement import judge
    from mcc.store.errors import StoreError

    try:
        with opened(patient) as store:
            return judge(_chart(patient, store))
    except (StoreError, ValueError) as error:
        return [Finding("orders", "warning", f"not compared: {error}", "see database above")]


def mend(patient: Patient) -> "Sequence[Repair]":
    """Repair what can be repaired by rule. Raises `StoreError`, and ValueError for an address of no database."""
    from mcc.doctor.judgement import judge
    from mcc.doctor.redis_seen import RedisSeen
    from mcc.doctor.repairs import Means, repair

    with opened(patient) as store:
        chart = _chart(patient, store)
        fixes = {finding.fix for finding in (*judge(chart), *look_at_redis(patient)) if finding.fix}
        canaries = forgotten(patient, patient.redis) if isinstance(patient.redis, RedisSeen) else ()
        reached = patient.redis_url if isinstance(patient.redis, RedisSeen) else ""
        means = Means(store, reached, patient.settings.queues, canaries, patient.seconds)
        return repair(fixes, chart, means)


def _chart(patient: Patient, store: "SqlStore") -> "Chart":
    from mcc.doctor.charting import chart_of

    return chart_of(store, _answers(patient), patient.patience)


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"***@{parts.netloc.rpartition('@')[2]}").geturl() if parts.password else url
