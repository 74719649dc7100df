"""Live drones of a name are told to take no orders; they read it when they renew their leases."""

import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.drones import DroneStatus
from mcc.store.database.errors import UnknownDrone
from tests.conformance.store.scene import Scene


def test_a_drone_reads_what_it_was_told_with_each_renewal_until_it_is_told_otherwise(scene: Scene) -> None:
    drone, other = scene.drone("one"), scene.drone("other")
    leases = scene.store.leases
    leases.drain("one", "finish", by=Actor("operator"))
    for _ in range(2):
        renewal = leases.renew(drone, lease_seconds=12, active=0)
        assert renewal is not None and renewal.drain == "finish"
    unmoved = leases.renew(other, lease_seconds=12, active=0)
    assert unmoved is not None and unmoved.drain is None
    assert {shown.name: shown.status for shown in leases.drones()} == {
        "one": DroneStatus.DRAINING,
        "other": DroneStatus.UP,
    }
    leases.drain("one", None, by=Actor("operator"))
    renewal = leases.renew(drone, lease_seconds=12, active=0)
    assert renewal is not None and renewal.drain is None
    assert [note.kind for note in scene.store.audit.list()] == ["drone.undrained", "drone.drained"]


def test_a_drone_that_starts_anew_takes_orders(scene: Scene) -> None:
    first = scene.drone("one")
    scene.store.leases.drain("one", "hand_back", by=Actor("operator"))
    scene.store.leases.leave(first)
    scene.drone("one")
    assert [(shown.name, shown.drain) for shown in scene.store.leases.drones()] == [("one", None)]


@pytest.mark.parametrize("name", ["nobody", "\0", ""])
def test_nobody_is_told_where_no_live_drone_has_the_name(scene: Scene, name: str) -> None:
    scene.store.leases.leave(scene.drone("one"))
    for told in (name, "one"):
        with pytest.raises(UnknownDrone):
            scene.store.leases.drain(told, "finish", by=Actor("operator"))
    assert scene.store.audit.list() == []
