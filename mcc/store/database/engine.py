"""The database: transactions, repeated when that is safe, and translation of foreign errors."""

import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from threading import Lock
from typing import Any, NoReturn, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.configuration.database import DatabaseAccess
from mcc.store.database.clock import Clock, SystemClock, micros
from mcc.store.database.connections import (
    ConnectionWatchdog,
    normal_url,
    opened_sqlite,
    unwatched,
    without_transactions,
)
from mcc.store.database.direct import flush
from mcc.store.database.errors import StoreError, StoreUnavailable
from mcc.store.database.foreign_errors import ConnectionLost, translated
from mcc.store.database.last import do_last, forget_last
from mcc.store.database.links import Links
from mcc.store.database.postgres import PostgresSessions, opened_postgres

T = TypeVar("T")

PATIENCE_SECONDS = 5.0
"""How long to wait for a lock, a free connection or a new one."""

UNDONE_PAUSES = (0.01, 0.04, 0.16)
"""Maximum pauses, in seconds, before the repetitions of a transaction that PostgreSQL rolled back (`UNDONE`)."""

SILENCE_SECONDS = 17.0
"""A connection in use is cut after this time without an answer; no statement may take that long."""


class DatabaseTime:
    """SQL expressions for the database's clock: `now` in microseconds since 1970, `uptime` in microseconds for leases,
    and `boot`, the id of the boot from which `uptime` counts.

    They use the server's clock on PostgreSQL and this machine's on SQLite, unless a clock is given.
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
            self.now = _computed(lambda: micros(clock.now()), sa.BigInteger())
            self.uptime = _computed(lambda: int(clock.uptime() * 1_000_000), sa.BigInteger())
            self.boot = _computed(clock.boot, sa.String())


@cache
def _real_time(dialect: str) -> DatabaseTime:
    """Shared by all stores of a process: statements that use the time are cached by it, and so built once."""
    return DatabaseTime(dialect, None)


def _computed(value: Callable[[], Any], kind: sa.types.TypeEngine[Any]) -> Any:
    """A parameter whose value is computed at each execution."""
    return sa.bindparam(None, callable_=value, type_=kind, unique=True)


class WriteLock:
    """A lock with a time limit: entering raises `StoreUnavailable` if it is not free within `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._lock = Lock()
        self._seconds = seconds

    def __enter__(self) -> None:
        if not self._lock.acquire(timeout=self._seconds):
            raise StoreUnavailable("the database is locked: others of this process wait for it already; try again")

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class Database:
    """One database with a connection pool of its own. `clock` None: the real clock.

    `sessions`: how the connections to PostgreSQL are made; None for SQLite.
    """

    def __init__(
        self,
        access: DatabaseAccess | str,
        *,
        clock: Clock | None = None,
        connections: int = 8,
        patience_seconds: float = PATIENCE_SECONDS,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        self.access = DatabaseAccess(access) if isinstance(access, str) else access
        self.url = normal_url(self.access.url)
        self.clock = clock or SystemClock()
        self.sessions: PostgresSessions | None = None
        if self.url.get_backend_name() == "sqlite":
            self.engine = opened_sqlite(self.url, self.clock, connections, patience_seconds)
        else:
            self.engine, self.sessions = opened_postgres(self.access, self.url, connections, patience_seconds)
        self.dialect = self.engine.dialect.name
        self._watchdog = ConnectionWatchdog(self.engine, silence_seconds) if self.dialect == "postgresql" else None
        # On SQLite, the SQL functions of each connection call the clock, whichever it is.
        is_real = clock is None or self.dialect == "sqlite"
        self.time = _real_time(self.dialect) if is_real else DatabaseTime(self.dialect, clock)
        self._links = Links(self.engine, connections, self._watchdog)
        self._writing: AbstractContextManager[Any] = nullcontext()
        if self.dialect == "sqlite":
            # SQLite's own lock is polled by waiting threads, of which some starve. This lock queues them instead.
            self._writing = WriteLock(patience_seconds)

    @property
    def _is_direct(self) -> bool:
        return not self._links.has_listeners

    @property
    def _keeps_settings(self) -> bool:
        """Whether a connection keeps its settings, so that a statement needs no transaction to have them."""
        return self.sessions is None or self.sessions.mode != "transaction"

    def write(self, work: Callable[[Connection], T], *, repeatable: bool = False, single: bool = False) -> T:
        """Run `work` in one transaction. If the connection is lost before the commit, `work` is run once more.

        `single`: only one statement of `work` writes, so that the statement itself is the transaction.

        `repeatable`: `work` recognises what it did before, so it may also be run again after a commit with an unknown
        outcome. A transaction that the database rolled back because of a concurrent one is repeated a few times.
        """
        undone = iter(UNDONE_PAUSES)
        lost_before = False
        while True:
            try:
                return self._write(work, repeatable, single)
            except ConnectionLost as lost:
                pause = next(undone, None) if lost.undone else 0.0
                if pause is None or (lost_before and not lost.undone) or (lost.committing and not repeatable):
                    raise
                # A second loss in a row is an outage, which the caller tells; rollbacks are the price of concurrency.
                lost_before |= not lost.undone
                # Random, or two transactions that undid each other would meet again at the same moment.
                time.sleep(pause * random.uniform(0.5, 1.0))

    def _write(self, work: Callable[[Connection], T], repeatable: bool, single: bool) -> T:
        done = False
        try:
            with self._writing, self._connection(single) as connection:
                forget_last(connection)
                answer = work(connection)
                do_last(connection)
                if not repeatable:
                    # Otherwise the last statements are sent with COMMIT, whose outcome may stay unknown.
                    flush(connection)
                done = True
            return answer
        except StoreError:
            raise
        except Exception as error:
            self._raise_translated(error, committing=done)

    def _connection(self, single: bool) -> AbstractContextManager[Connection]:
        if not self._is_direct:
            return self.engine.begin()
        # A statement by itself is a transaction; BEGIN and COMMIT would be two round trips more.
        return self._links.reading() if single else self._links.writing()

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` without a transaction: each of its statements sees what is committed at that moment."""
        try:
            return self._read(work)
        # Once more: what ended the connection, such as a restart of the server, often lets a new one through.
        except ConnectionLost:
            return self._read(work)

    def _read(self, work: Callable[[Connection], T]) -> T:
        try:
            if self._is_direct:
                with self._links.reading() as link:
                    return work(link)
            with self.engine.connect() as connection:
                if not self._keeps_settings:
                    # One transaction: each statement still sees what is committed by then.
                    return work(connection)
                return work(connection.execution_options(**without_transactions(connection.dialect)))
        except StoreError:
            raise
        except Exception as error:
            self._raise_translated(error)

    def snapshot(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on a snapshot of the database, for as long as it takes; it blocks nobody."""
        try:
            with self.engine.connect() as connection:
                if self.dialect == "sqlite":
                    # Not BEGIN IMMEDIATE: a plain transaction reads a snapshot of the write-ahead log without blocking
                    # writers.
                    connection = connection.execution_options(**without_transactions(connection.dialect))
                    connection.exec_driver_sql("BEGIN")
                else:
                    connection = connection.execution_options(
                        isolation_level="REPEATABLE READ", postgresql_readonly=True
                    )
                    unwatched(connection)
                    # A backup reads as long as it takes; these limits are for statements that others wait for.
                    for limit in ("statement_timeout", "idle_in_transaction_session_timeout"):
                        connection.exec_driver_sql(f"SET LOCAL {limit} = 0")
                return work(connection)
        except StoreError:
            raise
        except Exception as error:
            self._raise_translated(error)

    @property
    def losses(self) -> int:
        """How many times a connection was lost so far: after each, another server may answer."""
        return self._links.losses

    def answers(self) -> bool:
        """Whether the server answers on a new connection, be it one that takes no writes."""
        return self.sessions is None or self.sessions.answers()

    def close(self) -> None:
        self._links.close()
        self.engine.dispose()
        if self._watchdog is not None:
            self._watchdog.close()

    def _raise_translated(self, error: Exception, *, committing: bool = False) -> NoReturn:
        """Raise the translated error.

        The local names are deleted, because an error whose traceback contains a frame that refers to it is a reference
        cycle, which only the garbage collector frees.
        """
        store_error = translated(error, committing=committing, access=self.access)
        try:
            if store_error is error:
                raise store_error
            raise store_error from error
        finally:
            del store_error, error
