"""The drivers sqlite3 and psycopg behind one interface: run a statement, begin and end a transaction."""

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from sqlalchemy.engine import Connection

from mcc.store.database.postgres import BEGIN, Opening, opening_of

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

    @property
    def begins_alone(self) -> bool:
        """Whether a statement outside a transaction is only complete with the settings that begin one, so that whoever
        sends it around this driver has to begin and commit a transaction."""


def driver_of(connection: Connection) -> Driver:
    raw: Any = connection.connection.driver_connection
    if isinstance(raw, sqlite3.Connection):
        return _Sqlite(raw)
    opening = opening_of(connection)
    return _Postgres(raw) if opening is None else _Pooled(raw, opening)


class _Sqlite:
    begins_alone = False

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

    begins_alone = False

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
        # What was never sent needs no rollback.
        self._waiting.clear()
        self._raw.rollback()

    def _run(self, statement: Callable[[], object]) -> None:
        # Emptied first: an error of one of them must not leave the others for the next transaction.
        waiting, self._waiting = self._waiting, []
        if not waiting:
            statement()
            return
        with self._raw.pipeline():
            for callback in waiting:
                callback()
            statement()


class _Pooled(_Postgres):
    """A psycopg connection through a pooler, which may give each transaction to another of the server's connections.

    Each transaction begins with its settings, in the same round trip. A statement outside a transaction is one by
    itself, with its COMMIT in that round trip too. No plan is forgotten, because none is kept.
    """

    begins_alone = True

    def __init__(self, raw: Any, opening: Opening) -> None:
        super().__init__(raw)
        self._opening = opening
        # Of its own, so that the results of the other cursor are those of the statement.
        self._around = raw.cursor()

    def run(self, text: str, values: Any) -> Cursor:
        if self.is_in_transaction:
            return super().run(text, values)
        self._alone(partial(self._cursor.execute, text, values))
        return _Fetched(self._cursor)

    def run_for_each(self, text: str, values: Iterable[Any]) -> Cursor:
        if self.is_in_transaction:
            return super().run_for_each(text, values)
        self.begin()
        cursor = super().run_for_each(text, values)
        self.commit()
        return cursor

    def run_later(self, text: str, values: Any, for_each: bool) -> None:
        if self.is_in_transaction:
            super().run_later(text, values, for_each)
        else:
            self._alone(partial(self._cursor.executemany if for_each else self._cursor.execute, text, values))

    def refresh(self) -> None:
        """There is nothing to forget."""

    def begin(self) -> None:
        self._waiting.append(self._begin)

    def _begin(self) -> None:
        self._around.execute(BEGIN, prepare=False)
        self._around.execute(self._opening.text, self._opening.values, prepare=False)

    def _alone(self, statement: Callable[[], object]) -> None:
        """Run the statement as a transaction."""
        try:
            with self._raw.pipeline():
                self._begin()
                statement()
                self._around.execute("COMMIT", prepare=False)
        except BaseException:
            # Not left open: the pooler keeps the server's connection for it. A lost connection has none.
            with suppress(Exception):
                self._raw.rollback()
            raise


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
