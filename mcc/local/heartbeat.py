"""Signs of life of a supervised child: bytes in a pipe, which need neither a database nor a disk to arrive."""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

LOOK_SECONDS = 0.5
VARIABLE = "DRONE_HEARTBEAT"
"""The environment variable that tells a child its descriptor."""


class Silence:
    """For how long a child has given no sign of life, in the supervisor's own running time.

    Nothing counts before the first sign, nor while the child is stopped. Of a gap between two looks at most
    `most_gap_seconds` count: in a longer one the supervisor itself was held up.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, most_gap_seconds: float = 2 * LOOK_SECONDS) -> None:
        self._clock = clock
        self._most_gap_seconds = most_gap_seconds
        self._looked_at = clock()
        self._begun = False
        self._seconds = 0.0

    def look(self, *, heard: bool, stopped: bool) -> float:
        now = self._clock()
        gap, self._looked_at = min(now - self._looked_at, self._most_gap_seconds), now
        self._begun = self._begun or heard
        self._seconds = 0.0 if heard or stopped or not self._begun else self._seconds + gap
        return self._seconds


class Heartbeat:
    """The pipe of one child; the child writes to `descriptor`."""

    def __init__(self, most_seconds: float) -> None:
        self._most_seconds = most_seconds
        self._read, self.descriptor = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self.descriptor, False)

    async def lost(self, pid: int) -> float:
        """Returns the seconds of silence of the child, once they are more than `most_seconds`."""
        silence, seconds = Silence(), 0.0
        while seconds < self._most_seconds:
            await asyncio.sleep(LOOK_SECONDS)
            seconds = silence.look(heard=self._heard(), stopped=is_stopped(pid))
        return seconds

    def close(self) -> None:
        os.close(self._read)
        os.close(self.descriptor)

    def _heard(self) -> bool:
        heard = False
        with suppress(BlockingIOError):
            while os.read(self._read, 65_536):
                heard = True
        return heard


def is_stopped(pid: int) -> bool:
    """Whether a signal or a debugger holds the process."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state in (b"T", b"t")
