"""Statements that a driver is given as they are, and connections that are kept open between transactions.

SQLAlchemy works out at every execution what is the same each time: the text, the order of its parameters, what becomes
of them and of the columns that are found. That takes seven times as long as SQLite does, and four times as long as
psycopg. Here a statement that comes again is taken apart once: docs/decisions/18.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from sqlalchemy import exc
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.engine.result import result_tuple

from mcc.store.connections import Watchdog, is_used_up, without_transactions
from mcc.store.drivers import Answer, driver_of

Process: TypeAlias = Callable[[Any], Any]


class Found:
    """What a statement found: as much of `sqlalchemy.Result` as the store uses."""

    __slots__ = ("_answer", "_row")

    def __init__(self, answer: Answer, row: Process) -> None:
        """`row` makes what is answered of what the driver answers."""
        self._answer = answer
        self._row = row

    @property
    def rowcount(self) -> int:
        return self._answer.rowcount

    def __iter__(self) -> Iterator[Any]:
        return map(self._row, self._answer)

    def all(self) -> list[Any]:
        return list(self)

    def first(self) -> Any:
        row = self._answer.fetchone()
        # A cursor with rows that nobody reads holds on to the moment at which it asked.
        self._answer.close()
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
        return Found(self._answer, lambda values: row(values)[0])

    def mappings(self) -> "Found":
        row = self._row
        return Found(self._answer, lambda values: row(values)._mapping)


def _row_of(names: Sequence[str], kinds: Sequence[Process | None] = ()) -> Process:
    """Makes rows with these columns, of values that each have to be made into something first."""
    make: Process = result_tuple(names)
    if not any(kinds):
        return make
    return lambda values: make([one if kind is None else kind(one) for kind, one in zip(kinds, values, strict=True)])


def _row_in(answer: Answer) -> Process:
    """Makes rows with the columns that the driver names."""
    described = answer.description
    return _as_it_is if described is None else _row_of([column[0] for column in described])


class Prepared:
    """A statement as the driver takes it, with parameters of the names in `keys`."""

    __slots__ = ("_columns", "_dialect", "_given", "_row", "_values", "keys", "text")

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
        if compiled.escaped_bind_names:
            raise ValueError("the driver knows a parameter by another name")
        self.keys = frozenset(given)
        self.text: str = expanded.statement
        made = {**compiled._bind_processors, **expanded.processors}
        constant = {
            name: None if name in given else made.get(name, _as_it_is)(value)
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
    def answers(self) -> bool:
        """Whether it answers rows that are known beforehand."""
        return bool(self._columns)

    def values(self, given: Mapping[str, Any]) -> Any:
        """The parameters as the driver takes them: in their order, or by their names."""
        values = self._values.copy()
        for place, name, process in self._given:
            values[place] = given[name] if process is None else process(given[name])
        return values

    def found(self, answer: Answer) -> Found:
        if not self._columns:
            return Found(answer, _row_in(answer))
        if self._row is None:
            self._row = self._row_of(answer.description or ())
        return Found(answer, self._row)

    def _row_of(self, described: Sequence[Any]) -> Process:
        """What becomes of a value depends also on the kind that the database says its column is of."""
        dialect = self._dialect
        kinds = [
            one.type.dialect_impl(dialect).result_processor(dialect, column[1])
            for one, column in zip(self._columns, described, strict=True)
        ]
        return _row_of([one.keyname for one in self._columns], kinds)


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
def _statements(dialect: str) -> Statements:
    """One for all databases of a process: what a driver is given does not depend on the database."""
    return Statements()


class Link(Connection):
    """A connection that is kept. Its transactions are begun and ended by `begin_now`, `keep` and `undo` alone."""

    def __init__(self, engine: Engine, watchdog: Watchdog | None = None) -> None:
        super().__init__(engine)
        self.execution_options(**without_transactions(self.dialect))
        self._driver = driver_of(self)
        self._errors = self.dialect.loaded_dbapi.Error
        self._raw: Any = self.connection.driver_connection
        self._statements = _statements(self.dialect.name)
        self._said = self.info
        self._watchdog = watchdog

    def execute(self, statement: Any, parameters: Any = None, *, execution_options: Any = None) -> Any:
        is_list = type(parameters) is list and len(parameters) > 0
        given = parameters[0] if is_list else parameters or {}
        prepared = self._statements.prepared(statement, given, self.dialect) if isinstance(given, Mapping) else None
        if prepared is None or execution_options or (is_list and prepared.answers):
            return super().execute(statement, parameters, execution_options=execution_options)
        if is_list and len(parameters) > 1:
            return prepared.found(
                self._sent(self._driver.run_for_each, prepared.text, map(prepared.values, parameters))
            )
        return prepared.found(self._sent(self._driver.run, prepared.text, prepared.values(given)))

    def send(self, text: str, parameters: Any) -> Any:
        """As `exec_driver_sql`."""
        run = self._driver.run_for_each if type(parameters) is list else self._driver.run
        answer = self._sent(run, text, parameters)
        return Found(answer, _row_in(answer))

    def scalar(self, statement: Any, parameters: Any = None, *, execution_options: Any = None) -> Any:
        return self.execute(statement, parameters, execution_options=execution_options).scalar()

    def scalars(self, statement: Any, parameters: Any = None, *, execution_options: Any = None) -> Any:
        return self.execute(statement, parameters, execution_options=execution_options).scalars()

    def taken(self) -> None:
        """Somebody uses it from now on."""
        if self._watchdog is not None:
            self._watchdog.taken(self._raw)

    def begin_now(self) -> None:
        self._sent(self._driver.begin, "BEGIN")

    def keep(self) -> None:
        """Commit."""
        if self.in_transaction():
            self.commit()
        elif self._driver.is_in_transaction:
            self._sent(self._driver.commit, "COMMIT")

    def undo(self) -> None:
        """Let go of what SQLAlchemy holds of it, and of what is not committed. Nobody uses it from now on."""
        # Also of a transaction whose commit failed: it is none any more, and yet refuses every further statement.
        self.rollback()
        if self._driver.is_in_transaction:
            self._driver.rollback()
        if self._watchdog is not None:
            self._watchdog.given_back(self._raw, self._said)

    def _sent(self, send: Callable[..., Any], text: str, *values: Any) -> Any:
        """What the driver answers; the database has said a word then. `text` names what was sent, where it fails."""
        try:
            answer = send(text, *values) if values else send()
        except self._errors as error:
            if self.dialect.is_disconnect(error, self._raw, None):
                # By it SQLAlchemy gives up this connection, and all those that wait in its pool.
                self._handle_dbapi_exception(error, text, None, None, None)
            raise exc.DBAPIError.instance(text, None, error, self._errors, dialect=self.dialect) from error
        if self._watchdog is not None:
            self._watchdog.moved(self._raw, self._said)
        return answer


def send(connection: Connection, text: str, parameters: Any) -> Any:
    """What the driver answers to its own words; a list of parameters: for each of them."""
    return (
        connection.send(text, parameters)
        if isinstance(connection, Link)
        else connection.exec_driver_sql(text, parameters)
    )


class Links:
    """Connections of one engine that nobody uses now, `most` at most. Safe for several threads."""

    def __init__(self, engine: Engine, most: int, watchdog: Watchdog | None = None) -> None:
        """`watchdog` is told when one is taken, has moved and is given back."""
        self._engine = engine
        self._watchdog = watchdog
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
            link = Link(self._engine, self._watchdog)
        try:
            link.taken()
            yield link
        finally:
            self._give_back(link)

    def close(self) -> None:
        """Also those that are still in use, when they are given back."""
        self._most = 0
        self._clear()

    def _clear(self) -> None:
        with suppress(IndexError):
            while True:
                self._free.pop().close()

    def _give_back(self, link: Link) -> None:
        was_lost = link.invalidated
        try:
            link.undo()
        except Exception:
            link.invalidate()
        if was_lost:
            # Whatever ended it has ended the others as well; those that were in the pool, SQLAlchemy gives up.
            self._clear()
        if len(self._free) < self._most and not link.invalidated and not is_used_up(self._engine):
            self._free.append(link)
        else:
            link.close()
