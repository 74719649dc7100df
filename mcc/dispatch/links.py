"""Connections to Redis that lead to the master. One that finds itself elsewhere closes, with all opened before it.

After a fail-over an old connection may stay open, and its server answer: as a replica, which takes no write, or while
it loads. Such an error belongs to the connection, and not to the moment. redis-py then sends once more on a new one,
which goes wherever the address leads by then.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
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
from redis.exceptions import (
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelManagedConnection
from redis.utils import str_if_bytes

from mcc.addresses.redis import SentinelAddress, sentinel_address

MISPLACED = (ReadOnlyError, BusyLoadingError, MasterDownError, MovedError, ClusterDownError)
MISPLACED_CODES = ("READONLY", "LOADING", "MASTERDOWN", "MOVED", "CLUSTERDOWN", "NOREPLICAS", "UNBLOCKED")
"""Errors by which a server says that writing does not belong here: to a replica, one that loads or lost its master, a
part of a cluster, a master cut off from its replicas, or one that became a replica while a command waited."""


class WrongServer(redis.ConnectionError):
    """The server answers, but it is not one that can be written now."""


class UnknownMaster(WrongServer):
    """The Sentinels answer, and watch no master of the name that they were asked for."""


class Trust:
    """Which connections of one pool still count, by the time at which they were opened."""

    def __init__(self) -> None:
        self._since = float("-inf")

    def withdraw(self, opened_at: float) -> None:
        """Trust no connection that was opened then, or earlier."""
        self._since = max(self._since, opened_at)

    def covers(self, opened_at: float) -> bool:
        return opened_at > self._since


def is_misplaced(error: BaseException) -> bool:
    """Whether this error says that the connection leads to a server that is not the one to write to."""
    return isinstance(error, MISPLACED) or (isinstance(error, ResponseError) and str(error).startswith(MISPLACED_CODES))


class _Judging:
    """What both kinds of guarded connections share."""

    def __init__(self, *arguments: Any, trust: Trust, **more: Any) -> None:
        self._trust = trust
        self._opened_at = float("inf")
        self._greeting: dict[Any, Any] = {}
        self._is_greeting = False
        super().__init__(*arguments, **more)

    @property
    def outdated(self) -> bool:
        return not self._trust.covers(self._opened_at)

    @contextmanager
    def being_greeted(self) -> Iterator[None]:
        """While the connection is made. A command of its greeting makes no connection: it would be greeted in turn, and
        so on, as long as the server closes each."""
        self._is_greeting = True
        try:
            yield
        finally:
            self._is_greeting = False

    def check_may_connect(self) -> None:
        """Raise `redis.ConnectionError` where the connection was lost while it was made."""
        if self._is_greeting:
            raise redis.ConnectionError(f"{self.place} closed the connection while it was made")

    @contextmanager
    def judged(self) -> Iterator[None]:
        """Raise `WrongServer` for an error that belongs to the connection, and trust none as old as this one."""
        try:
            yield
        except (ResponseError, BusyLoadingError) as error:
            if not is_misplaced(error):
                raise
            self._trust.withdraw(self._opened_at)
            raise WrongServer(f"{self.place} takes no writes: {error}") from error

    @property
    def place(self) -> str:
        own: Any = self
        return str(own._host_error())

    def greeted_as(self) -> str:
        """The server's role, which it told in its greeting (HELLO); "" where it told none, as by an older protocol."""
        return str_if_bytes(self._greeting.get(b"role") or self._greeting.get("role") or "")

    def heard(self, answer: Any) -> Any:
        """Take note of a greeting, which redis-py does not keep on every kind of connection; answers `answer`."""
        if isinstance(answer, dict) and (b"proto" in answer or "proto" in answer):
            self._greeting = answer
        return answer

    def check_role(self, role: str) -> None:
        """Raise `WrongServer` for a server that is no master."""
        if role not in ("", "master"):
            words = {"slave": "a replica", "sentinel": "a Sentinel: write sentinel://HOST:26379/NAME"}
            raise WrongServer(f"{self.place} is {words.get(role, f'a {role}')}, which cannot be written")


class Guarded(_Judging):
    """Mixed into a connection of redis-py: asks for the server's role when it connects, and leaves a wrong server."""

    def on_connect_check_health(self, check_health: bool = True) -> None:
        self._opened_at = time.monotonic()
        link: Any = super()
        with self.being_greeted():
            link.on_connect_check_health(check_health)
            self.check_role(self.greeted_as() or self._asked_role())

    def _asked_role(self) -> str:
        own: Any = self
        own.send_command("ROLE", check_health=False)
        try:
            return str_if_bytes(own.read_response()[0])
        except ResponseError:
            return ""  # The account may not ask, or a proxy does not know the command: the first write will tell.

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        own: Any = self
        if self.outdated:
            own.disconnect()
        if not own.is_connected:
            self.check_may_connect()
            own.connect()  # redis-py's own way back leads to the former server, without asking any Sentinel.
        link: Any = super()
        link.send_packed_command(command, check_health)

    def can_read(self, timeout: float = 0) -> bool:
        """Raises `WrongServer` for an outdated connection, so that its pool opens another."""
        if self.outdated:
            raise WrongServer(f"{self.place} is not the master any more")
        link: Any = super()
        return bool(link.can_read(timeout))

    def read_response(self, *arguments: Any, **more: Any) -> Any:
        link: Any = super()
        try:
            with self.judged():
                return self.heard(link.read_response(*arguments, **more))
        except WrongServer:
            own: Any = self
            own.disconnect()
            raise


class AsyncGuarded(_Judging):
    """Like `Guarded`, for an event loop."""

    async def on_connect_check_health(self, check_health: bool = True) -> None:
        self._opened_at = time.monotonic()
        link: Any = super()
        with self.being_greeted():
            await link.on_connect_check_health(check_health)
            self.check_role(self.greeted_as() or await self._asked_role())

    async def _asked_role(self) -> str:
        own: Any = self
        await own.send_command("ROLE", check_health=False)
        try:
            return str_if_bytes((await own.read_response())[0])
        except ResponseError:
            return ""

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        own: Any = self
        if self.outdated:
            await own.disconnect(nowait=True)
        if not own.is_connected:
            self.check_may_connect()
            await own.connect()
        link: Any = super()
        await link.send_packed_command(command, check_health)

    async def can_read(self) -> bool:
        if self.outdated:
            raise WrongServer(f"{self.place} is not the master any more")
        link: Any = super()
        return bool(await link.can_read())

    async def read_response(self, *arguments: Any, **more: Any) -> Any:
        link: Any = super()
        try:
            with self.judged():
                return self.heard(await link.read_response(*arguments, **more))
        except WrongServer:
            own: Any = self
            await own.disconnect(nowait=True)
            raise


class _Finding:
    """What both kinds of connections behind Sentinels share: the search for a server that is a master."""

    connection_pool: Any

    def _sentinels(self) -> tuple[Any, ...]:
        return tuple(self.connection_pool.sentinel_manager.sentinels)

    def _found(self, sentinel: Any, address: tuple[str, int]) -> None:
        """Ask this Sentinel first from now on; connections of the pool to other servers do not go back into it."""
        sentinels = self.connection_pool.sentinel_manager.sentinels
        sentinels.remove(sentinel)
        sentinels.insert(0, sentinel)
        self.connection_pool.master_address = address

    def _not_found(self, failures: list[str]) -> WrongServer:
        name = self.connection_pool.service_name
        kind = UnknownMaster if all(failure.endswith(UNKNOWN) for failure in failures) else WrongServer
        return kind(f"no Sentinel leads to a master {name!r}: {'; '.join(dict.fromkeys(failures))}")


UNKNOWN = "it watches no master of this name"


def _address(answer: Any) -> tuple[str, int] | None:
    """The address in a Sentinel's answer; None where it watches no such master."""
    return (str_if_bytes(answer[0]), int(answer[1])) if answer else None


def _name(sentinel: Any) -> str:
    options = sentinel.connection_pool.connection_kwargs
    return f"Sentinel {options.get('host')}:{options.get('port')}"


class SentinelGuarded(Guarded, _Finding):
    """Asks one Sentinel after the other for the master until a server says that it is one: a Sentinel that has not seen
    the fail-over yet is passed over."""

    def _connect_retry(self) -> None:
        own: Any = self
        if own._sock:
            return
        failures: list[str] = []
        tried: set[tuple[str, int]] = set()
        for sentinel in self._sentinels():
            try:
                address = _address(sentinel.sentinel_get_master_addr_by_name(self.connection_pool.service_name))
                if address is None:
                    failures.append(f"{_name(sentinel)}: {UNKNOWN}")
                elif address not in tried:
                    tried.add(address)
                    own.connect_to(address)
                    return self._found(sentinel, address)
            except (RedisError, OSError) as problem:
                failures.append(f"{_name(sentinel)}: {problem}")
            finally:
                sentinel.connection_pool.disconnect()
        raise self._not_found(failures)


class AsyncFound(AsyncGuarded, _Finding):
    """Like `SentinelGuarded`, for an event loop."""

    async def _connect_retry(self) -> None:
        own: Any = self
        if own.is_connected:
            return
        failures: list[str] = []
        tried: set[tuple[str, int]] = set()
        for sentinel in self._sentinels():
            try:
                address = _address(await sentinel.sentinel_get_master_addr_by_name(self.connection_pool.service_name))
                if address is None:
                    failures.append(f"{_name(sentinel)}: {UNKNOWN}")
                elif address not in tried:
                    tried.add(address)
                    await own.connect_to(address)
                    return self._found(sentinel, address)
            except (RedisError, OSError) as problem:
                failures.append(f"{_name(sentinel)}: {problem}")
            finally:
                await sentinel.connection_pool.disconnect()
        raise self._not_found(failures)


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
    asking = {**sentinel_options(at), **_limits(options), "retry": Retry(NoBackoff(), 0)}
    sentinel = Sentinel([(host.host, host.port) for host in at.hosts], sentinel_kwargs=asking)  # type: ignore[no-untyped-call]
    made = sentinel.master_for(  # type: ignore[no-untyped-call]
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
        whole = {**options, **async_parse_url(url), "connection_class": kind}
        pool: redis.asyncio.ConnectionPool = redis.asyncio.ConnectionPool(trust=Trust(), **whole)
        made: redis.asyncio.Redis = redis.asyncio.Redis.from_pool(pool)
        return made
    asking = {**sentinel_options(at), **_limits(options), "retry": AsyncRetry(NoBackoff(), 0)}
    sentinel = AsyncSentinel([(host.host, host.port) for host in at.hosts], sentinel_kwargs=asking)  # type: ignore[no-untyped-call]
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
