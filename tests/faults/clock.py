"""Wrong clocks: processes under test that believe in another time than everybody else.

A clock is wrong from its process's start on, or it jumps while the process runs: libfaketime, where it is installed,
then stands between the process and the wall clock. Clocks that only go forward are left alone.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import mcc.contracts.shape
import mcc.store.database.clock

SKEW = "FAULTS_CLOCK_SKEW_SECONDS"
LIBRARIES = ("/usr/lib/*/faketime", "/usr/lib/faketime", "/usr/lib64/faketime", "/usr/local/lib/faketime")
LIBRARY = "libfaketimeMT.so.1"


def set_wrong() -> None:
    """Shift the wall clock of this process by what the environment says; monotonic clocks stay as they are."""
    seconds = float(os.environ.get(SKEW, "0"))
    if not seconds:
        return
    right = time.time
    shift = timedelta(seconds=seconds)

    class Shifted(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + shift

    time.time = lambda: right() + seconds
    for module in (mcc.contracts.shape, mcc.store.database.clock):
        vars(module)["datetime"] = Shifted


def faketime() -> Path | None:
    """The library, where there is one."""
    found = (path for pattern in LIBRARIES for path in Path("/").glob(f"{pattern[1:]}/{LIBRARY}"))
    return next(found, None)


@dataclass(frozen=True, slots=True)
class JumpingClock:
    """The wall clock of a process that is started with `environment`; `file` says how far it is off."""

    library: Path
    file: Path

    def __post_init__(self) -> None:
        self.jump_to(0.0)

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "LD_PRELOAD": str(self.library),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def jump_to(self, seconds: float) -> None:
        """From now on so many seconds ahead of the right time."""
        new = self.file.with_suffix(".new")
        new.write_text(f"{seconds:+g}\n")
        new.rename(self.file)
