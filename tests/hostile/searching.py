"""A search in a process of its own, under the custody of a drone whose lease holds: PROGRAM RECORD."""

import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from drone.sandbox.custody import Custody
from drone.sandbox.places.paths import Workspace
from drone.sandbox.reaper import boot_seconds
from drone.tools.files.pattern import LinePattern
from drone.tools.files.ripgrep import Ripgrep

ALL = ["file"]


def custody_of_a_drone(record: Path) -> Custody:
    custody = Custody()
    custody.guard(lambda: boot_seconds() + 60, margin_seconds=1.0, record=record)
    return custody


def searched(program: Path, custody: Custody, stop: threading.Event) -> Sequence[str]:
    """What may hold a match, of one file."""
    pattern = LinePattern("x", literal=True, case_sensitive=True)
    workspace = Workspace(program.parent)
    return Ripgrep(str(program), custody).candidates(pattern, workspace, ALL, stop, time.monotonic() + 60)


if __name__ == "__main__":
    searched(Path(sys.argv[1]), custody_of_a_drone(Path(sys.argv[2])), threading.Event())
