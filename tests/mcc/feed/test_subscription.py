"""Hints over a real Redis, from one service to the viewers of another."""

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from mcc.api.app import RedisAccess
from mcc.client import MCC
from mcc.contracts.wire import Hint
from mcc.dispatch.broker import RedisAt
from mcc.dispatch.publisher import AsyncPublisher, Publisher
from mcc.feed.feed import Pace
from mcc.feed.subscription import connector
from mcc.local.errors import NoRedis
from mcc.local.redis import RedisBinary, find_redis, server_arguments, socket_url
from mcc.testing import temporary_store
from mcc.testing.hand_drone import HandDrone
from mcc.testing.served import Served

ONLY_HINTS = Pace(poll_seconds=3_600.0, poll_without_hints_seconds=3_600.0)


@pytest.fixture
def redis_url() -> Iterator[str]:
    try:
        binary = find_redis(None)
    except NoRedis as error:
        pytest.skip(str(error))
    assert isinstance(binary, RedisBinary)
    with tempfile.TemporaryDirectory(prefix="mcc-") as directory:
        socket = Path(directory) / "redis.sock"
        arguments = server_arguments(binary.path, socket, Path(directory))
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            for line in server.stdout:
                if "ready to accept connections" in line.lower():
                    break
            yield socket_url(socket)
            server.terminate()


def test_what_one_service_accepts_the_viewers_of_another_see_by_hints_alone(redis_url: str, tmp_path: Path) -> None:
    store, drone_side = temporary_store(), Publisher(RedisAt(redis_url))

    def served(name: str) -> Served:
        redis = RedisAccess(publisher=AsyncPublisher(RedisAt(redis_url)), connect=connector(RedisAt(redis_url)))
        return Served(store, tmp_path / name, redis=redis, pace=ONLY_HINTS)

    with served("a") as one, served("b") as other:
        headers = {"Authorization": f"Bearer {one.token}"}
        with httpx.stream("GET", f"{other.url}/api/v1/events", headers=headers, timeout=20) as stream:
            lines = stream.iter_lines()
            assert next(line for line in lines if line.startswith("event: ")) == "event: snapshot"
            with MCC(one.url, token=one.token) as mcc:
                order = mcc.orders.submit("x")
            assert next(line for line in lines if line.startswith("event: ")) == "event: order.status"
            assert order.id in next(lines)
        with MCC(other.url, token=other.token) as mcc:
            seen = []
            held = HandDrone(store).claim(order.id)
            for entry in mcc.orders.watch(order.id):
                seen.append(entry.seq)
                if entry.seq == 2:
                    drone_side.publish([Hint(order_id=order.id, seq=held.start())])
                if entry.seq == 3:
                    drone_side.publish([Hint(order_id=order.id, seq=held.finish(), status="succeeded")])
            assert seen == [1, 2, 3, 4, 5]
    drone_side.close()
