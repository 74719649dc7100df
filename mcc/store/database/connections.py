"""Addresses of databases, the engine for SQLite with its settings, and a watchdog for silent connections."""

import logging
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

from mcc.configuration.database import with_hosts_in_query
from mcc.configuration.places import make_private_directory
from mcc.store.database.clock import Clock, micros
from mcc.store.database.errors import StoreUnavailable

log = structlog.get_logger("mcc.store")
# psycopg warns when a pipeline ends after an error; that error is raised as well.
logging.getLogger("psycopg").setLevel(logging.ERROR)

LOOK_SECONDS = 0.5
_UNWATCHED = "mcc_unwatched"


class ConnectionWatchdog:
    """Cuts PostgreSQL connections that have been in use for `seconds` without finishing a statement.

    The server ends long statements itself. But if the other end, such as a stuck connection pooler, still acknowledges
    packets, neither the server's timeouts nor TCP's take effect, and libpq would wait for ever.
    """

    def __init__(self, engine: Engine, seconds: float) -> None:
        self._seconds = seconds
        self._used: dict[int, tuple[float, Any]] = {}
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        event.listen(engine, "checkout", lambda raw, record, _: self.checked_out(raw))
        for end in ("checkin", "invalidate", "close"):
            event.listen(engine, end, lambda raw, record, *_: self.checked_in(raw, record.info))
        event.listen(
            engine,
            "after_cursor_execute",
            lambda connection, *_: self.progressed(connection.connection.driver_connection, connection.info),
        )

    def close(self) -> None:
        self._stopped.set()

    def checked_out(self, raw: Any) -> None:
        """Watch this connection of the driver, which is in use from now on."""
        if self._thread is None:
            self._start()
        self._used[id(raw)] = (time.monotonic() + self._seconds, raw)

    def checked_in(self, raw: Any, info: MutableMapping[Any, Any]) -> None:
        """Stop watching the connection. `info`: the dictionary that SQLAlchemy keeps with it."""
        info.pop(_UNWATCHED, None)
        self._used.pop(id(raw), None)

    def progressed(self, raw: Any, info: Mapping[Any, Any], times: int = 1) -> None:
        """Restart the connection's time limit, so many times as long: one of its statements has ended."""
        if id(raw) in self._used:
            seconds = inf if info.get(_UNWATCHED) else self._seconds * times
            self._used[id(raw)] = (time.monotonic() + seconds, raw)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="database watchdog", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            now = time.monotonic()
            # A copy, which is made at once: while a list of items is made, other threads may come and go.
            for key, (deadline, connection) in self._used.copy().items():
                if now > deadline and self._used.pop(key, None) is not None:
                    # Neither a connection that was closed meanwhile nor a log that takes no line may end this thread.
                    with suppress(Exception):
                        _cut(connection)
                        log.warning("the database does not answer; the connection was cut", seconds=self._seconds)


def unwatched(connection: Any) -> None:
    """Exempt this SQLAlchemy connection from the watchdog until it is returned to its pool."""
    connection.info[_UNWATCHED] = True


def _cut(connection: Any) -> None:
    """Shut the connection's socket down; the thread that waits for it then gets an error. Raises errors of sockets and
    of the driver."""
    with socket.socket(fileno=socket.dup(connection.fileno())) as twin:
        twin.shutdown(socket.SHUT_RDWR)


CACHE_KILOBYTES = 512
"""Page cache of one SQLite connection: enough for a transaction. A write by any other connection invalidates all of it,
so a larger cache would only cost memory, per connection and growing with the file."""

LOG_BYTES = 64_000_000
"""The write-ahead log is cut to this size as soon as it can be: a long reader, such as a backup, lets it grow."""


def normal_url(url: str) -> URL:
    """The address with the driver to use: psycopg 3 for PostgreSQL, whatever driver it names. Raises ValueError for
    other databases, and for SQLite in memory."""
    try:
        made = make_url(with_hosts_in_query(url))
    except (sa.exc.ArgumentError, ValueError) as error:
        raise ValueError(
            "this is not a database address: write sqlite:///PATH or postgresql://USER@HOST/NAME"
        ) from error
    kind = made.get_backend_name()
    if kind in ("postgresql", "postgres"):
        return made.set(drivername="postgresql+psycopg")
    if kind == "sqlite" and made.database in (None, "", ":memory:"):
        raise ValueError("an SQLite database in memory is seen by one connection alone; name a file: sqlite:///PATH")
    if kind == "sqlite":
        return made.set(drivername="sqlite+pysqlite")
    raise ValueError(f"{kind} is not supported: write sqlite:///PATH or postgresql://USER@HOST/NAME")


def without_transactions(dialect: Dialect) -> dict[str, Any]:
    """Execution options for a connection without transactions: each statement sees what is committed at that moment."""
    # There is no such isolation level for SQLite; the listener `begin` below reads this option instead.
    return {"mcc_read": True} if dialect.name == "sqlite" else {"isolation_level": "AUTOCOMMIT"}


def is_used_up(engine: Engine) -> bool:
    """Whether the maximum number of connections is in use, so that threads may wait for the pool."""
    pool = engine.pool
    return isinstance(pool, QueuePool) and pool.checkedout() >= 2 * pool.size()


class _Hinting(SQLiteCompiler):
    """Renders the hints of a statement (INDEXED BY), which SQLAlchemy omits for SQLite."""

    def get_from_hint_text(self, table: object, text: str | None) -> str | None:
        return text


def opened_sqlite(url: URL, clock: Clock, connections: int, patience: float) -> Engine:
    """The engine for an address of a file that `normal_url` returned. `patience`: seconds to wait for a lock or a free
    connection."""
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
        # Reuse the connection used last, which has prepared the statements. In rotation, every connection would come to
        # hold all of them.
        pool_use_lifo=True,
        pool_timeout=patience,
        connect_args={"check_same_thread": False, "timeout": patience},
    )

    engine.dialect.statement_compiler = _Hinting

    @event.listens_for(engine, "do_connect")
    def make(*_: object) -> None:
        """Create the file readable by its owner alone; SQLite gives its other files the same permissions. Errors are
        left to SQLite to report."""
        with suppress(OSError):
            os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

    @event.listens_for(engine, "connect")
    def prepare(raw: sqlite3.Connection, _: object) -> None:
        # The driver must not begin transactions by itself: `begin` below does, with a lock that cannot fail later.
        raw.isolation_level = None
        # With NORMAL, a power cut could take back commits that callers were told of.
        raw.execute("PRAGMA synchronous=FULL")
        raw.execute(f"PRAGMA cache_size=-{CACHE_KILOBYTES}")
        raw.execute(f"PRAGMA journal_size_limit={LOG_BYTES}")
        raw.execute("PRAGMA foreign_keys=ON")
        # Declared deterministic although they are not: SQLite then calls them once per statement, not once per row.
        raw.create_function("mcc_now", 0, lambda: micros(clock.now()), deterministic=True)
        raw.create_function("mcc_uptime", 0, lambda: int(clock.uptime() * 1_000_000), deterministic=True)
        raw.create_function("mcc_boot", 0, clock.boot, deterministic=True)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        if not connection.get_execution_options().get("mcc_read"):
            # Directly through the driver: SQLAlchemy would take as long for this as for the statement that follows.
            connection.connection.driver_connection.execute("BEGIN IMMEDIATE")  # type: ignore[union-attr]

    return engine
