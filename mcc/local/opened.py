"""The database of an installation, opened by a command that needs no service."""

from collections.abc import Iterator
from contextlib import contextmanager

from mcc.settings import BadSettings, Settings
from mcc.store.errors import StoreUnavailable
from mcc.store.store import Store, open_store


@contextmanager
def opened_store(settings: Settings) -> Iterator[Store]:
    """The store of these settings, whose schema is that of this version.

    Raises `BadSettings` for an address that is none, `StoreUnavailable` when it is not there or has another schema.
    """
    if settings.has_own_database and not (settings.data_dir / "mcc.db").exists():
        raise StoreUnavailable(f"There is no database in {settings.data_dir}: name another directory with --data-dir.")
    try:
        store = open_store(settings.database_url)
    except ValueError as error:
        raise BadSettings(f"MCC_DATABASE_URL cannot be used: {error}.") from error
    try:
        if problem := store.schema_problem():
            raise StoreUnavailable(problem)
        yield store
    finally:
        store.close()
