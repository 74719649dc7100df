import asyncio
import threading
import time
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from drone.settings import Settings
from drone.worker.drone import DroneCannotStart, DroneProcess
from mcc.contracts.callers import Actor
from mcc.contracts.drones import AS_ROOT, SandboxState
from mcc.contracts.order import NewOrder
from mcc.contracts.status import OrderStatus
from mcc.store.database.errors import StoreUnavailable
from mcc.store.store import Store
from mcc.store.work.leases import Leases
from mcc.testing import temporary_store
from tests.drone.worker.fake_crew import FakeCrew
from tests.ports import free_port
from tests.waiting import until


def settings(folder: Path, **fields: object) -> Settings:
    """Settings without any Redis: the tests show what works without one."""
    given = {
        "data_dir": folder,
        "redis_url": "redis://127.0.0.1:1/0",
        "name": "d1",
        "slots": 3,
        "poll_seconds": 0.02,
        "sweep_seconds": 0.02,
        "renew_seconds": 0.02,
        "drain_cancel_seconds": 0.1,
        "drain_hand_back_seconds": 1.0,
    }
    return Settings.model_validate({**given, **fields})


def place(store: Store, prompt: str) -> str:
    return store.orders.place(NewOrder(prompt=prompt), by=Actor("test")).order.id


def wait_for(store: Store, order_id: str, *statuses: OrderStatus) -> OrderStatus:
    until = time.monotonic() + 10
    while (status := store.orders.get(order_id).status) not in statuses:
        assert time.monotonic() < until, f"{order_id} stays {status}"
        threading.Event().wait(0.005)
    return status


class Staffed:
    """A started drone on a store of its own, drained and closed at the end."""

    def __init__(self, given: Settings, store: Store | None = None) -> None:
        self.store = store or temporary_store()
        self.ended = threading.Event()
        self.drone = DroneProcess(given, self.store, FakeCrew, wedged=self.ended.set)

    def __enter__(self) -> "Staffed":
        self.drone.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.drone.drain()
        assert self.drone.drained.wait(10)
        self.drone.close()


def test_without_redis_orders_are_found_by_polling_the_database(tmp_path: Path) -> None:
    with Staffed(settings(tmp_path)) as staffed:
        orders = [place(staffed.store, f"p{number}") for number in range(10)]
        for order in orders:
            assert wait_for(staffed.store, order, OrderStatus.SUCCEEDED)


class OfRoot(FakeCrew):
    async def sandbox(self) -> SandboxState:
        return SandboxState(as_root=True)


@pytest.mark.parametrize(("crew", "warnings"), [(OfRoot, 1), (FakeCrew, 0)])
def test_a_drone_that_runs_as_root_says_so_once_when_it_starts(
    tmp_path: Path, crew: type[FakeCrew], warnings: int
) -> None:
    with capture_logs() as lines:
        drone = DroneProcess(settings(tmp_path), temporary_store(), crew, wedged=lambda: None)
        drone.start()
        drone.drain()
        assert drone.drained.wait(10)
        drone.close()
    assert [line["log_level"] for line in lines if line["event"] == AS_ROOT] == ["warning"] * warnings


class NeverHired(FakeCrew):
    async def sandbox(self) -> SandboxState:
        await asyncio.Event().wait()
        raise AssertionError


def test_a_drone_that_is_told_to_end_while_it_starts_starts_no_further_and_registers_nothing(tmp_path: Path) -> None:
    """Whatever ends a process in time hears of it as well, although nothing is drained yet."""
    store = temporary_store()
    drone = DroneProcess(settings(tmp_path), store, NeverHired, wedged=lambda: None)
    pauses: list[float] = []

    def told(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            drone.drain()
            drone.told_to_end()
            raise SystemExit(0)

    with pytest.raises(SystemExit):
        drone.start(told)
    assert not drone.drained.is_set()
    assert list(store.leases.drones()) == []


def test_a_drone_serves_metrics_of_what_it_does(tmp_path: Path) -> None:
    port = free_port()
    with Staffed(settings(tmp_path, metrics=f"127.0.0.1:{port}")) as staffed:
        order = place(staffed.store, "hello")
        wait_for(staffed.store, order, OrderStatus.SUCCEEDED)
        until(lambda: 'mcc_orders_ended_total{reason="",status="succeeded"} 1.0' in metrics_at(port), "it is counted")
        shown = metrics_at(port)
    assert 'mcc_drone_slots{of="all"} 3.0' in shown
    assert "mcc_order_wait_seconds_count 1.0" in shown
    assert "mcc_journal_lag_seconds 0.0" in shown
    with pytest.raises(httpx.ConnectError):
        metrics_at(port)


def metrics_at(port: int) -> str:
    return httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text


def test_drones_of_one_machine_serve_their_metrics_on_ports_beside_each_other(tmp_path: Path) -> None:
    port = free_port()
    with (
        Staffed(settings(tmp_path / "1", metrics=f"127.0.0.1:{port}")),
        Staffed(settings(tmp_path / "2", metrics=f"127.0.0.1:{port}")),
    ):
        assert "mcc_drone_slots" in metrics_at(port)
        assert "mcc_drone_slots" in metrics_at(port + 1)


def test_a_drone_does_not_start_where_its_metrics_cannot_be_served(tmp_path: Path) -> None:
    drone = DroneProcess(settings(tmp_path, metrics="192.0.2.1:9464"), temporary_store(), FakeCrew)
    with pytest.raises(DroneCannotStart, match=r"DRONE_METRICS: .* 192\.0\.2\.1:9464"):
        drone.start()


def test_messages_and_poll_draw_on_the_same_slots(tmp_path: Path) -> None:
    with Staffed(settings(tmp_path, slots=1)) as staffed:
        first = place(staffed.store, "sleep 60")
        wait_for(staffed.store, first, OrderStatus.RUNNING)
        second = place(staffed.store, "hello")
        staffed.drone.work(second)
        assert staffed.store.orders.get(second).status is OrderStatus.QUEUED


def test_draining_lets_a_short_turn_end_and_hands_a_long_one_back(tmp_path: Path) -> None:
    with Staffed(settings(tmp_path, drain_cancel_seconds=0.5)) as staffed:
        short, long = place(staffed.store, "sleep 0.2"), place(staffed.store, "sleep 60")
        wait_for(staffed.store, short, OrderStatus.RUNNING)
        wait_for(staffed.store, long, OrderStatus.RUNNING)
    assert staffed.store.orders.get(short).status is OrderStatus.SUCCEEDED
    assert staffed.store.orders.get(long).status is OrderStatus.QUEUED
    assert [entry.kind for entry in staffed.store.journal.read(long)][-2:] == ["agent.started", "order.handed_back"]
    assert list(staffed.store.leases.drones()) == []


def test_a_turn_that_ignores_cancellation_is_handed_back_as_well(tmp_path: Path) -> None:
    with Staffed(settings(tmp_path, drain_hand_back_seconds=0.3)) as staffed:
        deaf = place(staffed.store, "stubborn 2")
        wait_for(staffed.store, deaf, OrderStatus.RUNNING)
    assert staffed.store.orders.get(deaf).status is OrderStatus.QUEUED


def test_a_body_returns_when_its_order_is_handed_back(tmp_path: Path) -> None:
    with Staffed(settings(tmp_path, poll_seconds=60)) as staffed:
        order = place(staffed.store, "sleep 60")
        body = threading.Thread(target=staffed.drone.work, args=(order,))
        body.start()
        wait_for(staffed.store, order, OrderStatus.RUNNING)
    body.join(5)
    assert not body.is_alive()
    assert staffed.store.orders.get(order).status is OrderStatus.QUEUED


def test_terminating_a_body_cancels_its_order(tmp_path: Path) -> None:
    with Staffed(settings(tmp_path, poll_seconds=60)) as staffed:
        order = place(staffed.store, "sleep 60")
        body = threading.Thread(target=staffed.drone.work, args=(order,))
        body.start()
        wait_for(staffed.store, order, OrderStatus.RUNNING)
        staffed.drone.cancel(order, "flower")
        body.join(5)
        assert staffed.store.orders.get(order).status is OrderStatus.CANCELLED
        assert staffed.store.controls.of_order(order)[0].applied_seq is not None


def test_terminating_while_draining_hands_back_and_does_not_cancel(tmp_path: Path) -> None:
    with Staffed(settings(tmp_path, poll_seconds=60)) as staffed:
        order = place(staffed.store, "sleep 60")
        body = threading.Thread(target=staffed.drone.work, args=(order,))
        body.start()
        wait_for(staffed.store, order, OrderStatus.RUNNING)
        staffed.drone.drain()
        staffed.drone.drain()
        staffed.drone.cancel(order, "celery")
    body.join(5)
    assert staffed.store.orders.get(order).status is OrderStatus.QUEUED
    assert list(staffed.store.controls.of_order(order)) == []


def test_a_drone_that_lost_its_lease_stops_its_turns_and_continues_under_a_new_incarnation(tmp_path: Path) -> None:
    with Staffed(settings(tmp_path, poll_seconds=60)) as staffed:
        order = place(staffed.store, "sleep 60")
        body = threading.Thread(target=staffed.drone.work, args=(order,))
        body.start()
        wait_for(staffed.store, order, OrderStatus.RUNNING)
        (before,) = staffed.store.leases.drones()
        staffed.store.leases.leave(before.incarnation)
        body.join(5)
        assert not body.is_alive()
        wait_for(staffed.store, order, OrderStatus.QUEUED)
        other = place(staffed.store, "hello")
        end = time.monotonic() + 30
        while staffed.store.orders.get(other).status is not OrderStatus.SUCCEEDED:
            assert time.monotonic() < end
            staffed.drone.work(other)  # takes nothing before it has its new lease
        (after,) = staffed.store.leases.drones()
        assert after.incarnation != before.incarnation


def test_a_loop_that_hangs_ends_the_process(tmp_path: Path) -> None:
    with Staffed(settings(tmp_path, wedged_seconds=0.6)) as staffed:
        staffed.drone._loop.call(lambda: time.sleep(1.5))
        assert staffed.ended.wait(5)


def test_an_unreachable_database_is_reported_in_a_sentence(tmp_path: Path) -> None:
    class Away(Store):
        def schema_problem(self) -> str | None:
            raise StoreUnavailable("no such host")

    with pytest.raises(DroneCannotStart, match="cannot be reached: no such host"):
        DroneProcess(settings(tmp_path, database_wait_seconds=0), Away(**vars(temporary_store())), FakeCrew).start()


def test_an_old_schema_is_reported_in_a_sentence(tmp_path: Path) -> None:
    class Old(Store):
        def schema_problem(self) -> str | None:
            return "the database has schema 1, this version needs 2: run `mcc db upgrade`"

    with pytest.raises(DroneCannotStart, match="mcc db upgrade"):
        DroneProcess(settings(tmp_path), Old(**vars(temporary_store())), FakeCrew).start()


def test_a_turn_that_raises_system_exit_fails_alone(tmp_path: Path) -> None:
    with Staffed(settings(tmp_path)) as staffed:
        leaving = place(staffed.store, "exit")
        assert wait_for(staffed.store, leaving, OrderStatus.FAILED)
        assert "SystemExit" in (staffed.store.orders.get(leaving).detail or "")
        assert wait_for(staffed.store, place(staffed.store, "hello"), OrderStatus.SUCCEEDED)


def test_a_drone_that_cannot_end_its_lease_ends_all_the_same(tmp_path: Path) -> None:
    class Mute(Leases):
        def leave(self, incarnation: str) -> None:
            raise RuntimeError("no such column")

    store = temporary_store()
    with Staffed(settings(tmp_path), replace(store, leases=Mute(store.beats))):
        pass
