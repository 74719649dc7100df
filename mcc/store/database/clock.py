"""Clocks of the store: wall time for people, time since boot for leases; and times as microseconds."""

import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Protocol

from mcc.contracts.ids import lowest_id

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CLOCKS_DIFFER = timedelta(days=1)
"""How far a machine's clock may be set between the two looks that give a row its id and its time; ids bound what is
read of the index."""

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


def id_at(at: datetime, shift: timedelta) -> str:
    """The lowest id of a time that lies so far from this one. Computed as a number: no time need be that early, or that
    late."""
    return lowest_id((micros(at) + shift // timedelta(microseconds=1)) // 1_000)
