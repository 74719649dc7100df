"""The broker: Redis clients, queues, and the Celery settings that MCC and drones share.

DispatchError
├── DispatchUnavailable   continue: the order is a row in the database, which a sweep or a drone's poll finds later
└── UnknownQueue          report to the caller: no such queue is declared
"""

import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import redis
import redis.asyncio
from celery import Celery
from kombu.entity import Queue
from kombu.exceptions import KombuError
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from mcc.addresses import without_password
from mcc.addresses.redis import SentinelAddress, sentinel_address
from mcc.contracts.wire import KEY_PREFIX
from mcc.dispatch import links
from mcc.dispatch.guarded import WrongServer
from mcc.dispatch.transport import App


class DispatchError(Exception):
    """Base class of the errors that mcc.dispatch raises. The message is a sentence for people."""


class DispatchUnavailable(DispatchError):
    pass


class UnknownQueue(DispatchError):
    pass


FOREIGN = (KombuError, RedisError, OSError)
"""What Celery, kombu and redis-py raise when the broker is unreachable or sends an invalid answer."""


@dataclass(frozen=True, slots=True)
class RedisAt:
    """Where an installation has its place in a Redis: the address, and what all its keys and channels begin with."""

    url: str = field(repr=False)
    prefix: str = KEY_PREFIX

    @property
    def shown(self) -> str:
        """The address without passwords."""
        return without_password(self.url)


SOCKET_SCHEMES = {"redis+socket": "unix", "unix": "redis+socket"}
DATABASE_KEYS = {"redis+socket": "virtual_host", "unix": "db"}


def celery_url(url: str) -> str:
    """`url` in the form kombu expects: a Unix socket is `redis+socket:///path?virtual_host=N`, and of Sentinels each is
    an address of its own with the master's login, `sentinel://h1/0;sentinel://h2/0`."""
    at = sentinel_address(url)
    if at is None:
        return _as_socket(url, "redis+socket")
    login = ":".join(quote(part or "", safe="") for part in (at.username, at.password))
    user = f"{login}@" if at.username or at.password else ""
    return ";".join(f"sentinel://{user}{host}/{at.db}" for host in at.hosts)


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


def connect(at: RedisAt, *, seconds: float = 1.0) -> redis.Redis:
    """A client whose every command ends within about twice `seconds`: one immediate retry on a dead connection, or on
    one that leads to a server which is not the master any more."""
    limits = {"socket_timeout": seconds, "socket_connect_timeout": seconds, "retry_on_timeout": False}
    return links.client(client_url(at.url), retry=Retry(NoBackoff(), 1), **limits)


def connect_async(at: RedisAt, *, seconds: float = 1.0, retries: int = 1) -> redis.asyncio.Redis:
    """Like `connect`, for an event loop; `retries` 0: without the retry."""
    limits = {"socket_timeout": seconds, "socket_connect_timeout": seconds, "retry_on_timeout": False}
    return links.async_client(client_url(at.url), retry=AsyncRetry(NoBackoff(), retries), **limits)


@contextmanager
def translated() -> Iterator[None]:
    """Turn the errors of other packages into `DispatchUnavailable`."""
    try:
        yield
    except WrongServer as problem:
        raise DispatchUnavailable(f"Redis answers, but no master of it ({problem}); see its replication.") from problem
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
    "queue_order_strategy": "priority",
    "priority_steps": list(PRIORITY_STEPS),
    "sep": PRIORITY_SEPARATOR,
}
"""`socket_timeout` turns a silent hang into a reconnect, which may lose one message. That is safe, because a sweep
sends a lost nudge again."""


def declared(queue: str | Queue) -> Queue:
    return Queue(queue, routing_key=queue) if isinstance(queue, str) else queue


def celery_settings(at: RedisAt, queues: Sequence[str | Queue]) -> dict[str, object]:
    """Celery's configuration for this broker. No queue other than `queues` can be sent to or consumed from."""
    settings: dict[str, object] = {
        "broker_url": celery_url(at.url),
        "broker_transport_options": {**TRANSPORT, "global_keyprefix": at.prefix, **_sentinel_transport(at.url)},
        "broker_connection_retry_on_startup": True,
        # A worker waits for Redis as long as it takes; meanwhile its drone finds orders in the database.
        "broker_connection_max_retries": None,
        "broker_channel_error_retry": True,
        "task_serializer": "json",
        "accept_content": ["json"],
        "event_serializer": "json",
        # A nudge may be lost, so it is acknowledged early: the order is a row, which a sweep finds (docs/decisions/01).
        "task_acks_late": False,
        "task_ignore_result": True,
        "result_backend": None,
        # A mistyped queue would be a list in Redis that nobody ever reads.
        "task_create_missing_queues": False,
        "task_queues": [declared(queue) for queue in queues],
        "task_default_queue": declared(queues[0]).name,
        "task_default_priority": 5,
        "worker_prefetch_multiplier": 1,
        # A prefetched nudge would wait in this process for a slot, although another drone has one free.
        "worker_disable_prefetch": True,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        "worker_send_task_events": True,
        "task_send_sent_event": False,
    }
    if tls := _tls(at.url):
        settings["broker_use_ssl"] = tls
    return settings


def _sentinel_transport(url: str) -> dict[str, object]:
    """kombu's options for Sentinels; none for a single server."""
    at = sentinel_address(url)
    if at is None:
        return {}
    limits = {"socket_timeout": 1.0, "socket_connect_timeout": 1.0, "retry": Retry(NoBackoff(), 0)}
    return {"master_name": at.name, "sentinel_kwargs": {**links.sentinel_options(at), **limits}}


def _tls(url: str) -> dict[str, Any]:
    at: SentinelAddress | None = sentinel_address(url)
    if at is not None:
        return {"ssl_cert_reqs": ssl.CERT_REQUIRED, **links.tls_options(at)} if at.tls else {}
    address = urlsplit(url)
    # redis-py verifies certificates by itself; kombu does so only when it is told.
    verified = address.scheme == "rediss" and "ssl_cert_reqs" not in address.query
    return {"ssl_cert_reqs": ssl.CERT_REQUIRED} if verified else {}


def make_app(at: RedisAt, queues: Sequence[str | Queue], *, name: str = "mcc", seconds: float | None = None) -> Celery:
    """A Celery application, which does not become the process's current one.

    `seconds` is the time limit of a sender for each broker operation; None keeps a worker's endless retries.
    """
    app = App(name, set_as_current=False)
    app.conf.update(celery_settings(at, queues))
    if seconds is not None:
        limits = {"socket_timeout": seconds, "socket_connect_timeout": seconds, "retry_on_timeout": False}
        app.conf.update(
            broker_transport_options={**app.conf.broker_transport_options, **limits, "max_retries": 1},
            broker_connection_timeout=seconds,
        )
    return app


def queue_keys(queue: str, prefix: str = KEY_PREFIX) -> list[str]:
    """The Redis lists that hold the messages of `queue`."""
    tails = ["" if step == 0 else f"{PRIORITY_SEPARATOR}{step}" for step in PRIORITY_STEPS]
    return [f"{prefix}{queue}{tail}" for tail in tails]
