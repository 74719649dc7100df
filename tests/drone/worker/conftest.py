"""Fixtures: a Redis for the test session."""

from collections.abc import Iterator

import pytest

from tests.drone.worker.real_redis import SERVER, WHY_NOT, RealRedis, own_redis


@pytest.fixture(scope="session")
def real_redis() -> Iterator[RealRedis]:
    if SERVER is None:
        pytest.skip(WHY_NOT)
    with own_redis() as server:
        yield server
