"""What SQLite's driver is given without SQLAlchemy finds, refuses and undoes what SQLAlchemy would."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.engine import Connection

from mcc.store.direct import Links, send
from mcc.store.engine import Database
from mcc.store.errors import BadEntry
from mcc.store.tables import among

TABLE = sa.Table(
    "things",
    sa.MetaData(),
    sa.Column("name", sa.String, primary_key=True),
    sa.Column("number", sa.Integer),
    sa.Column("good", sa.Boolean, nullable=False),
)


class Counted(sa.types.TypeDecorator[str]):
    """A text; whoever compiles a statement with it is counted."""

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
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(f"sqlite:///{tmp_path / 'things.db'}", connections=2)
    TABLE.create(opened.engine)
    opened.write(lambda connection: connection.execute(ADD, ROWS))
    yield opened
    opened.close()


def both(database: Database, ask: Callable[[Connection], Any]) -> Any:
    """What SQLAlchemy answers, once the driver has answered the same three times."""
    direct = [database.read(ask) for _ in range(3)]
    with database.engine.connect() as connection:
        expected = ask(connection.execution_options(mcc_read=True))
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


def test_what_came_in_one_database_is_known_in_the_next_one(tmp_path: Path) -> None:
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


def test_one_row_is_asked_for_and_none_or_several_are_refused(database: Database) -> None:
    for _ in range(3):
        with pytest.raises(exc.MultipleResultsFound):
            database.read(lambda connection: connection.execute(FEW).one())
        with pytest.raises(exc.NoResultFound):
            database.read(lambda connection: connection.execute(BY_NAME, {"wanted": "z"}).one())


def test_a_statement_that_comes_with_other_parameters_is_left_to_sqlalchemy(database: Database) -> None:
    for _ in range(3):
        assert len(database.read(lambda connection: connection.execute(SOME, {"names": ["a"]}).all())) == 1
    assert database.read(lambda connection: connection.execute(SOME).all()) == []


def test_what_is_changed_is_counted_and_answered(database: Database) -> None:
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


def test_what_the_database_refuses_is_undone_and_named_as_before(database: Database) -> None:
    def twice(connection: Connection) -> None:
        connection.execute(ADD, {"name": "new", "number": 1, "good": True})
        connection.execute(ADD, {"name": "a", "number": 1, "good": True})

    for _ in range(3):
        with pytest.raises(BadEntry, match=r"UNIQUE constraint failed: things\.name"):
            database.write(twice)
        assert database.read(lambda connection: connection.execute(BY_NAME, {"wanted": "new"}).first()) is None


def test_what_sqlalchemy_was_asked_in_between_is_committed_or_undone_with_the_rest(database: Database) -> None:
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
    def begin(connection: Connection) -> None:
        send(connection, "CREATE TABLE parts (of_thing REFERENCES things (name) DEFERRABLE INITIALLY DEFERRED)", ())

    def lost(connection: Connection) -> None:
        connection.execute(ADD, {"name": "d", "number": 4, "good": True})
        if not is_known:
            connection.exec_driver_sql("SELECT 1")
        send(connection, "INSERT INTO parts VALUES (?)", ("nothing",))

    database.write(begin)
    database.read(lambda connection: send(connection, "PRAGMA foreign_keys = ON", ()))
    for _ in range(3):
        with pytest.raises(BadEntry):
            database.write(lost)
        database.write(lambda connection: connection.execute(RAISE, {"wanted": "a", "more": 1}).all())
    assert database.read(lambda connection: connection.execute(sa.select(TABLE.c.number)).scalars().all()) == [4, 2, 3]


def test_whoever_listens_hears_every_statement(database: Database) -> None:
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
