"""Looking at single failpoints: one family, an order for each place and seed, and what became of them.

    python -m tests.faults.one_place [DIRECTORY] --database postgres --action kill9 --place F5 F10 --seeds 3 --first 40

Prints a line for each order, then every promise that was not kept; exit code 1 if there is one. The same arguments give
the same scripts and the same faults. Actions that raise at F6 to F8, F11 and F12 are errors of a model or a tool, which
a turn tells and survives in its own way: its record then differs from its script.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.faults.checker import evidence_of, violations
from tests.faults.failpoints import ACTIONS, PLACES, Action, Armed
from tests.faults.family import Family
from tests.faults.members import NotInTime
from tests.faults.plan import Plan
from tests.faults.script import prompt_of

NOBODYS = ("F21", "F22", "F23", "F24")
"""Places that are of no single order; F21 and F22 need a hand-back or a takeover, which kill9 at others brings."""

DEFAULT_PLACES = tuple(place for place in PLACES if place not in ("F21", "F22"))
STOP_SECONDS_OVER_LEASE = 3.0


def one(family: Family, place: str, action: Action, seed: int) -> str:
    """Run one order with what happens to it; a line that tells. Raises `NotInTime`."""
    key = f"{place}-{action}-{seed}"
    armed = _armed(family, place, action, key)
    began = time.monotonic()
    order_id = family.clients.submit(prompt_of(key, seed, children=seed % 3, steps=6))
    family.watch(order_id, seed=seed)
    family.quiesce(restarting=True)
    state = family.state(order_id)
    fired = "" if family.failpoints.fired(armed) else ", not reached"
    family.failpoints.disarm()
    took = time.monotonic() - began
    return f"{key:22} {state.status} {state.reason or ''} attempt {state.attempt}, {took:.1f} s{fired}  {order_id}"


def _armed(family: Family, place: str, action: Action, key: str) -> Armed:
    seconds = family.plan.lease_seconds + STOP_SECONDS_OVER_LEASE if action == "stop" else 0.5
    order = None if place in NOBODYS else key
    return family.failpoints.arm(place, action, order=order, seconds=seconds, unavailable=True)


def run(family: Family, places: Iterable[str], action: Action, seeds: Sequence[int]) -> list[str]:
    """All of it; what was not kept, in sentences."""
    problems: list[str] = []
    for seed in seeds:
        for place in places:
            try:
                print(one(family, place, action, seed), flush=True)
            except NotInTime as late:
                problems.append(f"{place}, seed {seed}: {late}")
                family.failpoints.disarm()
    return [*problems, *map(str, violations(evidence_of(family.finish())))]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.one_place", description=__doc__.split("\n")[0])
    parser.add_argument("directory", type=Path, nargs="?", help="for the evidence; a new temporary one by default")
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--action", choices=ACTIONS, default="kill9")
    parser.add_argument("--place", choices=tuple(PLACES), nargs="+", default=DEFAULT_PLACES)
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--lease", type=float, default=2.0, help="seconds")
    parser.add_argument("--drones", type=int, default=3)
    said = parser.parse_args(arguments)
    directory = said.directory or Path(tempfile.mkdtemp(prefix="faults-"))
    plan = Plan(
        database=said.database,
        drones=said.drones,
        lease_seconds=said.lease,
        renew_seconds=said.lease / 5,
        campaign=f"{said.action} at {' '.join(said.place)}",
        seed=said.first,
    )
    with Family(plan, directory) as family:
        problems = run(family, said.place, said.action, range(said.first, said.first + said.seeds))
    print("\n".join(problems) or "every promise was kept", f"evidence: {directory}", sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
