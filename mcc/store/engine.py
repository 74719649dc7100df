"""Connections: how SQLite and PostgreSQL are opened, and how a piece of work becomes a transaction."""

import os
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn, TypeVar

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.pool import QueuePool

from mcc.configuration.private import make_private_directory
from mcc.store.clock import Clock, SystemClock, micros
from mcc.store.errors import StoreError, StoreUnavailable
from mcc.store.failures import ConnectionLost, translated
from mcc.store.watchdog import Watchdog

T = TypeVar("T")

PATIENCE_SECONDS = 5.0
"""So long a lock, a free connection or a new one is waited for."""

UNDONE_PAUSES = (0.01, 0.04, 0.16)
"""Seconds, at most, before a transaction is tried again that PostgreSQL undid because of another one."""

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

SILENCE_SECONDS = 17.0
"""A connection that is in use is cut after so long without a word: longer than any statement may take."""


class DatabaseTime:
    """The database's clock as SQL: `now` in microseconds since 1970, `uptime` in microseconds for leases, `boot`.

    PostgreSQL answers with its own clock and SQLite with this machine's, unless a clock is given.
    """

    def __init__(self, dialect: str, clock: Clock | None) -> None:
        self.now: sa.ColumnElement[int]
        self.uptime: sa.ColumnElement[int]
        self.boot: sa.ColumnElement[str]
        if dialect == "sqlite":
            self.now = sa.func.mcc_now(type_=sa.BigInteger)
            self.uptime = sa.func.mcc_uptime(type_=sa.BigInteger)
            self.boot = sa.func.mcc_boot(type_=sa.String)
        elif clock is None:
            seconds = sa.literal_column("extract(epoch from clock_timestamp())", sa.Numeric)
            self.now = self.uptime = sa.cast(seconds * 1_000_000, sa.BigInteger)
            self.boot = sa.literal_column("''", sa.String)
        else:
            self.now = _asked(lambda: micros(clock.now()), sa.BigInteger())
            self.uptime = _asked(lambda: int(clock.uptime() * 1_000_000), sa.BigInteger())
            self.boot = _asked(clock.boot, sa.String())


def _asked(answer: Callable[[], Any], kind: sa.types.TypeEngine[Any]) -> Any:
    return sa.bindparam(None, callable_=answer, type_=kind, unique=True)


class WriteLock:
    """A lock that is waited for in vain only so long; entering raises `StoreUnavailable` then."""

    def __init__(self, seconds: float) -> None:
        self._lock = Lock()
        self._seconds = seconds

    def __enter__(self) -> None:
        if not self._lock.acquire(timeout=self._seconds):
            raise StoreUnavailable("the database is locked: others of this process wait for it already; try again")

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class Database:
    """One database seen through a pool of its own. `clock` None: the real one."""

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        connections: int = 8,
        patience_seconds: float = PATIENCE_SECONDS,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        self.url = normal_url(url)
        self.clock = clock or SystemClock()
        self.engine = _engine(self.url, self.clock, connections, patience_seconds)
        self.dialect = self.engine.dialect.name
        self._watchdog = Watchdog(self.engine, silence_seconds) if self.dialect == "postgresql" else None
        self.time = DatabaseTime(self.dialect, clock)
        self._writing: AbstractContextManager[Any] = nullcontext()
        if self.dialect == "sqlite":
            # Threads that wait for the lock of SQLite poll it, and the unlucky ones starve: here they wait instead.
            self._writing = WriteLock(patience_seconds)

    def write(self, work: Callable[[Connection], T], *, repeatable: bool = False) -> T:
        """`work` in one transaction, done again once when the database was away before the commit.

        `repeatable`: `work` recognises what it did before, so it is also done again after a commit of unknown outcome.
        What the database undid because of another transaction is done again a few times.
        """
        undone = iter(UNDONE_PAUSES)
        lost_before = False
        while True:
            try:
                return self._write(work)
            except ConnectionLost as lost:
                pause = next(undone, None) if lost.undone else 0.0
                if pause is None or (lost_before and not lost.undone) or (lost.committing and not repeatable):
                    raise
                lost_before |= not lost.undone
                time.sleep(pause * random.uniform(0.5, 1.0))

    def _write(self, work: Callable[[Connection], T]) -> T:
        done = False
        try:
            with self._writing, self.engine.begin() as connection:
                answer = work(connection)
                done = True
            return answer
        except StoreError:
            raise
        except Exception as error:
            _raise_translated(error, committing=done)

    def read(self, work: Callable[[Connection], T]) -> T:
        """`work` without a transaction: each of its statements sees what is committed then."""
        try:
            return self._read(work)
        except ConnectionLost:
            return self._read(work)

    def _read(self, work: Callable[[Connection], T]) -> T:
        try:
            with self.engine.connect() as connection:
                return work(_unbegun(connection))
        except StoreError:
            raise
        except Exception as error:
            _raise_translated(error)

    def close(self) -> None:
        self.engine.dispose()
        if self._watchdog is not None:
            self._watchdog.close()


def _raise_translated(error: Exception, *, committing: bool = False) -> NoReturn:
    """Keeps no name for the error: a frame that it came through, and that names it, waits for the garbage collector."""
    own = translated(error, committing=committing)
    try:
        if own is error:
            raise own
        raise own from error
    finally:
        del own, error


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


def _unbegun(connection: Connection) -> Connection:
    if connection.dialect.name == "sqlite":
        return connection.execution_options(mcc_read=True)
    return connection.execution_options(isolation_level="AUTOCOMMIT")


def _engine(url: URL, clock: Clock, connections: int, patience: float) -> Engine:
    if url.get_backend_name() == "sqlite":
        return _sqlite(url, clock, connections, patience)
    return _postgres(url, connections, patience)


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


def _make_directory(path: Path) -> None:
    try:
        make_private_directory(path)
    except OSError as error:
        raise StoreUnavailable(f"the directory {path} for the database cannot be made: {error.strerror}") from error


def _make_file(path: Path) -> None:
    """For its owner alone, as are the files that SQLite puts beside it; what is wrong with the path, SQLite says."""
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _sqlite(url: URL, clock: Clock, connections: int, patience: float) -> Engine:
    file = Path(str(url.database))
    _make_directory(file.parent)
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

    @event.listens_for(engine, "do_connect")
    def make(*_: object) -> None:
        _make_file(file)

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
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine
