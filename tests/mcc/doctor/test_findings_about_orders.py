"""Findings about orders: ghosts, whose drone is lost, and orders that are stuck although no drone is lost."""

from typing import Literal

import pytest

from mcc.contracts.limits import Limits
from mcc.contracts.open_calls import OpenCall
from mcc.findings.finding import Finding
from mcc.findings.orders import ghosts, stuck
from mcc.findings.snapshot import OpenCalls, Snapshot, Thresholds
from mcc.store.rows.values import SeenDrone, SeenOrder
from tests.mcc.doctor.snapshots import ago, drone, order, order_id, queued, snapshot, states, waiting


def ghosts_in(seen: Snapshot) -> list[Finding]:
    return list(ghosts(seen))


def stuck_in(seen: Snapshot) -> list[Finding]:
    return list(stuck(seen))


def test_an_order_under_a_live_drone_is_none() -> None:
    assert ghosts_in(snapshot(drones=[drone()], orders=[order()])) == []


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
    [ghost] = ghosts_in(snapshot(drones=[holder], orders=[order()]))
    assert (ghost.what, ghost.state, ghost.order_id, ghost.fix) == ("ghost", "broken", order_id(), "sweep")
    assert told in ghost.detail and "mcc doctor --fix" in ghost.advice


def test_an_order_under_an_incarnation_that_nobody_knows_is_one() -> None:
    [ghost] = ghosts_in(snapshot(orders=[order()]))
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
    assert ghosts_in(snapshot(drones=[holder], orders=[order()])) == []
    assert ghosts_in(snapshot(orders=[order(moved=1)])) == []


@pytest.mark.parametrize(
    "late", [queued(expires_at=ago(60)), waiting(expires_at=ago(60)), waiting(waits_until=ago(60))]
)
def test_an_order_past_its_expiry_should_have_been_ended(late: SeenOrder) -> None:
    [ghost] = ghosts_in(snapshot(orders=[late]))
    assert (ghost.what, ghost.fix, ghost.order_id) == ("expired", "sweep", order_id())


def test_an_order_that_expired_a_moment_ago_or_runs_on_is_left_alone() -> None:
    running = order(expires_at=ago(60))
    assert ghosts_in(snapshot(drones=[drone()], orders=[queued(expires_at=ago(1)), running])) == []


@pytest.mark.parametrize("reason", ["not_before", "rate_limit", "provider", "disk", "memory"])
def test_an_order_whose_time_has_come_should_have_been_resumed(reason: str) -> None:
    [ghost] = ghosts_in(snapshot(orders=[waiting(reason=reason, not_before=ago(60))]))
    assert (ghost.what, ghost.fix) == ("overdue", "sweep")
    assert ghosts_in(snapshot(orders=[waiting(reason=reason, not_before=ago(-60))])) == []
    assert ghosts_in(snapshot(orders=[waiting(reason="approval", not_before=ago(60))])) == []


LIMITS = Limits(model_call_seconds=100, tool_seconds=10)


def silent(spoke: float, *calls: OpenCall, paused: bool = False, thresholds: Thresholds | None = None) -> Snapshot:
    held = order(spoke=spoke, limits=LIMITS)
    return snapshot(
        drones=[drone()], orders=[held], open_calls={held.id: OpenCalls(calls, paused)}, thresholds=thresholds
    )


def call(kind: Literal["model", "tool"], name: str, waits: float = 0) -> OpenCall:
    return OpenCall(kind, name, "master", ago(50), waits)


@pytest.mark.parametrize(
    ("calls", "longest"),
    [
        ((), 930),
        ((call("model", "fast"),), 930),
        ((call("tool", "run_shell"),), 40),
        ((call("tool", "subagents_run"), call("model", "fast")), 930),
        ((call("model", "fast", waits=60),), 990),
    ],
)
def test_an_order_may_be_silent_as_long_as_its_open_call_may_take(calls: tuple[OpenCall, ...], longest: float) -> None:
    assert stuck_in(silent(longest - 1, *calls)) == []
    assert states(stuck_in(silent(longest + 1, *calls))) == [("stuck", "broken")]


def test_the_open_call_is_told_by_name_with_what_can_be_done() -> None:
    [finding] = stuck_in(silent(500, call("tool", "run_shell")))
    assert "the tool call run_shell of master has been open for 50 s" in finding.detail
    assert f"mcc orders cancel {order_id()}" in finding.advice and "kill -KILL 11 on here" in finding.advice
    assert (finding.order_id, finding.drone, finding.fix) == (order_id(), "drone-1", None)
    assert "no call is open" in stuck_in(silent(1_000))[0].detail


def test_an_operator_can_name_another_threshold() -> None:
    assert states(stuck_in(silent(5, call("model", "fast"), thresholds=Thresholds(stuck_seconds=4)))) == [
        ("stuck", "broken")
    ]
    assert stuck_in(silent(3, call("model", "fast"), thresholds=Thresholds(stuck_seconds=4))) == []


def test_a_paused_order_is_silent_because_somebody_wanted_it() -> None:
    assert stuck_in(silent(5_000, paused=True)) == []


def test_a_silent_order_under_a_lost_drone_is_not_called_stuck() -> None:
    gone = drone(state="lost", in_time=False, heard=60)
    assert stuck_in(snapshot(drones=[gone], orders=[order(spoke=5_000)])) == []
    assert stuck_in(snapshot(orders=[order(spoke=5_000)])) == []


def test_a_queued_order_that_free_drones_overlook_is_nudged_by_the_fix() -> None:
    [finding] = stuck_in(snapshot(drones=[drone()], orders=[queued(moved=31)]))
    assert (finding.what, finding.state, finding.fix, finding.order_id) == (
        "overlooked",
        "warning",
        "nudge",
        order_id(),
    )
    assert "3 free slots" in finding.detail


def test_a_queued_order_waits_its_turn_while_all_slots_are_taken_or_it_just_came() -> None:
    assert stuck_in(snapshot(drones=[drone(active=4)], orders=[queued()])) == []
    assert stuck_in(snapshot(drones=[drone()], orders=[queued(moved=20)])) == []
    assert stuck_in(snapshot(drones=[drone()], orders=[queued(not_before=ago(20))])) == []


@pytest.mark.parametrize(
    "drones",
    [
        [],
        [drone(queues=("slow",))],
        [drone(draining=True)],
        [drone(in_time=False, heard=60)],
    ],
)
def test_a_queue_that_nobody_serves_is_told_once_with_its_oldest_order(drones: list[SeenDrone]) -> None:
    seen = snapshot(drones=drones, orders=[queued(1, moved=10), queued(2, moved=300)])
    [finding] = stuck_in(seen)
    assert (finding.what, finding.state, finding.order_id) == ("queue", "warning", order_id(2))
    assert "2 queued, the first for 5 min" in finding.detail and "--queues default" in finding.advice


def test_an_order_with_a_journal_of_another_version_is_told() -> None:
    [finding] = stuck_in(snapshot(drones=[drone()], orders=[queued(claimable=False)]))
    assert "version" in finding.detail
    known_why = [queued(claimable=False, not_before=ago(-60)), queued(claimable=False, expires_at=ago(1))]
    assert stuck_in(snapshot(drones=[drone()], orders=known_why)) == []


def test_a_waiting_order_always_has_an_end() -> None:
    [finding] = stuck_in(snapshot(orders=[waiting(waits_until=None)]))
    assert (finding.what, finding.state) == ("stuck", "broken") and "without an end" in finding.detail
    assert stuck_in(snapshot(orders=[waiting(), waiting(waits_until=None, expires_at=ago(-60))])) == []


def test_a_waiting_head_that_keeps_its_session_back_is_told_with_what_it_waits_for() -> None:
    head = waiting(1, reason="approval")
    behind = [queued(number, claimable=False, blocked_by=head.id) for number in (2, 3)]
    [finding] = stuck_in(snapshot(drones=[drone()], orders=[head, *behind]))
    assert (finding.what, finding.order_id) == ("blocked", head.id)
    assert "approval, until 2026-01-01 13:00" in finding.detail and finding.detail.endswith(": 2")
    assert finding.advice.startswith("answer it")


def test_a_running_head_blocks_nobody_worth_mentioning() -> None:
    behind = queued(2, claimable=False, blocked_by=order_id(1))
    assert stuck_in(snapshot(drones=[drone()], orders=[order(1), behind])) == []
