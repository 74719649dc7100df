"""Many subagents in the background, whose drones are killed while they work."""

import json
import time
from dataclasses import dataclass, field

from tests.faults.campaigns.stage import Stage
from tests.faults.members import until
from tests.faults.script import MOST_CHILDREN

ENOUGH_SECONDS = 1_200.0


@dataclass(frozen=True, slots=True)
class Crowd:
    """How much happens: orders in all, how many are at work at a time, seconds between two kills."""

    orders: int = 20
    at_once: int = 12
    pause_seconds: float = 2.5


SOME, MANY = Crowd(), Crowd(orders=167, at_once=24, pause_seconds=6.0)


@dataclass
class Storm:
    """Places orders as others end, and kills drones that hold some."""

    stage: Stage
    crowd: Crowd
    placed: list[str] = field(default_factory=list)
    kills: int = 0
    next_kill: float = field(default_factory=time.monotonic)

    def is_over(self) -> bool:
        """Whether every order has ended; each question goes on with the storm."""
        unfinished = [state.order_id for state in self.stage.family.observer.states() if not state.final]
        self._place(self.crowd.at_once - len(unfinished))
        self._kill(unfinished)
        self.stage.family.restart_lost()
        return len(self.placed) == self.crowd.orders and not unfinished

    def _place(self, most: int) -> None:
        for number in range(len(self.placed), min(self.crowd.orders, len(self.placed) + most)):
            key = f"parent-{number}"
            order_id = self.stage.submit(key, watched=False, children=MOST_CHILDREN, steps=6, background=True)
            self.placed.append(order_id)

    def _kill(self, unfinished: list[str]) -> None:
        holders = {one.name: one for order_id in unfinished if (one := self.stage.family.holder(order_id))}
        if holders and time.monotonic() >= self.next_kill:
            self.stage.family.kill(holders[self.stage.dice.choice(sorted(holders))])
            self.kills += 1
            self.next_kill = time.monotonic() + self.crowd.pause_seconds


def killed_with_background(stage: Stage) -> None:
    """Again and again a drone is killed that holds orders with subagents in the background; each report reaches its
    parent once."""
    storm = Storm(stage, MANY if stage.whole else SOME)
    until(storm.is_over, ENOUGH_SECONDS, "every order has ended")
    stage.quiet()
    stage.succeeded(storm.placed, "its subagents worked in the background")
    observer, children = stage.family.observer, storm.crowd.orders * MOST_CHILDREN
    results = [json.loads(result) for order_id in storm.placed for result in observer.results(order_id)]
    hired = sum(len(result.get("background", ())) for result in results)
    delivered = observer.count("agent.delivered")
    stage.wish(hired == delivered == children, f"of {children} subagents {hired} were hired, {delivered} delivered")
    stage.wish(storm.kills > 0, "no drone was killed while it held an order")
    stage.measured["subagents in the background, delivered"].append(delivered)
