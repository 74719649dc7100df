import json
import time

import redis

from mcc.contracts.wire import Delta, Hint, OrdersWait, Wake
from mcc.dispatch.broker import RedisAt
from mcc.dispatch.publisher import PAUSE_SECONDS, AsyncPublisher, Publisher, payloads
from tests.drone.worker.real_redis import RealRedis

NOWHERE = "redis://127.0.0.1:1/0"


def a_delta(text: str) -> Delta:
    return Delta(kind="model.delta", order_id="o", epoch=1, record_id="r", round=1, attempt=1, offset=0, text=text)


def test_a_status_is_sent_on_the_order_s_channel_and_on_that_of_all() -> None:
    sent = list(payloads([Hint(order_id="o", seq=3, status="running"), Hint(order_id="o", seq=4)]))
    assert [channel for channel, _ in sent] == ["mcc:order:o", "mcc:status", "mcc:order:o"]


def test_any_text_can_be_sent() -> None:
    ((_, payload),) = payloads([a_delta("nul \x00, half a pair \ud83d")])
    assert json.loads(payload)["text"] == "nul \x00, half a pair \ud83d"


def test_what_is_sent_arrives(real_redis: RealRedis) -> None:
    publisher = Publisher(RedisAt(real_redis.url))
    with redis.Redis.from_url(real_redis.url) as client, client.pubsub() as heard:
        heard.subscribe("mcc:order:o", "mcc:control:i")
        confirmed = [heard.get_message(timeout=5), heard.get_message(timeout=5)]
        assert [message["type"] for message in confirmed if message] == ["subscribe", "subscribe"]
        assert publisher.publish([Hint(order_id="o", seq=7)])
        assert publisher.wake("i", Wake(order_id="o", control_seq=2))
        first, second = heard.get_message(timeout=5), heard.get_message(timeout=5)
    assert first is not None and Hint.model_validate_json(first["data"]).seq == 7
    assert second is not None and Wake.model_validate_json(second["data"]).control_seq == 2
    publisher.close()


async def test_what_is_sent_from_a_loop_arrives(real_redis: RealRedis) -> None:
    publisher = AsyncPublisher(RedisAt(real_redis.url))
    assert await publisher.publish([Hint(order_id="o", seq=7), a_delta("x")])
    assert await publisher.wake("i", Wake(order_id="o", control_seq=2))
    with redis.Redis.from_url(real_redis.url) as client, client.pubsub() as heard:
        heard.subscribe("mcc:control:a", "mcc:control:b")
        assert [heard.get_message(timeout=5), heard.get_message(timeout=5)].count(None) == 0
        assert await publisher.call(["a", "b"])
        called = [heard.get_message(timeout=5), heard.get_message(timeout=5)]
    assert [message and OrdersWait.model_validate_json(message["data"]) for message in called] == [OrdersWait()] * 2
    await publisher.close()


async def test_of_many_messages_each_arrives_whole_and_in_order_also_on_a_connection_that_was_cut(
    real_redis: RealRedis,
) -> None:
    publisher = AsyncPublisher(RedisAt(real_redis.url))
    with redis.Redis.from_url(real_redis.url) as client, client.pubsub() as heard:
        heard.subscribe("mcc:order:o")
        assert heard.get_message(timeout=5)
        for number in range(3):
            texts = [f"{number} {index} \r\n é" for index in range(50)]
            assert await publisher.publish(map(a_delta, texts))
            arrived = [heard.get_message(timeout=5) for _ in texts]
            assert [json.loads(message["data"])["text"] for message in arrived if message] == texts
            client.client_kill_filter(_type="normal", skipme=True)
    await publisher.close()


async def test_a_redis_that_refuses_is_left_alone_for_a_moment_and_asked_again(real_redis: RealRedis) -> None:
    now = [0.0]
    publisher = AsyncPublisher(RedisAt(real_redis.url), clock=lambda: now[0])
    hints = [Hint(order_id="o", seq=1)] * 3
    assert await publisher.publish(hints)
    with redis.Redis.from_url(real_redis.url) as client:
        client.execute_command("ACL", "SETUSER", "default", "-publish")
        try:
            assert not await publisher.publish(hints) and publisher._pause.lasts()
        finally:
            client.execute_command("ACL", "SETUSER", "default", "+publish")
    now[0] = PAUSE_SECONDS + 0.1
    assert await publisher.publish(hints)
    await publisher.close()


def test_a_redis_that_is_away_is_no_error_and_is_left_alone_for_a_moment() -> None:
    now = [0.0]
    publisher = Publisher(RedisAt(NOWHERE), clock=lambda: now[0])
    assert not publisher.publish([Hint(order_id="o", seq=1)])
    began = time.monotonic()
    for _ in range(10_000):
        publisher.publish([Hint(order_id="o", seq=1)])
    assert time.monotonic() - began < 5
    now[0] = PAUSE_SECONDS + 0.1
    assert not publisher._pause.lasts()
    publisher.close()


async def test_a_redis_that_is_away_is_no_error_on_a_loop_either() -> None:
    publisher = AsyncPublisher(RedisAt(NOWHERE))
    assert not await publisher.publish([Hint(order_id="o", seq=1)])
    assert not await publisher.wake("i", Wake(order_id="o", control_seq=1))
    await publisher.close()


def test_nothing_to_publish_is_nothing_sent() -> None:
    assert not Publisher(RedisAt(NOWHERE)).publish([])
