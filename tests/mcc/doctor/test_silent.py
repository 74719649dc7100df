"""Silent drones: there by one account, and not by another."""

import pytest

from mcc.doctor.chart import Chart, Life
from mcc.doctor.finding import Finding
from mcc.doctor.silent import silent
from tests.mcc.doctor.ward import ago, chart, drone, node, states


def found(seen: Chart) -> list[Finding]:
    return list(silent(seen))


def test_a_drone_that_renews_and_answers_is_well() -> None:
    assert found(chart(drones=[drone()], nodes=[node()])) == []


def test_late_heartbeats_under_a_live_lease_are_told() -> None:
    [finding] = found(chart(drones=[drone(heard=8)], nodes=[node()]))
    assert (finding.what, finding.state, finding.drone, finding.fix) == ("silent", "warning", "drone-1", None)
    assert "8 s" in finding.detail and "its orders go to others" in finding.advice


@pytest.mark.parametrize(
    ("life", "told"), [(Life.STOPPED, "is stopped"), (Life.GONE, "is gone"), (Life.RUNS, "process runs")]
)
def test_what_this_machine_knows_of_the_process_is_told_with_it(life: Life, told: str) -> None:
    [finding] = found(chart(drones=[drone(heard=8)], nodes=[node()], lives={"drone-1": life}))
    assert told in finding.detail
    assert ("kill -CONT 11" in finding.advice) is (life is Life.STOPPED)


def test_a_lease_that_ran_out_and_that_nobody_declared_lost_is_for_a_sweep() -> None:
    [finding] = found(chart(drones=[drone(heard=60, in_time=False)]))
    assert finding.fix == "sweep" and "ran out" in finding.detail


def test_a_drone_that_is_up_and_does_not_answer_celery_has_a_dead_consumer() -> None:
    [finding] = found(chart(drones=[drone()], nodes=[]))
    assert "does not answer Celery" in finding.detail and "through the database" in finding.advice


def test_nothing_is_said_of_consumers_when_celery_was_not_asked() -> None:
    assert found(chart(drones=[drone()], nodes=None)) == []


def test_a_drone_that_drains_or_just_started_need_not_answer() -> None:
    assert found(chart(drones=[drone(draining=True), drone(started_at=ago(3))], nodes=[])) == []


def test_an_answer_of_another_process_of_that_name_does_not_count() -> None:
    assert states(found(chart(drones=[drone()], nodes=[node(pid=99)]))) == [("silent", "warning")]


def test_a_worker_that_did_not_say_its_pid_is_known_by_name() -> None:
    assert found(chart(drones=[drone()], nodes=[node(pid=None)])) == []


def test_drones_that_are_lost_or_left_are_not_silent() -> None:
    gone = [drone(state="lost", in_time=False, heard=60), drone(state="left", in_time=False, heard=60)]
    assert found(chart(drones=gone, nodes=[])) == []
