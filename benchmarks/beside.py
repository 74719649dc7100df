"""How fast this machine is while something else is measured on it.

A second of CPU is not the same work at all times: two virtual processors may share a core, and run at half its speed
once both are busy; other guests do the same. So a piece of plain Python is timed beside what is measured.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

PAUSE_SECONDS = 0.25


def slowness() -> float:
    """Milliseconds of CPU that a piece of plain Python takes here and now: neighbours on the same cores show in it."""
    began = time.process_time()
    for number in range(200):
        json.dumps({str(one): [one, number] for one in range(50)})
    return 1000 * (time.process_time() - began)


@contextmanager
def slowness_meanwhile() -> Iterator[list[float]]:
    """What `slowness` was inside, taken again and again in a process of its own; the list is filled at the end."""
    found: list[float] = []
    beside = subprocess.Popen(
        [sys.executable, "-m", __name__], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    )
    try:
        yield found
    finally:
        said, _ = beside.communicate()  # the end of its input ends it
        found += map(float, said.split())


def median_of(found: list[float]) -> float:
    """The middle of what was taken; of nothing, what it is now."""
    return statistics.median(found) if found else slowness()


def _again_and_again() -> None:
    os.set_blocking(sys.stdin.fileno(), False)
    while sys.stdin.buffer.raw.read(1) is None:  # type: ignore[union-attr]
        print(slowness(), flush=True)
        time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    _again_and_again()
