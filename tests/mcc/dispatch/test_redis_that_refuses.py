"""A Redis that answers but refuses writes counts as unavailable: reported, left alone for a moment, tried again."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from mcc.contracts.ids import fresh_id
from mcc.dispatch.broker import DispatchUnavailable, RedisAt
from mcc.dispatch.nudge import AWAY_SECONDS, Nudger
from mcc.testing import temporary_store
from tests.drone.worker.real_redis import SERVER, WHY_NOT, RealRedis, own_redis
from tests.faults.disks import small_disk
from tests.waiting import until

pytestmark = pytest.mark.skipif(SERVER is None, reason=WHY_NOT)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server() -> Iterator[RealRedis]:
    with own_redis() as own:
        yield own


def is_refused(nudger: Nudger, clock: Clock) -> bool:
    clock.now += AWAY_SECONDS
    try:
        nudger.nudge(fresh_id())
    except DispatchUnavailable:
        return True
    return False


def is_found_again(nudger: Nudger, clock: Clock) -> bool:
    """Whether a sweep without anything to send finds Redis available again."""
    clock.now += AWAY_SECONDS
    try:
        nudger.nudge_claimable(temporary_store())
    except DispatchUnavailable:
        return False
    return not nudger.trouble


@pytest.mark.parametrize(
    ("spoil", "mend", "words"),
    [
        (["CONFIG", "SET", "maxmemory", "1"], ["CONFIG", "SET", "maxmemory", "0"], "memory"),
        (["REPLICAOF", "127.0.0.1", "1"], ["REPLICAOF", "NO", "ONE"], "is a replica"),
    ],
    ids=["full memory", "a replica"],
)
def test_a_refusal_is_told_until_redis_can_be_written(
    server: RealRedis, spoil: list[str], mend: list[str], words: str
) -> None:
    clock = Clock()
    nudger = Nudger(RedisAt(server.url), ["default"], clock=clock)
    with redis.Redis.from_url(server.url) as client:
        nudger.nudge(fresh_id())
        assert nudger.trouble == ""
        client.execute_command(*spoil)
        assert is_refused(nudger, clock)
        assert words in nudger.trouble
        assert not is_found_again(nudger, clock)
        client.execute_command(*mend)
        assert is_found_again(nudger, clock)
        assert not is_refused(nudger, clock)
    nudger.close()


def test_a_redis_whose_disk_is_full_is_treated_as_one_that_is_away(tmp_path: Path) -> None:
    clock = Clock()
    with small_disk(tmp_path / "disk") as disk:
        server = RealRedis(disk.path)
        server.start()
        nudger = Nudger(RedisAt(server.url), ["default"], clock=clock)
        with redis.Redis.from_url(server.url) as client:
            client.config_set("appendonly", "yes")
            until(lambda: client.info("persistence")["aof_rewrite_in_progress"] == 0, "its file is there")
            nudger.nudge(fresh_id())
            disk.fill_up()
            until(lambda: is_refused(nudger, clock), "it refuses to be written")
            assert "MISCONF" in nudger.trouble
            disk.empty()
            until(lambda: is_found_again(nudger, clock), "it can be written again")
        nudger.close()
        server.stop()
