"""Fixtures: a Redis of the session's own, with a database and drones on it."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from tests.drone.worker.conftest import real_redis
from tests.drone.worker.real_redis import RealRedis
from tests.drone.worker.test_celery_worker import Site

__all__ = ["real_redis", "site"]


@pytest.fixture
def site(tmp_path: Path, real_redis: RealRedis) -> Iterator[Site]:
    with redis.Redis.from_url(real_redis.url) as client:
        client.flushall()
    with ExitStack() as stack:
        yield Site(tmp_path, real_redis, stack)
