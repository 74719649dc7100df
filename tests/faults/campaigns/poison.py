"""One poisoned repository: tools that never stop, rules without end, an interpreter that is held; others go on."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.faults.bad_calls import bad_prompt
from tests.faults.campaigns.drones import EXIT_SECONDS
from tests.faults.campaigns.ground import Ground
from tests.faults.campaigns.stage import Stage
from tests.faults.invariants.times import percentile
from tests.faults.members import NotInTime, until
from tests.faults.plan import Plan
from tests.faults.poison import AGENT, DEAF, HOLD

NEIGHBOURS = 12
FILES, RULES = 5_000, 4_000
TOOL_CALL_SECONDS = 2.0
"""99 of 100 tool calls of a neighbour have ended so soon."""

FROZEN = "it gave no sign of life"
GAVE_UP = "this drone gives up and restarts"


@contextmanager
def poisoned_checkout(directory: Path, plan: Plan) -> Iterator[Ground]:
    """A workspace whose .gitignore has many long rules, beside many files with long names."""
    checkout = _checkout(directory)
    checkout.mkdir(parents=True)
    rule = "**/" * 30 + "a*" * 30
    (checkout / ".gitignore").write_text("\n".join(f"{rule}{number}" for number in range(RULES)))
    for number in range(FILES):
        (checkout / ("a" * 100 + str(number))).touch()
    yield Ground(replace(plan, settings={**plan.settings, "DRONE_WORKSPACE_ROOTS": str(checkout.parent)}))


def _checkout(directory: Path) -> Path:
    return directory / "workspaces" / "checkout"


def poisoned_repository(stage: Stage) -> None:
    """Each poison beside a crowd of neighbours; then SIGTERM to a drone whose interpreter is held."""
    workspace = str(_checkout(stage.family.places.directory))
    _beside(stage, "tools that never stop", [_placed(stage, "deaf", limits={"tool_seconds": 1.0})])
    _beside(stage, "rules without end", [_placed(stage, "ignored", workspace=workspace)])
    before = _restarts(stage)
    _beside(stage, "a held interpreter", [frozen := _placed(stage, "frozen")])
    state = stage.family.state(frozen)
    stage.wish(state.reason == "poison", f"the order that holds the interpreter is {state.status} ({state.reason})")
    until(lambda: _restarts(stage) > before, 4 * stage.family.plan.lease_seconds, "the frozen drone is killed")
    stage.family.restart_lost()
    stage.measured["restarts by one held interpreter"].append(_restarts(stage) - before)
    stage.wish(_restarts(stage) - before == 1, f"one order made {_restarts(stage) - before} drones restart")
    _told_to_end_while_frozen(stage)


def _placed(stage: Stage, poison: str, **asks: Any) -> str:
    stage.family.told("poison", poison)
    return stage.family.clients.submit(bad_prompt(poison), agent=AGENT, **asks)


def _beside(stage: Stage, what: str, hostile: Sequence[str]) -> None:
    """Neighbours of an order that does harm; all of them succeed, and their tool calls take no time."""
    began = time.monotonic()
    neighbours = [
        stage.family.clients.submit(bad_prompt("neighbour"), agent=AGENT, limits={"rounds": 30})
        for _ in range(NEIGHBOURS)
    ]
    stage.quiet()
    stage.measured[f"until all is done beside {what}"].append(time.monotonic() - began)
    stage.succeeded(neighbours, f"beside {what}")
    took = [seconds for order_id in neighbours for seconds in stage.family.observer.tool_seconds(order_id)]
    stage.measured[f"a neighbour's tool call beside {what}"].extend(took)
    worst = percentile(took, 99)
    stage.wish(worst <= TOOL_CALL_SECONDS, f"beside {what} a neighbour's tool call took {worst:.1f} s (p99)")


def _restarts(stage: Stage) -> int:
    return sum(drone.said().count(FROZEN) + drone.said().count(GAVE_UP) for drone in stage.family.drones)


def _told_to_end_while_frozen(stage: Stage) -> None:
    for poison, begun in (("deaf", DEAF), ("frozen", HOLD)):
        order_id = _placed(stage, poison)
        until(lambda order_id=order_id: stage.family.holder(order_id), 60.0, f"{poison} is claimed")  # type: ignore[misc]
        holder = stage.family.holder(order_id)
        until(
            lambda order_id=order_id: "tool.started" in stage.family.observer.last_kinds(order_id),  # type: ignore[misc]
            60.0,
            f"{begun} has begun",
        )
        assert holder is not None
        stage.family.told("term", holder.name, order=poison)
        began = time.monotonic()
        holder.term()
        try:
            holder.wait(EXIT_SECONDS + 5.0)
        except NotInTime:
            stage.family.kill(holder)
        took = time.monotonic() - began
        stage.measured[f"exit after SIGTERM with {begun}"].append(took)
        stage.wish(took <= EXIT_SECONDS, f"{holder.name} ended {took:.1f} s after SIGTERM, with {begun} at work")
        stage.family.clients.control(order_id, "cancel")
        stage.quiet()
        stage.family.restart_lost()
