"""This room is for wrong clocks: a process under test that believes in another time than everybody else."""

import os
import time
from datetime import datetime, timedelta, tzinfo

import mcc.contracts.shape
import mcc.store.clock

SKEW = "FAULTS_CLOCK_SKEW_SECONDS"


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
    for module in (mcc.contracts.shape, mcc.store.clock):
        vars(module)["datetime"] = Shifted
