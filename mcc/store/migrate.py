"""The version of the schema: what a database has, what this code needs, and the way there and back."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection

from mcc.store.connections import unwatched
from mcc.store.engine import Database
from mcc.store.errors import StoreUnavailable
from mcc.store.tables import METADATA

_LOCK = 0x6D6363
"""Key of PostgreSQL's advisory lock: two processes that upgrade at once take turns."""

_ADVICE = "run `mcc db upgrade`"


def problem_of(database: Database) -> str | None:
    """None when the schema is that of this version, else a sentence that says what to do."""
    found = database.read(_revision)
    if unfit := unfit_for_upgrade(database):
        return unfit
    scripts = ScriptDirectory.from_config(_config())
    wanted = scripts.get_current_head()
    if found == wanted:
        return None
    if found is None:
        return f"the database has no schema yet: {_ADVICE}"
    if found in {script.revision for script in scripts.walk_revisions()}:
        return f"the database has schema {found}, this version needs {wanted}: {_ADVICE}"
    return f"the database has schema {found}, which this version ({wanted}) does not know: install a newer one"


def unfit_for_upgrade(database: Database) -> str | None:
    """A sentence when migrations cannot help: the tables of these names are another program's, or some are gone."""
    found = database.read(_revision)
    there = METADATA.tables.keys() & set(database.read(lambda connection: sa.inspect(connection).get_table_names()))
    if found is None and there:
        names = ", ".join(sorted(there))
        return f"the database holds tables that MCC has not made ({names}): name another one in MCC_DATABASE_URL"
    missing = METADATA.tables.keys() - there
    if found == ScriptDirectory.from_config(_config()).get_current_head() and missing:
        names = ", ".join(sorted(missing))
        return f"the database is damaged, it has no {names}: restore a copy, or name another one in MCC_DATABASE_URL"
    return None


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def prepare(database: Database) -> None:
    """Write-ahead logging is a property of an SQLite file and cannot be switched on inside a transaction."""
    if database.dialect == "sqlite":
        database.read(lambda connection: connection.exec_driver_sql("PRAGMA journal_mode=WAL").scalar())


def upgrade_with(connection: Connection, revision: str = "head") -> None:
    """In the caller's transaction, so that all of it happens or nothing."""
    _take_turn(connection)
    command.upgrade(_config(connection), revision)


def downgrade_with(connection: Connection, revision: str) -> None:
    _take_turn(connection)
    command.downgrade(_config(connection), revision)


def _take_turn(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        unwatched(connection)
        connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
        connection.execute(sa.text("SET LOCAL lock_timeout = '60s'"))
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    folder = Path(__file__).parent / "migrations"
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


T = TypeVar("T")


def upgrade(database_url: str, revision: str = "head") -> None:
    """Bring the schema to `revision`; another process that does the same at this moment is waited for.

    Raises `StoreUnavailable`, ValueError for an address that is none.
    """
    if unfit := _on(database_url, unfit_for_upgrade):
        raise StoreUnavailable(unfit)
    _on(database_url, prepare)
    _on(database_url, lambda database: database.write(lambda connection: upgrade_with(connection, revision)))


def downgrade(database_url: str, revision: str) -> None:
    """Take the schema back to `revision` ("base" for nothing); what only newer tables held is lost."""
    _on(database_url, lambda database: database.write(lambda connection: downgrade_with(connection, revision)))


def schema_problem(database_url: str) -> str | None:
    """None when the schema is that of this version, else a sentence that says what to do."""
    return _on(database_url, problem_of)


def _on(database_url: str, work: Callable[[Database], T]) -> T:
    database = Database(database_url, connections=1)
    try:
        return work(database)
    finally:
        database.close()
