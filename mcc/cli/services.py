"""This room is for the doctor's look at what others must be reached for: database, leases, Redis, Celery."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mcc.cli.findings import Finding, Patient

if TYPE_CHECKING:
    from mcc.contracts.drones import Drone, Registration
    from mcc.store.sql import SqlStore

TOLERATED_SKEW_SECONDS = 2.0
START_DRONES = "start one: mcc up, or drone work"


def look_at_database(patient: Patient) -> Iterator[Finding]:
    """Reachable, of this version's schema; then what is in it about drones and leases, and its clock."""
    from mcc.store.errors import StoreError
    from mcc.store.sql import open_store

    settings = patient.settings
    if settings.has_own_database and not (settings.data_dir / "mcc.db").exists():
        yield Finding(
            "database", "warning", f"there is none in {settings.data_dir} yet", "mcc up makes it, or mcc db upgrade"
        )
        return
    try:
        store = open_store(settings.database_url)
    except ValueError as error:
        yield Finding("database", "broken", str(error), "correct MCC_DATABASE_URL")
        return
    try:
        problem = store.schema_problem()
        yield _schema(problem, store)
        if problem is None:
            yield from _drones(store)
            yield _clock(store)
    except StoreError as error:
        yield Finding(
            "database", "broken", str(error), "start it, correct MCC_DATABASE_URL, or end what holds it locked"
        )
    finally:
        store.close()


def _schema(problem: str | None, store: "SqlStore") -> Finding:
    if problem is None:
        return Finding("database", "ok", f"{store.database.dialect}, schema of this version")
    detail, _, advice = problem.partition(": ")
    return Finding("database", "broken", detail, advice)


def _drones(store: "SqlStore") -> Iterator[Finding]:
    found = store.leases.drones()
    yield _up([one for one in found if one.status != "silent"])
    yield _leases([one for one in found if one.status == "silent"])
    yield from _problems(store.leases.registrations())


def _up(drones: "Sequence[Drone]") -> Finding:
    if not drones:
        return Finding("drones", "warning", "none is up: orders are kept and wait", START_DRONES)
    slots, active = sum(one.slots for one in drones), sum(one.active for one in drones)
    names = ", ".join(one.name for one in drones)
    if active >= slots:
        return Finding("drones", "warning", f"all {slots} slots are taken ({names})", "add drones, or wait")
    return Finding("drones", "ok", f"{len(drones)} up with {slots} slots, {active} of them taken ({names})")


def _leases(silent: "Sequence[Drone]") -> Finding:
    if not silent:
        return Finding("leases", "ok", "every drone of the last day renews its lease or left in good order")
    names = ", ".join(one.name for one in silent)
    held = sum(one.active for one in silent)
    detail = f"{len(silent)} silent ({names}), with {held} orders when last heard of; those are taken over"
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
    from mcc.local.errors import NoRedis
    from mcc.local.ready import check_configured_redis
    from mcc.local.redis import RedisBinary, find_redis

    if patient.redis_url:
        try:
            check_configured_redis(patient.redis_url, seconds=patient.seconds)
        except NoRedis as error:
            return [Finding("redis", "broken", str(error), "orders still run, seconds later; start Redis")]
        return [Finding("redis", "ok", f"answers at {_without_password(patient.redis_url)}")]
    try:
        found = find_redis(None)
    except NoRedis as error:
        return [Finding("redis", "broken", "none was found", str(error))]
    assert isinstance(found, RedisBinary)
    return [Finding("redis", "ok", f"{found.path} ({found.origin}) is there for mcc up; it does not run now")]


def look_at_celery(patient: Patient) -> Iterable[Finding]:
    """Which workers answer a ping over the broker."""
    if not patient.redis_url:
        return [Finding("celery", "warning", "not asked: no Redis runs", "mcc up")]
    from mcc.dispatch.broker import make_app
    from mcc.dispatch.errors import DispatchUnavailable, translated

    app = make_app(patient.redis_url, patient.settings.queues, seconds=patient.seconds)
    try:
        with translated():
            answers = app.control.ping(timeout=min(patient.seconds, 1.0))
    except DispatchUnavailable as error:
        return [Finding("celery", "broken", str(error), "see redis above")]
    finally:
        app.close()
    names = sorted(name for answer in answers or () for name in answer)
    if not names:
        detail = "no worker answers a ping; drones that are up find orders in the database, seconds later"
        return [Finding("celery", "warning", detail, START_DRONES)]
    return [
        Finding(
            "celery", "ok", f"{len(names)} answer on queues {', '.join(patient.settings.queues)}: {', '.join(names)}"
        )
    ]


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"***@{parts.netloc.rpartition('@')[2]}").geturl() if parts.password else url
