"""Connections to Redis that lead to the master. One that finds itself elsewhere closes, with all opened before it.

After a fail-over an old connection may stay open, and its server answer: as a replica, which takes no write, or while
it loads. Such an error belongs to the connection, and not to the moment. redis-py then sends once more on a new one,
which goes wherever the address leads by then.
"""

from typing import Any

import redis
import redis.asyncio
from redis.asyncio.connection import Connection as AsyncConnection
from redis.asyncio.connection import SSLConnection as AsyncSSLConnection
from redis.asyncio.connection import UnixDomainSocketConnection as AsyncUnixConnection
from redis.asyncio.connection import parse_url as async_parse_url
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.asyncio.sentinel import SentinelManagedConnection as AsyncSentinelConnection
from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelManagedConnection

from mcc.addresses.redis import SentinelAddress, sentinel_address
from mcc.dispatch.guarded import AsyncGuarded, Guarded, Trust
from mcc.dispatch.master_search import AsyncFound, SentinelGuarded


class _Tcp(Guarded, Connection):
    pass


class _Tls(Guarded, SSLConnection):
    pass


class _Socket(Guarded, UnixDomainSocketConnection):
    pass


class _FoundTcp(SentinelGuarded, SentinelManagedConnection):
    pass


class _FoundTls(SentinelGuarded, SentinelManagedConnection, SSLConnection):
    pass


class _AsyncTcp(AsyncGuarded, AsyncConnection):
    pass


class _AsyncTls(AsyncGuarded, AsyncSSLConnection):
    pass


class _AsyncSocket(AsyncGuarded, AsyncUnixConnection):
    pass


class _AsyncFoundTcp(AsyncFound, AsyncSentinelConnection):
    pass


class _AsyncFoundTls(AsyncFound, AsyncSentinelConnection, AsyncSSLConnection):
    pass


KINDS: dict[str, Any] = {"redis": _Tcp, "rediss": _Tls, "unix": _Socket}
ASYNC_KINDS: dict[str, Any] = {
    "redis": _AsyncTcp,
    "rediss": _AsyncTls,
    "unix": _AsyncSocket,
}


def client(url: str, **options: Any) -> redis.Redis:
    """A client for `url`, in redis-py's form or of Sentinels; `options` are those of redis-py's connections."""
    at = sentinel_address(url)
    if at is None:
        kind = KINDS[url.partition("://")[0]]
        made: redis.Redis = redis.Redis.from_url(url, connection_class=kind, trust=Trust(), **options)
        return made
    # No retry of one Sentinel: the next one is asked sooner.
    asking = {**sentinel_options(at), **_limits(options), "retry": Retry(NoBackoff(), 0)}
    sentinel = Sentinel([(host.host, host.port) for host in at.hosts], sentinel_kwargs=asking)
    made = sentinel.master_for(
        at.name,
        connection_class=_FoundTls if at.tls else _FoundTcp,
        trust=Trust(),
        **_master_options(at),
        **options,
    )
    return made


def async_client(url: str, **options: Any) -> redis.asyncio.Redis:
    """Like `client`, for an event loop."""
    at = sentinel_address(url)
    if at is None:
        kind = ASYNC_KINDS[url.partition("://")[0]]
        # Its `from_url` lets the address decide the class.
        settings = {**options, **async_parse_url(url), "connection_class": kind}
        pool: redis.asyncio.ConnectionPool = redis.asyncio.ConnectionPool(trust=Trust(), **settings)
        made: redis.asyncio.Redis = redis.asyncio.Redis.from_pool(pool)
        return made
    asking = {**sentinel_options(at), **_limits(options), "retry": AsyncRetry(NoBackoff(), 0)}
    sentinel = AsyncSentinel([(host.host, host.port) for host in at.hosts], sentinel_kwargs=asking)
    kinds: tuple[Any, Any] = _AsyncFoundTcp, _AsyncFoundTls
    made = sentinel.master_for(at.name, connection_class=kinds[at.tls], trust=Trust(), **_master_options(at), **options)
    return made


def sentinel_options(at: SentinelAddress) -> dict[str, Any]:
    """redis-py's options of a connection to one of the Sentinels."""
    login = {"username": at.sentinel_username, "password": at.sentinel_password}
    tls = {"ssl": True, **tls_options(at)} if at.tls else {}
    return {**{name: value for name, value in login.items() if value}, **tls}


def tls_options(at: SentinelAddress) -> dict[str, Any]:
    """redis-py's TLS options, for Sentinels and master alike; certificates are checked unless they say otherwise."""
    return {name: value == "true" if name == "ssl_check_hostname" else value for name, value in at.tls_options.items()}


def _master_options(at: SentinelAddress) -> dict[str, Any]:
    login = {name: value for name, value in (("username", at.username), ("password", at.password)) if value}
    return {"db": at.db, **login, **(tls_options(at) if at.tls else {})}


def _limits(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name in ("socket_timeout", "socket_connect_timeout")}
