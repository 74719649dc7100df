"""Many orders that write in few repositories, one inside another, while their drones die: one writes at a time."""

import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from drone.sandbox.bubblewrap import Bubblewrap
from drone.tools.shell.commands import Shell
from tests.faults.assembly import MODEL
from tests.faults.campaigns.drones import KILL_SECONDS
from tests.faults.campaigns.ground import Ground
from tests.faults.campaigns.stage import Skipped, Stage, pause
from tests.faults.failpoints import Action
from tests.faults.members import NotInTime, until
from tests.faults.plan import Plan
from tests.faults.repositories import (
    AGENT,
    TALLY,
    Deed,
    Picture,
    furnish,
    interrupted,
    overwritten,
    picture,
    wrongly_reverted,
)

OUTER, INNER, BESIDE = "harbour", "harbour/quay", "shed"
PLACES = ("F10", "F12", "F13")
"""Where a drone is killed or frozen: around a call that writes."""

STORM_SECONDS, REVERT_SECONDS = 240.0, 60.0


@dataclass(frozen=True, slots=True)
class Scene:
    """How much happens. `in_each`: orders of each repository; `harm`: how often a drone is killed from outside, frozen
    and told to stop; `armed`: how many orders lose their drone around a call of theirs; `reverts`: how many."""

    in_each: int = 4
    harm: int = 2
    armed: int = 4
    reverts: int = 8


WHOLE, MORE = Scene(), Scene(in_each=8, harm=4, armed=8, reverts=16)


@dataclass
class Repository:
    """One directory with its orders, by their ids, and its files before any of them."""

    root: Path
    orders: dict[str, Deed] = field(default_factory=dict)
    first: Picture = field(default_factory=dict)


@contextmanager
def repositories(directory: Path, plan: Plan) -> Iterator[Ground]:
    """Three repositories of git, of which one is inside another."""
    if problem := Shell.found(Bubblewrap.found()).problem:
        raise Skipped(problem)
    roots = directory / "workspaces"
    for name in (OUTER, INNER, BESIDE):
        (roots / name).mkdir(parents=True)
        subprocess.run(("git", "init", "-q", roots / name), check=True)
    yield Ground(replace(plan, settings={**plan.settings, "DRONE_WORKSPACE_ROOTS": str(roots)}))


def one_repository(stage: Stage) -> None:
    """Orders add lines to files that all of them write, and ask a person midway, while drones are killed, frozen and
    told to stop; then they are reverted, and the drones of reverts are killed."""
    scene = MORE if stage.whole else WHOLE
    stage.family.provoked_stale = True
    found = _furnished(stage, scene)
    _placed(stage, found, scene)
    _storm(stage, scene)
    stage.succeeded([order_id for one in found.values() for order_id in one.orders], "it writes beside others")
    for root, deeds in _by_tally(found).items():
        tally = (root / TALLY).read_bytes()
        stage.problems += [f"{root.name}: {wrong}" for wrong in overwritten(deeds, tally)]
        stage.measured["lines in a file"].append(sum(len(deed.lines) for deed in deeds))
        stage.measured["orders that others wrote in the midst of"].append(sum(interrupted(one, tally) for one in deeds))
    _revert(stage, list(found.values()), scene)


def _furnished(stage: Stage, scene: Scene) -> Mapping[str, Repository]:
    roots = stage.family.places.directory / "workspaces"
    found = {name: Repository(roots / name) for name in (OUTER, INNER, BESIDE)}
    for name, one in found.items():
        deeds = [
            Deed(
                f"{one.root.name}{number}",
                "shell" if number % 2 else "edit",
                tally=f"quay/{TALLY}" if name == OUTER and number % 4 >= 2 else TALLY,
                asks=number % 3 == 2,
            )
            for number in range(scene.in_each)
        ]
        furnish(one.root, deeds)
        one.orders.update({deed.name: deed for deed in deeds})
    for one in found.values():
        one.first = picture(one.root)
    return found


def _placed(stage: Stage, found: Mapping[str, Repository], scene: Scene) -> None:
    """Place all orders, those of the repositories in turn."""
    waiting = [(one, deed) for one in found.values() for deed in one.orders.values()]
    stage.dice.shuffle(waiting)
    for one in found.values():
        one.orders.clear()
    for number, (one, deed) in enumerate(waiting):
        order_id = stage.family.clients.submit(
            deed.prompt, agent=AGENT, model=MODEL, workspace=str(one.root), on_ask="wait"
        )
        one.orders[order_id] = deed
        if number < scene.armed:
            seconds = stage.family.plan.lease_seconds + 3.0
            action: Action = "stop" if number % 2 else "kill9"
            nth = stage.dice.randint(3, 9)
            stage.family.failpoints.arm(stage.dice.choice(PLACES), action, order=order_id, nth=nth, seconds=seconds)


def _by_tally(found: Mapping[str, Repository]) -> Mapping[Path, Sequence[Deed]]:
    """The deeds of all repositories by the directory of the tally that they write in."""
    by_root: dict[Path, list[Deed]] = {}
    for one in found.values():
        for deed in one.orders.values():
            by_root.setdefault((one.root / deed.tally).parent, []).append(deed)
    return by_root


def _storm(stage: Stage, scene: Scene) -> None:
    """Harm to the drones one after another, and a person who allows what is asked, until all orders have ended."""
    harms: list[Callable[[Stage], None]] = [_kill, _freeze, _tell_to_stop] * scene.harm
    stage.dice.shuffle(harms)
    left = deque(harms)
    again = time.monotonic() + 1.0

    def over() -> bool:
        nonlocal again
        _allow(stage)
        stage.family.restart_lost()
        if left and time.monotonic() >= again:
            left.popleft()(stage)
            again = time.monotonic() + stage.dice.uniform(0.5, 2.0)
        return all(state.final for state in stage.family.observer.states())

    until(over, STORM_SECONDS, "every order has ended")
    stage.quiet()


def _allow(stage: Stage) -> None:
    status, items = stage.family.clients.get("/approvals", status="pending")
    for item in items["items"] if status == 200 else ():
        if stage.family.clients.decide(item["id"], "approve") == 200:
            stage.measured["approvals"].append(1)


def _busy(stage: Stage) -> Any:
    """A drone that holds an order; any, where none does."""
    holders = [stage.family.holder(state.order_id) for state in stage.family.observer.states() if not state.final]
    return stage.dice.choice([one for one in holders if one is not None] or stage.family.drones)


def _kill(stage: Stage) -> None:
    stage.family.kill(_busy(stage))


def _freeze(stage: Stage) -> None:
    drone, seconds = _busy(stage), stage.family.plan.lease_seconds + stage.dice.uniform(0.5, 3.0)
    stage.family.told("stop", drone.name, seconds=seconds)
    drone.stop()
    pause(seconds)
    drone.go_on()


def _tell_to_stop(stage: Stage) -> None:
    drone = _busy(stage)
    stage.family.told("term", drone.name)
    drone.term()
    try:
        drone.wait(KILL_SECONDS)
    except NotInTime:
        stage.family.kill(drone)
        stage.wish(False, f"{drone.name} did not end within {KILL_SECONDS:g} s of SIGTERM")


def _revert(stage: Stage, found: Sequence[Repository], scene: Scene) -> None:
    """Revert orders, one after the other, and judge each: half of them from the newest on, the others at random."""
    every = [(one, order_id) for one in found for order_id in one.orders]
    newest = sorted(every, key=lambda both: _last_line(*both), reverse=True)[: scene.reverts // 2]
    others = [one for one in every if one not in newest]
    for repository, order_id in (*newest, *stage.dice.sample(others, scene.reverts - len(newest))):
        _reverted(stage, repository, order_id)


def _last_line(repository: Repository, order_id: str) -> int:
    """How far down in its tally the newest line of an order is."""
    deed = repository.orders[order_id]
    lines = (repository.root / deed.tally).read_text().splitlines()
    return max((number for number, line in enumerate(lines) if line in deed.lines), default=0)


def _reverted(stage: Stage, repository: Repository, order_id: str) -> None:
    deed, before = repository.orders[order_id], picture(repository.root)
    revert_id = stage.family.clients.revert(order_id)
    if stage.dice.random() < 0.4:
        stage.family.failpoints.arm("F18", "kill9", order=revert_id)
    until(lambda: _ended(stage, revert_id), REVERT_SECONDS, "the revert has ended")
    _, told = stage.family.clients.get(f"/orders/{revert_id}")
    named = None if told["status"] == "succeeded" else list((told.get("result") or {}).get("changed", ()))
    stage.measured["reverts done" if named is None else "reverts refused"].append(1)
    after = picture(repository.root)
    for wrong in wrongly_reverted(deed, repository.first, before, after, named):
        stage.problems.append(f"the revert {revert_id} of {deed.name} ({told['detail']}): {wrong}")


def _ended(stage: Stage, order_id: str) -> bool:
    stage.family.restart_lost()
    return stage.family.state(order_id).final
