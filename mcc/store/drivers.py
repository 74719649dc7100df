"""What the store asks of a database's driver itself: one statement that is known, and the ends of a transaction."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from sqlalchemy.engine import Connection


class Answer(Protocol):
    """What a driver says to a statement; it may be read once."""

    @property
    def rowcount(self) -> int: ...
    @property
    def description(self) -> Sequence[Any] | None:
        """A sequence for each column, the first of which is its name; to be asked for before the next statement."""

    def __iter__(self) -> Iterator[Any]: ...
    def fetchone(self) -> Any: ...
    def close(self) -> None: ...


class Driver(Protocol):
    """One connection, which begins no transaction by itself. Raises the errors of the driver."""

    @property
    def is_in_transaction(self) -> bool: ...
    def run(self, text: str, values: Any) -> Answer: ...
    def run_for_each(self, text: str, values: Iterable[Any]) -> Answer: ...
    def begin(self) -> None: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...


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

    def begin(self) -> None:
        self._raw.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self._raw.execute("COMMIT")

    def rollback(self) -> None:
        self._raw.rollback()


class _Postgres:
    """Of psycopg; it prepares what comes a few times, by itself."""

    def __init__(self, raw: Any) -> None:
        """`raw`: a connection of psycopg, which only those have who use PostgreSQL."""
        self._raw = raw
        # One for all statements: to make a cursor takes as long as to use it.
        self._cursor = raw.cursor()

    @property
    def is_in_transaction(self) -> bool:
        """Also of one that failed, and of a connection that was lost."""
        return bool(self._raw.pgconn.transaction_status)

    def run(self, text: str, values: Any) -> Answer:
        return _Fetched(self._cursor.execute(text, values))

    def run_for_each(self, text: str, values: Iterable[Any]) -> Answer:
        self._cursor.executemany(text, values)
        return _Fetched(self._cursor)

    def begin(self) -> None:
        self._cursor.execute("BEGIN", prepare=False)

    def commit(self) -> None:
        self._raw.commit()

    def rollback(self) -> None:
        self._raw.rollback()


class _Fetched:
    """All that a cursor found, which is there already: the cursor is free for the next statement."""

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
