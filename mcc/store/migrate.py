"""The version of the schema: what a database has, what this code needs, and the way there and back.

Alembic is loaded for the way alone: every process asks for the version when it starts, and loading takes half a second.
"""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.store.connections import unwatched
from mcc.store.engine import Database
from mcc.store.errors import StoreUnavailable
from mcc.store.tables import METADATA

if TYPE_CHECKING:
    from alembic.config import Config

_MIGRATIONS = Path(__file__).parent / "migrations"
_VERSIONS = sa.table("alembic_version", sa.column("version_num"))

_LOCK = 0x6D6363
"""Key of PostgreSQL's advisory lock: two processes that upgrade at once take turns."""

_ADVICE = "run `mcc db upgrade`"


def problem_of(database: Database) -> str | None:
    """None when the schema is that of this version, else a sentence that says what to do."""
    found, wanted = database.read(_revision), revisions()[-1]
    if unfit := unfit_for_upgrade(database):
        return unfit
    if found == wanted:
        return None
    if found is None:
        return f"the database has no schema yet: {_ADVICE}"
    return f"the database has schema {found}, this version needs {wanted}: {_ADVICE}"


def unfit_for_upgrade(database: Database) -> str | None:
    """A sentence when migrations cannot help: the schema is a newer one, another program's, or lacks tables."""
    found = database.read(_revision)
    if found is not None and found not in revisions():
        newest = revisions()[-1]
        return f"the database has schema {found}, which this version ({newest}) does not know: install a newer one"
    there = METADATA.tables.keys() & set(database.read(lambda connection: sa.inspect(connection).get_table_names()))
    if found is None and there:
        names = ", ".join(sorted(there))
        return f"the database holds tables that MCC has not made ({names}): name another one in MCC_DATABASE_URL"
    missing = METADATA.tables.keys() - there
    if found == revisions()[-1] and missing:
        names = ", ".join(sorted(missing))
        return f"the database is damaged, it has no {names}: restore a copy, or name another one in MCC_DATABASE_URL"
    return None


@cache
def revisions() -> Sequence[str]:
    """Every version of the schema, the oldest first: the number before the name of its migration."""
    return tuple(sorted(file.stem.partition("_")[0] for file in (_MIGRATIONS / "versions").glob("[0-9]*.py")))


def _revision(connection: Connection) -> str | None:
    if not sa.inspect(connection).has_table(_VERSIONS.name):
        return None
    return connection.execute(sa.select(_VERSIONS.c.version_num)).scalar_one_or_none()


def prepare(database: Database) -> None:
    """Write-ahead logging is a property of an SQLite file and cannot be switched on inside a transaction."""
    if database.dialect == "sqlite":
        database.read(lambda connection: connection.exec_driver_sql("PRAGMA journal_mode=WAL").scalar())


def upgrade_with(connection: Connection, revision: str = "head") -> None:
    """In the caller's transaction, so that all of it happens or nothing."""
    from alembic import command

    _take_turn(connection)
    command.upgrade(_config(connection), revision)


def downgrade_with(connection: Connection, revision: str) -> None:
    from alembic import command

    _take_turn(connection)
    command.downgrade(_config(connection), revision)


def _take_turn(connection: Connection) -> None:
    if not connection.in_transaction():
        # Alembic commits by itself where SQLAlchemy knows of no transaction (`mcc.store.direct.Link`).
        connection.begin()
    if connection.dialect.name == "postgresql":
        unwatched(connection)
        connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
        connection.execute(sa.text("SET LOCAL lock_timeout = '60s'"))
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})


def _config(connection: Connection) -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
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
