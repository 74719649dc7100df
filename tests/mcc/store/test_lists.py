"""A list is a single parameter of a statement, so that connections need not keep a statement per length."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from mcc.store.database.connections import CACHE_KILOBYTES
from mcc.store.database.engine import Database
from mcc.store.database.tables import among

TABLE = sa.Table(
    "things",
    sa.MetaData(),
    sa.Column("name", sa.String, primary_key=True),
    sa.Column("number", sa.Integer, unique=True),
)
NAMED = sa.select(TABLE.c.number).where(among(TABLE.c.name, "names")).order_by(TABLE.c.number)
NUMBERED = sa.select(TABLE.c.name).where(among(TABLE.c.number, "numbers")).order_by(TABLE.c.number)
OTHERS = sa.select(TABLE.c.number).where(~among(TABLE.c.name, "names")).order_by(TABLE.c.number)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(f"sqlite:///{tmp_path / 'things.db'}")
    TABLE.create(opened.engine)
    rows = [{"name": f"thing '{number}' \u2028 ü", "number": number} for number in range(3)]
    opened.write(lambda connection: connection.execute(sa.insert(TABLE), rows))
    yield opened
    opened.close()


def found(database: Database, statement: sa.Select[tuple[object]], **listed: object) -> list[object]:
    return list(database.read(lambda connection: connection.execute(statement, listed).scalars().all()))


def test_what_is_in_a_list_is_found_and_what_is_not_in_it(database: Database) -> None:
    names = found(database, NUMBERED, numbers=[2, 0, 7])
    assert names == ["thing '0' \u2028 ü", "thing '2' \u2028 ü"]
    assert found(database, NAMED, names=names) == [0, 2]
    assert found(database, OTHERS, names=names) == [1]


def test_nothing_is_in_an_empty_list_nor_in_one_that_is_not_given(database: Database) -> None:
    assert (found(database, NAMED, names=[]), found(database, NAMED)) == ([], [])
    assert found(database, OTHERS) == [0, 1, 2]


def test_a_list_of_any_length_makes_the_same_statement(database: Database) -> None:
    said: set[str] = set()
    event.listen(database.engine, "before_cursor_execute", lambda *sent: said.add(sent[2]))
    for length in (0, 1, 2, 40_000):
        found(database, NAMED, names=list(map(str, range(length))))
    assert len(said) == 1


@pytest.mark.parametrize("statement", [NAMED, NUMBERED])
def test_sqlite_finds_what_is_in_a_list_by_an_index(database: Database, statement: sa.Select[tuple[object]]) -> None:
    text = str(statement.compile(database.engine))
    plan = database.read(lambda one: one.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", ("[]",)).all())
    assert [row[3] for row in plan if "things" in row[3] and row[3].startswith("SEARCH")]


def test_the_connection_that_was_used_last_is_used_again(database: Database) -> None:
    """The connection used last has prepared the statements; reusing it spares the others from preparing them."""
    opened = [database.engine.connect() for _ in range(3)]
    for connection in opened:
        connection.close()
    used = {database.read(lambda connection: id(connection.connection.dbapi_connection)) for _ in range(6)}
    assert len(used) == 1


def test_a_connection_keeps_little_of_the_file_however_large_the_file_is(database: Database) -> None:
    kept = [database.read(lambda connection: connection.exec_driver_sql("PRAGMA cache_size").scalar()) for _ in "ab"]
    assert kept == [-CACHE_KILOBYTES] * 2
