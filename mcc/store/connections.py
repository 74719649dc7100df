"""Connections: how those to SQLite and PostgreSQL are opened, and how silent ones are cut."""

import os
import socket
import sqlite3
import threading
import time
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import structlog
from sqlalchemy import event
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler
from sqlalchemy.engine import URL, Connection, Dialect, Engine, make_url
from sqlalchemy.pool import QueuePool

from mcc.configuration.places import make_private_directory
from mcc.store.clock import Clock, micros
from mcc.store.errors import StoreUnavailable

log = structlog.get_logger("mcc.store")

LOOK_SECONDS = 0.5
_UNWATCHED = "mcc_unwatched"


class Watchdog:
    """Cuts connections to a PostgreSQL server that have been in use for `seconds` without the end of a statement.

    The server ends long statements itself. But a link whose far end still confirms what it gets, a stuck pooler for
    one, lets neither the server's limits nor those of TCP tell, and libpq waits on it for ever.
    """

    def __init__(self, engine: Engine, seconds: float) -> None:
        self._seconds = seconds
        self._used: dict[int, tuple[float, Any]] = {}
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        event.listen(engine, "checkout", lambda raw, record, _: self.taken(raw))
        for end in ("checkin", "invalidate", "close"):
            event.listen(engine, end, lambda raw, record, *_: self.given_back(raw, record.info))
        event.listen(engine, "after_cursor_execute", self._executed)

    def close(self) -> None:
        self._stopped.set()

    def taken(self, raw: Any) -> None:
        """Somebody uses this connection of the driver from now on."""
        if self._thread is None:
            self._start()
        self._used[id(raw)] = (time.monotonic() + self._seconds, raw)

    def given_back(self, raw: Any, info: MutableMapping[Any, Any]) -> None:
        """Nobody uses it now. `info` is what SQLAlchemy keeps beside it."""
        info.pop(_UNWATCHED, None)
        self._used.pop(id(raw), None)

    def moved(self, raw: Any, info: Mapping[Any, Any]) -> None:
        """One of its statements has ended."""
        if id(raw) in self._used:
            self._used[id(raw)] = (time.monotonic() + (inf if info.get(_UNWATCHED) else self._seconds), raw)

    def _executed(self, connection: Connection, *_: object) -> None:
        self.moved(connection.connection.driver_connection, connection.info)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="database watchdog", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            now = time.monotonic()
            for key, (deadline, connection) in list(self._used.items()):
                if now > deadline and self._used.pop(key, None) is not None:
                    log.warning("the database says nothing; the connection is cut", seconds=self._seconds)
                    _cut(connection)


def unwatched(connection: Any) -> None:
    """Until it is given back, the statements of this (SQLAlchemy) connection may take as long as they need."""
    connection.info[_UNWATCHED] = True


def _cut(connection: Any) -> None:
    """Let the far end seem gone; the thread that uses the connection finds out and gives it up."""
    with suppress(OSError, AttributeError):
        twin = socket.socket(fileno=socket.dup(connection.fileno()))
        with twin:
            twin.shutdown(socket.SHUT_RDWR)


POSTGRES_SETTINGS = {
    "idle_in_transaction_session_timeout": "5s",
    "statement_timeout": "15s",
    "default_transaction_isolation": "read\\ committed",
}


POSTGRES_ARGUMENTS = {
    "keepalives_idle": 3,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 6_000,
}
"""A server that says nothing at all is given up within about six seconds: half of a lease's time."""


CACHE_KILOBYTES = 512
"""What one connection to SQLite keeps of the file: what a transaction needs. The write of any other one makes all of it
stale, so that more is memory without use, of which every connection takes more as the file grows."""


def normal_url(url: str) -> URL:
    """PostgreSQL is spoken to by psycopg 3, however the address is spelled. ValueError for other databases."""
    try:
        made = make_url(url)
    except sa.exc.ArgumentError as error:
        raise ValueError(
            "the database address is not one: write sqlite:///PATH or postgresql://USER@HOST/NAME"
        ) from error
    kind = made.get_backend_name()
    if kind in ("postgresql", "postgres"):
        return made.set(drivername="postgresql+psycopg")
    if kind == "sqlite" and made.database in (None, "", ":memory:"):
        raise ValueError("an SQLite database in memory is seen by one connection alone; name a file: sqlite:///PATH")
    if kind == "sqlite":
        return made.set(drivername="sqlite+pysqlite")
    raise ValueError(f"{kind} is not supported: write sqlite:///PATH or postgresql://USER@HOST/NAME")


def opened(url: URL, clock: Clock, connections: int, patience: float) -> Engine:
    """The engine for a normal address; a lock, a free connection or a new one is waited for `patience` seconds."""
    if url.get_backend_name() == "sqlite":
        return _sqlite(url, clock, connections, patience)
    return _postgres(url, connections, patience)


def without_transactions(dialect: Dialect) -> dict[str, Any]:
    """Options of a connection that begins none by itself: each of its statements sees what is committed then."""
    # SQLite has no level for that, so `begin` below looks away.
    return {"mcc_read": True} if dialect.name == "sqlite" else {"isolation_level": "AUTOCOMMIT"}


def is_used_up(engine: Engine) -> bool:
    """Whether all connections that there may be are in use, so that somebody may wait for one in the pool."""
    pool = engine.pool
    return isinstance(pool, QueuePool) and pool.checkedout() >= 2 * pool.size()


def _postgres(url: URL, connections: int, patience: float) -> Engine:
    settings = {**POSTGRES_SETTINGS, "lock_timeout": f"{round(patience * 1000)}ms"}
    given = str(url.query.get("options", ""))
    options = " ".join([*(f"-c {name}={value}" for name, value in settings.items()), given]).strip()
    try:
        return sa.create_engine(
            url.difference_update_query(["options"]),
            pool_size=connections,
            max_overflow=connections,
            pool_timeout=patience,
            connect_args={
                **POSTGRES_ARGUMENTS,
                "connect_timeout": max(2, round(patience)),
                "options": options,
                "application_name": "mcc",
            },
        )
    except ModuleNotFoundError as error:
        raise StoreUnavailable("PostgreSQL needs psycopg: install the extra `mcc[postgres]`") from error


class _Hinting(SQLiteCompiler):
    """Writes the hints of a statement, INDEXED BY, where SQLAlchemy leaves them out."""

    def get_from_hint_text(self, table: object, text: str | None) -> str | None:
        return text


def _sqlite(url: URL, clock: Clock, connections: int, patience: float) -> Engine:
    file = Path(str(url.database))
    try:
        make_private_directory(file.parent)
    except OSError as error:
        raise StoreUnavailable(
            f"the directory {file.parent} for the database cannot be made: {error.strerror}"
        ) from error
    engine = sa.create_engine(
        url,
        poolclass=QueuePool,
        pool_size=connections,
        max_overflow=connections,
        # The connection that was used last knows the statements already; in turn, each would come to keep all of them.
        pool_use_lifo=True,
        pool_timeout=patience,
        connect_args={"check_same_thread": False, "timeout": patience},
    )

    engine.dialect.statement_compiler = _Hinting

    @event.listens_for(engine, "do_connect")
    def make(*_: object) -> None:
        """For its owner alone, as are the files that SQLite puts beside it; SQLite says what is wrong with the path."""
        with suppress(OSError):
            os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

    @event.listens_for(engine, "connect")
    def prepare(raw: sqlite3.Connection, _: object) -> None:
        raw.isolation_level = None
        raw.execute("PRAGMA synchronous=FULL")
        raw.execute(f"PRAGMA cache_size=-{CACHE_KILOBYTES}")
        raw.execute("PRAGMA foreign_keys=ON")
        # Called deterministic, although they are not: SQLite then asks once per statement, and not again for every row.
        raw.create_function("mcc_now", 0, lambda: micros(clock.now()), deterministic=True)
        raw.create_function("mcc_uptime", 0, lambda: int(clock.uptime() * 1_000_000), deterministic=True)
        raw.create_function("mcc_boot", 0, clock.boot, deterministic=True)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        if not connection.get_execution_options().get("mcc_read"):
            # Not by way of SQLAlchemy, which would take as long for it as for the statement that follows.
            connection.connection.driver_connection.execute("BEGIN IMMEDIATE")  # type: ignore[union-attr]

    return engine
