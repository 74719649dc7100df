"""Fixtures: a Redis server for the test session, and an in-memory one."""

import threading
from collections.abc import Iterator

import pytest
from fakeredis import TcpFakeServer

from tests.drone.worker.real_redis import SERVER, WHY_NOT, RealRedis, own_redis


@pytest.fixture(scope="session")
def real_redis() -> Iterator[RealRedis]:
    if SERVER is None:
        pytest.skip(WHY_NOT)
    with own_redis() as server:
        yield server


@pytest.fixture
def redis_url() -> Iterator[str]:
    """An in-memory Redis that kombu and redis-py can connect to."""
    with TcpFakeServer(("127.0.0.1", 0), server_type="redis") as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"redis://127.0.0.1:{server.server_address[1]}/0"
        server.shutdown()
