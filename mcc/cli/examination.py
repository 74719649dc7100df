"""This room is for the doctor's round: which parts are looked at, in which order."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mcc.cli.findings import Finding, Look, Patient, safely
from mcc.cli.services import look_at_celery, look_at_database, look_at_redis
from mcc.cli.surroundings import (
    look_at_data_dir,
    look_at_disk,
    look_at_git,
    look_at_keys,
    look_at_prices,
    look_at_sandbox,
    look_at_search,
)

if TYPE_CHECKING:
    from mcc.settings import Settings

ROUND: Mapping[str, Look] = {
    "data dir": look_at_data_dir,
    "disk": look_at_disk,
    "database": look_at_database,
    "redis": look_at_redis,
    "celery": look_at_celery,
    "sandbox": look_at_sandbox,
    "git": look_at_git,
    "search": look_at_search,
    "keys": look_at_keys,
    "prices": look_at_prices,
}


def examine(settings: "Settings", environment: Mapping[str, str], seconds: float) -> list[Finding]:
    """All findings, part by part."""
    patient = Patient(settings, environment, _redis_url(settings), seconds)
    return [finding for what, look in ROUND.items() for finding in safely(what, look, patient)]


def _redis_url(settings: "Settings") -> str:
    from mcc.local.presence import Presence, find_family

    if settings.redis_url:
        return settings.redis_url
    found = find_family(settings.data_dir)
    return found.redis_url if isinstance(found, Presence) else ""
