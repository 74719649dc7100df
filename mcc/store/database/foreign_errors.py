"""Translation of the drivers' errors to the store's: whatever its code, none comes out as it is."""

import sqlite3

from sqlalchemy import exc

from mcc.configuration.database import DatabaseAccess
from mcc.store.database.connections import normal_url
from mcc.store.database.errors import BadEntry, StoreError, StoreFull, StoreUnavailable, Unfit
from mcc.store.database.postgres import LOST, POOLED

UNDONE = frozenset({"40001", "40P01"})
"""SQLSTATEs with which PostgreSQL rolls a transaction back because of a concurrent one; repeating it is right."""

FULL = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE})
"""SQLite's error codes for a full disk: for the database file, or for the index of its write-ahead log."""

LOCKED = "the database is locked by another process; try again"
DISK_FULL = "the disk of the database is full: free some space, then try again"
SCHEMA = frozenset({"42P01", "42703", "3F000"})
"""SQLSTATEs for a missing table, column or schema."""
RIGHT, READ_ONLY = "42501", "25006"
_NO_TRANSACTIONS = "statement pooling mode"
_WAITED = "query_wait_timeout"
_REFUSED = " failed: FATAL: "
"""What libpq says before the words with which a server refuses a new connection. It has no SQLSTATE for these."""
_IS_STANDBY = "session is read-only"
"""What libpq says of a server that cannot be written, when it was asked for one that can."""
SETTLED_BY_TIME = ("08", "25", "40", "53", "55", "57", "58", "XX")
"""SQLSTATE classes after which the same statement may succeed later: connection, resources, locks, shutdown, disk."""

DATA_ERRORS: tuple[type[Exception], ...] = (exc.DataError, exc.IntegrityError, UnicodeError, OverflowError)


class ConnectionLost(StoreUnavailable):
    """The connection was lost, or the database rolled the transaction back.

    `committing`: the transaction may have been committed nevertheless. `undone`: it was rolled back because of a
    concurrent one, and repeating it is right.
    """

    def __init__(self, message: str, *, committing: bool, undone: bool = False) -> None:
        super().__init__(message)
        self.committing = committing
        self.undone = undone


READS_ONLY = (
    "the database takes no writes now ({line}): after a fail-over this ends by itself; otherwise name the primary in "
    "MCC_DATABASE_URL, or make this one writable (default_transaction_read_only = off)"
)
RIGHTS = (
    "the database refuses this to the role of MCC_DATABASE_URL ({line}): make it the owner (ALTER DATABASE {database} "
    "OWNER TO {role}), or let the owner of the tables give it the rights (GRANT USAGE ON SCHEMA public TO {role}; "
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}; to upgrade, GRANT CREATE too)"
)
ADMITTED = (
    "the database server answers, and does not admit MCC ({line}): if this does not pass by itself, correct user, "
    "password and name of the database in MCC_DATABASE_URL, or let the server admit them (GRANT CONNECT, pg_hba.conf, "
    "limits of connections)"
)
BY_STATEMENT = (
    "the connection pooler in front of the database gives each statement to another connection ({line}), and MCC needs "
    "transactions: set pool_mode to transaction or session there"
)
POOL_IN_USE = (
    "the connection pooler in front of the database had no connection free ({line}): give it more (default_pool_size); "
    "in session mode it needs one for each connection of service and drones"
)
UNPREPARED = (
    "a connection pooler in front of the database does not keep what MCC prepared on its connection ({line}), and "
    "database_pooler is {pooler}: set MCC_DATABASE_POOLER=transaction, and database_prepared only for a pooler that "
    "keeps prepared statements"
)


def translated(error: Exception, *, committing: bool = False, access: DatabaseAccess | None = None) -> Exception:
    """The store's error for a foreign one, whatever its code; other exceptions are returned unchanged. `access`: the
    database that it is of."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, DATA_ERRORS):
        return BadEntry(f"the database refuses this data: {_first_line(error)}")
    if isinstance(error, exc.TimeoutError):
        return StoreUnavailable("all connections to the database are in use; try again")
    if isinstance(error, sqlite3.Error):
        if _is_full(error):
            return StoreFull(DISK_FULL)
        if "locked" in str(error):
            return StoreUnavailable(LOCKED)
        return StoreUnavailable(f"the database file cannot be opened: {_first_line(error)}")
    if isinstance(error, exc.DBAPIError):
        return _of_driver(error, committing, access or DatabaseAccess(""))
    return error


def _of_driver(error: exc.DBAPIError, committing: bool, access: DatabaseAccess) -> Exception:
    state = getattr(error.orig, "sqlstate", None) or ""
    line = _first_line(error)
    if state == RIGHT and not _is_raised(error):
        return Unfit(RIGHTS.format(line=line, **_names(access.url)))
    if _NO_TRANSACTIONS in line:
        return Unfit(BY_STATEMENT.format(line=line))
    if _WAITED in line:
        # PgBouncer gives it the code of a statement that it does not know.
        return ConnectionLost(POOL_IN_USE.format(line=line), committing=False)
    if not state and _REFUSED in line:
        return ConnectionLost(ADMITTED.format(line=line.partition(_REFUSED)[2].strip()), committing=False)
    if state in POOLED and access.pooler != "auto":
        return Unfit(UNPREPARED.format(line=line, pooler=access.pooler))
    if state == READ_ONLY or _IS_STANDBY in line:
        return ConnectionLost(READS_ONLY.format(line=line), committing=False)
    if state in SCHEMA or "no such table" in line or "no such column" in line or "has no column" in line:
        return StoreUnavailable(f"the database does not have the schema of this version ({line}): run `mcc db upgrade`")
    if (
        error.connection_invalidated
        or state in UNDONE
        or state in POOLED
        or state in LOST
        or (
            not state
            and (type(error.orig).__module__.startswith("psycopg") and isinstance(error, exc.OperationalError))
        )
    ):
        undone = state in UNDONE
        what = "the database undid this because of another one" if undone else "the connection to the database was lost"
        # What was refused by name was certainly not committed.
        certain = undone or state in POOLED or state == "55000"
        return ConnectionLost(f"{what}: {line}", committing=committing and not certain, undone=undone)
    if "locked" in line:
        return StoreUnavailable(LOCKED)
    if state == "53100" or _is_full(error.orig):
        return StoreFull(DISK_FULL)
    if state.startswith(SETTLED_BY_TIME) or isinstance(error, exc.OperationalError | exc.InternalError):
        return StoreUnavailable(f"the database cannot do this now: {line}")
    if type(error) is exc.DatabaseError:
        return StoreUnavailable(f"the database file is damaged, or is not a database: {line}")
    return StoreError(f"the database refuses a statement of MCC ({f'SQLSTATE {state}: ' if state else ''}{line})")


def _is_raised(error: exc.DBAPIError) -> bool:
    """Whether a trigger of MCC raised the error, which refuses changes to everybody, whatever their rights."""
    return "refuse_change" in (getattr(getattr(error.orig, "diag", None), "context", None) or "")


def _names(url: str) -> dict[str, str]:
    """The role and the database of an address, for a sentence."""
    try:
        made = normal_url(url)
    except ValueError:
        return {"role": "mcc", "database": "mcc"}
    return {"role": made.username or "mcc", "database": made.database or "mcc"}


def _is_full(error: BaseException | None) -> bool:
    return getattr(error, "sqlite_errorcode", None) in FULL or "disk is full" in str(error)


def _first_line(error: Exception) -> str:
    message = str(error.orig) if isinstance(error, exc.DBAPIError) else str(error)
    return message.strip().partition("\n")[0]
