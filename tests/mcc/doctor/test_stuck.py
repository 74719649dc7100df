"""Stuck: orders that do not get on although nobody is lost."""

import pytest

from mcc.contracts.limits import Limits
from mcc.doctor.chart import Chart, OpenCall, Patience, Silence
from mcc.doctor.finding import Finding
from mcc.doctor.stuck import stuck
from mcc.store.examined import SeenDrone
from tests.mcc.doctor.ward import ago, chart, drone, order, order_id, queued, states, waiting

LIMITS = Limits(model_call_seconds=100, tool_seconds=10)


def found(seen: Chart) -> list[Finding]:
    return list(stuck(seen))


def silent(spoke: float, *calls: OpenCall, paused: bool = False, patience: Patience | None = None) -> Chart:
    held = order(spoke=spoke, limits=LIMITS)
    return chart(drones=[drone()], orders=[held], silences={held.id: Silence(calls, paused)}, patience=patience)


def call(kind: str, name: str, waits: float = 0) -> OpenCall:
    return OpenCall(kind, name, "master", ago(50), waits)


@pytest.mark.parametrize(
    ("calls", "longest"),
    [
        ((), 130),
        ((call("model", "fast"),), 130),
        ((call("tool", "run_shell"),), 40),
        ((call("tool", "subagents_run"), call("model", "fast")), 130),
        ((call("model", "fast", waits=60),), 190),
    ],
)
def test_an_order_may_be_silent_as_long_as_its_open_call_may_take(calls: tuple[OpenCall, ...], longest: float) -> None:
    assert found(silent(longest - 1, *calls)) == []
    assert states(found(silent(longest + 1, *calls))) == [("stuck", "broken")]


def test_the_open_call_is_told_by_name_with_what_can_be_done() -> None:
    [finding] = found(silent(500, call("tool", "run_shell")))
    assert "the tool call run_shell of master has been open for 50 s" in finding.detail
    assert f"mcc orders cancel {order_id()}" in finding.advice and "kill -KILL 11 on here" in finding.advice
    assert (finding.order_id, finding.drone, finding.fix) == (order_id(), "drone-1", None)
    assert "no call is open" in found(silent(500))[0].detail


def test_an_operator_can_name_another_patience() -> None:
    assert states(found(silent(5, call("model", "fast"), patience=Patience(stuck_seconds=4)))) == [("stuck", "broken")]
    assert found(silent(3, call("model", "fast"), patience=Patience(stuck_seconds=4))) == []


def test_a_paused_order_is_silent_because_somebody_wanted_it() -> None:
    assert found(silent(5_000, paused=True)) == []


def test_a_silent_order_under_a_lost_drone_is_no_business_of_this_room() -> None:
    gone = drone(state="lost", in_time=False, heard=60)
    assert found(chart(drones=[gone], orders=[order(spoke=5_000)])) == []
    assert found(chart(orders=[order(spoke=5_000)])) == []


def test_a_queued_order_that_free_drones_overlook_is_nudged_by_the_fix() -> None:
    [finding] = found(chart(drones=[drone()], orders=[queued(moved=31)]))
    assert (finding.what, finding.state, finding.fix, finding.order_id) == (
        "overlooked",
        "warning",
        "nudge",
        order_id(),
    )
    assert "3 free slots" in finding.detail


def test_a_queued_order_waits_its_turn_while_all_slots_are_taken_or_it_just_came() -> None:
    assert found(chart(drones=[drone(active=4)], orders=[queued()])) == []
    assert found(chart(drones=[drone()], orders=[queued(moved=20)])) == []
    assert found(chart(drones=[drone()], orders=[queued(not_before=ago(20))])) == []


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
    seen = chart(drones=drones, orders=[queued(1, moved=10), queued(2, moved=300)])
    [finding] = found(seen)
    assert (finding.what, finding.state, finding.order_id) == ("queue", "warning", order_id(2))
    assert "2 queued, the first for 5 min" in finding.detail and "--queues default" in finding.advice


def test_an_order_with_a_journal_of_another_version_is_told() -> None:
    [finding] = found(chart(drones=[drone()], orders=[queued(claimable=False)]))
    assert "version" in finding.detail
    known_why = [queued(claimable=False, not_before=ago(-60)), queued(claimable=False, expires_at=ago(1))]
    assert found(chart(drones=[drone()], orders=known_why)) == []


def test_a_waiting_order_always_has_an_end() -> None:
    [finding] = found(chart(orders=[waiting(waits_until=None)]))
    assert (finding.what, finding.state) == ("stuck", "broken") and "without an end" in finding.detail
    assert found(chart(orders=[waiting(), waiting(waits_until=None, expires_at=ago(-60))])) == []


def test_a_waiting_head_that_keeps_its_session_back_is_told_with_what_it_waits_for() -> None:
    head = waiting(1, reason="approval")
    behind = [queued(number, claimable=False, blocked_by=head.id) for number in (2, 3)]
    [finding] = found(chart(drones=[drone()], orders=[head, *behind]))
    assert (finding.what, finding.order_id) == ("blocked", head.id)
    assert "approval, until 2026-01-01 13:00" in finding.detail and finding.detail.endswith(": 2")
    assert finding.advice.startswith("answer it")


def test_a_running_head_blocks_nobody_worth_mentioning() -> None:
    behind = queued(2, claimable=False, blocked_by=order_id(1))
    assert found(chart(drones=[drone()], orders=[order(1), behind])) == []
