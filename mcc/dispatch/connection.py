"""Redis: its address in the forms of redis-py and of Celery, its clients, and what can go wrong on the way to it.

DispatchError
├── DispatchUnavailable   go on: the order is a row; a sweep or a drone's poll finds it later
└── UnknownQueue          tell the caller: no such queue is declared
"""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, urlencode, urlsplit

import redis
import redis.asyncio
from kombu.exceptions import KombuError
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry


class DispatchError(Exception):
    """Raised by mcc.dispatch on purpose; the message is a sentence for people."""


class DispatchUnavailable(DispatchError):
    pass


class UnknownQueue(DispatchError):
    pass


FOREIGN = (KombuError, RedisError, OSError)
"""What Celery, kombu and redis-py raise when the broker cannot be reached or answers nonsense."""

SOCKET_SCHEMES = {"redis+socket": "unix", "unix": "redis+socket"}
DATABASE_KEYS = {"redis+socket": "virtual_host", "unix": "db"}


def celery_url(url: str) -> str:
    """`url` as kombu takes it: a unix socket is `redis+socket:///path?virtual_host=N`."""
    return _as_socket(url, "redis+socket")


def client_url(url: str) -> str:
    """`url` as redis-py takes it: a unix socket is `unix:///path?db=N`."""
    return _as_socket(url, "unix")


def _as_socket(url: str, wanted: str) -> str:
    parts = urlsplit(url)
    if parts.scheme == wanted or parts.scheme not in SOCKET_SCHEMES:
        return url
    options = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    database = options.pop(DATABASE_KEYS[parts.scheme], "0").lstrip("/")
    query = urlencode({**options, DATABASE_KEYS[wanted]: database})
    return f"{wanted}://{parts.netloc}{parts.path}?{query}"


def connect(url: str, *, seconds: float = 1.0) -> redis.Redis:
    """A client whose every command ends within about twice `seconds`: one quick second try after a dead connection."""
    client: redis.Redis = redis.Redis.from_url(
        client_url(url),
        socket_timeout=seconds,
        socket_connect_timeout=seconds,
        retry=Retry(NoBackoff(), 1),
        retry_on_timeout=False,
    )
    return client


def connect_async(url: str, *, seconds: float = 1.0) -> redis.asyncio.Redis:
    """As `connect`, for an event loop."""
    client: redis.asyncio.Redis = redis.asyncio.Redis.from_url(
        client_url(url),
        socket_timeout=seconds,
        socket_connect_timeout=seconds,
        retry=AsyncRetry(NoBackoff(), 1),
        retry_on_timeout=False,
    )
    return client


@contextmanager
def translated() -> Iterator[None]:
    """Turn the errors of other packages into `DispatchUnavailable`."""
    try:
        yield
    except FOREIGN as problem:
        raise DispatchUnavailable(
            f"Redis cannot be reached ({problem}); check MCC_REDIS_URL and the server."
        ) from problem
