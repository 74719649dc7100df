"""Connections to Redis that know whether their server is the master, and leave it when it is not any more."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis
from redis.exceptions import (
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    ReadOnlyError,
    ResponseError,
)
from redis.utils import str_if_bytes

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
            # All connections as old lead to the same server: each would have to find it out by an error of its own.
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
        # Before the greeting: a connection must not count as newer than the loss of a server that it still reached.
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
        connection: Any = self
        if self.outdated:
            connection.disconnect()
        if not connection.is_connected:
            self.check_may_connect()
            connection.connect()  # redis-py's own way back leads to the former server, without asking any Sentinel.
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
            connection: Any = self
            connection.disconnect()
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
        connection: Any = self
        if self.outdated:
            await connection.disconnect(nowait=True)
        if not connection.is_connected:
            self.check_may_connect()
            await connection.connect()
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
            connection: Any = self
            await connection.disconnect(nowait=True)
            raise
