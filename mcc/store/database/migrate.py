"""The schema version: the one a database has, the one this code needs, upgrade and downgrade.

Alembic is imported only for an upgrade or downgrade: importing it takes half a second, and every process checks the
version when it starts.
"""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.configuration.database import DatabaseAccess
from mcc.store.database.connections import unwatched
from mcc.store.database.engine import Database
from mcc.store.database.errors import Unfit
from mcc.store.database.fit import unfit
from mcc.store.database.tables import METADATA

if TYPE_CHECKING:
    from alembic.config import Config

_MIGRATIONS = Path(__file__).parents[1] / "migrations"
_VERSIONS = sa.table("alembic_version", sa.column("version_num"))

_LOCK = 0x6D6363
"""Key of the PostgreSQL advisory lock that serializes concurrent upgrades."""

_ADVICE = "run `mcc db upgrade`"


def problem_of(database: Database) -> str | None:
    """None when the server is fit and the schema is that of this version, else a sentence that says what to do.

    Raises `StoreUnavailable`.
    """
    if lack := unfit(database):
        return lack
    revision, wanted = database.read(_revision), revisions()[-1]
    if foreign := _foreign_schema(database):
        return foreign
    if revision == wanted:
        return None
    if revision is None:
        return f"the database has no schema yet: {_ADVICE}"
    return f"the database has schema {revision}, this version needs {wanted}: {_ADVICE}"


def unfit_for_upgrade(database: Database) -> str | None:
    """A sentence if the server is not fit, or migrations cannot repair the schema. None otherwise."""
    return unfit(database, to_upgrade=True) or _foreign_schema(database)


def _foreign_schema(database: Database) -> str | None:
    """A sentence if the schema is newer than this version, belongs to another program, or lacks tables."""
    revision = database.read(_revision)
    if revision is not None and revision.isdecimal():
        return (
            f"the database has schema {revision}, made before the first release, which nothing reads any more: name a "
            "new one in MCC_DATABASE_URL"
        )
    if revision is not None and revision not in revisions():
        newest = revisions()[-1]
        return f"the database has schema {revision}, which this version ({newest}) does not know: install a newer one"
    tables = METADATA.tables.keys() & set(database.read(lambda connection: sa.inspect(connection).get_table_names()))
    if revision is None and tables:
        names = ", ".join(sorted(tables))
        return f"the database holds tables that MCC has not made ({names}): name another one in MCC_DATABASE_URL"
    missing = METADATA.tables.keys() - tables
    if revision == revisions()[-1] and missing:
        names = ", ".join(sorted(missing))
        return f"the database is damaged, it has no {names}: restore a copy, or name another one in MCC_DATABASE_URL"
    return None


@cache
def revisions() -> Sequence[str]:
    """All schema versions, oldest first: the ids at the start of the migrations' file names."""
    return tuple(sorted(file.stem.partition("_")[0] for file in (_MIGRATIONS / "versions").glob("r[0-9]*.py")))


def _revision(connection: Connection) -> str | None:
    if not sa.inspect(connection).has_table(_VERSIONS.name):
        return None
    return connection.execute(sa.select(_VERSIONS.c.version_num)).scalar_one_or_none()


def prepare(database: Database) -> None:
    """Switch an SQLite file to write-ahead logging, which is stored in the file and cannot be done in a transaction."""
    if database.dialect == "sqlite":
        database.read(lambda connection: connection.exec_driver_sql("PRAGMA journal_mode=WAL").scalar())


def upgrade_with(connection: Connection, revision: str = "head") -> None:
    """Upgrade to `revision` in the caller's transaction, so that either all or nothing is done."""
    from alembic import command

    _take_turn(connection)
    command.upgrade(_config(connection), revision)


def downgrade_with(connection: Connection, revision: str) -> None:
    """Downgrade to `revision` in the caller's transaction."""
    from alembic import command

    _take_turn(connection)
    command.downgrade(_config(connection), revision)


def _take_turn(connection: Connection) -> None:
    if not connection.in_transaction():
        # Alembic would commit by itself: SQLAlchemy does not know of a transaction of `database.direct.Link`.
        connection.begin()
    if connection.dialect.name == "postgresql":
        unwatched(connection)
        connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
        # Another process may be upgrading: its migration takes longer than the few seconds that other statements wait.
        connection.execute(sa.text("SET LOCAL lock_timeout = '60s'"))
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})


def _config(connection: Connection) -> "Config":
    from alembic.config import Config

    config = Config()
    # Alembic expands percent signs as its configuration files do.
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


T = TypeVar("T")


def upgrade(access: DatabaseAccess | str, revision: str = "head") -> None:
    """Upgrade the schema to `revision`; waits for another process that is upgrading it.

    Raises `Unfit`, `StoreUnavailable`, ValueError for an invalid address.
    """
    if lack := _on(access, unfit_for_upgrade):
        raise Unfit(lack)
    _on(access, prepare)
    _on(access, lambda database: database.write(lambda connection: upgrade_with(connection, revision)))


def downgrade(access: DatabaseAccess | str, revision: str) -> None:
    """Downgrade the schema to `revision` ("base" for an empty one); data of newer tables and columns is lost."""
    _on(access, lambda database: database.write(lambda connection: downgrade_with(connection, revision)))


def schema_problem(access: DatabaseAccess | str) -> str | None:
    """None when the schema is that of this version, else a sentence that says what to do."""
    return _on(access, problem_of)


def _on(access: DatabaseAccess | str, work: Callable[[Database], T]) -> T:
    database = Database(access, connections=1)
    try:
        return work(database)
    finally:
        database.close()
