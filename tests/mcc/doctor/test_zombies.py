"""Zombies: who works on what is not his, and who is still there although he should not be."""

import pytest

from mcc.contracts.status import OrderStatus
from mcc.doctor.chart import Chart, Life, RunningTask
from mcc.doctor.finding import Finding
from mcc.doctor.zombies import zombies
from tests.mcc.doctor.ward import ago, chart, drone, node, order, order_id, queued, states, works_on

OTHER = drone("drone-2", pid=22)


def found(seen: Chart) -> list[Finding]:
    return list(zombies(seen))


def test_a_drone_that_works_on_its_own_order_is_none() -> None:
    assert found(chart(drones=[drone()], orders=[order()], nodes=[node(tasks=[works_on()])])) == []


def test_a_process_that_works_on_what_another_drone_claimed_is_named_with_its_pid() -> None:
    taken = order(incarnation=OTHER.incarnation, epoch=3)
    [zombie] = found(chart(drones=[drone(), OTHER], orders=[taken], nodes=[node(tasks=[works_on()])]))
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
    [zombie] = found(chart(drones=[drone()], known=known, nodes=[node(tasks=[works_on()])]))
    assert f"became {status.value}" in zombie.detail


def test_what_changed_hands_a_moment_ago_is_given_time() -> None:
    seen = chart(drones=[drone()], known=[queued(moved=2)], nodes=[node(tasks=[works_on()])])
    assert found(seen) == []


def test_a_task_that_just_began_may_be_a_second_message_and_ends_by_itself() -> None:
    taken = order(incarnation=OTHER.incarnation)
    seen = chart(drones=[drone(), OTHER], orders=[taken], nodes=[node(tasks=[works_on(seconds=1)])])
    assert found(seen) == []


def test_an_earlier_incarnation_of_the_same_process_is_not_somebody_else() -> None:
    before = drone(incarnation="before", state="lost", in_time=False, started_at=ago(5_000), heard=300)
    held = order(incarnation=before.incarnation)
    assert found(chart(drones=[before, drone()], orders=[held], nodes=[node(tasks=[works_on()])])) == []


def test_an_order_that_the_database_does_not_know_points_at_another_database() -> None:
    [zombie] = found(chart(drones=[drone()], nodes=[node(tasks=[works_on()])]))
    assert "does not know" in zombie.detail and "MCC_DATABASE_URL" in zombie.advice


def test_a_message_that_names_no_order_and_takes_long_is_told() -> None:
    [zombie] = found(chart(drones=[drone()], nodes=[node(tasks=[RunningTask(None, 60)])]))
    assert (zombie.state, zombie.order_id) == ("warning", None)


def test_a_worker_started_by_celerys_own_command_is_known_by_host_and_pid() -> None:
    seen = chart(drones=[drone()], orders=[order()], nodes=[node("celery@here.example", tasks=[works_on()])])
    assert found(seen) == []


LOST = drone(state="lost", in_time=False, heard=60)


def test_a_lost_incarnation_whose_process_answers_celery_is_a_zombie() -> None:
    [zombie] = found(chart(drones=[LOST], nodes=[node()]))
    assert states([zombie]) == [("zombie", "broken")] and "still answers Celery" in zombie.detail


@pytest.mark.parametrize(("life", "told"), [(Life.STOPPED, "kill -CONT 11"), (Life.RUNS, "kill -KILL 11")])
def test_a_lost_incarnation_whose_process_is_there_is_named_with_what_ends_it(life: Life, told: str) -> None:
    [zombie] = found(chart(drones=[LOST], lives={"drone-1": life}))
    assert zombie.state == "warning" and told in zombie.advice


@pytest.mark.parametrize("life", [Life.GONE, Life.UNKNOWN])
def test_a_lost_incarnation_without_a_process_is_only_gone(life: Life) -> None:
    assert found(chart(drones=[LOST], lives={"drone-1": life})) == []


def test_a_process_that_registered_again_is_no_zombie() -> None:
    again = drone(incarnation="again", started_at=ago(20))
    assert found(chart(drones=[LOST, again], nodes=[node()], lives={"drone-1": Life.RUNS})) == []


def test_a_drone_that_has_just_left_may_still_be_ending() -> None:
    leaving = drone(state="left", in_time=False, heard=10)
    assert found(chart(drones=[leaving], lives={"drone-1": Life.RUNS})) == []
    stays = drone(state="left", in_time=False, heard=60)
    assert states(found(chart(drones=[stays], lives={"drone-1": Life.RUNS}))) == [("zombie", "warning")]
