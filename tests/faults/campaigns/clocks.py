"""Wrong clocks: drones and services that believe in another time than the rest, or suddenly do so."""

import json
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from email.utils import parsedate_to_datetime

import httpx

from tests.faults.campaigns.stage import Stage, pause
from tests.faults.clock import SKEW, JumpingClock, faketime
from tests.faults.family import DRONE_APP, MCC_APP, READY_SECONDS
from tests.faults.members import Launched, Member, Starter, until

HOUR = 3_600.0
JUMPS = (HOUR, 0.0, -HOUR, 0.0)
"""How far a clock is ahead after each jump."""

NEARLY_SECONDS = 60.0
BETWEEN_SECONDS = 3.0
"""How long a clock stays as it is after a jump, at least."""

IS_READY = "drone ready."
"""A fresh interpreter that has registered may still be busy with imports for longer than a lease."""

MOST_CROWDS = 10
"""After so many of them the drone whose clock jumps has had an order to tell of."""


def clocks_are_wrong(stage: Stage) -> None:
    """Some clocks are an hour ahead or behind from the start; then one drone's and one service's jump to and fro."""
    _differ(stage)
    if (library := faketime()) is None:
        stage.missing["clocks that jump"] = "there is no libfaketime (the Debian package faketime has it)"
        return
    for member, module in ((stage.family.drones[2], DRONE_APP), (stage.family.mccs[1], MCC_APP)):
        _jumps(stage, member, module, JumpingClock(library, stage.family.places.control / f"{member.name}.clock"))


def _differ(stage: Stage) -> None:
    """One drone an hour ahead, one an hour behind, a service half an hour ahead; a right drone is killed."""
    family = stage.family
    wrong = ((family.drones[0], HOUR), (family.drones[1], -HOUR), (family.mccs[0], HOUR / 2))
    for member, seconds in wrong:
        family.told("clock set wrong", member.name, seconds=seconds)
        _again_with(member, member.starter, {SKEW: f"{seconds:g}"})
    family.ready()
    placed = stage.crowd("skewed", 8, linger_seconds=0.3)
    family.failpoints.arm("F10", "kill9", order="killed", nth=2)
    placed.append(stage.submit("killed", steps=6))
    stage.quiet()
    stage.succeeded(placed, "only clocks were wrong")
    for member, _ in wrong:
        _again_with(member, member.starter, {SKEW: "0"})
    family.ready()


def _again_with(member: Member, starter: Starter, environment: Mapping[str, str]) -> None:
    member.term()
    member.wait(15.0)
    member.starter, member.environment = starter, {**member.environment, **environment}
    member.start()


def _jumps(stage: Stage, member: Member, module: str, clock: JumpingClock) -> None:
    """While orders run, the clock of this one process jumps an hour ahead, back, an hour behind, and back."""
    family, usual = stage.family, (member.starter, member.environment)
    before = len(member.said())
    _again_with(member, Launched([sys.executable, "-m", module]), clock.environment)
    family.ready()
    if member in family.drones:
        until(lambda: IS_READY in member.said()[before:], READY_SECONDS, f"{member.name} is ready")
    lost, placed = _leases_lost(stage), list[str]()
    for ahead in JUMPS:
        before = len(member.said())
        family.told("clock jumps", member.name, seconds=ahead)
        clock.jump_to(ahead)
        for _ in range(MOST_CROWDS):
            placed += stage.crowd(f"{member.name}-{len(placed)}", 4, steps=5, children=0, linger_seconds=0.5)
            pause(BETWEEN_SECONDS)
            if is_seen := _is_ahead(stage, member, member.said()[before:], ahead):
                break
        stage.wish(is_seen, f"the clock of {member.name} was set {ahead:+g} s ahead, and it does not say so")
        stage.measured["jumps of a clock"].append(int(is_seen))
    stage.quiet()
    stage.succeeded(placed, "only a clock jumped")
    lost = _leases_lost(stage) - lost
    stage.wish(not lost, f"{lost} leases were lost while the clock of {member.name} jumped")
    member.term()
    member.wait(15.0)
    member.starter, member.environment = usual
    member.start()
    family.ready()


def _leases_lost(stage: Stage) -> int:
    return sum(drone.said().count("lease lost") for drone in stage.family.drones)


def _is_ahead(stage: Stage, member: Member, said: str, seconds: float) -> bool:
    """Whether what the process tells of the time, a service to clients and a drone in its log, is so far off now."""
    told = _date_of_answer(stage, member) if member in stage.family.mccs else _date_of_log(said)
    return told is not None and abs(told.timestamp() - time.time() - seconds) < NEARLY_SECONDS


def _date_of_answer(stage: Stage, member: Member) -> datetime:
    url = stage.family.urls[stage.family.mccs.index(member)]
    return parsedate_to_datetime(httpx.get(f"{url}/healthz", timeout=10.0).headers["date"])


def _date_of_log(said: str) -> datetime | None:
    """Of the last line that has one."""
    for line in reversed(said.splitlines()):
        with suppress(ValueError, KeyError, TypeError):
            return datetime.fromisoformat(json.loads(line)["timestamp"])
    return None
