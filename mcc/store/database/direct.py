"""Repeated statements given directly to the driver, and connections kept open between transactions.

At every execution, SQLAlchemy computes again what does not change: the text, the order of the parameters, the
conversions of parameters and columns. That takes seven times as long as SQLite itself, and four times as long as
psycopg. Here a repeated statement is compiled once (docs/decisions/18).
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from sqlalchemy import exc
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.engine.result import result_tuple

from mcc.store.database.connections import ConnectionWatchdog, without_transactions
from mcc.store.database.drivers import Cursor, driver_of

Process: TypeAlias = Callable[[Any], Any]


class DirectResult:
    """The rows of a statement: the part of `sqlalchemy.Result` that the store uses."""

    __slots__ = ("_cursor", "_row")

    def __init__(self, cursor: Cursor, row: Process) -> None:
        """`row` converts a row of the driver."""
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
        # An open cursor with unread rows would keep SQLite's read snapshot open.
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

    def scalars(self) -> "DirectResult":
        row = self._row
        return DirectResult(self._cursor, lambda values: row(values)[0])

    def mappings(self) -> "DirectResult":
        row = self._row
        return DirectResult(self._cursor, lambda values: row(values)._mapping)


def _row_of(names: Sequence[str], processors: Sequence[Process | None] = ()) -> Process:
    """A function that makes rows with these columns, after converting each value by its own function, if any."""
    make: Process = result_tuple(names)
    if not any(processors):
        return make
    return lambda values: make(
        [one if process is None else process(one) for process, one in zip(processors, values, strict=True)]
    )


def _row_in(cursor: Cursor) -> Process:
    """A function that makes rows with the columns that the driver names."""
    described = cursor.description
    return _unchanged if described is None else _row_of([column[0] for column in described])


class Prepared:
    """A statement compiled for the driver, for parameters with the names in `keys`."""

    __slots__ = ("_columns", "_dialect", "_given", "_row", "_values", "keys", "text")

    def __init__(self, statement: Any, given: Mapping[str, Any], dialect: Dialect) -> None:
        """`given`: example parameters. Raises ValueError for a statement that must be compiled at each execution."""
        compiled = statement.compile(dialect=dialect, column_keys=sorted(given))
        if any(parameter.callable is not None for parameter in compiled.binds.values()):
            raise ValueError("a parameter is asked for at each execution")
        if (compiled.isinsert and compiled.insert_prefetch) or (compiled.isupdate and compiled.update_prefetch):
            raise ValueError("a column has a default that Python makes")
        expanded = compiled.construct_expanded_state(dict(given))
        if not given.keys().isdisjoint(expanded.parameter_expansion):
            raise ValueError("its text depends on how long a list is")
        if compiled.escaped_bind_names:
            raise ValueError("the driver knows a parameter by another name")
        self.keys = frozenset(given)
        self.text: str = expanded.statement
        made = {**compiled._bind_processors, **expanded.processors}
        constant = {
            name: None if name in given else made.get(name, _unchanged)(value)
            for name, value in expanded.parameters.items()
        }
        self._values: Any = constant
        places: Iterable[tuple[Any, str]] = zip(constant, constant, strict=True)
        if (order := expanded.positiontup) is not None:
            self._values, places = [constant[name] for name in order], enumerate(order)
        self._given = [(place, name, made.get(name)) for place, name in places if name in given]
        self._columns = compiled._result_columns or ()
        self._dialect = dialect
        self._row: Process | None = None

    @property
    def returns_rows(self) -> bool:
        """Whether the statement returns rows whose columns SQLAlchemy knows."""
        return bool(self._columns)

    def values(self, given: Mapping[str, Any]) -> Any:
        """The parameters for the driver: a list, or a dictionary by name."""
        values = self._values.copy()
        for place, name, process in self._given:
            values[place] = given[name] if process is None else process(given[name])
        return values

    def result(self, cursor: Cursor) -> DirectResult:
        if not self._columns:
            return DirectResult(cursor, _row_in(cursor))
        if self._row is None:
            self._row = self._row_of(cursor.description or ())
        return DirectResult(cursor, self._row)

    def _row_of(self, described: Sequence[Any]) -> Process:
        """How values are converted also depends on the column types that the database reports."""
        dialect = self._dialect
        processors = [
            one.type.dialect_impl(dialect).result_processor(dialect, column[1])
            for one, column in zip(self._columns, described, strict=True)
        ]
        return _row_of([one.keyname for one in self._columns], processors)


def _unchanged(value: Any) -> Any:
    return value


class Statements:
    """The statements that a process has executed at least twice, prepared for the driver, for as long as the statement
    objects live. Safe for several threads."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Any, Prepared | bool] = WeakKeyDictionary()
        """True: executed once so far; False: cannot be prepared."""

    def prepared(self, statement: Any, given: Mapping[str, Any], dialect: Dialect) -> Prepared | None:
        """The prepared statement; None when SQLAlchemy has to execute it."""
        known = self._known.get(statement)
        # Prepared at the second execution: what runs once, such as a migration or a search, is not worth the analysis.
        if known is None:
            self._known[statement] = True
        elif known is True:
            try:
                self._known[statement] = known = Prepared(statement, given, dialect)
            except ValueError:
                self._known[statement] = False
        return known if isinstance(known, Prepared) and given.keys() == known.keys else None


@cache
def _statements(dialect: str) -> Statements:
    """Shared by all databases of a process: a prepared statement depends only on the dialect."""
    return Statements()


class Link(Connection):
    """A connection that stays open between transactions, which only `begin_now`, `commit_now` and `reset` begin and
    end."""

    def __init__(self, engine: Engine, watchdog: ConnectionWatchdog | None = None) -> None:
        super().__init__(engine)
        self.execution_options(**without_transactions(self.dialect))
        self._driver = driver_of(self)
        self._errors = self.dialect.loaded_dbapi.Error
        self._raw: Any = self.connection.driver_connection
        self._statements = _statements(self.dialect.name)
        self._raw_info = self.info
        self._watchdog = watchdog
        self.opened_at = time.monotonic()

    def execute(self, statement: Any, parameters: Any = None, *, execution_options: Any = None) -> Any:
        is_list = type(parameters) is list and len(parameters) > 0
        values = parameters[0] if is_list else parameters or {}
        prepared = self._statements.prepared(statement, values, self.dialect) if isinstance(values, Mapping) else None
        if prepared is None or execution_options or (is_list and prepared.returns_rows):
            run = super().execute
            return self._around(lambda: run(statement, parameters, execution_options=execution_options))
        if is_list and len(parameters) > 1:
            return prepared.result(
                self._send(self._driver.run_for_each, prepared.text, map(prepared.values, parameters))
            )
        return prepared.result(self._send(self._driver.run, prepared.text, prepared.values(values)))

    def execute_later(self, statement: Any, parameters: Any) -> None:
        """As `execute`, for a statement whose result is not needed: errors may be raised by the next statement, or by
        `flush` or `commit_now`."""
        is_list = type(parameters) is list
        prepared = self._statements.prepared(statement, parameters[0] if is_list else parameters, self.dialect)
        if prepared is None or (is_list and prepared.returns_rows):
            self.execute(statement, parameters)
        else:
            values = list(map(prepared.values, parameters)) if is_list else prepared.values(parameters)
            self._send(self._driver.run_later, prepared.text, values, is_list)

    def exec_driver_sql(self, statement: str, parameters: Any = None, execution_options: Any = None) -> Any:
        run = super().exec_driver_sql
        return self._around(lambda: run(statement, parameters, execution_options))

    def _around(self, run: Callable[[], Any]) -> Any:
        """Let SQLAlchemy run a statement, after those that were to be executed later."""
        if not self._driver.begins_alone or self._driver.is_in_transaction:
            self.flush()
            return run()
        self.begin_now()
        try:
            self.flush()
            result = run()
            self.commit_now()
        except BaseException:
            self._roll_back()
            raise
        return result

    def send_later(self, text: str, parameters: Any) -> None:
        """As `send`, for a statement whose result is not needed, as in `execute_later`."""
        self._send(self._driver.run_later, text, parameters, type(parameters) is list)

    def flush(self) -> None:
        """Wait for the statements that were to be executed later."""
        self._send(self._driver.flush, "BEGIN")

    def send(self, text: str, parameters: Any) -> Any:
        """As `exec_driver_sql`, but not through SQLAlchemy."""
        run = self._driver.run_for_each if type(parameters) is list else self._driver.run
        cursor = self._send(run, text, parameters)
        return DirectResult(cursor, _row_in(cursor))

    def scalar(self, statement: Any, parameters: Any = None, *, execution_options: Any = None) -> Any:
        return self.execute(statement, parameters, execution_options=execution_options).scalar()

    def scalars(self, statement: Any, parameters: Any = None, *, execution_options: Any = None) -> Any:
        return self.execute(statement, parameters, execution_options=execution_options).scalars()

    def checked_out(self) -> None:
        """Tell the watchdog that the connection is in use."""
        if self._watchdog is not None:
            self._watchdog.checked_out(self._raw)

    def refresh(self) -> None:
        """Let the server plan statements anew that it planned some time ago."""
        self._send(self._driver.refresh, "DISCARD PLANS")

    def begin_now(self) -> None:
        self._send(self._driver.begin, "BEGIN")

    def commit_now(self) -> None:
        if self.in_transaction():
            self.flush()
            self.commit()
        elif self._driver.is_in_transaction:
            self._send(self._driver.commit, "COMMIT")

    def reset(self) -> None:
        """Roll back what is not committed, in SQLAlchemy and in the driver, and end the watch."""
        self._roll_back()
        if self._watchdog is not None:
            self._watchdog.checked_in(self._raw, self._raw_info)

    def _roll_back(self) -> None:
        # SQLAlchemy first, and always: after a failed commit its transaction is over, yet it refuses every statement.
        self.rollback()
        if self._driver.is_in_transaction:
            self._driver.rollback()

    def _send(self, run: Callable[..., Any], text: str, *values: Any) -> Any:
        """Run a method of the driver, and translate its errors to SQLAlchemy's. `text`: the statement, for errors."""
        if self._watchdog is not None and self._driver.waiting > 1:
            # Several statements, not only BEGIN and one: a heartbeat keeps its short limit.
            self._watchdog.progressed(self._raw, self._raw_info, times=2)
        try:
            cursor = run(text, *values) if values else run()
        except self._errors as error:
            if self.dialect.is_disconnect(error, self._raw, None):
                # This makes SQLAlchemy invalidate the connection, and all idle ones in its pool.
                self._handle_dbapi_exception(error, text, None, None, None)
            raise exc.DBAPIError.instance(text, None, error, self._errors, dialect=self.dialect) from error
        if self._watchdog is not None:
            self._watchdog.progressed(self._raw, self._raw_info)
        return cursor


def send(connection: Connection, text: str, parameters: Any) -> Any:
    """Execute a statement in the driver's own syntax; a list of parameters executes it for each of them."""
    return (
        connection.send(text, parameters)
        if isinstance(connection, Link)
        else connection.exec_driver_sql(text, parameters)
    )


def execute_later(connection: Connection, statement: Any, parameters: Any) -> None:
    """Execute a statement whose result is not needed; see `Link.execute_later`. A list executes it for each."""
    (connection.execute_later if isinstance(connection, Link) else connection.execute)(statement, parameters)


def send_later(connection: Connection, text: str, parameters: Any) -> None:
    """As `send`, for a statement whose result is not needed; see `Link.execute_later`."""
    (connection.send_later if isinstance(connection, Link) else connection.exec_driver_sql)(text, parameters)


def flush(connection: Connection) -> None:
    """Wait for statements that were to be executed later, and raise their errors."""
    if isinstance(connection, Link):
        connection.flush()
