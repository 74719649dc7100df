"""This room is for the doctor's round: which parts are looked at, in which order, and what is repaired before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mcc.cli.findings import Look, Patient, safely
from mcc.cli.services import look_at_celery, look_at_database, look_at_orders, look_at_redis, mend
from mcc.cli.surroundings import (
    look_at_data_dir,
    look_at_disk,
    look_at_git,
    look_at_keys,
    look_at_prices,
    look_at_sandbox,
    look_at_search,
)
from mcc.doctor.finding import Finding

if TYPE_CHECKING:
    from mcc.doctor.repairs import Repair
    from mcc.settings import Settings

ROUND: Mapping[str, Look] = {
    "data dir": look_at_data_dir,
    "disk": look_at_disk,
    "database": look_at_database,
    "redis": look_at_redis,
    "celery": look_at_celery,
    "orders": look_at_orders,
    "sandbox": look_at_sandbox,
    "git": look_at_git,
    "search": look_at_search,
    "keys": look_at_keys,
    "prices": look_at_prices,
}


@dataclass(frozen=True, slots=True)
class Examination:
    """`repairs` were made before the findings were; `unrepaired` says why none could be tried."""

    findings: Sequence[Finding]
    repairs: "Sequence[Repair]" = ()
    unrepaired: str = ""

    @property
    def ok(self) -> bool:
        failed = any(not repair.done for repair in self.repairs)
        return not (failed or self.unrepaired or any(finding.state == "broken" for finding in self.findings))

    def told(self) -> dict[str, object]:
        findings = [finding.told() for finding in self.findings]
        repairs = [repair.told() for repair in self.repairs]
        return {"ok": self.ok, "findings": findings, "repairs": repairs, "unrepaired": self.unrepaired}


def examine(
    settings: "Settings",
    environment: Mapping[str, str],
    seconds: float,
    *,
    stuck_seconds: float | None = None,
    fix: bool = False,
) -> Examination:
    """All findings, part by part; `fix`: after what can be repaired by rule was repaired."""
    from mcc.store.errors import StoreError

    patient = Patient(settings, environment, _redis_url(settings), seconds, stuck_seconds)
    repairs: Sequence[Repair] = ()
    unrepaired = ""
    try:
        repairs = mend(patient) if fix else ()
    except (StoreError, ValueError) as error:
        unrepaired = str(error)
    if repairs:
        patient = replace(patient)
    findings = [finding for what, look in ROUND.items() for finding in safely(what, look, patient)]
    return Examination(findings, repairs, unrepaired)


def _redis_url(settings: "Settings") -> str:
    from mcc.local.errors import UnusableDirectory
    from mcc.local.presence import Presence, find_family

    if settings.redis_url:
        return settings.redis_url
    try:
        found = find_family(settings.data_dir)
    except UnusableDirectory:
        return ""
    return found.redis_url if isinstance(found, Presence) else ""
