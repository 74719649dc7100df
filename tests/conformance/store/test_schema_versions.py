"""Migrations produce the schema that the tables describe, and can be reversed, on both databases."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.schema import CreateIndex

from mcc.contracts.journal import WorkspaceCheckpointed
from mcc.store.database.engine import Database
from mcc.store.database.errors import StoreUnavailable
from mcc.store.database.migrate import _MIGRATIONS, downgrade, revisions, schema_problem, upgrade
from mcc.store.database.tables import METADATA
from mcc.store.store import open_store
from mcc.testing import FakeClock
from tests.conformance.store.scene import Scene, at_once, started


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/deep/er/mcc.db"
    else:
        url: str = request.getfixturevalue("empty_postgres")
        yield url
        downgrade(url, "base")
        _forget(url)


def _forget(url: str) -> None:
    _run(url, "DROP TABLE IF EXISTS alembic_version")


WORDS = ("note_words", "history_words", "order_words_index")
"""Indexes on PostgreSQL, and the tables of SQLite's full-text search, which `METADATA` does not describe."""


def _run(url: str, statement: str) -> None:
    database = Database(url)
    database.write(lambda connection: connection.exec_driver_sql(statement))
    database.close()


def _tables(url: str) -> set[str]:
    database = Database(url)
    names = database.read(lambda connection: set(sa.inspect(connection).get_table_names()))
    database.close()
    return {name for name in names if name != "alembic_version" and not name.startswith(WORDS)}


def test_a_schema_goes_up_and_down_and_up_again(empty_url: str) -> None:
    assert "mcc db upgrade" in (schema_problem(empty_url) or "")
    for _ in range(2):
        upgrade(empty_url)
        upgrade(empty_url)
        assert schema_problem(empty_url) is None
        assert _tables(empty_url) == set(METADATA.tables)
        downgrade(empty_url, "base")
        assert _tables(empty_url) == set()


@pytest.mark.parametrize("schema", ["0001", "0017"])
def test_a_schema_from_before_the_first_release_is_refused_by_name(empty_url: str, schema: str) -> None:
    upgrade(empty_url)
    _run(empty_url, f"UPDATE alembic_version SET version_num = '{schema}'")
    assert f"schema {schema}, made before the first release" in (schema_problem(empty_url) or "")
    with pytest.raises(StoreUnavailable, match="name a new one in MCC_DATABASE_URL"):
        upgrade(empty_url)
    _run(empty_url, f"UPDATE alembic_version SET version_num = '{revisions()[-1]}'")


def test_a_database_of_another_program_is_left_alone(empty_url: str) -> None:
    _run(empty_url, "CREATE TABLE orders (id INTEGER)")
    assert "name another one" in (schema_problem(empty_url) or "")
    with pytest.raises(StoreUnavailable, match="orders"):
        upgrade(empty_url)
    assert _tables(empty_url) == {"orders"}
    _run(empty_url, "DROP TABLE orders")


def test_a_missing_table_is_reported(empty_url: str) -> None:
    upgrade(empty_url)
    _run(empty_url, "ALTER TABLE journal RENAME TO elsewhere")
    assert "it has no journal" in (schema_problem(empty_url) or "")
    with pytest.raises(StoreUnavailable, match="restore a copy"):
        upgrade(empty_url)
    _run(empty_url, "ALTER TABLE elsewhere RENAME TO journal")
    assert schema_problem(empty_url) is None


def test_the_migrations_produce_the_described_schema(empty_url: str) -> None:
    upgrade(empty_url)
    database = Database(empty_url)
    try:
        with database.engine.connect() as connection:
            options = {"compare_type": True, "include_name": lambda name, *_: not str(name).startswith(WORDS)}
            context = MigrationContext.configure(connection, opts=options)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".*expression-based index")
                assert compare_metadata(context, METADATA) == []
            _same_conditions(connection)
    finally:
        database.close()


def _same_conditions(connection: sa.Connection) -> None:
    """The conditions of partial indexes, which Alembic does not compare."""
    dialect = connection.dialect.name
    for table in METADATA.tables.values():
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Skipped unsupported reflection")
            made = {index["name"]: index for index in sa.inspect(connection).get_indexes(table.name)}
        for index in table.indexes:
            if index.name not in made:
                # SQLAlchemy does not reflect indexes on expressions from SQLite.
                asked = {"name": index.name}
                said = connection.scalar(sa.text("SELECT sql FROM sqlite_master WHERE name = :name"), asked)
                assert said == str(CreateIndex(index).compile(connection))
                continue
            wanted = index.dialect_options[dialect].get("where")
            found = made[index.name].get("dialect_options", {}).get(f"{dialect}_where")
            assert (wanted is None) == (found is None), index.name
            assert made[index.name]["unique"] == bool(index.unique), index.name


def test_the_schema_versions_without_alembic_are_those_of_alembic() -> None:
    walked = ScriptDirectory(str(_MIGRATIONS)).walk_revisions()
    assert revisions() == tuple(reversed([script.revision for script in walked]))


def test_two_processes_that_upgrade_at_once_both_succeed(empty_url: str) -> None:
    answers = at_once(*[lambda: upgrade(empty_url)] * 3)
    assert answers == [None, None, None]
    assert schema_problem(empty_url) is None


def test_a_schema_of_a_newer_version_is_reported(empty_url: str) -> None:
    upgrade(empty_url)
    database = Database(empty_url)
    database.write(lambda one: one.exec_driver_sql("UPDATE alembic_version SET version_num = 'r999'"))
    assert "newer" in (schema_problem(empty_url) or "")
    database.write(lambda one: one.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{revisions()[-1]}'"))
    database.close()


def test_the_file_is_written_ahead_and_synced(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/mcc.db"
    upgrade(url)
    database = Database(url)
    modes = database.read(
        lambda one: [one.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")]
    )
    assert modes == ["wal", 2]
    database.close()


def test_postgresql_ends_hanging_statements(postgres_url: str) -> None:
    database = Database(postgres_url)
    names = ("idle_in_transaction_session_timeout", "statement_timeout", "lock_timeout", "transaction_isolation")
    shown = database.read(lambda one: [one.exec_driver_sql(f"SHOW {name}").scalar() for name in names])
    assert shown == ["5s", "15s", "5s", "read committed"]
    database.close()


def test_the_real_clocks_keep_leases(database_url: str) -> None:
    store = open_store(database_url)
    scene = Scene(store, clock=None, kind="sql")  # type: ignore[arg-type]
    drone = scene.drone(lease_seconds=60)
    order = scene.place()
    assert scene.claim(order.id, drone) is not None
    assert not store.sweeper.sweep(may_expire=True).lost
    assert store.leases.renew(drone, lease_seconds=-1, active=0)
    swept = store.sweeper.sweep(may_expire=True)
    assert (list(swept.lost), list(swept.requeued)) == ([drone], [order.id])
    store.close()


def test_a_directory_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnavailable, match="cannot be made"):
        upgrade(f"sqlite:///{tmp_path}/file/mcc.db")


def test_unfinished_orders_that_had_written_by_the_first_schema_go_on_as_ones_that_write(empty_url: str) -> None:
    upgrade(empty_url)
    store = open_store(empty_url)
    scene = Scene(store, clock=FakeClock(), kind="sql")
    wrote, read = scene.running(), scene.running()
    wrote.write(started(), WorkspaceCheckpointed(checkpoint_id="c", call_id="c", files=1, bytes=1))
    read.write(started())
    downgrade(empty_url, "r001")
    assert f"needs {revisions()[-1]}" in (schema_problem(empty_url) or "")
    upgrade(empty_url)
    for held, writes in ((wrote, True), (read, False)):
        store.claims.hand_back([(held.order_id, held.epoch)], drone="d", message="m")
        claim = scene.claim(held.order_id, scene.drone(), "next")
        assert claim is not None and claim.writes is writes
    store.close()
