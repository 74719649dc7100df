"""The bound of the queue refuses new orders; requests that create none are still answered."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial

import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.order import NewFork, NewOrder
from mcc.contracts.status import OrderStatus
from mcc.store.database.errors import QueueFull
from mcc.store.rows.values import BatchOrder
from mcc.store.work.orders import COUNT_SECONDS, MOST_SECONDS, QueueBound
from mcc.testing import FakeClock, temporary_store
from tests.conformance.store.conftest import opened
from tests.conformance.store.scene import Scene, at_once

MOST = 3


@pytest.fixture(params=["sqlite", "postgresql"])
def bounded(request: pytest.FixtureRequest, clock: FakeClock) -> Iterator[Scene]:
    """A scene whose store allows three queued orders."""
    scene = Scene(opened(request, clock, MOST), clock, request.param)
    yield scene
    scene.store.close()


def filled(scene: Scene) -> list[str]:
    return [scene.place(f"order {number}").id for number in range(MOST)]


def test_one_more_is_refused_and_leaves_nothing_behind(bounded: Scene) -> None:
    filled(bounded)
    for _ in range(2):
        with pytest.raises(QueueFull, match="3 orders are queued"):
            bounded.place("one more", labels=("label",))
    assert bounded.store.orders.counts()[OrderStatus.QUEUED] == MOST
    assert len(bounded.store.sessions.list().items) == MOST
    assert not bounded.store.orders.list(label="label").items


def test_a_known_key_is_answered_and_a_new_one_is_not_used_up(bounded: Scene) -> None:
    placed = bounded.placed("first", key="k1")
    bounded.place("second")
    bounded.place("third")
    again = bounded.placed("first", key="k1")
    assert not again.created and again.order.id == placed.order.id
    with pytest.raises(QueueFull):
        bounded.placed("fourth", key="k4")
    bounded.hold(placed.order.id)
    bounded.clock.advance(COUNT_SECONDS)
    assert bounded.placed("fourth", key="k4").created


def test_orders_that_are_placed_together_find_room_for_all_of_them_or_none_is_placed(bounded: Scene) -> None:
    bounded.placed("known", key="k")
    asked = [BatchOrder(NewOrder(prompt=f"order {number}")) for number in range(MOST)]
    with pytest.raises(QueueFull, match="with these 3, more than 3 orders"):
        bounded.store.orders.place_all(asked, by=Actor("someone"))
    assert bounded.store.orders.counts()[OrderStatus.QUEUED] == 1
    known = BatchOrder(NewOrder(prompt="known"), "k")
    assert len(bounded.store.orders.place_all([known, *asked[1:]], by=Actor("someone"))) == MOST
    with pytest.raises(QueueFull):
        bounded.place("one more")


def test_orders_that_begin_or_are_cancelled_make_room(bounded: Scene) -> None:
    first, second, _ = filled(bounded)
    bounded.hold(first)
    bounded.store.controls.request(second, ControlKind.CANCEL, NewControl(), by=Actor("test"))
    bounded.clock.advance(COUNT_SECONDS)
    bounded.place("fourth")
    bounded.place("fifth")
    with pytest.raises(QueueFull):
        bounded.place("sixth")


def test_orders_that_wait_for_their_time_are_queued_too(bounded: Scene) -> None:
    for _ in range(MOST):
        bounded.place("later", not_before=bounded.clock.now() + timedelta(days=1))
    bounded.clock.advance(COUNT_SECONDS)
    with pytest.raises(QueueFull):
        bounded.place("now")


def test_a_retry_a_fork_and_a_turn_are_orders_as_well(bounded: Scene) -> None:
    held = bounded.running("done")
    held.finish()
    bounded.clock.advance(COUNT_SECONDS)
    ended = bounded.store.orders.get(held.order_id)
    filled(bounded)
    orders = bounded.store.orders
    with pytest.raises(QueueFull):
        orders.retry(ended.id, by=Actor("test"))
    with pytest.raises(QueueFull):
        orders.fork(ended.id, NewFork(after=ended.last_seq, prompt="again"), by=Actor("test"))
    with pytest.raises(QueueFull):
        bounded.place("next turn", session_id=ended.session_id)


def test_a_steer_is_no_new_order(bounded: Scene) -> None:
    first = filled(bounded)[0]
    bounded.hold(first)
    bounded.clock.advance(COUNT_SECONDS)
    bounded.place("fourth")
    running = bounded.store.orders.get(first)
    steered = bounded.placed("listen", session_id=running.session_id, when_busy="steer")
    assert not steered.created and steered.receipt is not None


def test_twenty_at_once_take_no_more_places_than_there_are() -> None:
    store = temporary_store(max_queued=MOST)

    def place(number: int) -> bool:
        try:
            store.orders.place(NewOrder(prompt=f"order {number}"), by=Actor("test"))
        except QueueFull:
            return False
        return True

    assert at_once(*(partial(place, number) for number in range(20))).count(True) == MOST
    assert store.orders.counts()[OrderStatus.QUEUED] == MOST
    store.close()


class Counter:
    """A count of orders that records how often it was called."""

    def __init__(self, queued: int) -> None:
        self.queued = queued
        self.times = 0

    def __call__(self, most: int) -> int:
        self.times += 1
        return min(self.queued + 1, most)


@pytest.mark.parametrize("queued", [0, 50_000, 99_000])
def test_a_thousand_orders_in_a_second_are_counted_once(clock: FakeClock, queued: int) -> None:
    bound, counter = QueueBound(100_000, clock), Counter(queued)
    for _ in range(1_000):
        bound.take(counter)
        clock.advance(COUNT_SECONDS / 1_001)
    assert counter.times == 1


def test_far_from_the_bound_a_count_lasts_a_minute_and_at_the_bound_a_second(clock: FakeClock) -> None:
    far, near = Counter(0), Counter(100_000)
    bound, full = QueueBound(100_000, clock), QueueBound(100_000, clock)
    for _ in range(round(MOST_SECONDS)):
        bound.take(far)
        with pytest.raises(QueueFull):
            full.take(near)
        clock.advance(1.0)
    assert (far.times, near.times) == (1, round(MOST_SECONDS))


def test_places_of_orders_that_were_undone_are_given_again(clock: FakeClock) -> None:
    bound, counter = QueueBound(100_000, clock), Counter(40_000)
    for _ in range(60_000):
        bound.take(counter)
    clock.advance(COUNT_SECONDS)
    bound.take(counter)
    assert counter.times == 2
