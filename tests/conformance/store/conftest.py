"""The stores under test: SQLite always, PostgreSQL where a server answers.

With TEST_POSTGRES_POOLER=transaction, or =session, it is reached through a PgBouncer in that mode.
"""

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, LiteralString, cast
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from mcc.store.database.engine import Database
from mcc.store.database.migrate import upgrade
from mcc.store.database.tables import METADATA
from mcc.store.store import BEAT_SECONDS, Store, open_store, store_on
from mcc.testing import FakeClock, temporary_store
from mcc.testing.store import migrated_copy
from tests.conformance.store.scene import Scene
from tests.faults.pgbouncer import Mode, NoPgBouncer, pgbouncer_before

# DELETE, not TRUNCATE: that creates a new file for every table and index, which takes a hundred times as long here.
# Without triggers, one of which keeps the audit. A function, of one connection, keeps the plans: sixty statements on a
# new connection took fifty milliseconds, before every test.
CLEARING = sql.SQL(
    "CREATE FUNCTION pg_temp.clear() RETURNS void LANGUAGE plpgsql SET session_replication_role = replica"
    " AS $$ BEGIN {}; END $$"
).format(
    sql.SQL("; ").join(
        sql.SQL("DELETE FROM {}").format(sql.Identifier(table.name)) for table in reversed(METADATA.sorted_tables)
    )
)
POOLER = cast(Mode | None, os.environ.get("TEST_POSTGRES_POOLER"))
SERVER = os.environ.get("TEST_POSTGRES_URL", "postgresql://postgres@127.0.0.1:5432/postgres")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a server where this account may create databases."""
    try:
        psycopg.connect(SERVER, connect_timeout=3).close()
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL answers at 127.0.0.1:5432: {str(error).splitlines()[0]}")
    if POOLER is None:
        yield SERVER
        return
    with pgbouncer_before(SERVER, POOLER) as url:
        yield url


@pytest.fixture(scope="session")
def pooled_server(postgres_server: str) -> Iterator[str]:
    """The same through a PgBouncer in transaction mode."""
    try:
        with pgbouncer_before(postgres_server, "transaction") as url:
            yield url
    except NoPgBouncer as why:
        pytest.skip(str(why))


@pytest.fixture(scope="session")
def pooled_postgres(postgres_url: str, pooled_server: str) -> str:
    """The database of `postgres_url` through a PgBouncer in transaction mode."""
    return psycopg_url(pooled_server, postgres_url.rpartition("/")[2])


@pytest.fixture(scope="session")
def empty_postgres(postgres_server: str) -> Iterator[str]:
    with NewDatabase(postgres_server) as url:
        yield url


@pytest.fixture(scope="session")
def postgres_url(postgres_server: str) -> Iterator[str]:
    with NewDatabase(postgres_server) as url:
        upgrade(url)
        yield url


@pytest.fixture(scope="session")
def filled_postgres(postgres_server: str) -> Iterator[str]:
    """For modules that fill a database once and only read it in their tests."""
    with NewDatabase(postgres_server) as url:
        yield url


@pytest.fixture(scope="module")
def unused_postgres(postgres_server: str) -> Iterator[str]:
    """Where no test has left dead rows in tables and indexes, which plans depend on."""
    with NewDatabase(postgres_server) as url:
        upgrade(url)
        yield url


class NewDatabase:
    """A new database, dropped at the end. `more`: what is added to CREATE DATABASE."""

    def __init__(self, server: str, more: LiteralString = "") -> None:
        self._server = server
        self._more = more
        self._name = f"mcc_test_{uuid4().hex}"

    def __enter__(self) -> str:
        self._run(f"CREATE DATABASE {{}} {self._more}")
        return psycopg_url(self._server, self._name)

    def __exit__(self, *_: object) -> None:
        self._run("DROP DATABASE {} WITH (FORCE)")

    def _run(self, statement: LiteralString) -> None:
        with psycopg.connect(self._server, autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(sql.Identifier(self._name)))


def psycopg_url(server: str, database: str) -> str:
    return f"{server.rpartition('/')[0]}/{database}"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@dataclass
class ClockOfTheTest:
    """The clock of the test that runs, for databases that stay open from one test to the next."""

    clock: FakeClock

    def now(self) -> datetime:
        return self.clock.now()

    def uptime(self) -> float:
        return self.clock.uptime()

    def boot(self) -> str:
        return self.clock.boot()


@dataclass(frozen=True)
class OpenPostgres:
    """The databases of one store; they know the statements of the tests before, whose compilation takes longest."""

    clock: ClockOfTheTest
    database: Database
    beats: Database


@pytest.fixture(scope="session")
def open_postgres(postgres_url: str) -> Iterator[OpenPostgres]:
    clock = ClockOfTheTest(FakeClock())
    with (
        closing(Database(postgres_url, clock=clock)) as database,
        closing(Database(postgres_url, clock=clock, connections=2, silence_seconds=BEAT_SECONDS)) as beats,
    ):
        yield OpenPostgres(clock, database, beats)


@pytest.fixture(params=["sqlite", "postgresql"])
def scene(request: pytest.FixtureRequest, clock: FakeClock) -> Iterator[Scene]:
    if request.param == "postgresql":
        _emptied(request)
        kept: OpenPostgres = request.getfixturevalue("open_postgres")
        kept.clock.clock = clock
        yield Scene(store_on(kept.database, kept.beats), clock, request.param)
        return
    store = temporary_store(clock)
    yield Scene(store, clock, request.param)
    store.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database with the schema of this version."""
    if request.param == "sqlite":
        return f"sqlite:///{migrated_copy(tmp_path / 'mcc.db')}"
    return _emptied(request)


def opened(request: pytest.FixtureRequest, clock: FakeClock, max_queued: int) -> Store:
    """An empty store of the kind that the parameter of this request names, to be closed."""
    if request.param == "sqlite":
        return temporary_store(clock, max_queued=max_queued)
    return open_store(_emptied(request), clock=clock, max_queued=max_queued)


class EmptiedDatabase:
    """A database with the schema of this version; `clear` removes all rows."""

    def __init__(self, url: str) -> None:
        self.url = url
        # Past a pooler, behind which no function of one connection is found again.
        self._direct = psycopg_url(SERVER, url.rpartition("/")[2])
        self._link = self._connected()

    def clear(self) -> None:
        try:
            self._link.execute("SELECT pg_temp.clear()")
        except psycopg.OperationalError:
            # Some tests end all connections of their database.
            self._link = self._connected()
            self._link.execute("SELECT pg_temp.clear()")

    def close(self) -> None:
        self._link.close()

    def _connected(self) -> psycopg.Connection[Any]:
        link = psycopg.connect(self._direct, autocommit=True)
        link.execute(CLEARING)
        return link


@pytest.fixture(scope="session")
def emptied_postgres(postgres_url: str) -> Iterator[EmptiedDatabase]:
    with closing(EmptiedDatabase(postgres_url)) as emptied:
        yield emptied


def _emptied(request: pytest.FixtureRequest) -> str:
    emptied: EmptiedDatabase = request.getfixturevalue("emptied_postgres")
    emptied.clear()
    return emptied.url
