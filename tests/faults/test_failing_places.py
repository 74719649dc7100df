"""One control service and one drone: every place at which something can be made to happen is reached."""

from pathlib import Path

import pytest

from tests.faults.failpoints import PLACES
from tests.faults.family import Family
from tests.faults.members import until
from tests.faults.plan import Plan
from tests.faults.script import prompt_of
from tests.faults.services import REDIS_SERVER

pytestmark = [
    pytest.mark.family,
    pytest.mark.group("killed drones"),
    pytest.mark.skipif(REDIS_SERVER is None, reason="neither redis-server nor valkey-server is on PATH"),
]

HASTE = {"DRONE_DRAIN_CANCEL_SECONDS": "0.2", "DRONE_DRAIN_HAND_BACK_SECONDS": "0.6"}


def test_every_place_is_reached_by_an_order_that_is_handed_back_once_and_lost_once(tmp_path: Path) -> None:
    plan = Plan(mccs=1, drones=1, campaign="places", settings=HASTE)
    with Family(plan, tmp_path / "run") as family:
        arms = [family.failpoints.arm(place, "sleep", seconds=0.01) for place in PLACES]
        (drone,) = family.drones
        order_id = family.clients.submit(prompt_of("long", 3, children=2, steps=8, linger_seconds=1.0))
        until(lambda: family.state(order_id).last_seq > 10, 30.0, "the order is under way")
        drone.term()
        assert drone.wait(20.0) == 0
        family.restart_lost()
        until(lambda: family.holder(order_id) is drone, 30.0, "the order was claimed again")
        family.kill(drone)
        family.quiesce(restarting=True)

        def left() -> list[str]:
            return [one.name for one in arms if not family.failpoints.fired(one)]

        # The end is committed before its drone comes to the place behind it.
        until(lambda: not left(), 10.0, lambda: f"every place is reached, also {left()}")
