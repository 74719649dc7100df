"""The drivers sqlite3 and psycopg behind one interface: run a statement, begin and end a transaction."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from sqlalchemy.engine import Connection


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
    """A psycopg connection; psycopg itself prepares statements that are repeated a few times."""

    def __init__(self, raw: Any) -> None:
        """`raw` is typed Any because psycopg is installed only for PostgreSQL."""
        self._raw = raw
        # One cursor for all statements: creating one takes as long as using it.
        self._cursor = raw.cursor()

    @property
    def is_in_transaction(self) -> bool:
        """True also in a failed transaction, and on a lost connection."""
        return bool(self._raw.pgconn.transaction_status)

    def run(self, text: str, values: Any) -> Cursor:
        return _Fetched(self._cursor.execute(text, values))

    def run_for_each(self, text: str, values: Iterable[Any]) -> Cursor:
        self._cursor.executemany(text, values)
        return _Fetched(self._cursor)

    def begin(self) -> None:
        self._cursor.execute("BEGIN", prepare=False)

    def commit(self) -> None:
        self._raw.commit()

    def rollback(self) -> None:
        self._raw.rollback()


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
