"""A whole family over a Redis whose roles change: work goes on quickly, and nothing is lost."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.faults.checker import INVARIANTS, evidence_of, violations
from tests.faults.family import Family
from tests.faults.members import until
from tests.faults.plan import Plan
from tests.faults.replicas import Watched, follow, swap, watched
from tests.faults.script import prompt_of
from tests.faults.services import REDIS_SERVER, Redis

pytestmark = [
    pytest.mark.family,
    pytest.mark.group("fail-over"),
    pytest.mark.skipif(REDIS_SERVER is None, reason="neither redis-server nor valkey-server is on PATH"),
]

PROMISES = tuple(name for name in INVARIANTS if name not in ("I14", "I16"))
BACK_SECONDS = 15.0
QUICK_SECONDS = 3.0
"""How soon an order is claimed by a nudge; by the clock it takes `poll_seconds`, by a repeated nudge five seconds."""

IN_A_ROW = 3
PLAN = Plan(mccs=2, drones=2, slots=6, poll_seconds=60.0, settings={"DRONE_CANARY_SECONDS": "5"})


def placed(family: Family, key: str) -> str:
    order_id = family.clients.post(prompt_of(key, 3, steps=1))
    assert order_id is not None, f"{key} was not accepted"
    return order_id


def claimed_in(family: Family, key: str) -> float:
    """The seconds that a new order waits for a drone."""
    order_id, began = placed(family, key), time.monotonic()
    until(lambda: family.state(order_id).status != "queued", 60.0, f"{key} is claimed")
    return time.monotonic() - began


def quick_again(family: Family, since: float, name: str) -> None:
    """Within `BACK_SECONDS` one order after the other is claimed by a nudge, and the services say that all is well."""
    waits: list[float] = []
    while len(waits) < IN_A_ROW or max(waits[-IN_A_ROW:]) > QUICK_SECONDS:
        waits.append(claimed_in(family, f"{name}-{len(waits)}"))
        assert time.monotonic() - since < BACK_SECONDS, f"orders wait for {waits} s"
    well = [(url, "ok") for url in family.urls]
    until(lambda: [(url, redis_of(url)) for url in family.urls] == well, since + BACK_SECONDS - time.monotonic(), name)


def redis_of(url: str) -> object:
    return httpx.get(f"{url}/readyz", timeout=20).json().get("redis")


def ends_well(family: Family) -> None:
    family.quiesce(restarting=True)
    found = violations(evidence_of(family.finish()), PROMISES)
    assert not found, "\n".join(map(str, found))


@pytest.fixture
def sentinels(tmp_path: Path) -> Iterator[Watched]:
    directory = tmp_path / "watched"
    directory.mkdir()
    with watched(directory) as made:
        yield made


def test_roles_are_swapped_behind_one_address_while_connections_stay_open(tmp_path: Path) -> None:
    with Family(replace(PLAN, links=("drone-redis", "mcc-redis")), tmp_path / "run") as family:
        other = Redis(tmp_path, tmp_path, dict(family.redis.member.environment), {"repl-diskless-sync-delay": "0"})
        other.start()
        try:
            follow(other, family.redis)
            assert claimed_in(family, "before") < QUICK_SECONDS
            running = [family.clients.submit(prompt_of(f"run-{n}", 7, steps=5, linger_seconds=0.6)) for n in range(4)]
            for one in running:
                family.watch(one)
            family.told("roles are swapped", "redis")
            for link in family.links.values():
                link.aim(("127.0.0.1", other.port))
            swap(family.redis, other)
            swapped = time.monotonic()
            quick_again(family, swapped, "swapped")
            left = swapped + BACK_SECONDS - time.monotonic()
            until(lambda: subscribers(other) >= 4, left, "both services and both drones listen at the master")
            ends_well(family)
        finally:
            other.member.end()


def subscribers(server: Redis) -> int:
    """How many subscriptions of ours a server has."""
    return len(server.command("PUBSUB", "CHANNELS", "*:listener:*"))


def test_sentinels_promote_the_replica_under_load(tmp_path: Path, sentinels: Watched) -> None:
    settings = {**PLAN.settings, "MCC_REDIS_URL": sentinels.url, "MCC_REDIS_PREFIX": "other:"}
    with Family(replace(PLAN, settings=settings), tmp_path / "run") as family:
        assert claimed_in(family, "before") < QUICK_SECONDS
        running = [family.clients.submit(prompt_of(f"run-{n}", 7, steps=5, linger_seconds=0.6)) for n in range(4)]
        for one in running:
            family.watch(one)
        lost = sentinels.master()
        family.told("kill9", "the master of Redis")
        meanwhile = [placed(family, f"meanwhile-{number}") for number in range(2)]
        writable = sentinels.fail_over()
        quick_again(family, writable, "promoted")
        sentinels.come_back(lost)
        assert claimed_in(family, "after") < QUICK_SECONDS
        assert {key.partition(b":")[0] for key in sentinels.master().command("KEYS", "*")} <= {b"other"}
        assert {family.state(one).attempt for one in (*running, *meanwhile) if family.state(one).final} <= {1}
        ends_well(family)
