import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from drone.worker.claiming import Slots
from drone.worker.keeper import Counting, Heartbeat, Keeper, LeaseTimes
from mcc.contracts.callers import Actor
from mcc.contracts.drones import DroneStatus
from mcc.store.database.errors import StoreUnavailable
from mcc.store.work.leases import Leases
from mcc.testing import FakeClock, temporary_store
from tests.drone.worker.bench_of_orders import a_registration


class Scene:
    """A keeper with a 12 s lease on a clock that the test moves; `away` makes the database unreachable."""

    def __init__(self, heartbeat: Callable[[], Heartbeat] | None = None) -> None:
        self.clock = FakeClock()
        self.store = temporary_store(self.clock)
        self.lost: list[str] = []
        self.away = False
        self.answering = True
        self.helpless: list[bool] = []
        self.counting = Counting()
        self.slots = Slots(4)
        self.keeper = Keeper(
            cast(Leases, self),
            a_registration(),
            heartbeat or self.heartbeat,
            LeaseTimes(12, 1, self.clock.uptime),
            on_lost=self.lost.append,
            on_helpless=lambda: self.helpless.append(True),
        )

    def heartbeat(self) -> Heartbeat:
        return Heartbeat(self.slots.active, self.counting.counters)

    def answers(self) -> bool:
        return self.answering

    def __getattr__(self, name: str) -> Any:
        if self.away:
            raise StoreUnavailable("the database is away")
        return getattr(self.store.leases, name)

    def expire(self) -> None:
        self.store.sweeper.sweep(may_expire=True)


def test_a_renewal_tells_how_many_slots_are_busy() -> None:
    scene = Scene()
    scene.keeper.register()
    scene.slots.take()
    scene.keeper.once()
    (drone,) = scene.store.leases.drones()
    assert (drone.active, drone.status) == (1, DroneStatus.UP)


def test_a_renewal_tells_how_many_messages_were_refused_under_every_incarnation() -> None:
    scene = Scene()
    scene.keeper.register()
    for _ in range(3):
        scene.counting.add("refused_messages")
    scene.keeper.once()
    assert [drone.refused_messages for drone in scene.store.leases.drones()] == [3]
    scene.clock.advance(13)
    scene.expire()
    scene.keeper.once()
    scene.keeper.once()
    assert [drone.refused_messages for drone in scene.store.leases.drones()] == [3]
    assert len(scene.lost) == 1


def test_a_draining_drone_reports_that() -> None:
    scene = Scene()
    scene.keeper.register()
    scene.keeper.drain()
    scene.keeper.once()
    (drone,) = scene.store.leases.drones()
    assert drone.status is DroneStatus.DRAINING


def test_no_effect_may_start_from_two_seconds_before_the_lease_ends() -> None:
    scene = Scene()
    scene.keeper.register()
    scene.clock.advance(9.9)
    assert scene.keeper.trusted
    scene.clock.advance(0.2)
    assert not scene.keeper.trusted


def test_a_renewal_after_an_outage_makes_the_lease_trusted_again_under_the_same_incarnation() -> None:
    scene = Scene()
    incarnation = scene.keeper.register()
    scene.away = True
    scene.clock.advance(60)
    with pytest.raises(StoreUnavailable):
        scene.keeper.once()
    assert not scene.keeper.trusted
    scene.away = False
    scene.keeper.once()
    assert scene.keeper.trusted
    assert scene.keeper.incarnation == incarnation
    assert scene.lost == []


def test_a_lost_lease_is_reported_and_the_process_continues_under_a_new_incarnation() -> None:
    scene = Scene()
    first = scene.keeper.register()
    scene.clock.advance(13)
    scene.expire()
    scene.keeper.once()
    assert scene.lost == [first]
    assert scene.keeper.incarnation not in (None, first)
    assert scene.keeper.trusted


def test_a_keeper_that_lost_its_lease_while_the_database_goes_away_registers_later() -> None:
    scene = Scene()
    scene.keeper.register()
    scene.clock.advance(13)
    scene.expire()

    def away_from_here(_: str) -> None:
        scene.away = True

    scene.keeper._on_lost = away_from_here
    with pytest.raises(StoreUnavailable):
        scene.keeper.once()
    assert scene.keeper.incarnation is None
    assert not scene.keeper.trusted
    scene.away = False
    scene.keeper.once()
    assert scene.keeper.incarnation is not None


def test_a_heartbeat_that_does_not_return_stops_the_renewals() -> None:
    def wedged() -> Heartbeat:
        raise SystemExit

    scene = Scene(wedged)
    scene.keeper.register()
    heartbeat = scene.store.leases.drones()[0].last_heartbeat_at
    scene.clock.advance(5)
    with pytest.raises(SystemExit):
        scene.keeper.once()
    assert scene.store.leases.drones()[0].last_heartbeat_at == heartbeat


def test_the_thread_renews_until_it_is_stopped() -> None:
    store = temporary_store()
    renewed = threading.Semaphore(0)

    def beat() -> Heartbeat:
        renewed.release()
        return Heartbeat()

    keeper = Keeper(
        store.leases,
        a_registration(),
        beat,
        LeaseTimes(12, 0.01),
        on_lost=lambda _: None,
        on_helpless=lambda: None,
    )
    keeper.register()
    keeper.start()
    assert renewed.acquire(timeout=5) and renewed.acquire(timeout=5)
    keeper.stop()
    keeper.leave()
    assert list(store.leases.drones()) == []


@pytest.mark.parametrize(("answering", "seconds", "gives_up"), [(True, 121, 1), (True, 119, 0), (False, 1_000, 0)])
def test_renewals_that_fail_for_two_minutes_while_the_database_answers_end_the_drone(
    answering: bool, seconds: float, gives_up: int
) -> None:
    scene = Scene()
    scene.keeper.register()
    scene.away, scene.answering = True, answering
    scene.keeper.renew()
    scene.clock.advance(seconds)
    scene.keeper.renew()
    assert len(scene.helpless) == gives_up


def test_a_renewal_that_succeeds_begins_the_two_minutes_anew() -> None:
    scene = Scene()
    scene.keeper.register()
    for away in (True, False, True):
        scene.away = away
        scene.keeper.renew()
        scene.clock.advance(100)
    scene.keeper.renew()
    assert scene.helpless == []


def test_what_an_operator_tells_is_read_with_the_next_renewal_and_told_once() -> None:
    scene = Scene()
    told: list[str | None] = []
    scene.keeper.on_drain = told.append
    scene.keeper.register()
    scene.keeper.once()
    assert told == []
    scene.store.leases.drain(scene.store.leases.drones()[0].name, "hand_back", by=Actor("operator"))
    scene.keeper.once()
    scene.keeper.once()
    assert told == ["hand_back"]
    assert [drone.status for drone in scene.store.leases.drones()] == [DroneStatus.DRAINING]
    scene.store.leases.drain(scene.store.leases.drones()[0].name, None, by=Actor("operator"))
    scene.keeper.once()
    scene.keeper.once()
    assert told == ["hand_back", None]
    assert [drone.status for drone in scene.store.leases.drones()] == [DroneStatus.UP]


def test_a_process_that_lost_its_lease_goes_on_taking_no_orders() -> None:
    scene = Scene()
    scene.keeper.register()
    scene.store.leases.drain(scene.store.leases.drones()[0].name, "finish", by=Actor("operator"))
    scene.keeper.once()
    scene.clock.advance(13)
    scene.expire()
    scene.keeper.once()
    assert [drone.drain for drone in scene.store.leases.drones()] == ["finish"]
