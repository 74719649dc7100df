"""Statements that SQLite's driver is given as they are, and connections that are kept open between transactions.

SQLAlchemy works out at every execution what is the same each time: the text, the order of its parameters, what becomes
of them and of the columns that are found. That takes seven times as long as SQLite does. Here a statement that comes
again is taken apart once: docs/decisions/18.
"""

import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from sqlalchemy import exc
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.engine.result import result_tuple

Process: TypeAlias = Callable[[Any], Any]


class Found:
    """What a statement found: as much of `sqlalchemy.Result` as the store uses."""

    __slots__ = ("_cursor", "_row")

    def __init__(self, cursor: sqlite3.Cursor, row: Process) -> None:
        """`row` makes what is answered of what the driver answers."""
        self._cursor = cursor
        self._row = row

    @property
    def rowcount(self) -> int:
        return self._cursor.rowcount

    def __iter__(self) -> Iterator[Any]:
        return map(self._row, self._cursor)

    def all(self) -> list[Any]:
        return list(self)

    def first(self) -> Any:
        row = self._cursor.fetchone()
        # A cursor with rows that nobody reads holds on to the moment at which it asked.
        self._cursor.close()
        return None if row is None else self._row(row)

    def one_or_none(self) -> Any:
        found = self.all()
        if len(found) > 1:
            raise exc.MultipleResultsFound("several rows were found where there is one at most")
        return found[0] if found else None

    def one(self) -> Any:
        if (row := self.one_or_none()) is None:
            raise exc.NoResultFound("no row was found where there is one")
        return row

    def scalar(self) -> Any:
        row = self.first()
        return None if row is None else row[0]

    def scalar_one(self) -> Any:
        return self.one()[0]

    def scalars(self) -> "Found":
        row = self._row
        return Found(self._cursor, lambda values: row(values)[0])

    def mappings(self) -> "Found":
        row = self._row
        return Found(self._cursor, lambda values: row(values)._mapping)


def _row_of(names: Sequence[str], kinds: Sequence[Process | None] = ()) -> Process:
    """Makes rows with these columns, of values that each have to be made into something first."""
    make: Process = result_tuple(names)
    if not any(kinds):
        return make
    return lambda values: make([one if kind is None else kind(one) for kind, one in zip(kinds, values, strict=True)])


def _row_in(cursor: sqlite3.Cursor) -> Process:
    """Makes rows with the columns that the driver names."""
    return _as_it_is if cursor.description is None else _row_of([column[0] for column in cursor.description])


class Prepared:
    """A statement as the driver takes it, with parameters of the names in `keys`."""

    __slots__ = ("_given", "_row", "_values", "keys", "text")

    def __init__(self, statement: Any, given: Mapping[str, Any], dialect: Dialect) -> None:
        """Raises ValueError for a statement that has to be made anew each time; `given` is an example."""
        compiled = statement.compile(dialect=dialect, column_keys=sorted(given))
        if any(one.callable is not None for one in compiled.binds.values()):
            raise ValueError("a parameter is asked for at each execution")
        if (compiled.isinsert and compiled.insert_prefetch) or (compiled.isupdate and compiled.update_prefetch):
            raise ValueError("a column has a default that Python makes")
        expanded = compiled.construct_expanded_state(dict(given))
        if not given.keys().isdisjoint(expanded.parameter_expansion):
            raise ValueError("its text depends on how long a list is")
        self.keys = frozenset(given)
        self.text: str = expanded.statement
        order, made = expanded.positiontup or (), {**compiled._bind_processors, **expanded.processors}
        self._given = [(place, name, made.get(name)) for place, name in enumerate(order) if name in given]
        self._values = [
            None if name in given else made.get(name, _as_it_is)(expanded.parameters[name]) for name in order
        ]
        columns = compiled._result_columns or ()
        kinds = [one.type.dialect_impl(dialect).result_processor(dialect, None) for one in columns]
        self._row = _row_of([one.keyname for one in columns], kinds) if columns else None

    @property
    def answers(self) -> bool:
        """Whether it answers rows that are known beforehand."""
        return self._row is not None

    def values(self, given: Mapping[str, Any]) -> Sequence[Any]:
        """The parameters in their order."""
        values = self._values.copy()
        for place, name, process in self._given:
            values[place] = given[name] if process is None else process(given[name])
        return values

    def found(self, cursor: sqlite3.Cursor) -> Found:
        return Found(cursor, self._row or _row_in(cursor))


def _as_it_is(value: Any) -> Any:
    return value


class Statements:
    """What came twice of the statements of a process, for as long as it has them. Safe for several threads."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Any, Prepared | bool] = WeakKeyDictionary()
        """True: it came once; False: it cannot be prepared."""

    def prepared(self, statement: Any, given: Mapping[str, Any], dialect: Dialect) -> Prepared | None:
        """None: SQLAlchemy is to execute it."""
        known = self._known.get(statement)
        if known is None:
            self._known[statement] = True
        elif known is True:
            try:
                self._known[statement] = known = Prepared(statement, given, dialect)
            except ValueError:
                self._known[statement] = False
        return known if isinstance(known, Prepared) and given.keys() == known.keys else None


@cache
def _statements() -> Statements:
    """One for all databases of a process: what SQLite's driver is given does not depend on the file."""
    return Statements()


class Link(Connection):
    """A connection that is kept. Its transactions are begun and ended by `begin_now`, `keep` and `undo` alone."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.execution_options(mcc_read=True)
        raw = self.connection.driver_connection
        assert isinstance(raw, sqlite3.Connection)
        self._raw = raw
        self._statements = _statements()

    def execute(self, statement: Any, parameters: Any = None, *, execution_options: Any = None) -> Any:
        many = type(parameters) is list and len(parameters) > 0
        given = parameters[0] if many else parameters or {}
        prepared = self._statements.prepared(statement, given, self.dialect) if isinstance(given, Mapping) else None
        if prepared is None or execution_options or (many and prepared.answers):
            return super().execute(statement, parameters, execution_options=execution_options)
        if many:
            return prepared.found(self._sent(self._raw.executemany, prepared.text, map(prepared.values, parameters)))
        return prepared.found(self._sent(self._raw.execute, prepared.text, prepared.values(given)))

    def send(self, text: str, parameters: Any) -> Any:
        """As `exec_driver_sql`."""
        cursor = self._sent(self._raw.executemany if type(parameters) is list else self._raw.execute, text, parameters)
        return Found(cursor, _row_in(cursor))

    def scalar(self, statement: Any, parameters: Any = None, *, execution_options: Any = None) -> Any:
        return self.execute(statement, parameters, execution_options=execution_options).scalar()

    def scalars(self, statement: Any, parameters: Any = None, *, execution_options: Any = None) -> Any:
        return self.execute(statement, parameters, execution_options=execution_options).scalars()

    def begin_now(self) -> None:
        self._raw.execute("BEGIN IMMEDIATE")

    def keep(self) -> None:
        """Commit."""
        if self.in_transaction():
            self.commit()
        elif self._raw.in_transaction:
            self._sent(self._raw.execute, "COMMIT")

    def undo(self) -> None:
        """Let go of what SQLAlchemy holds of it, and of what is not committed."""
        # Also of a transaction whose commit failed: it is none any more, and yet refuses every further statement.
        self.rollback()
        if self._raw.in_transaction:
            self._raw.rollback()

    def _sent(self, send: Callable[..., sqlite3.Cursor], text: str, *values: Any) -> sqlite3.Cursor:
        try:
            return send(text, *values)
        except sqlite3.Error as error:
            raise exc.DBAPIError.instance(text, None, error, sqlite3.Error, dialect=self.dialect) from error


def send(connection: Connection, text: str, parameters: Any) -> Any:
    """What the driver answers to its own words; a list of parameters: for each of them."""
    return (
        connection.send(text, parameters)
        if isinstance(connection, Link)
        else connection.exec_driver_sql(text, parameters)
    )


class Links:
    """Connections of one engine that nobody uses now, `most` at most. Safe for several threads."""

    def __init__(self, engine: Engine, most: int) -> None:
        self._engine = engine
        self._free: deque[Link] = deque()
        self._most = most

    @property
    def heard(self) -> bool:
        """Whether somebody wants to be told of what is sent, which only SQLAlchemy does."""
        dispatch = self._engine.dispatch
        return bool(dispatch.before_cursor_execute) or bool(dispatch.commit)

    @contextmanager
    def writing(self) -> Iterator[Link]:
        """A connection in a transaction of its own, which is committed unless something is raised."""
        with self.reading() as link:
            link.begin_now()
            yield link
            link.keep()

    @contextmanager
    def reading(self) -> Iterator[Link]:
        """A connection without a transaction: the one that was used last, which knows most of the statements."""
        try:
            link = self._free.pop()
        except IndexError:
            link = Link(self._engine)
        try:
            yield link
        finally:
            self._give_back(link)

    def close(self) -> None:
        """Also those that are still in use, when they are given back."""
        self._most = 0
        while self._free:
            self._free.pop().close()

    def _give_back(self, link: Link) -> None:
        try:
            link.undo()
        except Exception:
            link.invalidate()
            link.close()
            return
        if len(self._free) < self._most:
            self._free.append(link)
        else:
            link.close()
