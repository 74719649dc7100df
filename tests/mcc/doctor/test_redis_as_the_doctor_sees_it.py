"""A look at a real Redis that holds garbage, and the removal of that."""

import json
from collections.abc import Iterator

import pytest
import redis

from mcc.contracts.ids import fresh_id
from mcc.dispatch.broker import DispatchUnavailable, RedisAt
from mcc.dispatch.nudge import Nudger
from mcc.doctor.installation import ask_nodes
from mcc.doctor.redis import REMOVED, QueueSeen, clear, look_at, order_in
from tests.drone.worker.real_redis import SERVER, WHY_NOT, RealRedis, own_redis

QUEUES = ("default", "slow")


@pytest.fixture(scope="module")
def server() -> Iterator[RealRedis]:
    if SERVER is None:
        pytest.skip(WHY_NOT)
    with own_redis() as running:
        yield running


@pytest.fixture
def link(server: RealRedis) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
        client.config_set("maxmemory", 0)
        client.config_set("maxmemory-policy", "noeviction")
        yield client


def nudged(server: RealRedis, *order_ids: str) -> None:
    nudger = Nudger(RedisAt(server.url), QUEUES)
    for order_id in order_ids:
        nudger.nudge(order_id, queue="default", priority=3)
    nudger.close()


def test_a_nudge_names_its_order_and_anything_else_names_none(server: RealRedis, link: redis.Redis) -> None:
    order_id = fresh_id()
    nudged(server, order_id, "no id at all")
    messages = link.lrange("mcc:default\x06\x163", 0, -1)
    assert isinstance(messages, list)
    assert {order_in(message) for message in messages} == {order_id, None}
    broken = [b"", b"\xff", b"[]", b"{}", b"[" * 100_000, json.dumps({"headers": None}).encode()]
    assert [order_in(message) for message in broken] == [None] * len(broken)


def test_garbage_is_counted_and_moved_while_nudges_stay(server: RealRedis, link: redis.Redis) -> None:
    order_id = fresh_id()
    nudged(server, order_id)
    link.rpush("mcc:default", "garbage", "garbage", "{}")
    link.set("mcc:slow", "no list")
    default, slow = look_at(RedisAt(server.url), QUEUES, seconds=5).queues
    assert default == QueueSeen("default", 4, garbage=3) and list(slow.wrong_keys) == ["mcc:slow"]
    assert clear(RedisAt(server.url), QUEUES, (), seconds=5) == 4
    seen = look_at(RedisAt(server.url), QUEUES, seconds=5)
    assert list(seen.queues) == [QueueSeen("default", 1), QueueSeen("slow", 0)]
    assert link.llen(f"mcc:{REMOVED}") == 3 and link.ttl(f"mcc:{REMOVED}") > 0
    assert link.get(f"mcc:{REMOVED}.slow") == b"no list"
    assert clear(RedisAt(server.url), QUEUES, (), seconds=5) == 0


def test_lists_of_nobody_and_canaries_are_told_apart(server: RealRedis, link: redis.Redis) -> None:
    link.rpush("mcc:old", "x", "y")
    link.rpush("mcc:old\x06\x165", "z")
    link.rpush("mcc:canary.one", "x")
    link.rpush("mcc:7.reply.celery.pidbox", "x")
    link.rpush("else", "x")
    seen = look_at(RedisAt(server.url), QUEUES, seconds=5)
    assert (seen.strays, list(seen.canaries)) == ({"old": 3}, ["canary.one"])
    assert clear(RedisAt(server.url), QUEUES, ["canary.one"], seconds=5) == 1
    assert list(look_at(RedisAt(server.url), QUEUES, seconds=5).canaries) == []


def test_policy_and_a_full_memory_are_seen(server: RealRedis, link: redis.Redis) -> None:
    link.config_set("maxmemory-policy", "allkeys-lru")
    seen = look_at(RedisAt(server.url), QUEUES, seconds=5)
    assert (seen.policy, seen.refusal, seen.memory_limit) == ("allkeys-lru", "", 0) and seen.memory_used > 0
    link.config_set("maxmemory-policy", "noeviction")
    link.config_set("maxmemory", 1)
    assert look_at(RedisAt(server.url), QUEUES, seconds=5).refusal.startswith("OOM")


def test_a_replica_that_can_only_be_read_is_seen(server: RealRedis, link: redis.Redis) -> None:
    link.replicaof("127.0.0.1", "9")
    try:
        assert "is a replica, which cannot be written" in look_at(RedisAt(server.url), QUEUES, seconds=5).unfit
    finally:
        link.replicaof("NO", "ONE")


def test_the_look_leaves_nothing_behind_that_stays(server: RealRedis, link: redis.Redis) -> None:
    look_at(RedisAt(server.url), QUEUES, seconds=5)
    keys = link.keys("*")
    assert isinstance(keys, list) and all(link.ttl(key) > 0 for key in keys)


def test_no_worker_is_no_answer_and_no_error(server: RealRedis, link: redis.Redis) -> None:
    assert ask_nodes(RedisAt(server.url), QUEUES, seconds=1, expected=1) == []


def test_a_redis_that_is_not_there_is_said_so() -> None:
    with pytest.raises(DispatchUnavailable):
        look_at(RedisAt("unix:///tmp/nobody-listens-here.sock"), QUEUES, seconds=0.2)
    with pytest.raises(DispatchUnavailable):
        clear(RedisAt("unix:///tmp/nobody-listens-here.sock"), QUEUES, (), seconds=0.2)
