"""Drones of tests: two programs, with a fake crew or with tools."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.forking import popen

ROOT = Path(__file__).parents[3]
FAKE, WITH_TOOLS = "tests.drone.worker.fake_drone", "tests.drone.worker.tool_drone"

Running = subprocess.Popen[Any]


def forked(program: str, environment: Mapping[str, str], log: Path) -> Running:
    """A drone of this program with this environment and no other, whose output is in the file `log`."""
    command = [sys.executable, "-m", program]
    with log.open("ab") as output:
        return popen.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
