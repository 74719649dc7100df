"""Clocks of the store: wall time for people, time since boot for leases; and times as microseconds."""

import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    """`SystemClock` in production, a settable clock in tests."""

    def now(self) -> datetime:
        """The wall clock, aware, in UTC."""

    def uptime(self) -> float:
        """Seconds since this machine booted, suspended time included."""

    def boot(self) -> str:
        """An id that changes with every boot; uptimes of different boots cannot be compared."""


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def uptime(self) -> float:
        if sys.platform == "linux":
            return time.clock_gettime(time.CLOCK_BOOTTIME)
        return time.monotonic()

    def boot(self) -> str:
        return _boot_id()


@cache
def _boot_id() -> str:
    if _BOOT_ID.exists():
        return _BOOT_ID.read_text().strip()
    answer = subprocess.run(["sysctl", "-n", "kern.bootsessionuuid"], capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "unknown"


def micros(moment: datetime) -> int:
    """An aware time as whole microseconds since 1970, without rounding; the unit of all time columns."""
    since = moment - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def moment(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def moment_or_none(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else moment(microseconds)
