"""Findings about drones: zombies, unknown workers, silent drones, refused messages."""

from typing import Any

import pytest

from mcc.contracts.drones import DroneCounters
from mcc.contracts.status import OrderStatus
from mcc.doctor.drones import refused_messages, silent, unknown_workers, zombies
from mcc.findings.finding import Finding
from mcc.findings.snapshot import ProcessState, RunningTask, Snapshot
from tests.mcc.doctor.snapshots import ago, drone, node, order, order_id, queued, snapshot, states, works_on


def zombies_in(seen: Snapshot) -> list[Finding]:
    return list(zombies(seen))


def silent_in(seen: Snapshot) -> list[Finding]:
    return list(silent(seen))


OTHER = drone("drone-2", pid=22)


def test_a_drone_that_works_on_its_own_order_is_none() -> None:
    assert zombies_in(snapshot(drones=[drone()], orders=[order()], nodes=[node(tasks=[works_on()])])) == []


def test_a_process_that_works_on_what_another_drone_claimed_is_named_with_its_pid() -> None:
    taken = order(incarnation=OTHER.incarnation, epoch=3)
    [zombie] = zombies_in(snapshot(drones=[drone(), OTHER], orders=[taken], nodes=[node(tasks=[works_on()])]))
    assert (zombie.what, zombie.state, zombie.order_id, zombie.drone, zombie.fix) == (
        "zombie",
        "broken",
        order_id(),
        "drone-1@drone",
        None,
    )
    assert "drone-2 claimed" in zombie.detail and "epoch 3" in zombie.detail
    assert "kill -TERM 11 on here" in zombie.advice


@pytest.mark.parametrize("status", [OrderStatus.QUEUED, OrderStatus.WAITING, OrderStatus.CANCELLED])
def test_work_on_an_order_that_nobody_runs_is_a_zombies(status: OrderStatus) -> None:
    known = [order(status=status, incarnation=None)]
    [zombie] = zombies_in(snapshot(drones=[drone()], known=known, nodes=[node(tasks=[works_on()])]))
    assert f"became {status.value}" in zombie.detail


def test_what_changed_hands_a_moment_ago_is_given_time() -> None:
    seen = snapshot(drones=[drone()], known=[queued(moved=2)], nodes=[node(tasks=[works_on()])])
    assert zombies_in(seen) == []


def test_a_task_that_just_began_may_be_a_second_message_and_ends_by_itself() -> None:
    taken = order(incarnation=OTHER.incarnation)
    seen = snapshot(drones=[drone(), OTHER], orders=[taken], nodes=[node(tasks=[works_on(seconds=1)])])
    assert zombies_in(seen) == []


def test_an_earlier_incarnation_of_the_same_process_is_not_somebody_else() -> None:
    before = drone(incarnation="before", state="lost", in_time=False, started_at=ago(5_000), heard=300)
    held = order(incarnation=before.incarnation)
    assert zombies_in(snapshot(drones=[before, drone()], orders=[held], nodes=[node(tasks=[works_on()])])) == []


def test_an_order_that_the_database_does_not_know_points_at_another_database() -> None:
    [zombie] = zombies_in(snapshot(drones=[drone()], nodes=[node(tasks=[works_on()])]))
    assert "does not know" in zombie.detail and "MCC_DATABASE_URL" in zombie.advice


def test_a_message_that_names_no_order_and_takes_long_is_told() -> None:
    [zombie] = zombies_in(snapshot(drones=[drone()], nodes=[node(tasks=[RunningTask(None, 60)])]))
    assert (zombie.state, zombie.order_id) == ("warning", None)


def test_a_worker_started_by_celerys_own_command_is_known_by_host_and_pid() -> None:
    seen = snapshot(drones=[drone()], orders=[order()], nodes=[node("celery@here.example", tasks=[works_on()])])
    assert zombies_in(seen) == []


LOST = drone(state="lost", in_time=False, heard=60)


def test_a_lost_incarnation_whose_process_answers_celery_is_a_zombie() -> None:
    [zombie] = zombies_in(snapshot(drones=[LOST], nodes=[node()]))
    assert states([zombie]) == [("zombie", "broken")] and "still answers Celery" in zombie.detail


@pytest.mark.parametrize(
    ("life", "told"), [(ProcessState.STOPPED, "kill -CONT 11"), (ProcessState.RUNS, "kill -KILL 11")]
)
def test_a_lost_incarnation_whose_process_is_there_is_named_with_what_ends_it(life: ProcessState, told: str) -> None:
    [zombie] = zombies_in(snapshot(drones=[LOST], processes={"drone-1": life}))
    assert zombie.state == "warning" and told in zombie.advice


@pytest.mark.parametrize("life", [ProcessState.GONE, ProcessState.UNKNOWN])
def test_a_lost_incarnation_without_a_process_is_only_gone(life: ProcessState) -> None:
    assert zombies_in(snapshot(drones=[LOST], processes={"drone-1": life})) == []


def test_a_process_that_registered_again_is_no_zombie() -> None:
    again = drone(incarnation="again", started_at=ago(20))
    assert zombies_in(snapshot(drones=[LOST, again], nodes=[node()], processes={"drone-1": ProcessState.RUNS})) == []


def test_a_drone_that_has_just_left_may_still_be_ending() -> None:
    leaving = drone(state="left", in_time=False, heard=10)
    assert zombies_in(snapshot(drones=[leaving], processes={"drone-1": ProcessState.RUNS})) == []
    stays = drone(state="left", in_time=False, heard=60)
    assert states(zombies_in(snapshot(drones=[stays], processes={"drone-1": ProcessState.RUNS}))) == [
        ("zombie", "warning")
    ]


def test_a_worker_that_the_database_does_not_know_is_named() -> None:
    [ghost] = unknown_workers(snapshot(drones=[drone()], nodes=[node(), node("stranger@drone", 99)]))
    assert (ghost.what, ghost.state, ghost.drone) == ("ghost", "warning", "stranger@drone")
    assert "pid 99" in ghost.detail


def test_a_drone_that_renews_and_answers_is_well() -> None:
    assert silent_in(snapshot(drones=[drone()], nodes=[node()])) == []


def test_late_heartbeats_under_a_live_lease_are_told() -> None:
    [finding] = silent_in(snapshot(drones=[drone(heard=8)], nodes=[node()]))
    assert (finding.what, finding.state, finding.drone, finding.fix) == ("silent", "warning", "drone-1", None)
    assert "8 s" in finding.detail and "its orders go to others" in finding.advice


@pytest.mark.parametrize(
    ("life", "told"),
    [(ProcessState.STOPPED, "is stopped"), (ProcessState.GONE, "is gone"), (ProcessState.RUNS, "process runs")],
)
def test_what_this_machine_knows_of_the_process_is_told_with_it(life: ProcessState, told: str) -> None:
    [finding] = silent_in(snapshot(drones=[drone(heard=8)], nodes=[node()], processes={"drone-1": life}))
    assert told in finding.detail
    assert ("kill -CONT 11" in finding.advice) is (life is ProcessState.STOPPED)


def test_a_lease_that_ran_out_and_that_nobody_declared_lost_is_for_a_sweep() -> None:
    [finding] = silent_in(snapshot(drones=[drone(heard=60, in_time=False)]))
    assert finding.fix == "sweep" and "ran out" in finding.detail


def test_a_drone_that_is_up_and_does_not_answer_celery_has_a_dead_consumer() -> None:
    [finding] = silent_in(snapshot(drones=[drone()], nodes=[]))
    assert "does not answer Celery" in finding.detail and "through the database" in finding.advice


def test_nothing_is_said_of_consumers_when_celery_was_not_asked() -> None:
    assert silent_in(snapshot(drones=[drone()], nodes=None)) == []


def test_a_drone_that_drains_or_just_started_need_not_answer() -> None:
    assert silent_in(snapshot(drones=[drone(draining=True), drone(started_at=ago(3))], nodes=[])) == []


def test_an_answer_of_another_process_of_that_name_does_not_count() -> None:
    assert states(silent_in(snapshot(drones=[drone()], nodes=[node(pid=99)]))) == [("silent", "warning")]


def test_a_worker_that_did_not_say_its_pid_is_known_by_name() -> None:
    assert silent_in(snapshot(drones=[drone()], nodes=[node(pid=None)])) == []


def test_drones_that_are_lost_or_left_are_not_silent() -> None:
    gone = [drone(state="lost", in_time=False, heard=60), drone(state="left", in_time=False, heard=60)]
    assert silent_in(snapshot(drones=gone, nodes=[])) == []


def test_a_drone_that_refused_nothing_is_well() -> None:
    assert list(refused_messages(snapshot(drones=[drone()]))) == []


@pytest.mark.parametrize(("refused", "said"), [(1, "refused 1 message since"), (1_200, "refused 1,200 messages since")])
def test_a_drone_that_refused_messages_is_named_with_how_many(refused: int, said: str) -> None:
    [finding] = refused_messages(snapshot(drones=[drone(counters=DroneCounters(refused_messages=refused))]))
    assert (finding.what, finding.state, finding.drone, finding.fix) == ("messages", "warning", "drone-1", None)
    assert said in finding.detail and "Who sends them?" in finding.advice


@pytest.mark.parametrize("gone", [{"state": "lost"}, {"state": "left"}, {"in_time": False}])
def test_what_a_drone_refused_that_is_gone_is_history(gone: dict[str, Any]) -> None:
    assert list(refused_messages(snapshot(drones=[drone(counters=DroneCounters(refused_messages=3), **gone)]))) == []
