"""The store's sense of time: wall clock for people, boot-time clock for leases."""

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
    """Tests pass one in; `SystemClock` is the real one."""

    def now(self) -> datetime:
        """The wall clock, aware, in UTC."""

    def uptime(self) -> float:
        """Seconds since this machine booted, time in suspend included."""

    def boot(self) -> str:
        """Differs after every boot; uptimes of different boots cannot be compared."""


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
    """Microseconds since 1970 of an aware time, exactly; what the tables hold."""
    since = moment - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def moment(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def moment_or_none(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else moment(microseconds)
