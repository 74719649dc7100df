"""Findings about Redis: refused writes, memory, policies, and the contents of the queues."""

import pytest

from mcc.doctor.redis import QueueSeen, RedisSeen, abandoned, canary_findings, redis_findings
from tests.mcc.doctor.snapshots import node, states


def test_a_redis_that_takes_and_keeps_everything_is_well() -> None:
    assert list(redis_findings(RedisSeen(policy="noeviction", queues=[QueueSeen("default", 3)]))) == []


@pytest.mark.parametrize(
    ("refusal", "told", "advice"),
    [
        ("OOM command not allowed when used memory > 'maxmemory'.", "memory is full", "maxmemory"),
        ("MISCONF Redis is configured to save RDB snapshots", "cannot save", "make room"),
        ("ERR what is this", "ERR what is this", "log"),
    ],
)
def test_a_refusal_is_told_in_words_with_what_to_do(refusal: str, told: str, advice: str) -> None:
    [finding] = redis_findings(RedisSeen(refusal=refusal, memory_used=10, memory_limit=10))
    assert finding.state == "broken" and told in finding.detail and advice in finding.advice


def test_what_it_lacks_is_the_only_finding() -> None:
    seen = RedisSeen(unfit="Redis at redis://a/0 is a replica: name its master.", refusal="OOM x", policy="allkeys-lru")
    [finding] = redis_findings(seen)
    assert (finding.state, finding.detail) == ("broken", "Redis at redis://a/0 is a replica")
    assert finding.advice == "name its master"


def test_memory_that_is_nearly_full_is_told_before_it_is() -> None:
    assert states(list(redis_findings(RedisSeen(memory_used=95, memory_limit=100)))) == [("redis", "warning")]
    assert list(redis_findings(RedisSeen(memory_used=50, memory_limit=100))) == []
    assert list(redis_findings(RedisSeen(memory_used=50, memory_limit=0))) == []


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_a_policy_that_throws_away_is_a_danger(policy: str) -> None:
    [finding] = redis_findings(RedisSeen(policy=policy))
    assert finding.state == "warning" and policy in finding.detail and "noeviction" in finding.advice


def test_messages_that_name_no_order_are_counted_and_can_be_moved() -> None:
    [finding] = redis_findings(RedisSeen(queues=[QueueSeen("default", 9, garbage=4)]))
    assert finding.detail == "4 of 9 messages in queue default name no order" and finding.fix == "messages"


def test_a_key_that_is_no_list_stops_a_queue() -> None:
    [finding] = redis_findings(RedisSeen(queues=[QueueSeen("default", 0, wrong_keys=["mcc:default"])]))
    assert (finding.state, finding.fix) == ("broken", "messages")


def test_a_list_of_no_queue_is_left_to_the_operator() -> None:
    [finding] = redis_findings(RedisSeen(strays={"old": 3}))
    assert finding.fix is None and "list old holds 3" in finding.detail


def test_canaries_belong_to_those_who_answer() -> None:
    names = ["canary.drone-1@drone", "canary.nobody"]
    assert abandoned(names, [node()]) == ["canary.nobody"]
    assert abandoned(names, None) == []
    [finding] = canary_findings(["canary.nobody"])
    assert finding.fix == "messages" and "canary.nobody" in finding.detail
    assert list(canary_findings([])) == []


def test_known_holes_of_a_redis_that_nobody_else_reaches_are_told_and_nobody_is_warned() -> None:
    [finding] = redis_findings(RedisSeen(server="redis", version="6.2.14", private=True))
    assert finding.state == "ok" and "CVE-2025-49844" in finding.detail and "private socket" in finding.detail


@pytest.mark.parametrize(
    ("server", "version", "names"),
    [
        ("redis", "6.2.14", ["CVE-2025-49844"]),
        ("redis", "6.2.20", []),
        ("redis", "7.0.15", ["CVE-2025-49844"]),
        ("redis", "7.2.10", ["CVE-2025-49844", "CVE-2026-23479"]),
        ("redis", "7.2.11", ["CVE-2026-23479"]),
        ("redis", "8.6.2", ["CVE-2026-23479"]),
        ("redis", "8.6.3", []),
        ("redis", "10.0.0", []),
        ("valkey", "7.2.10", ["CVE-2025-49844"]),
        ("valkey", "8.1.4", []),
        ("redis", "255.255.x", []),
        ("", "", []),
    ],
)
def test_a_release_with_known_holes_is_told_as_one_that_may_have_them(
    server: str, version: str, names: list[str]
) -> None:
    told = [finding.detail for finding in redis_findings(RedisSeen(server=server, version=version))]
    assert len(told) == bool(names)
    assert all("may have" in detail and name in detail for detail in told for name in names)
    assert sum(detail.count("CVE-") for detail in told) == len(names)
