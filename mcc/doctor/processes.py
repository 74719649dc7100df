"""This room is for the processes of drones on this machine, by pid and start time."""

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from mcc.doctor.chart import Life
from mcc.store.examined import SeenDrone

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")
EARLIER_SECONDS = 5.0
"""A process starts before its drone registers; one that started this much later has the pid by chance."""


def lives_of(drones: Iterable[SeenDrone], host: str, proc: Path = PROC) -> Mapping[str, Life]:
    """By incarnation, for the drones of this host; where there is no /proc, only whether the pid is taken."""
    return {drone.incarnation: life_of(drone, proc) for drone in drones if drone.host == host}


def life_of(drone: SeenDrone, proc: Path = PROC) -> Life:
    if not (proc / "uptime").exists():
        return Life.UNKNOWN
    try:
        fields = (proc / str(drone.pid) / "stat").read_text().rpartition(")")[2].split()
        uptime = float((proc / "uptime").read_text().split()[0])
    except (FileNotFoundError, ProcessLookupError):
        return Life.GONE
    except (OSError, ValueError, IndexError):
        return Life.UNKNOWN
    started = time.time() - uptime + int(fields[19]) / TICKS
    if fields[0] in ("Z", "X") or started > drone.started_at.timestamp() + EARLIER_SECONDS:
        return Life.GONE
    return Life.STOPPED if fields[0] in ("T", "t") else Life.RUNS
