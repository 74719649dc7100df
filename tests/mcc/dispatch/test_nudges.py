import json
import socket
import time
from collections.abc import Iterator

import pytest
import redis

from mcc.contracts.callers import Actor
from mcc.contracts.drones import Registration
from mcc.contracts.ids import fresh_id
from mcc.contracts.order import NewOrder
from mcc.contracts.wire import RUN_ORDER_TASK
from mcc.dispatch.broker import DispatchUnavailable, RedisAt, UnknownQueue
from mcc.dispatch.nudge import REPEAT_SECONDS, Nudger, free_slots
from mcc.store.store import Store
from mcc.testing import temporary_store


@pytest.fixture
def nudger(redis_url: str) -> Iterator[Nudger]:
    made = Nudger(RedisAt(redis_url), ["default", "slow"])
    yield made
    made.close()


def a_drone(store: Store, *, slots: int, active: int = 0, queues: tuple[str, ...] = ("default",)) -> None:
    incarnation = fresh_id()
    store.leases.register(
        Registration(incarnation=incarnation, name="d", pid=1, host="h", version="0", queues=queues, slots=slots),
        lease_seconds=60,
    )
    store.leases.renew(incarnation, lease_seconds=60, active=active)


def orders(store: Store, count: int, queue: str = "default") -> list[str]:
    return [store.orders.place(NewOrder(prompt="p", queue=queue), by=Actor("t")).order.id for _ in range(count)]


def test_a_nudge_is_a_message_with_the_order_s_id_alone(nudger: Nudger, redis_url: str) -> None:
    order_id = fresh_id()
    nudger.nudge(order_id, queue="default", priority=0)
    with redis.Redis.from_url(redis_url) as client:
        message = json.loads(client.lpop("mcc:default"))
    assert message["headers"]["task"] == RUN_ORDER_TASK
    assert message["headers"]["id"] == order_id, "which is the id of the task, whoever nudges and how often"
    assert message["headers"]["argsrepr"] == repr([order_id])
    assert message["content-type"] == "application/json"


def test_an_undeclared_queue_is_refused(nudger: Nudger) -> None:
    with pytest.raises(UnknownQueue, match="default, slow"):
        nudger.nudge(fresh_id(), queue="nowhere")


def test_a_round_sends_no_more_than_there_are_free_slots(nudger: Nudger) -> None:
    store = temporary_store()
    orders(store, 20)
    a_drone(store, slots=10, active=7)
    a_drone(store, slots=2)
    assert nudger.nudge_claimable(store) == 5
    assert nudger.lengths() == {"default": 5, "slow": 0}


def test_messages_that_wait_already_count_against_the_free_slots(nudger: Nudger) -> None:
    store = temporary_store()
    for _ in range(3):
        nudger.nudge(fresh_id())
    orders(store, 20)
    a_drone(store, slots=5)
    assert nudger.nudge_claimable(store) == 2
    assert nudger.nudge_claimable(store) == 0


def test_no_drone_no_nudge(nudger: Nudger) -> None:
    store = temporary_store()
    orders(store, 3)
    a_drone(store, slots=5, queues=("slow",))
    assert nudger.nudge_claimable(store) == 0


def remembered(url: str) -> list[str]:
    with redis.Redis.from_url(url) as client:
        return [key.decode() for key in client.keys("mcc:nudged:*")]


def test_an_order_is_not_nudged_again_before_its_message_must_be_lost(nudger: Nudger, redis_url: str) -> None:
    store = temporary_store()
    orders(store, 1)
    a_drone(store, slots=50)
    assert [nudger.nudge_claimable(store), nudger.nudge_claimable(store)] == [1, 0]
    (key,) = remembered(redis_url)
    with redis.Redis.from_url(redis_url) as client:
        assert REPEAT_SECONDS - 2 < client.pttl(key) / 1000 <= REPEAT_SECONDS
        client.delete(key)
    assert nudger.nudge_claimable(store) == 1


def test_an_order_that_came_back_is_nudged_at_once(nudger: Nudger) -> None:
    store = temporary_store()
    (order,) = orders(store, 1)
    a_drone(store, slots=50)
    assert nudger.nudge_claimable(store) == 1
    (drone,) = store.leases.drones()
    claim = store.claims.claim(order, incarnation=drone.incarnation, claim_token=fresh_id(), drone="d")
    assert claim is not None
    store.claims.hand_back([(order, claim.epoch)], drone="d", message="told to stop")
    assert nudger.nudge_claimable(store) == 1


def test_forty_orders_and_four_sweepers_are_forty_nudges(redis_url: str) -> None:
    """The service nudges each order it accepts, while it and three drones sweep."""
    service, *drones = (Nudger(RedisAt(redis_url), ["default"]) for _ in range(4))
    store = temporary_store()
    for _ in range(3):
        a_drone(store, slots=50)
    sent = 0
    for number in range(40):
        (order,) = orders(store, 1)
        if number % 4:
            sent += service.nudge(order, last_seq=1)
        sent += sum(sweeper.nudge_claimable(store) for sweeper in (*drones, service))
    assert sent == 40
    assert service.lengths() == {"default": 40}
    for one in (service, *drones):
        one.close()


def test_a_message_that_another_sweeper_sends_at_the_same_moment_is_not_sent_twice(redis_url: str) -> None:
    nudgers = [Nudger(RedisAt(redis_url), ["default"]) for _ in range(3)]
    order = fresh_id()
    assert [one.nudge(order, last_seq=1) for one in nudgers] == [True, False, False]
    assert nudgers[1].nudge(order, last_seq=2), "its journal has grown: it was claimed and has come back"
    for one in nudgers:
        one.close()


def test_a_drone_that_drains_or_is_silent_has_no_room() -> None:
    store = temporary_store()
    a_drone(store, slots=5, active=2, queues=("default", "slow"))
    (drone,) = store.leases.drones()
    assert free_slots([drone], {"default": 1}) == {"default": 2, "slow": 3}
    assert free_slots([drone.model_copy(update={"status": "draining"})], {})["default"] == 0


def test_a_redis_that_refuses_costs_little_and_then_nothing() -> None:
    nudger = Nudger(RedisAt("redis://127.0.0.1:1/0"), ["default"], seconds=0.4)
    began = time.monotonic()
    with pytest.raises(DispatchUnavailable):
        nudger.nudge(fresh_id())
    assert time.monotonic() - began < 10
    again = time.monotonic()
    for _ in range(100):
        with pytest.raises(DispatchUnavailable):
            nudger.nudge(fresh_id())
        with pytest.raises(DispatchUnavailable):
            nudger.lengths()
    assert time.monotonic() - again < 10, "each of the 200 waited for it"
    nudger.close()


def test_a_redis_that_swallows_everything_does_not_hang_the_sender() -> None:
    with socket.create_server(("127.0.0.1", 0)) as hole:
        nudger = Nudger(RedisAt(f"redis://127.0.0.1:{hole.getsockname()[1]}/0"), ["default"], seconds=0.4)
        began = time.monotonic()
        with pytest.raises(DispatchUnavailable):
            nudger.nudge(fresh_id())
        assert time.monotonic() - began < 10
        nudger.close()


def test_a_redis_that_comes_back_is_used_again(redis_url: str) -> None:
    now = [0.0]
    nudger = Nudger(RedisAt(redis_url), ["default"], clock=lambda: now[0])
    nudger._away_until = 1.0
    with pytest.raises(DispatchUnavailable):
        nudger.nudge(fresh_id())
    now[0] = 1.5
    nudger.nudge(fresh_id())
    nudger.close()
