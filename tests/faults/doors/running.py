"""All doors by their names, and runs of them."""

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.faults.doors.deliveries import cut_deliveries
from tests.faults.doors.firehose import cut_firehose
from tests.faults.doors.house import DoorTally
from tests.faults.doors.schedules import cut_schedules
from tests.faults.doors.triggers import cut_triggers
from tests.faults.doors.webhooks import cut_webhooks

CUTS, KILLS = 1_000, 20

DOORS: Mapping[str, Callable[[Path, int, int, int], DoorTally]] = {
    "webhooks": cut_webhooks,
    "schedules": cut_schedules,
    "triggers": cut_triggers,
    "firehose": cut_firehose,
    "deliveries": cut_deliveries,
}
"""Each is given a directory of its own, how many connections are cut, how often somebody is killed, and a seed."""


def cut_door(door: str, cuts: int, kills: int, seed: int, directory: Path | None = None) -> DoorTally:
    """One door; its evidence is kept where a promise was broken."""
    made = Path(tempfile.mkdtemp(prefix=f"doors-{door}-{seed}-", dir=directory)).absolute()
    began = time.monotonic()
    try:
        tally = DOORS[door](made, cuts, kills, seed)
    except AssertionError as broken:
        tally = DoorTally(door, seed, problems=[f"{type(broken).__name__}: {broken}"[:2_000]])
    tally.seconds = time.monotonic() - began
    if tally.problems:
        (made / "problems.txt").write_text("\n".join(tally.problems) + "\n")
        tally.problems.append(f"evidence: {made}")
    else:
        shutil.rmtree(made, ignore_errors=True)
    return tally


def cut_doors(doors: Sequence[str], cuts: int, kills: int, seed: int, directory: Path | None = None) -> int:
    """Each of these doors in turn, with a line for each; 1 where a promise was broken."""
    broken = 0
    for door in doors:
        tally = cut_door(door, cuts, kills, seed, directory)
        print(f"{time.strftime('%H:%M:%S')} {tally.line}", flush=True)
        for problem in tally.problems[-6:]:
            print(f"    {problem}", flush=True)
        if tally.problems:
            broken += 1
            again = f"python -m tests.faults doors {door} --cuts {cuts} --kills {kills} --seed {seed}"
            print(f"    again:    {again}", flush=True)
    return 1 if broken else 0
