"""A clock of the harness jumps under a process that runs; what only goes forward is left alone."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.clock import JumpingClock, faketime

TELLER = """
import sys, time
for line in sys.stdin:
    print(time.time(), time.monotonic(), time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", 1)), flush=True)
"""
HOUR, NEARLY = 3_600.0, 60.0


def test_the_wall_clock_of_a_running_process_jumps_and_no_other(tmp_path: Path) -> None:
    if (library := faketime()) is None:
        pytest.skip("there is no libfaketime")
    clock = JumpingClock(library, tmp_path / "clock")
    teller = subprocess.Popen(
        [sys.executable, "-c", TELLER],
        env={**os.environ, **clock.environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert teller.stdin is not None and teller.stdout is not None
    off = []
    try:
        for seconds in (0.0, HOUR, 0.0, -HOUR):
            clock.jump_to(seconds)
            teller.stdin.write("\n")
            teller.stdin.flush()
            wall, *forward = map(float, teller.stdout.readline().split())
            boot = time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", 1))
            off.append(round((wall - time.time()) / HOUR))
            assert all(abs(one - right) < NEARLY for one, right in zip(forward, (time.monotonic(), boot), strict=True))
    finally:
        teller.communicate()
    assert off == [0, 1, 0, -1]
