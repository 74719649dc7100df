"""Foreign errors: what SQLAlchemy, sqlite3 and psycopg raise, as the store's own errors."""

import sqlite3

from sqlalchemy import exc

from mcc.store.errors import BadEntry, StoreError, StoreFull, StoreUnavailable

UNDONE = frozenset({"40001", "40P01"})
"""PostgreSQL undid the transaction because of another one: doing it again is right."""

FULL = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE})
"""SQLite's codes for a disk without room, for its file or for the index of its log."""

DISK_FULL = "the disk of the database is full: free some space, then try again"
SCHEMA = frozenset({"42P01", "42703", "3F000"})
SETTLED_BY_TIME = ("08", "25", "40", "53", "55", "57", "58", "XX")
"""Classes of SQLSTATE that the same statement may get over: connection, resources, locks, shutdown, disk."""

DATA_ERRORS: tuple[type[Exception], ...] = (exc.DataError, exc.IntegrityError, UnicodeError, OverflowError)


class ConnectionLost(StoreUnavailable):
    """The database was away, or undid the transaction. `committing`: it may have been committed all the same.

    `undone`: it undid it because of another one, and doing it again is right.
    """

    def __init__(self, message: str, *, committing: bool, undone: bool = False) -> None:
        super().__init__(message)
        self.committing = committing
        self.undone = undone


def translated(error: Exception, *, committing: bool = False) -> Exception:
    """The store's error for a foreign one; an unknown one is answered as it is."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, DATA_ERRORS):
        return BadEntry(f"the database refuses this data: {_first_line(error)}")
    if isinstance(error, exc.TimeoutError):
        return StoreUnavailable("all connections to the database are in use; try again")
    if isinstance(error, sqlite3.Error):
        if _is_full(error):
            return StoreFull(DISK_FULL)
        return StoreUnavailable(f"the database file cannot be opened: {_first_line(error)}")
    if isinstance(error, exc.DBAPIError):
        return _of_driver(error, committing)
    return error


def _of_driver(error: exc.DBAPIError, committing: bool) -> Exception:
    state = getattr(error.orig, "sqlstate", None) or ""
    line = _first_line(error)
    if state in SCHEMA or "no such table" in line or "no such column" in line or "has no column" in line:
        return StoreUnavailable(f"the database has not the schema of this version ({line}): run `mcc db upgrade`")
    if error.connection_invalidated or state in UNDONE or (not state and _is_postgres(error)):
        undone = state in UNDONE
        what = "the database undid this because of another one" if undone else "the connection to the database was lost"
        return ConnectionLost(f"{what}: {line}", committing=committing and not undone, undone=undone)
    if "locked" in line:
        return StoreUnavailable("the database is locked by another process; try again")
    if state == "53100" or _is_full(error.orig):
        return StoreFull(DISK_FULL)
    if state.startswith(SETTLED_BY_TIME) or isinstance(error, exc.OperationalError | exc.InternalError):
        return StoreUnavailable(f"the database cannot do this now: {line}")
    if type(error) is exc.DatabaseError:
        return StoreUnavailable(f"the database file is damaged or is none: {line}")
    return error


def _is_full(error: BaseException | None) -> bool:
    return getattr(error, "sqlite_errorcode", None) in FULL or "disk is full" in str(error)


def _is_postgres(error: exc.DBAPIError) -> bool:
    return type(error.orig).__module__.startswith("psycopg") and isinstance(error, exc.OperationalError)


def _first_line(error: Exception) -> str:
    told = str(error.orig) if isinstance(error, exc.DBAPIError) else str(error)
    return told.strip().partition("\n")[0]
