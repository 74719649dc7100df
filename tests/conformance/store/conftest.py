"""This room is for the stores under test: memory always, SQLite in a file, PostgreSQL where one answers."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from mcc.store.migrate import upgrade
from mcc.store.ports import Store
from mcc.store.sql import SqlStore, open_store
from mcc.store.sql.tables import METADATA
from mcc.testing import FakeClock, MemoryStore
from tests.conformance.store.scene import Scene

SERVER = os.environ.get("TEST_POSTGRES_URL", "postgresql://postgres@127.0.0.1:5432/postgres")


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def postgres_server() -> str:
    """The address of a server where this account may create databases."""
    try:
        psycopg.connect(SERVER, connect_timeout=3).close()
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL answers at 127.0.0.1:5432: {str(error).splitlines()[0]}")
    return SERVER


@pytest.fixture(scope="session")
def empty_postgres(postgres_server: str) -> Iterator[str]:
    with _database(postgres_server) as url:
        yield url


@pytest.fixture(scope="session")
def postgres_url(postgres_server: str) -> Iterator[str]:
    with _database(postgres_server) as url:
        upgrade(url)
        yield url


class _database:
    """A database of our own, dropped at the end."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._name = f"mcc_test_{uuid4().hex}"

    def __enter__(self) -> str:
        self._run("CREATE DATABASE {}")
        return psycopg_url(self._server, self._name)

    def __exit__(self, *_: object) -> None:
        self._run("DROP DATABASE {} WITH (FORCE)")

    def _run(self, statement: str) -> None:
        with psycopg.connect(self._server, autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(sql.Identifier(self._name)))


def psycopg_url(server: str, database: str) -> str:
    return f"{server.rpartition('/')[0]}/{database}"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def scene(request: pytest.FixtureRequest, clock: FakeClock) -> Iterator[Scene]:
    store = _opened(request, clock)
    yield Scene(store, clock, request.param)
    store.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def sql_scene(request: pytest.FixtureRequest, clock: FakeClock) -> Iterator[Scene]:
    store = _opened(request, clock)
    yield Scene(store, clock, request.param)
    store.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """An empty database with the schema of this version."""
    return _url(request)


def _opened(request: pytest.FixtureRequest, clock: FakeClock) -> Store:
    if request.param == "memory":
        return MemoryStore(clock=clock)
    return open_store(_url(request), clock=clock)


def _url(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        path = request.getfixturevalue("tmp_path") / "mcc.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
        return f"sqlite:///{path}"
    url: str = request.getfixturevalue("postgres_url")
    _clear(open_store(url))
    return url


def _clear(store: SqlStore) -> None:
    names = ", ".join(METADATA.tables)
    store.database.write(lambda connection: connection.exec_driver_sql(f"TRUNCATE {names}"))
    store.close()
