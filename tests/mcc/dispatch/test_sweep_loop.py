import threading
from collections.abc import Callable, Iterable
from typing import cast

import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.drones import Registration
from mcc.contracts.entry import Entry
from mcc.contracts.ids import fresh_id
from mcc.contracts.order import NewOrder, WorkOrder
from mcc.contracts.status import OrderStatus
from mcc.contracts.wire import Hint
from mcc.dispatch.broker import DispatchUnavailable
from mcc.dispatch.nudge import Nudger
from mcc.dispatch.publisher import Message, Publisher
from mcc.dispatch.sweep import LOST, SweepLoop
from mcc.store.database.errors import StoreUnavailable
from mcc.store.rows.values import Swept
from mcc.store.store import Store
from mcc.testing import FakeClock, temporary_store


class Scene:
    """A sweep loop on a clock that the test moves, with itself as the recording nudger and publisher."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = temporary_store(self.clock)
        self.rounds = 0
        self.published: list[Message] = []
        self.told: list[tuple[str, OrderStatus, str]] = []
        self.redis = True
        self.rounded = threading.Semaphore(0)
        self.orders_taken_over = 0
        self.loop = SweepLoop(
            self.store,
            cast(Nudger, self),
            cast(Publisher, self),
            sweeper="mcc",
            sweep_seconds=0.001,
            clock=self.clock.uptime,
        )

    def taken_over(self, orders: int) -> None:
        self.orders_taken_over += orders

    def nudge_claimable(self, store: Store) -> int:
        self.rounds += 1
        self.rounded.release()
        if not self.redis:
            raise DispatchUnavailable("no Redis")
        return 0

    def publish(self, messages: Iterable[Message]) -> bool:
        self.published.extend(messages)
        return True

    def report_status(self, order: WorkOrder, why: str = "") -> None:
        self.told.append((order.id, order.status, why))

    def a_running_order(self, lease_seconds: float) -> str:
        incarnation = fresh_id()
        self.store.leases.register(
            Registration(incarnation=incarnation, name="d", pid=1, host="h", version="0", queues=("default",), slots=1),
            lease_seconds=lease_seconds,
        )
        order = self.store.orders.place(NewOrder(prompt="p"), by=Actor("t")).order
        assert self.store.claims.claim(order.id, incarnation=incarnation, claim_token=fresh_id(), drone="d")
        return order.id

    def beats(self, seconds: float) -> None:
        for _ in range(int(seconds * 2)):
            self.loop.once()
            self.clock.advance(0.5)


def test_an_order_of_a_lost_drone_goes_back_is_told_and_nudges_follow() -> None:
    scene = Scene()
    order = scene.a_running_order(lease_seconds=1)
    scene.beats(4)
    kept = scene.store.orders.get(order)
    assert kept.status is OrderStatus.QUEUED
    *entries, hint = scene.published
    kinds = [entry.kind for entry in entries if isinstance(entry, Entry)]
    assert kinds == ["order.queued", "order.claimed", "order.requeued"]
    assert hint == Hint(order_id=order, seq=kept.last_seq, status="queued")
    assert scene.told == [(order, OrderStatus.QUEUED, LOST)]
    assert scene.orders_taken_over == 1
    assert scene.rounds == 8


def test_nobody_is_declared_lost_before_own_beats_were_steady_for_three_seconds() -> None:
    scene = Scene()
    order = scene.a_running_order(lease_seconds=1)
    scene.beats(2.5)
    assert scene.store.orders.get(order).status is OrderStatus.RUNNING
    scene.beats(1.5)
    assert scene.store.orders.get(order).status is OrderStatus.QUEUED


def test_a_beat_that_failed_begins_the_three_seconds_anew() -> None:
    scene = Scene()
    order = scene.a_running_order(lease_seconds=4)
    scene.beats(3)
    beat = scene.store.sweeper.beat

    def failing(sweeper: str) -> None:
        raise StoreUnavailable("locked")

    scene.store.sweeper.beat = failing  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        scene.loop.once()
    scene.store.sweeper.beat = beat  # type: ignore[method-assign]
    scene.clock.advance(0.5)
    scene.beats(2.5)
    assert scene.store.orders.get(order).status is OrderStatus.RUNNING
    scene.beats(1.5)
    assert scene.store.orders.get(order).status is OrderStatus.QUEUED


def test_a_machine_that_slept_gives_the_others_time_to_wake_up() -> None:
    scene = Scene()
    order = scene.a_running_order(lease_seconds=12)
    scene.beats(4)
    scene.clock.advance(3_600)
    scene.loop.once()
    assert scene.store.orders.get(order).status is OrderStatus.RUNNING
    scene.beats(5)
    assert scene.store.orders.get(order).status is OrderStatus.QUEUED


def test_a_break_of_two_seconds_begins_the_count_anew() -> None:
    scene = Scene()
    order = scene.a_running_order(lease_seconds=5)
    scene.beats(4)
    scene.clock.advance(2.5)
    scene.loop.once()
    assert scene.store.orders.get(order).status is OrderStatus.RUNNING, "the others may have been cut off as well"


def test_a_drone_that_dies_while_all_is_well_counts_as_lost() -> None:
    scene = Scene()
    swept = lost_after(scene, [lambda: scene.beats(1)] * 10)
    assert len(swept.lost) == 1 and not swept.cut


def test_a_drone_that_dies_while_the_database_is_away_does_not() -> None:
    scene = Scene()
    swept = lost_after(scene, [lambda: scene.clock.advance(20), *[lambda: scene.beats(1)] * 10])
    assert len(swept.lost) == 1 and swept.cut == swept.lost


def lost_after(scene: Scene, acts: list[Callable[[], None]]) -> Swept:
    """The sweep that declares a drone lost, whose last heartbeat comes after four steady seconds."""
    seen: list[Swept] = []
    sweep = scene.store.sweeper.sweep

    def watched(*, may_expire: bool, steady_seconds: float) -> Swept:
        seen.append(sweep(may_expire=may_expire, steady_seconds=steady_seconds))
        return seen[-1]

    scene.store.sweeper.sweep = watched  # type: ignore[method-assign, assignment]
    scene.beats(4)
    scene.a_running_order(lease_seconds=5)
    for act in acts:
        act()
    [found] = [swept for swept in seen if swept.lost]
    return found


def test_without_redis_the_sweep_goes_on() -> None:
    scene = Scene()
    scene.redis = False
    order = scene.a_running_order(lease_seconds=1)
    scene.beats(4)
    assert scene.store.orders.get(order).status is OrderStatus.QUEUED


def test_the_thread_survives_a_database_that_is_away_and_a_bug() -> None:
    scene = Scene()
    problems: list[Exception] = [StoreUnavailable("away"), RuntimeError("a bug")]
    beat = scene.store.sweeper.beat

    def sometimes(sweeper: str) -> None:
        if problems:
            raise problems.pop(0)
        beat(sweeper)

    scene.store.sweeper.beat = sometimes  # type: ignore[method-assign]
    scene.loop.start()
    assert scene.rounded.acquire(timeout=5)
    scene.loop.stop()
    assert problems == []
