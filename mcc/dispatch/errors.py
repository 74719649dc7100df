"""This room is for what can go wrong between here and the broker.

DispatchError
├── DispatchUnavailable   go on: the order is a row; a sweep or a drone's poll finds it later
└── UnknownQueue          tell the caller: no such queue is declared
"""

from collections.abc import Iterator
from contextlib import contextmanager

from kombu.exceptions import KombuError
from redis.exceptions import RedisError


class DispatchError(Exception):
    """Anything that this room raises on purpose; the message is a sentence for people."""


class DispatchUnavailable(DispatchError):
    pass


class UnknownQueue(DispatchError):
    pass


FOREIGN = (KombuError, RedisError, OSError)
"""What Celery, kombu and redis-py raise when the broker cannot be reached or answers nonsense."""


@contextmanager
def translated() -> Iterator[None]:
    """Turn the errors of other packages into `DispatchUnavailable`."""
    try:
        yield
    except FOREIGN as problem:
        raise DispatchUnavailable(
            f"Redis cannot be reached ({problem}); check MCC_REDIS_URL and the server."
        ) from problem
