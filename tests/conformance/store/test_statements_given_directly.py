"""Statements given directly to the driver: same results, errors and rollbacks as through SQLAlchemy."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryFile
from threading import Barrier
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.engine import Connection
from sqlalchemy.pool import QueuePool

from mcc.store.database.connections import is_used_up, without_transactions
from mcc.store.database.direct import execute_later, send, send_later
from mcc.store.database.drivers import _Postgres
from mcc.store.database.engine import Database
from mcc.store.database.errors import BadEntry
from mcc.store.database.foreign_errors import ConnectionLost
from mcc.store.database.links import Links
from mcc.store.database.tables import among

TABLE = sa.Table(
    "things",
    sa.MetaData(),
    sa.Column("name", sa.String, primary_key=True),
    sa.Column("number", sa.Integer),
    sa.Column("good", sa.Boolean, nullable=False),
)


class Counted(sa.types.TypeDecorator[str]):
    """A text type that counts how often statements with it are compiled."""

    impl = sa.String
    cache_ok = False

    def __init__(self, compiled: list[object]) -> None:
        super().__init__()
        self.compiled = compiled

    def bind_expression(self, bindparam: sa.BindParameter[str]) -> sa.BindParameter[str]:
        self.compiled.append(bindparam)
        return bindparam


ADD = sa.insert(TABLE)
BY_NAME = sa.select(TABLE).where(TABLE.c.name == sa.bindparam("wanted"))
SOME = sa.select(TABLE.c.name, TABLE.c.good).where(among(TABLE.c.name, "names")).order_by(TABLE.c.name)
FEW = sa.select(TABLE.c.name).where(TABLE.c.number.in_([1, 2])).order_by(TABLE.c.name)
OF_ANY = sa.select(TABLE.c.name).where(TABLE.c.number.in_(sa.bindparam("numbers", expanding=True)))
RAISE = (
    sa.update(TABLE)
    .where(TABLE.c.name == sa.bindparam("wanted"))
    .values(number=TABLE.c.number + sa.bindparam("more"), good=False)
    .returning(TABLE.c.number)
)
ROWS = [{"name": name, "number": number, "good": number != 2} for number, name in enumerate(("a", "b", "c"), start=1)]


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = Database(database_url, connections=2)
    TABLE.create(opened.engine)
    opened.write(lambda connection: connection.execute(ADD, ROWS))
    yield opened
    opened.close()
    again = Database(database_url)
    TABLE.drop(again.engine)
    again.close()


def sent(database: Database) -> list[str]:
    """The statements that SQLAlchemy sends from now on. Because of this listener, all go through SQLAlchemy."""
    said: list[str] = []
    event.listen(database.engine, "after_cursor_execute", lambda *sent: said.append(sent[2]))
    return said


def both(database: Database, ask: Callable[[Connection], Any]) -> Any:
    """The result from SQLAlchemy, after the driver has given the same result three times."""
    direct = [database.read(ask) for _ in range(3)]
    with database.engine.connect() as connection:
        expected = ask(connection.execution_options(**without_transactions(connection.dialect)))
    assert direct == [expected] * 3
    return expected


@pytest.mark.parametrize(
    ("statement", "given"),
    [(BY_NAME, {"wanted": "b"}), (SOME, {"names": ["c", "b"]}), (FEW, {}), (OF_ANY, {"numbers": [3]})],
    ids=["one", "list", "constant", "expanding"],
)
def test_rows_are_those_of_sqlalchemy(database: Database, statement: sa.Select[Any], given: dict[str, Any]) -> None:
    rows = both(database, lambda connection: [tuple(row) for row in connection.execute(statement, given)])
    assert rows
    both(database, lambda connection: connection.execute(statement, given).all())
    both(database, lambda connection: [dict(row) for row in connection.execute(statement, given).mappings()])
    both(database, lambda connection: connection.execute(statement, given).first())
    both(database, lambda connection: connection.execute(statement, given).scalars().all())
    both(database, lambda connection: connection.scalar(statement, given))


def test_a_truth_is_read_as_one(database: Database) -> None:
    rows = both(database, lambda connection: connection.execute(SOME, {"names": ["a", "b"]}).all())
    assert [row.good for row in rows] == [True, False] and all(type(row.good) is bool for row in rows)


def test_statements_prepared_for_one_database_are_prepared_for_the_next(tmp_path: Path) -> None:
    compiled: list[object] = []
    wanted = sa.bindparam("wanted", type_=Counted(compiled))
    by_name = sa.select(TABLE).where(TABLE.c.name == wanted)
    for number in range(4):
        opened = Database(f"sqlite:///{tmp_path / str(number)}.db")
        TABLE.create(opened.engine)
        opened.write(lambda connection: connection.execute(ADD, ROWS))
        row = opened.read(lambda connection: connection.execute(by_name, {"wanted": "b"}).one())
        assert (row.name, row.number, row.good) == ("b", 2, False)
        opened.close()
    assert len(compiled) == 2


def test_one_row_is_expected_and_none_or_several_are_refused(database: Database) -> None:
    for _ in range(3):
        with pytest.raises(exc.MultipleResultsFound):
            database.read(lambda connection: connection.execute(FEW).one())
        with pytest.raises(exc.NoResultFound):
            database.read(lambda connection: connection.execute(BY_NAME, {"wanted": "z"}).one())


def test_a_statement_that_comes_with_other_parameters_is_left_to_sqlalchemy(database: Database) -> None:
    for _ in range(3):
        assert len(database.read(lambda connection: connection.execute(SOME, {"names": ["a"]}).all())) == 1
    assert database.read(lambda connection: connection.execute(SOME).all()) == []


def test_changed_rows_are_counted_and_returned(database: Database) -> None:
    numbers = [
        database.write(lambda connection: connection.execute(RAISE, {"wanted": "a", "more": 2}).scalar_one())
        for _ in range(4)
    ]
    assert numbers == [3, 5, 7, 9]
    gone = sa.delete(TABLE).where(TABLE.c.name == sa.bindparam("wanted"))
    counts = [
        database.write(lambda connection, name=name: connection.execute(gone, {"wanted": name}).rowcount)  # type: ignore[misc]
        for name in ("a", "b", "b", "c")
    ]
    assert counts == [1, 1, 0, 1]


def test_refused_statements_are_rolled_back_with_the_same_error(database: Database) -> None:
    def twice(connection: Connection) -> None:
        connection.execute(ADD, {"name": "new", "number": 1, "good": True})
        connection.execute(ADD, {"name": "a", "number": 1, "good": True})

    for _ in range(3):
        with pytest.raises(BadEntry, match=r"UNIQUE constraint failed: things\.name|duplicate key"):
            database.write(twice)
        assert database.read(lambda connection: connection.execute(BY_NAME, {"wanted": "new"}).first()) is None


def test_statements_for_later_are_executed_in_order_with_the_others(database: Database) -> None:
    mark = "?" if database.dialect == "sqlite" else "%s"
    insert = f"INSERT INTO things VALUES ({mark}, {mark}, {mark})"

    def work(number: int) -> Callable[[Connection], Any]:
        def change(connection: Connection) -> Any:
            execute_later(connection, ADD, {"name": f"one {number}", "number": 1, "good": True})
            execute_later(connection, ADD, [{"name": f"{n} of {number}", "number": n, "good": True} for n in (1, 2)])
            send_later(connection, insert, (f"sent {number}", 3, True))
            found = connection.execute(SOME, {"names": [f"one {number}", f"2 of {number}", f"sent {number}"]}).all()
            execute_later(connection, RAISE, {"wanted": f"one {number}", "more": 8})
            return [row.name for row in found]

        return change

    for number in range(3):
        for repeatable in (True, False):
            found = database.write(work(2 * number + repeatable), repeatable=repeatable)
            assert found == [name.format(2 * number + repeatable) for name in ("2 of {}", "one {}", "sent {}")]
    numbers = sa.select(TABLE.c.number).where(TABLE.c.name.like("one %"))
    assert database.read(lambda connection: connection.execute(numbers).scalars().all()) == [9] * 6


@pytest.mark.parametrize("repeatable", [True, False])
@pytest.mark.parametrize("read_after", [True, False])
def test_the_error_of_a_statement_for_later_undoes_its_transaction(
    database: Database, repeatable: bool, read_after: bool
) -> None:
    def twice(connection: Connection) -> None:
        execute_later(connection, ADD, {"name": "new", "number": 1, "good": True})
        execute_later(connection, ADD, {"name": "a", "number": 1, "good": True})
        if read_after:
            connection.execute(BY_NAME, {"wanted": "b"}).one()

    for _ in range(4):
        with pytest.raises(BadEntry, match=r"UNIQUE constraint failed: things\.name|duplicate key"):
            database.write(twice, repeatable=repeatable)
        assert database.read(lambda connection: connection.execute(BY_NAME, {"wanted": "new"}).first()) is None
    assert database.write(lambda connection: connection.execute(RAISE, {"wanted": "a", "more": 1}).scalar_one()) == 2


def test_statements_through_sqlalchemy_are_committed_or_rolled_back_with_the_rest(database: Database) -> None:
    def work(name: str, fails: bool) -> Callable[[Connection], None]:
        def add(connection: Connection) -> None:
            connection.execute(sa.insert(TABLE).values(name=name, number=0, good=True))
            connection.execute(ADD, {"name": f"{name}{name}", "number": 0, "good": True})
            if fails:
                raise LookupError(name)

        return add

    for name in ("p", "q", "r"):
        with pytest.raises(LookupError):
            database.write(work(name, True))
        database.write(work(name, False))
    found = database.read(lambda connection: connection.execute(SOME, {"names": ["p", "pp", "qq", "r"]}).all())
    assert [row.name for row in found] == ["p", "pp", "qq", "r"]


@pytest.mark.parametrize("is_known", [True, False], ids=["direct", "sqlalchemy"])
def test_a_commit_that_fails_costs_its_own_transaction_alone(database: Database, is_known: bool) -> None:
    of_thing = "of_thing VARCHAR REFERENCES things (name) DEFERRABLE INITIALLY DEFERRED"
    mark = "?" if database.dialect == "sqlite" else "%s"

    def begin(connection: Connection) -> None:
        send(connection, f"CREATE TABLE parts ({of_thing})", ())

    def lost(connection: Connection) -> None:
        connection.execute(ADD, {"name": "d", "number": 4, "good": True})
        if not is_known:
            connection.exec_driver_sql("SELECT 1")
        send(connection, f"INSERT INTO parts VALUES ({mark})", ("nothing",))

    database.write(begin)
    for _ in range(3):
        with pytest.raises(BadEntry):
            database.write(lost)
        database.write(lambda connection: connection.execute(RAISE, {"wanted": "a", "more": 1}).all())
    numbers = sa.select(TABLE.c.number).order_by(TABLE.c.name)
    assert database.read(lambda connection: connection.execute(numbers).scalars().all()) == [4, 2, 3]
    database.write(lambda connection: send(connection, "DROP TABLE parts", ()))


def test_event_listeners_see_every_statement(database: Database) -> None:
    said: list[str] = []
    for _ in range(3):
        database.read(lambda connection: connection.execute(BY_NAME, {"wanted": "a"}).first())
    event.listen(database.engine, "before_cursor_execute", lambda *sent: said.append(sent[2]))
    database.read(lambda connection: connection.execute(BY_NAME, {"wanted": "a"}).first())
    assert len(said) == 1 and said[0].startswith("SELECT things.name")


def test_connections_are_kept_and_closed_in_the_end(database: Database) -> None:
    links = Links(database.engine, 1)
    with links.reading() as one, links.reading() as other:
        assert one is not other
    with links.reading() as again:
        assert again is other and one.closed
        links.close()
    assert again.closed


def test_a_repeated_statement_bypasses_sqlalchemy(database: Database) -> None:
    by_name, said = sa.select(TABLE).where(TABLE.c.name == sa.bindparam("wanted")), sent(database)
    for _ in range(4):
        assert database.read(lambda connection: connection.execute(by_name, {"wanted": "a"}).one()).number == 1
    assert len(said) == 1


@pytest.fixture
def postgres(request: pytest.FixtureRequest) -> Iterator[Database]:
    opened = Database(request.getfixturevalue("postgres_url"), connections=2)
    opened.write(lambda connection: connection.exec_driver_sql("CREATE TABLE things (kind int, name text)"))
    yield opened
    opened.write(lambda connection: connection.exec_driver_sql("DROP TABLE things"))
    opened.close()


def end(postgres: Database) -> Callable[[Connection], None]:
    """End this connection from another one."""
    own = sa.text("SELECT pg_backend_pid()")

    def ended(connection: Connection) -> None:
        pid = connection.scalar(own)
        with postgres.engine.connect() as other:
            other.execute(sa.text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})

    return ended


ANY = sa.text("INSERT INTO things VALUES (1, 'a')")
COUNT = sa.text("SELECT count(*) FROM things")


def counted(postgres: Database) -> int:
    return postgres.read(lambda connection: int(connection.scalar(COUNT) or 0))


@pytest.mark.parametrize("repeatable", [True, False])
def test_a_commit_without_an_answer_is_repeated_only_where_that_is_safe(postgres: Database, repeatable: bool) -> None:
    left = ["end"]

    def work(connection: Connection) -> None:
        connection.execute(ANY)
        if left and left.pop():
            end(postgres)(connection)

    for _ in range(3):
        postgres.write(lambda connection: connection.execute(ANY))
    if repeatable:
        postgres.write(work, repeatable=True)
    else:
        with pytest.raises(ConnectionLost) as lost:
            postgres.write(work)
        assert lost.value.committing and not lost.value.undone
    assert counted(postgres) == 3 + repeatable


def test_statements_for_later_that_are_lost_with_their_connection_are_sent_again(postgres: Database) -> None:
    left = ["end"]

    def work(connection: Connection) -> None:
        if left and left.pop():
            end(postgres)(connection)
        execute_later(connection, ANY, {})

    for _ in range(3):
        postgres.write(lambda connection: execute_later(connection, ANY, {}))
    postgres.write(work)
    assert counted(postgres) == 4


def round_trips(database: Database, work: Callable[[], object]) -> int:
    """How often `work` waits for the server, on the connection that it was the last to use."""
    [link] = list(database._links._free)[-1:]
    with TemporaryFile() as file:
        raw = link._raw.pgconn
        raw.trace(file.fileno())
        work()
        raw.untrace()
        file.seek(0)
        said = [line.split() for line in file]
    return sum(line[2:3] == [b"F"] and line[4] in (b"Sync", b"Query") for line in said)


def test_a_transaction_waits_for_the_server_only_where_it_needs_an_answer(postgres: Database) -> None:
    def work(connection: Connection) -> None:
        connection.scalar(COUNT)
        for _ in range(5):
            execute_later(connection, ANY, {})

    for _ in range(6):
        postgres.write(work, repeatable=True)
    assert round_trips(postgres, lambda: postgres.write(work, repeatable=True)) == 2
    assert round_trips(postgres, lambda: postgres.write(work)) == 3
    single = lambda: postgres.write(lambda connection: connection.execute(ANY), single=True)  # noqa: E731
    assert round_trips(postgres, single) == 1
    assert counted(postgres) == 8 * 5 + 1


def test_a_statement_is_planned_once_with_the_number_of_its_limit(postgres: Database) -> None:
    things = sa.table("things", sa.column("kind"), sa.column("name"))
    known = sa.text("SELECT statement, generic_plans, custom_plans FROM pg_prepared_statements")

    def plans(connection: Connection) -> Any:
        for kind in range(9):
            assert connection.execute(few, {"wanted": kind}).all() == []
        return [row for row in connection.execute(known) if "LIMIT" in row.statement][-1]

    for most in (2, 3):
        few = sa.select(things.c.name).where(things.c.kind == sa.bindparam("wanted")).limit(most)
        row = postgres.read(plans)
        assert row.statement.endswith(f"LIMIT {most}")
        assert row.generic_plans > 0 and row.custom_plans == 0


def test_plans_are_made_anew_after_a_while(postgres: Database) -> None:
    for _ in range(6):
        counted(postgres)
    assert round_trips(postgres, lambda: counted(postgres)) == 1
    [link] = postgres._links._free
    assert isinstance(link._driver, _Postgres)
    link._driver._plans_until = 0.0
    assert round_trips(postgres, lambda: counted(postgres)) == 2
    assert round_trips(postgres, lambda: counted(postgres)) == 1


def test_a_statement_outside_a_transaction_is_not_left_for_later(postgres: Database) -> None:
    for _ in range(3):
        postgres.write(lambda connection: execute_later(connection, ANY, {}), repeatable=True, single=True)
        postgres.read(lambda connection: execute_later(connection, ANY, {}))
    assert counted(postgres) == 6


def test_a_statement_around_the_store_is_in_the_transaction(postgres: Database) -> None:
    def work(connection: Connection) -> None:
        execute_later(connection, ANY, {})
        connection.exec_driver_sql("INSERT INTO things VALUES (1, 'b')")
        raise LookupError

    for _ in range(3):
        with pytest.raises(LookupError):
            postgres.write(work)
    assert counted(postgres) == 0


def test_begin_gives_a_statement_no_more_time(request: pytest.FixtureRequest) -> None:
    opened = Database(request.getfixturevalue("postgres_url"), connections=2, silence_seconds=1.0)
    nap = sa.text("SELECT CAST(pg_sleep(:seconds) AS text)")
    try:
        for _ in range(3):
            opened.write(lambda connection: connection.execute(nap, {"seconds": 0.0}).all())
        with pytest.raises(ConnectionLost):
            opened.write(lambda connection: connection.execute(nap, {"seconds": 1.8}).all())
    finally:
        opened.close()


def test_statements_sent_together_have_more_time_than_one(request: pytest.FixtureRequest) -> None:
    opened = Database(request.getfixturevalue("postgres_url"), connections=2, silence_seconds=1.5)
    nap = sa.text("SELECT pg_sleep(0.6)")

    def work(connection: Connection) -> None:
        for _ in range(4):
            execute_later(connection, nap, {})

    try:
        opened.write(work)
        opened.write(work)
    finally:
        opened.close()


def test_an_offset_is_kept_beside_a_limit(postgres: Database) -> None:
    postgres.write(
        lambda connection: connection.execute(sa.text("INSERT INTO things VALUES (1, ''), (2, ''), (3, '')"))
    )
    kinds = (
        sa.select(sa.column("kind", sa.Integer))
        .select_from(sa.table("things"))
        .order_by(sa.column("kind"))
        .limit(1)
        .offset(1)
    )
    for _ in range(3):
        assert postgres.read(lambda connection: connection.execute(kinds).scalars().all()) == [2]


def test_a_connection_lost_within_a_transaction_is_replaced(postgres: Database) -> None:
    left = ["end"] * 4

    def work(connection: Connection) -> None:
        connection.execute(ANY)
        if len(left) % 2 == 0:
            left.pop()
            end(postgres)(connection)
        elif left:
            left.pop()
        connection.execute(ANY)

    for _ in range(2):
        postgres.write(work)
    assert counted(postgres) == 4


def test_connections_that_ended_together_are_given_up_together(postgres: Database) -> None:
    """When all connections are dead, the repetition must not pick another dead one, idle or in SQLAlchemy's pool."""
    name = postgres.url.database
    for _ in range(3):
        postgres.read(lambda one: postgres.read(lambda other: (one.scalar(COUNT), other.scalar(COUNT))))
        with postgres.engine.connect() as pooled:
            pooled.execute(COUNT)
        with psycopg.connect(postgres.url.set(drivername="postgresql").render_as_string(False), autocommit=True) as all:
            all.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s AND pid <> %s",
                [name, all.info.backend_pid],
            )
        assert counted(postgres) == 0


def test_two_that_wait_for_each_other_are_both_done_in_the_end(postgres: Database) -> None:
    postgres.write(lambda connection: connection.execute(sa.text("INSERT INTO things VALUES (1, ''), (2, '')")))
    add = sa.text("UPDATE things SET name = name || :more WHERE kind = :kind")
    both_hold = Barrier(2, timeout=30)

    def add_to(first: int, second: int) -> None:
        met = list[bool]()

        def work(connection: Connection) -> None:
            connection.execute(add, {"more": "x", "kind": first})
            if not met:
                met.append(True)
                both_hold.wait()
            connection.execute(add, {"more": "x", "kind": second})

        postgres.write(work)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(add_to, 1, 2), pool.submit(add_to, 2, 1)]:
            done.result()
    names = postgres.read(lambda connection: connection.execute(sa.text("SELECT name FROM things")).scalars().all())
    assert names == ["xx", "xx"]


def test_numbers_lists_truths_and_texts_are_those_of_sqlalchemy(postgres: Database) -> None:
    things = sa.table(
        "kinds",
        sa.column("whole", sa.BigInteger),
        sa.column("part", sa.Float),
        sa.column("exact", sa.Float),
        sa.column("good", sa.Boolean),
        sa.column("said", sa.Text),
        sa.column("many", sa.JSON),
    )
    row = {"whole": 2**40, "part": 0.1, "exact": 2.5, "good": True, "said": "ö\u2028%s", "many": {"a": [1, None]}}
    kinds = "whole bigint, part float8, exact numeric, good bool, said text, many json"
    postgres.write(lambda connection: connection.exec_driver_sql(f"CREATE TABLE kinds ({kinds})"))
    add, nothing = sa.insert(things).values({name: sa.bindparam(name) for name in row}), dict.fromkeys(row)
    for _ in range(4):
        postgres.write(lambda connection: connection.execute(add, row))
    postgres.write(lambda connection: connection.execute(add, [row, nothing | {"many": [1]}]))
    every, seen = sa.select(things), list[list[type]]()

    def look(connection: Connection) -> list[tuple[Any, ...]]:
        found = [tuple(one) for one in connection.execute(every)]
        seen.append([type(value) for value in found[0]])
        return found

    found = both(postgres, look)
    assert found[:5] == [tuple(row.values())] * 5 and found[5] == (None, None, None, None, None, [1])
    assert seen == [[int, float, float, bool, str, dict]] * 4
    postgres.write(lambda connection: connection.exec_driver_sql("DROP TABLE kinds"))


def test_a_connection_is_returned_when_threads_may_wait_for_the_pool(postgres: Database) -> None:
    links, pool = Links(postgres.engine, 2), postgres.engine.pool
    assert isinstance(pool, QueuePool)
    with links.reading(), links.reading():  # two, and the one that the database itself keeps
        with links.reading():
            assert is_used_up(postgres.engine)
        assert pool.checkedin() == 1
    assert pool.checkedin() == 1 and not is_used_up(postgres.engine)
    links.close()
    assert pool.checkedin() == 2
