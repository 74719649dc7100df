"""This room is for wrong clocks: drones and a service that believe in another time than the rest."""

from tests.faults.campaigns.stage import Stage
from tests.faults.clock import SKEW

HOUR = 3_600.0


def clocks_differ(stage: Stage) -> None:
    """One drone an hour ahead, one an hour behind, a service half an hour ahead; a right drone is killed."""
    family = stage.family
    wrong = ((family.drones[0], HOUR), (family.drones[1], -HOUR), (family.mccs[0], HOUR / 2))
    for member, seconds in wrong:
        family.told("clock set wrong", member.name, seconds=seconds)
        member.term()
        member.wait(15.0)
        member.environment = {**member.environment, SKEW: f"{seconds:g}"}
        member.start()
    family.ready()
    placed = stage.crowd("skewed", 8, linger_seconds=0.3)
    family.failpoints.arm("F10", "kill9", order="killed", nth=2)
    placed.append(stage.submit("killed", steps=6))
    stage.quiet()
    stage.succeeded(placed, "only clocks were wrong")
