"""Drones forked from a process that has imported everything, which saves each a second of imports."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.faults.zygote import Start, Zygote, zygote_of

FAKE, WITH_TOOLS = "tests.drone.worker.fake_drone", "tests.drone.worker.tool_drone"


@dataclass(frozen=True)
class Forked:
    """One drone, with the interface of `subprocess.Popen`."""

    pid: int
    zygote: Zygote

    def poll(self) -> int | None:
        return self.zygote.status(self.pid)

    def wait(self, timeout: float | None = None) -> int:
        """Raises `subprocess.TimeoutExpired`."""
        give_up = time.monotonic() + (60.0 if timeout is None else timeout)
        while (status := self.poll()) is None:
            if time.monotonic() > give_up:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 60.0)
            time.sleep(0.01)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


Running = subprocess.Popen[bytes] | Forked
"""A drone of either kind."""


def forked(program: str, environment: Mapping[str, str], log: Path) -> Forked:
    """A drone of this program with this environment and no other, whose output is in the file `log`."""
    zygote = zygote_of(program)
    return Forked(zygote.start(Start(environment, str(log))), zygote)
