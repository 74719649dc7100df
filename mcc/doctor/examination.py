"""The examination of an installation: repairs, if they are wanted, and then every check."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mcc.addresses import without_password
from mcc.dispatch.broker import DispatchUnavailable
from mcc.doctor.database import check_database, leftovers, unswept
from mcc.doctor.drones import refused_messages, silent, unknown_workers, zombies
from mcc.doctor.forges import check_forges
from mcc.doctor.installation import START_DRONES, Installation
from mcc.doctor.machine import (
    check_checkouts,
    check_configuration,
    check_cores,
    check_data_dir,
    check_disk,
    check_git,
    check_keys,
    check_prices,
    check_sandbox,
    check_search,
)
from mcc.doctor.people import check_signin
from mcc.doctor.redis import RedisSeen, abandoned, canary_findings, redis_findings
from mcc.doctor.repairs import Broker, Repair, RepairContext, repair
from mcc.findings.finding import SEVERITY, Finding, bounded
from mcc.findings.orders import ghosts, stuck
from mcc.findings.snapshot import Snapshot, take_snapshot
from mcc.local.errors import NoRedis
from mcc.local.redis import RedisBinary, find_redis
from mcc.settings import ServiceSettings
from mcc.store.database.errors import StoreError
from mcc.store.store import Store

Check = Callable[[Installation], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Examination:
    """The result. `repairs` were made before the checks; `unrepaired`: why none could be tried, "" where it could."""

    findings: Sequence[Finding]
    repairs: Sequence[Repair] = ()
    unrepaired: str = ""

    @property
    def ok(self) -> bool:
        failed = any(not repair.done for repair in self.repairs)
        return not (failed or self.unrepaired or any(finding.state == "broken" for finding in self.findings))

    def as_dict(self) -> dict[str, object]:
        findings = [finding.as_dict() for finding in self.findings]
        repairs = [repair.as_dict() for repair in self.repairs]
        return {"ok": self.ok, "findings": findings, "repairs": repairs, "unrepaired": self.unrepaired}


def examine(
    settings: ServiceSettings,
    environment: Mapping[str, str],
    seconds: float,
    *,
    stuck_seconds: float | None = None,
    fix: bool = False,
) -> Examination:
    """Run all checks; with `fix`, first the repairs. `seconds` and `stuck_seconds`: see `Installation`."""
    installation = Installation(settings, environment, settings.redis_url or "", seconds, stuck_seconds)
    repairs: Sequence[Repair] = ()
    unrepaired = ""
    try:
        repairs = _repaired(installation) if fix else ()
    except (StoreError, ValueError) as error:
        unrepaired = str(error)
    if repairs:
        # A copy has none of the cached answers, so that the checks query Redis and Celery again.
        installation = replace(installation)
    findings = [finding for what, check in CHECKS.items() for finding in findings_of(what, check, installation)]
    return Examination(findings, repairs, unrepaired)


def findings_of(what: str, check: Check, installation: Installation) -> list[Finding]:
    """The findings of one check. A check that fails becomes a finding itself, so that the others still run."""
    try:
        return list(check(installation))
    except Exception as error:
        return [Finding(what, "broken", f"could not be looked at: {type(error).__name__}: {error}", "report this")]


def _repaired(installation: Installation) -> Sequence[Repair]:
    """Make the repairs that the findings call for. Raises `StoreError`, and ValueError for an invalid address."""
    with installation.store() as store:
        snapshot = _snapshot(installation, store)
        # Only repairs that a finding calls for: `--fix` on an installation that is well writes nothing.
        fixes = {finding.fix for finding in (*judge(snapshot), *check_redis(installation)) if finding.fix}
        broker = None
        if isinstance(installation.redis, RedisSeen):
            queues, canaries = installation.settings.queues, _abandoned(installation)
            broker = Broker(installation.redis_at, queues, canaries, installation.seconds)
        return repair(fixes, snapshot, RepairContext(store, broker))


def _snapshot(installation: Installation, store: Store) -> Snapshot:
    return take_snapshot(store, installation.answering, installation.thresholds)


def _abandoned(installation: Installation) -> Sequence[str]:
    seen = installation.redis
    return abandoned(seen.canaries, installation.answering) if isinstance(seen, RedisSeen) and seen.canaries else ()


def check_redis(installation: Installation) -> Iterable[Finding]:
    """Whether Redis answers, can be written and keeps its messages, and what its queues hold."""
    match installation.redis:
        case None:
            return [_redis_program()]
        case DispatchUnavailable() as problem:
            return [Finding("redis", "broken", str(problem), "orders still run, seconds later; start Redis")]
        case seen:
            findings = [*redis_findings(seen), *canary_findings(_abandoned(installation))]
            well = not any(finding.what == "redis" for finding in findings)
            address = without_password(installation.redis_url)
            return (
                [Finding("redis", "ok", f"answers at {address}, and can be written"), *findings] if well else findings
            )


def _redis_program() -> Finding:
    try:
        found = find_redis(None)
    except NoRedis as error:
        return Finding("redis", "broken", "none was found", str(error))
    assert isinstance(found, RedisBinary)
    return Finding("redis", "ok", f"{found.path} ({found.origin}) is there for mcc up; it does not run now")


def check_celery(installation: Installation) -> Iterable[Finding]:
    """Which workers answer over the broker."""
    match installation.nodes:
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
            detail = f"{len(nodes)} answer on queues {', '.join(installation.settings.queues)}, {tasks} tasks: {names}"
            return [Finding("celery", "ok", detail)]


def check_orders(installation: Installation) -> Iterable[Finding]:
    """Compare what database, Celery and processes say about the same orders and drones."""
    try:
        with installation.store() as store:
            return judge(_snapshot(installation, store))
    except (StoreError, ValueError) as error:
        return [Finding("orders", "warning", f"not compared: {error}", "see database above")]


def judge(snapshot: Snapshot) -> list[Finding]:
    """One finding that counts the orders, then one for each contradiction or problem, the worst first."""
    findings = [
        *zombies(snapshot),
        *ghosts(snapshot),
        *unknown_workers(snapshot),
        *unswept(snapshot),
        *stuck(snapshot),
        *silent(snapshot),
        *refused_messages(snapshot),
        *leftovers(snapshot),
    ]
    # Before they are bounded, so that what is left out of a long list is the mildest.
    findings.sort(key=lambda finding: -SEVERITY.index(finding.state))
    return [_summary(snapshot, well=not findings), *bounded(findings)]


def _summary(snapshot: Snapshot, *, well: bool) -> Finding:
    counts = sorted(snapshot.examined.counts.items(), key=lambda item: -item[1])
    counted = ", ".join(f"{number:,} {status.value}" for status, number in counts) or "none is unfinished"
    more = "" if snapshot.examined.whole else "; more of them are not well than are listed here"
    agreed = "; database, Celery and processes agree" if well and snapshot.nodes is not None else ""
    return Finding("orders", "ok", f"{counted}{more}{agreed}")


CHECKS: Mapping[str, Check] = {
    "data dir": check_data_dir,
    "config": check_configuration,
    "disk": check_disk,
    "cores": check_cores,
    "database": check_database,
    "redis": check_redis,
    "celery": check_celery,
    "orders": check_orders,
    "sandbox": check_sandbox,
    "git": check_git,
    "checkouts": check_checkouts,
    "search": check_search,
    "keys": check_keys,
    "prices": check_prices,
    "sign-in": check_signin,
    "forges": check_forges,
}
"""The checks by name, in the order in which their findings are shown."""
