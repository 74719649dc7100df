"""Kombu's transport as a drone uses it: reconnecting, dropped messages, unacknowledged messages."""

import json
from typing import Any

import pytest
import redis
from celery import Celery
from kombu import Consumer, Producer, Queue

from drone.worker.components import _public_stats
from drone.worker.redis_transport import RECONNECTING, QoS, WorkerConnection, WorkerMessaging
from mcc.contracts.wire import CANARY_TASK, RUN_ORDER_TASK
from mcc.dispatch.broker import celery_url
from mcc.dispatch.transport import BrokerConnection
from tests.drone.worker.real_redis import RealRedis


class Enough(Exception):
    pass


class CountingApp(Celery):  # type: ignore[misc]
    amqp_cls = WorkerMessaging
    refused = 0

    def message_refused(self) -> None:
        self.refused += 1


class HalfClosed:
    """A channel whose half-closed connection no longer has an address."""

    do_restore = True

    def _restore(self, message: object) -> object:
        raise AttributeError("'NoneType' object has no attribute 'hostname'")


def test_an_unreachable_broker_is_tried_again_every_two_seconds_at_most() -> None:
    pauses: list[float] = []

    def told(_: Exception, pause: float) -> None:
        pauses.append(pause)
        raise Enough

    with pytest.raises(Enough), WorkerConnection("redis://127.0.0.1:1/0") as connection:
        connection.ensure_connection(told, None, interval_start=20)
    assert pauses == [RECONNECTING["interval_start"]]
    assert RECONNECTING["interval_max"] <= 2


def test_an_application_counts_messages_dropped_by_its_connection_but_not_by_copies() -> None:
    app = CountingApp("counting", broker="redis://127.0.0.1:1/0", set_as_current=False)
    with app.connection_for_read() as connection, connection.clone() as copy:
        connection.refused()
        copy.refused()
    assert app.refused == 1


def test_messages_that_cannot_be_returned_are_dropped_and_end_no_worker() -> None:
    qos = QoS(HalfClosed())  # type: ignore[no-untyped-call]
    qos._delivered["tag"] = object()
    qos.restore_unacked_once()  # type: ignore[no-untyped-call]
    assert not qos._delivered


@pytest.mark.parametrize("kind", [WorkerConnection, BrokerConnection])
def test_short_commands_share_one_client_until_the_connection_pool_is_replaced(
    real_redis: RealRedis, kind: type[BrokerConnection]
) -> None:
    with kind(celery_url(real_redis.url)) as connection:
        channel = connection.channel()
        with channel.conn_or_acquire() as first, channel.conn_or_acquire() as second:
            assert first is second
            assert first.ping()
        channel._disconnect_pools()
        with channel.conn_or_acquire() as third:
            assert third is not first
            assert third.ping()


def test_an_unacknowledged_message_is_kept_only_in_the_process_and_returned_at_its_end(
    real_redis: RealRedis,
) -> None:
    heard: list[Any] = []
    queue = Queue("kept", routing_key="kept")
    with WorkerConnection(celery_url(real_redis.url)) as connection, redis.Redis.from_url(real_redis.url) as client:
        Producer(connection).publish("first", routing_key="kept", declare=[queue])
        Producer(connection).publish("second", routing_key="kept")
        channel = connection.channel()
        with Consumer(channel, [queue], callbacks=[lambda _, message: heard.append(message)]):
            while len(heard) < 2:
                connection.drain_events(timeout=5)
            heard[0].ack()
            assert client.llen("kept") == 0
            assert not client.keys("unacked*")
        channel.close()
        assert client.llen("kept") == 1
        back = json.loads(client.lindex("kept", 0))
        assert back["properties"]["delivery_tag"] == heard[1].delivery_tag


def test_what_a_worker_says_of_its_broker_holds_no_login() -> None:
    told = {"broker": {"hostname": "one", "alternates": ["sentinel://u:word@two"], "transport_options": {"x": "word"}}}
    stats = _public_stats(lambda state: {**told, "total": {CANARY_TASK: 3, RUN_ORDER_TASK: 2}}, None)
    assert stats == {"broker": {"hostname": "one"}, "total": {RUN_ORDER_TASK: 2}}
