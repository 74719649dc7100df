"""Ghosts: orders that nobody has, times that came unnoticed, workers that nobody knows."""

import pytest

from mcc.doctor.chart import Chart
from mcc.doctor.finding import Finding
from mcc.doctor.ghosts import ghosts
from mcc.store.examined import SeenDrone, SeenOrder
from tests.mcc.doctor.ward import ago, chart, drone, node, order, order_id, queued, states, waiting


def found(seen: Chart) -> list[Finding]:
    return list(ghosts(seen))


def test_an_order_under_a_live_drone_is_none() -> None:
    assert found(chart(drones=[drone()], orders=[order()])) == []


@pytest.mark.parametrize(
    ("holder", "told"),
    [
        (drone(state="lost", in_time=False, heard=60), "declared lost"),
        (drone(state="cut", in_time=False, heard=60), "declared lost"),
        (drone(state="left", in_time=False, heard=60), "left"),
        (drone(in_time=False, heard=60), "lease ran out"),
    ],
)
def test_an_order_whose_holder_is_gone_is_taken_back_by_the_fix(holder: SeenDrone, told: str) -> None:
    [ghost] = found(chart(drones=[holder], orders=[order()]))
    assert (ghost.what, ghost.state, ghost.order_id, ghost.fix) == ("ghost", "broken", order_id(), "sweep")
    assert told in ghost.detail and "mcc doctor --fix" in ghost.advice


def test_an_order_under_an_incarnation_that_nobody_knows_is_one() -> None:
    [ghost] = found(chart(orders=[order()]))
    assert "no drone that the database knows" in ghost.detail


@pytest.mark.parametrize(
    "holder",
    [
        drone(state="lost", in_time=False, heard=14),
        drone(in_time=False, heard=14),
        drone(state="left", in_time=False, heard=2),
    ],
)
def test_the_sweep_is_given_time(holder: SeenDrone) -> None:
    assert found(chart(drones=[holder], orders=[order()])) == []
    assert found(chart(orders=[order(moved=1)])) == []


@pytest.mark.parametrize(
    "late", [queued(expires_at=ago(60)), waiting(expires_at=ago(60)), waiting(waits_until=ago(60))]
)
def test_an_order_past_its_expiry_should_have_been_ended(late: SeenOrder) -> None:
    [ghost] = found(chart(orders=[late]))
    assert (ghost.what, ghost.fix, ghost.order_id) == ("expired", "sweep", order_id())


def test_an_order_that_expired_a_moment_ago_or_runs_on_is_left_alone() -> None:
    running = order(expires_at=ago(60))
    assert found(chart(drones=[drone()], orders=[queued(expires_at=ago(1)), running])) == []


@pytest.mark.parametrize("reason", ["not_before", "rate_limit", "disk", "memory"])
def test_an_order_whose_time_has_come_should_have_been_resumed(reason: str) -> None:
    [ghost] = found(chart(orders=[waiting(reason=reason, not_before=ago(60))]))
    assert (ghost.what, ghost.fix) == ("overdue", "sweep")
    assert found(chart(orders=[waiting(reason=reason, not_before=ago(-60))])) == []
    assert found(chart(orders=[waiting(reason="approval", not_before=ago(60))])) == []


def test_a_worker_that_the_database_does_not_know_is_named() -> None:
    [ghost] = found(chart(drones=[drone()], nodes=[node(), node("stranger@drone", 99)]))
    assert (ghost.what, ghost.state, ghost.drone) == ("ghost", "warning", "stranger@drone")
    assert "pid 99" in ghost.detail


def test_nobody_sweeping_is_told_while_there_is_something_to_sweep() -> None:
    assert states(found(chart(orders=[queued()], swept=60))) == [("sweep", "warning")]
    assert found(chart(swept=60)) == []
    assert found(chart(orders=[queued()], swept=5)) == []
    assert found(chart(orders=[queued()], swept=None)) == []
