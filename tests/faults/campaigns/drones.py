"""Harm to drones: killed, poisoned, told to stop, frozen, starved of CPU."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.faults.campaigns.stage import Stage, batches, pause
from tests.faults.failpoints import PLACES, Action, Armed
from tests.faults.members import Member, NotInTime, until
from tests.faults.memory import NoGroup, limited

OF_DRONES = tuple(place for place in PLACES if place not in ("F1", "F2", "F3", "F21"))
OF_NOBODY = ("F22", "F23", "F24")
"""Places that belong to no single order."""

AT_ONCE = 4
FROZEN_AT = ("F7", "F10", "F11", "F12", "F13", "F18", "F23")
STOPPED_AT = ("F6", "F7", "F8", "F9", "F10", "F11", "F12", "F13", "F17", "F18")
FATAL_VISITS = 12
LIMIT_BYTES = 256 * 1024 * 1024
"""What a drone in a control group may take beyond what it has."""

FEW_TOKENS = (3_000, 6_000, 12_000)
"""Limits of orders that end before their scripts do."""

EXIT_SECONDS, KILL_SECONDS = 10.0, 15.0
BRIEF_STOPS = (2.0, 5.0)


def killed_everywhere(stage: Stage) -> None:
    """kill -9 once at each place of a drone's life, several at a time, in a shuffled order."""
    places = list(OF_DRONES)
    stage.dice.shuffle(places)
    for number, some in enumerate(batches(places, AT_ONCE)):
        armed = [_armed(stage, place, "kill9") for place in some]
        for place in some:
            stage.submit(place)
        stage.submit(f"poor-{number}", children=2, tokens=stage.dice.choice(FEW_TOKENS))
        stage.quiet()
        stage.measured["places reached"].append(sum(map(stage.family.failpoints.fired, armed)))


def _armed(stage: Stage, place: str, action: Action, seconds: float = 1.0) -> Armed:
    nth = stage.dice.choice((1, 2)) if place in ("F6", "F7", "F9", "F10", "F13") else 1
    order = None if place in OF_NOBODY else place
    return stage.family.failpoints.arm(place, action, order=order, nth=nth, seconds=seconds)


def poisoned(stage: Stage) -> None:
    """One order kills every process that holds it; it ends as poison, and those beside it are done."""
    place = stage.dice.choice(("F6", "F7"))
    _ended_for_memory(stage)
    _exhausted(stage, "out_of_memory")
    for _ in range(FATAL_VISITS):
        stage.family.failpoints.arm(place, "kill9", order="poison")
    neighbours = stage.crowd("neighbour", 6)
    order_id = stage.submit("poison")
    stage.quiet()
    state = stage.family.state(order_id)
    stage.wish(state.reason == "poison", f"the order that kills is {state.status} ({state.reason})")
    stage.wish(state.takeovers <= 3, f"the order that kills took {state.takeovers} drones with it")
    stage.succeeded(neighbours, f"it was a neighbour of an order that kills at {place}")


def _exhausted(stage: Stage, action: Action) -> None:
    """One order takes all memory that its drone may have, in a model call or in a tool; those beside it are done."""
    place = stage.dice.choice(("F7", "F11"))
    neighbours = stage.crowd(f"beside-{action}", 4)
    stage.family.failpoints.arm(place, action, order=f"greedy-{action}")
    stage.submit(f"greedy-{action}")
    stage.quiet()
    stage.succeeded(neighbours, f"it was a neighbour of an order that takes all memory at {place}")


def _ended_for_memory(stage: Stage) -> None:
    """The same where each drone has a control group with a limit, so that the kernel ends the one that goes beyond."""
    with ExitStack() as stack:
        try:
            groups = [stack.enter_context(limited(drone.pid, LIMIT_BYTES)) for drone in stage.family.drones]
        except NoGroup as why:
            stage.missing["a drone ended by the kernel for its memory"] = str(why)
            return
        _exhausted(stage, "oom_kill")
        ended = sum(group.ended for group in groups)
    stage.measured["drones ended by the kernel for their memory"].append(ended)
    stage.wish(ended == 1, f"the kernel ended {ended} drones for their memory, and not one")


def told_to_stop(stage: Stage) -> None:
    """SIGTERM in the midst of things, SIGKILL after 15 s, as a container's stop does; one drone after another."""
    for number, place in enumerate(stage.dice.sample(STOPPED_AT, 2)):
        armed = stage.family.failpoints.arm(place, "sleep", order=f"stop-{number}-0", seconds=0.2)
        stage.crowd(f"stop-{number}", 4, children=1, steps=10, linger_seconds=2.0)
        until(lambda armed=armed: stage.family.failpoints.fired(armed), 60.0, f"{place} is reached")  # type: ignore[misc]
        busy = [holder for state in stage.family.observer.states() if (holder := stage.family.holder(state.order_id))]
        for drone in {member.name: member for member in busy[:1]}.values():
            _stopped(stage, drone)
        stage.quiet()


def _stopped(stage: Stage, drone: Member) -> None:
    stage.family.told("term", drone.name)
    drone.term()
    began = time.monotonic()
    try:
        code = drone.wait(KILL_SECONDS)
    except NotInTime:
        stage.family.kill(drone)
        stage.wish(False, f"{drone.name} did not end within {KILL_SECONDS:g} s of SIGTERM")
        return
    took = time.monotonic() - began
    stage.measured["exit after SIGTERM"].append(took)
    stage.wish(code == 0 and took <= EXIT_SECONDS + 2.0, f"{drone.name} ended with {code} after {took:.1f} s")


def frozen_for_long(stage: Stage) -> None:
    """SIGSTOP for longer than the lease, then SIGCONT: another drone does the order, the zombie writes nothing."""
    stage.family.provoked_stale = True
    for place in stage.dice.sample(FROZEN_AT, 2):
        frozen = stage.family.plan.lease_seconds + 3.0
        armed = _armed(stage, place, "stop", frozen)
        stage.submit(place, children=1, steps=7, linger_seconds=0.3)
        stage.crowd(f"beside-{place}", 2)
        stage.quiet()
        if stage.family.failpoints.fired(armed):
            pause(frozen)
    until(lambda: _told_off(stage), 20.0, "a zombie learns that it was taken for lost")


def _told_off(stage: Stage) -> bool:
    return any("lease lost" in drone.said() for drone in stage.family.drones)


def frozen_for_a_moment(stage: Stage) -> None:
    """SIGSTOP for less than the lease, and CPU hogs on every core: nobody takes anything over."""
    stage.crowd("moment", 6, steps=10, linger_seconds=1.0)
    with hogs(os.cpu_count() or 1):
        for drone in stage.dice.sample(stage.family.drones, 2):
            seconds = stage.dice.choice(BRIEF_STOPS)
            stage.family.told("short freeze of a process", f"of {drone.name[-1]}", seconds=seconds)
            drone.stop()
            pause(seconds)
            drone.go_on()
        stage.crowd("later", 4)
        pause(stage.seconds / 2)
        stage.quiet()
    stage.measured["orders under CPU hogs"].append(10)


@contextmanager
def hogs(count: int) -> Iterator[None]:
    """So many processes that only count."""
    there = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for hog in there:
            hog.kill()
            hog.wait()
