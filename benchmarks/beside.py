"""How fast the machine is during a measurement.

A second of CPU does not always do the same work: two virtual processors may share a core and run at half its speed
when both are busy, and other guests of the host slow a machine down too. So a fixed piece of plain Python is timed
alongside each measurement.
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
    """Milliseconds of CPU that a fixed piece of plain Python takes now; busy neighbours on the same cores raise it."""
    began = time.process_time()
    for number in range(200):
        json.dumps({str(key): [key, number] for key in range(50)})
    return 1000 * (time.process_time() - began)


@contextmanager
def sampled_slowness() -> Iterator[list[float]]:
    """Sample `slowness` during the block, in a separate process; the list is filled when the block ends."""
    samples: list[float] = []
    sampler = subprocess.Popen(
        [sys.executable, "-m", __name__], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    )
    try:
        yield samples
    finally:
        output, _ = sampler.communicate()  # Closing its input ends it.
        samples += map(float, output.split())


def median_of(samples: list[float]) -> float:
    """The median of the samples; without any, the current `slowness`."""
    return statistics.median(samples) if samples else slowness()


def _print_samples() -> None:
    os.set_blocking(sys.stdin.fileno(), False)
    while sys.stdin.buffer.raw.read(1) is None:  # type: ignore[union-attr]
        print(slowness(), flush=True)
        time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    _print_samples()
