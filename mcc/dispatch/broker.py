"""The broker: Redis clients, queues, and the Celery settings that MCC and drones share.

DispatchError
├── DispatchUnavailable   continue: the order is a row in the database, which a sweep or a drone's poll finds later
└── UnknownQueue          report to the caller: no such queue is declared
"""

import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from urllib.parse import parse_qs, urlencode, urlsplit

import redis
import redis.asyncio
from celery import Celery
from kombu.entity import Queue
from kombu.exceptions import KombuError
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from mcc.contracts.wire import KEY_PREFIX


class DispatchError(Exception):
    """Base class of the errors that mcc.dispatch raises. The message is a sentence for people."""


class DispatchUnavailable(DispatchError):
    pass


class UnknownQueue(DispatchError):
    pass


FOREIGN = (KombuError, RedisError, OSError)
"""What Celery, kombu and redis-py raise when the broker is unreachable or sends an invalid answer."""

SOCKET_SCHEMES = {"redis+socket": "unix", "unix": "redis+socket"}
DATABASE_KEYS = {"redis+socket": "virtual_host", "unix": "db"}


def celery_url(url: str) -> str:
    """`url` in the form kombu expects: a Unix socket is `redis+socket:///path?virtual_host=N`."""
    return _as_socket(url, "redis+socket")


def client_url(url: str) -> str:
    """`url` in the form redis-py expects: a Unix socket is `unix:///path?db=N`."""
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
    """A client whose every command ends within about twice `seconds`: one immediate retry on a dead connection."""
    client: redis.Redis = redis.Redis.from_url(
        client_url(url),
        socket_timeout=seconds,
        socket_connect_timeout=seconds,
        retry=Retry(NoBackoff(), 1),
        retry_on_timeout=False,
    )
    return client


def connect_async(url: str, *, seconds: float = 1.0) -> redis.asyncio.Redis:
    """Like `connect`, for an event loop."""
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


PRIORITY_STEPS = tuple(range(10))
PRIORITY_SEPARATOR = "\x06\x16"
"""Kombu keeps one Redis list per queue and priority step; the list of step 0 has the queue's plain name."""

TRANSPORT: Mapping[str, object] = {
    "socket_timeout": 15,
    "socket_connect_timeout": 5,
    "socket_keepalive": True,
    "health_check_interval": 10,
    "retry_on_timeout": True,
    "global_keyprefix": KEY_PREFIX,
    "queue_order_strategy": "priority",
    "priority_steps": list(PRIORITY_STEPS),
    "sep": PRIORITY_SEPARATOR,
}
"""`socket_timeout` turns a silent hang into a reconnect, which may lose one message. That is safe, because a sweep
sends a lost nudge again."""


def declared(queue: str | Queue) -> Queue:
    return Queue(queue, routing_key=queue) if isinstance(queue, str) else queue  # type: ignore[no-untyped-call]


def celery_settings(redis_url: str, queues: Sequence[str | Queue]) -> dict[str, object]:
    """Celery's configuration for this broker. No queue other than `queues` can be sent to or consumed from."""
    settings: dict[str, object] = {
        "broker_url": celery_url(redis_url),
        "broker_transport_options": dict(TRANSPORT),
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_channel_error_retry": True,
        "task_serializer": "json",
        "accept_content": ["json"],
        "event_serializer": "json",
        # A nudge may be lost, so it is acknowledged early: the order is a row, which a sweep finds (docs/decisions/01).
        "task_acks_late": False,
        "task_ignore_result": True,
        "result_backend": None,
        "task_create_missing_queues": False,
        "task_queues": [declared(queue) for queue in queues],
        "task_default_queue": declared(queues[0]).name,
        "task_default_priority": 5,
        "worker_prefetch_multiplier": 1,
        "worker_disable_prefetch": True,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        "worker_send_task_events": True,
        "task_send_sent_event": False,
    }
    address = urlsplit(redis_url)
    if address.scheme == "rediss" and "ssl_cert_reqs" not in address.query:
        settings["broker_use_ssl"] = {"ssl_cert_reqs": ssl.CERT_REQUIRED}
    return settings


def make_app(
    redis_url: str, queues: Sequence[str | Queue], *, name: str = "mcc", seconds: float | None = None
) -> Celery:
    """A Celery application, which does not become the process's current one.

    `seconds` is the time limit of a sender for each broker operation; None keeps a worker's endless retries.
    """
    app = Celery(name, set_as_current=False)
    app.conf.update(celery_settings(redis_url, queues))
    if seconds is not None:
        limits = {"socket_timeout": seconds, "socket_connect_timeout": seconds, "retry_on_timeout": False}
        app.conf.update(
            broker_transport_options={**TRANSPORT, **limits, "max_retries": 1},
            broker_connection_timeout=seconds,
        )
    return app


def queue_keys(queue: str) -> list[str]:
    """The Redis lists that hold the messages of `queue`."""
    tails = ["" if step == 0 else f"{PRIORITY_SEPARATOR}{step}" for step in PRIORITY_STEPS]
    return [f"{KEY_PREFIX}{queue}{tail}" for tail in tails]
