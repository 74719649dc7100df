"""Findings about the database: schema, health and size, drones and leases, clock, and what orders left behind."""

import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import sqlalchemy as sa

from mcc.configuration.budgets import BudgetSettings
from mcc.configuration.database import Pooler
from mcc.contracts.budgets import DayBudget
from mcc.contracts.drones import NOT_CHOSEN, Drone, Registration
from mcc.contracts.schedules import LATE_SECONDS, Missed, Schedule
from mcc.contracts.triggers import TriggerVerdict
from mcc.doctor.installation import START_DRONES, Installation
from mcc.doctor.machine import database_file, others_may_read
from mcc.doctor.webhooks import webhook_findings
from mcc.findings.finding import FIX_COMMAND, Finding, duration
from mcc.findings.snapshot import Snapshot
from mcc.settings import ServiceSettings, reply_tokens
from mcc.store.database.clock import moment
from mcc.store.database.errors import StoreError, Unfit
from mcc.store.database.fit import Standbys, Way, standbys_of, way_to
from mcc.store.rows.values import Health, IdleTransaction
from mcc.store.store import Store, open_store

IDLE_SECONDS = 5.0
"""The server closes MCC's own connections that are idle in a transaction for longer."""

UNSWEPT_SECONDS = 10.0
"""Many times the half second after which every service and every drone sweeps again."""

TOLERATED_SKEW_SECONDS = 2.0

MISSED_DAYS = 1.0
"""For how long it is told that runs of schedules were missed, or deliveries to triggers refused."""

MOST_MEASURED = 500
"""How many orders that could be pruned are measured."""


def check_database(installation: Installation) -> Iterator[Finding]:
    """The database's schema, health and size, the drones and leases in it, and its clock."""
    settings = installation.settings
    # Opening an SQLite file that is not there would make one: an examination leaves no empty database behind.
    if settings.has_own_database and not (settings.data_dir / "mcc.db").exists():
        yield Finding(
            "database", "warning", f"there is none in {settings.data_dir} yet", "mcc up makes it, or mcc db upgrade"
        )
        return
    try:
        if installation.unreachable:
            yield _unreachable(installation.unreachable)
            return
        store = open_store(settings.database)
    except ValueError as error:
        yield Finding("database", "broken", str(error), "correct MCC_DATABASE_URL")
        return
    try:
        problem = store.schema_problem()
        if problem is not None:
            yield unfit_finding(problem)
        else:
            yield Finding("database", "ok", f"{store.database.dialect}, schema of this version")
            yield from way_findings(way_to(store.database), settings.database_pooler)
            yield from standby_findings(standbys_of(store.database))
            yield from health_findings(store.examiner.health(seconds=installation.seconds))
            yield _size(store, settings.retention_days)
            yield from budget_findings(settings.budgets, *store.budgets.usual())
            if "schedules" not in settings.doors.off:
                missed, now = store.schedules.missed(MISSED_DAYS), store.database.clock.now()
                yield from schedule_findings(store.schedules.list(), missed, now)
            if settings.triggers and "triggers" not in settings.doors.off:
                since = store.database.clock.now() - timedelta(days=MISSED_DAYS)
                yield from trigger_findings(store.trigger_deliveries.counts(list(settings.triggers), since))
                yield from reply_findings(settings, installation.environment)
            if settings.doors.off:
                names = " and ".join(sorted(settings.doors.off))
                yield Finding("doors", "ok", f"no {names}: [doors] off in mcc.toml")
            yield from webhook_findings(store.webhooks.endpoints.made(), store.webhooks.lists.load())
            yield from _tokens(store.mcp_servers.logged_in(), database_file(settings.database_url))
            drones = store.leases.drones()
            yield _up([drone for drone in drones if drone.status != "silent"])
            yield _leases(drones)
            yield from _problems(store.leases.registrations())
            yield _clock(store)
    except Unfit as error:
        yield unfit_finding(str(error))
    except StoreError as error:
        yield _unreachable(str(error))
    finally:
        store.close()


def unfit_finding(problem: str) -> Finding:
    """A sentence of `mcc.store.database.fit`, which ends with what to do."""
    detail, _, advice = problem.rpartition(": ")
    return Finding("database", "broken", detail, advice)


def budget_findings(configured: BudgetSettings, usual: DayBudget, timezone: str) -> Iterator[Finding]:
    """Whether orders reserve by the table [budgets] that is read here."""
    if (configured.budget, configured.timezone) != (usual, timezone):
        detail = "orders reserve by other budgets than [budgets] of the mcc.toml that is read here says"
        advice = "restart the service, which writes them into the database; or give all services the same table"
        yield Finding("budgets", "warning", detail, advice)
    elif usual.limits_anything:
        yield Finding("budgets", "ok", "everybody without one of their own has that of [budgets]")


def way_findings(way: Way | None, pooler: Pooler) -> Iterator[Finding]:
    """How PostgreSQL is reached, where that is not simply direct."""
    if way is None:
        return
    if way.pooled:
        how = " (found out: auto)" if pooler == "auto" else ""
        yield Finding("pooler", "ok", f"PostgreSQL is reached through a pooler, as in {way.mode} mode{how}")
    if way.ungranted:
        detail = f"settings of the planner are not in force: {', '.join(way.ungranted)}; long queues become slow"
        yield Finding("pooler", "warning", detail, "set MCC_DATABASE_POOLER=transaction, or connect directly")


def standby_findings(standbys: Standbys | None) -> Iterator[Finding]:
    """What confirmed commits survive: a crash, and a fail-over."""
    if standbys is None:
        return
    if not standbys.on_disk:
        detail = "synchronous_commit is off: a crash of the server loses orders that were accepted"
        yield Finding("standbys", "warning", detail, "ALTER SYSTEM SET synchronous_commit = on")
    number = f"{standbys.count} connected" if standbys.count else "none connected now"
    if standbys.synchronous:
        yield Finding("standbys", "ok", f"synchronous ({number}): a fail-over loses nothing that was confirmed")
    elif standbys.count:
        detail = f"asynchronous ({number}): a fail-over loses what the standby had not received"
        yield Finding("standbys", "ok", f"{detail}, and drones end the orders that this concerns as taken over")


def reply_findings(settings: ServiceSettings, environment: Mapping[str, str]) -> Iterator[Finding]:
    """The triggers whose replies wait for a token that is not set."""
    tokens = reply_tokens(settings, environment)
    for name, table in settings.triggers.items():
        endpoint = table.reply.endpoint if table.reply else ""
        variable = settings.reply_variables.get(endpoint)
        if variable and endpoint not in tokens:
            detail = f"answers of {name} wait: {variable}, which has the token of [{endpoint}], is not set here"
            yield Finding("triggers", "warning", detail, "set it for the service, then start that anew")


def trigger_findings(counts: Mapping[str, Mapping[TriggerVerdict, int]]) -> Iterator[Finding]:
    """How many triggers there are, and those of which deliveries were refused lately, with how many. `counts`: of each
    trigger, how many deliveries came to what."""
    for name, count in ((name, of["refused"]) for name, of in counts.items() if "refused" in of):
        detail = f"{count:,} deliveries to {name} were refused within a day"
        advice = f"mcc triggers deliveries {name} says why; correct its table in mcc.toml"
        yield Finding("triggers", "warning", detail, advice)
    yield Finding("triggers", "ok", f"{len(counts):,} of them")


def schedule_findings(
    schedules: Sequence[Schedule], missed: Sequence[tuple[str, Missed]], now: datetime
) -> Iterator[Finding]:
    """What schedules there are; instants that were missed, last runs that were refused, and what nobody fires."""
    if not schedules:
        return
    late = timedelta(seconds=2 * LATE_SECONDS)
    for name, span in missed:
        detail = f"{name} has missed {span.count:,} of its runs, from {span.since:%Y-%m-%d %H:%M} UTC on"
        yield Finding("schedules", "warning", detail, f"no service ran then; see mcc schedules show {name}")
    for schedule in schedules:
        last = schedule.last
        if last is not None and last.outcome == "refused":
            advice = f"what it names is not there: mcc schedules show {schedule.name}, then change it"
            yield Finding("schedules", "warning", f"the last run of {schedule.name} was refused: {last.why}", advice)
        if schedule.next and now - schedule.next[0] > late + timedelta(seconds=schedule.jitter_seconds):
            detail = f"{schedule.name} has been due for {duration((now - schedule.next[0]).total_seconds())}"
            yield Finding("schedules", "broken", detail, "a service fires schedules, and none does: mcc up")
    paused = sum(schedule.paused for schedule in schedules)
    yield Finding("schedules", "ok", f"{len(schedules):,} of them" + (f", {paused:,} paused" if paused else ""))


def _unreachable(problem: str) -> Finding:
    return Finding("database", "broken", problem, "start it, correct MCC_DATABASE_URL, or end what holds it locked")


def _up(drones: Sequence[Drone]) -> Finding:
    if not drones:
        return Finding("drones", "warning", "none is up: orders are kept and wait", START_DRONES)
    slots, active = sum(one.slots for one in drones), sum(one.active for one in drones)
    names = ", ".join(one.name for one in drones)
    if active >= slots:
        return Finding("drones", "warning", f"all {slots} slots are taken ({names})", "add drones, or wait")
    return Finding("drones", "ok", f"{len(drones)} up with {slots} slots, {active} of them taken ({names})")


def _leases(found: Sequence[Drone]) -> Finding:
    """Silent drones, except those whose process registered again after it lost its lease."""
    # A drone that lost its lease registers anew as another incarnation: its old row is silent, and nothing is wrong.
    processes_up = {(drone.host, drone.pid) for drone in found if drone.status != "silent"}
    silent = [drone for drone in found if drone.status == "silent" and (drone.host, drone.pid) not in processes_up]
    if not silent:
        return Finding("leases", "ok", "every drone of the last day renews its lease or left in good order")
    names = ", ".join(drone.name for drone in silent)
    held = sum(drone.active for drone in silent)
    detail = f"{len(silent)} silent ({names}), with {held} orders when last heard of; a sweep gives those to others"
    return Finding("leases", "warning", detail, "see their logs if you did not stop them")


def _problems(registrations: Sequence[Registration]) -> Iterator[Finding]:
    """Problems that drones registered about their models, agents and tools: each once, with all that have it."""
    for what in ("models", "agents", "tools"):
        names: dict[str, dict[str, None]] = {}
        for offer in (offer for drone in registrations for offer in getattr(drone, what) if offer.problem):
            names.setdefault(offer.problem, {})[offer.name] = None
        for problem, having in sorted(names.items()):
            detail = f"{', '.join(having)}: {problem}"
            if problem.startswith(NOT_CHOSEN):
                yield Finding(what, "ok", detail)
                continue
            yield Finding(what, "warning", detail, "as it says; the drone reads its configuration when it starts")


def _tokens(servers: Sequence[str], file: Path | None) -> Iterator[Finding]:
    """Tokens of MCP servers that the database holds. `file`: that of an SQLite database, None for another one."""
    if not servers:
        return
    named = f"those of {', '.join(servers)} are in the database as plain text"
    # A readable file in a closed directory is out of reach.
    if file is not None and others_may_read(file) and others_may_read(file.parent, stat.S_IXGRP | stat.S_IXOTH):
        yield Finding("tokens", "warning", f"{named}, and others on this machine can read {file}", f"chmod 600 {file}")
        return
    yield Finding("tokens", "ok", f"{named}: whoever reads it, or a backup of it, has them")


def _size(store: Store, days: float) -> Finding:
    """The size of the database, and what `mcc prune` would remove."""
    size = store.retention.size()
    parts = [f"{size.bytes / 1e6:,.1f} MB"]
    if size.free:
        parts.append(f"{size.free / 1e6:,.1f} MB of it free for new orders")
    if size.per_order is not None:
        parts.append(f"an order's journal usually takes {size.per_order / 1e3:,.0f} KB")
    if not days:
        return Finding("size", "ok", "; ".join((*parts, "nothing is ever removed (retention_days = 0)")))
    removable = store.retention.look(store.database.clock.now() - timedelta(days=days), most=MOST_MEASURED)
    if removable.bytes:
        least = "at least " if removable.orders == MOST_MEASURED else ""
        parts.append(f"{least}{removable.bytes / 1e6:,.1f} MB older than {days:g} days could go now: mcc prune")
    return Finding("size", "ok", "; ".join(parts))


def _clock(store: Store) -> Finding:
    if store.database.dialect == "sqlite":
        return Finding("clock", "ok", "the database uses this machine's clock")
    # Two readings around the question: how long the answer took must not count as a difference of clocks.
    before = datetime.now(UTC)
    database_time = moment(
        store.database.read(lambda link: link.execute(sa.select(store.database.time.now)).scalar_one())
    )
    after = datetime.now(UTC)
    skew = max((before - database_time).total_seconds(), (database_time - after).total_seconds(), 0.0)
    if skew > TOLERATED_SKEW_SECONDS:
        detail = f"this machine and the database differ by {skew:.1f} s"
        return Finding("clock", "warning", detail, "set both by NTP; leases are safe, times shown are not")
    return Finding("clock", "ok", f"this machine and the database differ by less than {TOLERATED_SKEW_SECONDS:g} s")


def leftovers(snapshot: Snapshot) -> Iterator[Finding]:
    """Workspace locks and open receipts of orders that have ended."""
    for stale in snapshot.examined.locks:
        taken = f"order {stale.order_id}, which does not run under epoch {stale.epoch}"
        detail = f"workspace {stale.workspace_key} is locked by {taken}"
        advice = f"the lock counts for nobody; {FIX_COMMAND} removes it"
        yield Finding("lock", "warning", detail, advice, stale.order_id, fix="locks")
    late = Counter(receipt.order_id for receipt in snapshot.examined.receipts)
    for order_id, count in late.items():
        detail = f"order {order_id} is final, and controls of it are still open: {count}"
        yield Finding("receipt", "warning", detail, f"{FIX_COMMAND} settles them", order_id, fix="receipts")


def unswept(snapshot: Snapshot) -> Iterator[Finding]:
    """A finding where there are unfinished orders, but no service and no drone sweeps any more."""
    swept = snapshot.examined.swept_at
    # Without unfinished orders there is nothing to sweep for, and no harm in an installation that stands still.
    if swept is not None and snapshot.examined.orders and snapshot.age(swept) > UNSWEPT_SECONDS:
        late = duration(snapshot.age(swept))
        detail = f"nobody has swept for {late}: lost drones and times that come are noticed by nobody"
        yield Finding("sweep", "warning", detail, "start an MCC or a drone: mcc up, mcc serve, or drone work")


def health_findings(health: Health) -> Iterator[Finding]:
    """What is wrong with the database; no finding when all is well."""
    for problem in health.problems:
        advice = "stop everything, keep a copy, and restore a backup (sqlite3 mcc.db .recover saves what can be read)"
        yield Finding("database", "broken", f"the file is damaged: {problem}", advice)
    if not health.checked:
        detail = "the check of the file took too long and was given up"
        yield Finding("database", "warning", detail, "mcc doctor --seconds 60 gives it longer")
    yield from (_idle(idle) for idle in health.idle if idle.seconds > IDLE_SECONDS)


def _idle(idle: IdleTransaction) -> Finding:
    name = f"connection {idle.pid} ({idle.program or 'without a name'})"
    detail = f"{name} has been idle in a transaction for {duration(idle.seconds)}"
    if idle.blocks:
        detail += f"; {idle.blocks} others wait for it"
    advice = f"end it: SELECT pg_terminate_backend({idle.pid})"
    return Finding("database", "broken" if idle.blocks else "warning", detail, advice)
