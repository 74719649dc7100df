"""The drivers sqlite3 and psycopg behind one interface: run a statement, begin and end a transaction."""

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from sqlalchemy.engine import Connection

PLANS_SECONDS = 2.0
"""How long PostgreSQL's plans of a connection are kept: they are made for tables as large as they were then."""


class Cursor(Protocol):
    """The result of a statement, which can be read once."""

    @property
    def rowcount(self) -> int: ...
    @property
    def description(self) -> Sequence[Any] | None:
        """A sequence per column that begins with its name, as in PEP 249; read it before the next statement."""

    def __iter__(self) -> Iterator[Any]: ...
    def fetchone(self) -> Any: ...
    def close(self) -> None: ...


class Driver(Protocol):
    """One connection, which begins no transaction by itself. Raises the driver's errors."""

    @property
    def is_in_transaction(self) -> bool: ...
    def run(self, text: str, values: Any) -> Cursor: ...
    def run_for_each(self, text: str, values: Iterable[Any]) -> Cursor: ...
    def begin(self) -> None: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def run_later(self, text: str, values: Any, for_each: bool) -> None:
        """Run a statement, or run it for each of `values`, with the next one at the latest, which then raises the
        errors. The result is not needed."""

    def flush(self) -> None:
        """Run what `begin` and `run_later` left for later."""

    @property
    def waiting(self) -> int:
        """The number of statements left for later."""

    def refresh(self) -> None:
        """Forget plans that may no longer fit; called before each piece of work."""


def driver_of(connection: Connection) -> Driver:
    raw: Any = connection.connection.driver_connection
    return _Sqlite(raw) if isinstance(raw, sqlite3.Connection) else _Postgres(raw)


class _Sqlite:
    def __init__(self, raw: sqlite3.Connection) -> None:
        self._raw = raw
        self.run = raw.execute
        self.run_for_each = raw.executemany

    @property
    def is_in_transaction(self) -> bool:
        return self._raw.in_transaction

    def run_later(self, text: str, values: Any, for_each: bool) -> None:
        (self.run_for_each if for_each else self.run)(text, values)

    def flush(self) -> None:
        """Nothing waits: a statement is a function call here."""

    @property
    def waiting(self) -> int:
        return 0

    def refresh(self) -> None:
        """SQLite plans by the schema alone."""

    def begin(self) -> None:
        self._raw.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self._raw.execute("COMMIT")

    def rollback(self) -> None:
        self._raw.rollback()


class _Postgres:
    """A psycopg connection; psycopg itself prepares statements that are repeated a few times.

    BEGIN, and statements run later, are sent together with the next statement or with COMMIT, in one round trip: this
    thread and the server's process are then woken once instead of once per statement.
    """

    def __init__(self, raw: Any) -> None:
        """`raw` is typed Any because psycopg is installed only for PostgreSQL."""
        self._raw = raw
        # One cursor for all statements: creating one takes as long as using it.
        self._cursor = raw.cursor()
        self._waiting: list[Callable[[], object]] = []
        self._plans_until = time.monotonic() + PLANS_SECONDS

    @property
    def is_in_transaction(self) -> bool:
        """True also in a failed transaction, and on a lost connection."""
        return bool(self._waiting or self._raw.pgconn.transaction_status)

    def run(self, text: str, values: Any) -> Cursor:
        self._run(partial(self._cursor.execute, text, values))
        return _Fetched(self._cursor)

    def run_for_each(self, text: str, values: Iterable[Any]) -> Cursor:
        self.flush()  # psycopg would count their rows too.
        self._cursor.executemany(text, values)
        return _Fetched(self._cursor)

    def run_later(self, text: str, values: Any, for_each: bool) -> None:
        run = partial(self._cursor.executemany if for_each else self._cursor.execute, text, values)
        if self.is_in_transaction:
            self._waiting.append(run)
        else:
            run()

    def flush(self) -> None:
        if self._waiting:
            self._run(self._waiting.pop())

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def refresh(self) -> None:
        if time.monotonic() >= self._plans_until:
            self._cursor.execute("DISCARD PLANS", prepare=False)
            self._plans_until = time.monotonic() + PLANS_SECONDS

    def begin(self) -> None:
        self._waiting.append(partial(self._cursor.execute, "BEGIN", prepare=False))

    def commit(self) -> None:
        self._run(partial(self._cursor.execute, "COMMIT", prepare=False))

    def rollback(self) -> None:
        self._waiting.clear()
        self._raw.rollback()

    def _run(self, statement: Callable[[], object]) -> None:
        waiting, self._waiting = self._waiting, []
        if not waiting:
            statement()
            return
        with self._raw.pipeline():
            for one in waiting:
                one()
            statement()


class _Fetched:
    """All rows of a cursor, fetched at once, so that the cursor is free for the next statement."""

    __slots__ = ("_cursor", "_rows", "rowcount")

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor
        self.rowcount: int = cursor.rowcount
        self._rows: Iterator[Any] = iter(() if cursor.rownumber is None else cursor.fetchall())

    @property
    def description(self) -> Sequence[Any] | None:
        described: Sequence[Any] | None = self._cursor.description
        return described

    def __iter__(self) -> Iterator[Any]:
        return self._rows

    def fetchone(self) -> Any:
        return next(self._rows, None)

    def close(self) -> None:
        self._rows = iter(())
