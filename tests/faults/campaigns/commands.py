"""Commands that do harm, as orders of a family: beside neighbours, and while their drone is killed."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from drone.sandbox.bubblewrap import Bubblewrap
from drone.tools.shell.commands import Shell
from tests.faults.bad_calls import bad_prompt
from tests.faults.campaigns.ground import Ground
from tests.faults.campaigns.stage import Skipped, Stage
from tests.faults.commands import HARMS, orphans
from tests.faults.members import until
from tests.faults.plan import Plan
from tests.faults.poison import AGENT, COMMANDER, LONG, MARK

NEIGHBOURS = 8
RSS_MB = 300.0
GONE_SECONDS = 5.0


@contextmanager
def workspaces(directory: Path, plan: Plan) -> Iterator[Ground]:
    """One for each command, since they have it alone."""
    if problem := Shell.found(Bubblewrap.found()).problem:
        raise Skipped(problem)
    roots = directory / "workspaces"
    for name in (*HARMS, LONG):
        (roots / _directory(name)).mkdir(parents=True)
    yield Ground(replace(plan, settings={**plan.settings, "DRONE_WORKSPACE_ROOTS": str(roots)}))


def _directory(name: str) -> str:
    return name.replace(" ", "_")


def commands_do_harm(stage: Stage) -> None:
    """Every harm at once beside neighbours; then the drone of a long command is killed, and another one cancelled."""
    try:
        _beside_neighbours(stage)
        _killed_in_the_middle(stage)
        _cancelled_in_the_middle(stage)
        stage.wish(orphans(MARK) == 0, f"{orphans(MARK)} processes are left")
    finally:
        # Whoever reads the evidence goes down every directory by itself.
        deep = stage.family.places.directory / "workspaces" / _directory("deep directory")
        subprocess.run(("rm", "-rf", deep), check=True, timeout=120)


def _beside_neighbours(stage: Stage) -> None:
    harmful = [_placed(stage, name) for name in HARMS if name != "after all"]
    neighbours = [stage.family.clients.submit(bad_prompt("neighbour"), agent=AGENT) for _ in range(NEIGHBOURS)]
    stage.quiet()
    stage.succeeded([*harmful, *neighbours], "beside commands that do harm")
    for drone in stage.family.drones:
        peak = _peak_mb(drone.pid)
        stage.measured["most memory of a drone, MB"].append(peak)
        stage.wish(peak <= RSS_MB, f"{drone.name} took {peak:.0f} MB")


def _placed(stage: Stage, name: str) -> str:
    workspace = stage.family.places.directory / "workspaces" / _directory(name)
    stage.family.told("command", name)
    return stage.family.clients.submit(bad_prompt(_directory(name)), agent=COMMANDER, workspace=str(workspace))


def _killed_in_the_middle(stage: Stage) -> None:
    order_id = _begun(stage)
    holder = stage.family.holder(order_id)
    assert holder is not None
    stage.family.told("kill9", holder.name, order=LONG)
    stage.family.kill(holder)
    _gone(stage, "its drone was killed")
    stage.family.restart_lost()
    results = stage.family.observer.results
    until(lambda: any("outcome of this call is not known" in said for said in results(order_id)), 60.0, "it is told")
    stage.family.clients.control(order_id, "cancel")
    stage.quiet()


def _cancelled_in_the_middle(stage: Stage) -> None:
    order_id = _begun(stage)
    stage.family.clients.control(order_id, "cancel")
    _gone(stage, "it was cancelled")
    stage.quiet()
    state = stage.family.state(order_id)
    stage.wish(state.status == "cancelled", f"{order_id} is {state.status}")


def _begun(stage: Stage) -> str:
    """An order whose command runs, and goes on for a long time."""
    order_id = _placed(stage, LONG)
    until(lambda: stage.family.holder(order_id) is not None and orphans(MARK) > 0, 60.0, "the command runs")
    return order_id


def _gone(stage: Stage, why: str) -> None:
    began = time.monotonic()
    until(lambda: orphans(MARK) == 0, 30.0, f"no process of the command is left after {why}")
    took = time.monotonic() - began
    stage.measured[f"until a command is gone after {why}"].append(took)
    stage.wish(took <= GONE_SECONDS, f"a command was gone {took:.1f} s after {why}")


def _peak_mb(pid: int) -> float:
    """The most memory that a process had at once."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return float(status["VmHWM"].split()[0]) / 1024
