"""What a family stands on: a Redis of its own, a database of its own, links that can be made bad."""

import asyncio
import shutil
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
import redis
from psycopg import sql

from tests.faults.members import Launched, Member, until
from tests.ports import free_port

T = TypeVar("T")
REDIS_SERVER = shutil.which("redis-server") or shutil.which("valkey-server")


class Redis:
    """A server on a private port, without persistence unless its `settings` say otherwise."""

    def __init__(self, private: Path, logs: Path, environment: dict[str, str], settings: Mapping[str, str]) -> None:
        assert REDIS_SERVER is not None
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        arguments = [REDIS_SERVER, "--bind", "127.0.0.1", "--port", str(self.port)]
        said = {"save": "", "appendonly": "no", "dir": str(private), **settings}
        arguments += [word for name, value in said.items() for word in (f"--{name}", value)]
        self.member = Member("redis", Launched(arguments), environment, logs / "redis.log")

    def start(self) -> None:
        self.member.start()
        until(self._answers, 10.0, lambda: f"redis-server answers: {self.member.said()[-500:]}")

    def command(self, *words: str) -> Any:
        """One command, such as FLUSHALL. Raises `redis.RedisError`."""
        with redis.Redis.from_url(self.url, socket_timeout=5.0) as client:
            return client.execute_command(*words)

    def _answers(self) -> bool:
        """Whether this server answers, and not another one that listens where it should."""
        try:
            return bool(self.command("INFO", "server")["process_id"] == self.member.pid)
        except redis.RedisError:
            return False


@contextmanager
def own_database(kind: str, private: Path, server: str) -> Iterator[str]:
    """The address of an empty `sqlite` or `postgres` database, dropped afterwards.

    `server` is the address of a PostgreSQL at which one may be created. Raises `psycopg.OperationalError`.
    """
    if kind == "sqlite":
        yield f"sqlite:///{private / 'mcc.db'}"
        return
    name = f"mcc_faults_{uuid4().hex}"
    with psycopg.connect(server, connect_timeout=3, autocommit=True) as link:
        link.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield server.rpartition("/")[0] + f"/{name}"
    finally:
        # A campaign's own server may be down at its end; it is removed with all its databases.
        with suppress(psycopg.OperationalError), psycopg.connect(server, connect_timeout=5, autocommit=True) as link:
            link.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def through(url: str, port: int) -> str:
    """The same address by way of a proxy on this port of loopback."""
    parts = urlsplit(url)
    login = parts.netloc.rpartition("@")[0]
    return urlunsplit(parts._replace(netloc=f"{login}@127.0.0.1:{port}" if login else f"127.0.0.1:{port}"))


def target_of(url: str, default_port: int) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "127.0.0.1", parts.port or default_port


class Background:
    """An event loop in a thread, for proxies and viewers of a test that blocks."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="faults", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], seconds: float = 30.0) -> T:
        """What `work` answers. Raises what it raises, and TimeoutError."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    def start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        async def started() -> "asyncio.Task[None]":
            return asyncio.get_running_loop().create_task(work)

        return self.run(started())

    def close(self) -> None:
        self.run(_unwound())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5.0)
        self._loop.close()


async def _unwound() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=5.0)
