"""This room is for migrations by address: bringing a database to this version's schema, and back."""

from collections.abc import Callable
from typing import TypeVar

from mcc.store.errors import StoreUnavailable
from mcc.store.sql.engine import Database
from mcc.store.sql.schema import downgrade_with, prepare, problem_of, unfit_for_upgrade, upgrade_with

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
