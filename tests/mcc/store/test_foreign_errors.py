"""Every error of the drivers is translated to an error of the store."""

import gc
import sqlite3
import weakref
from pathlib import Path

import psycopg
import pytest
from psycopg import errors
from sqlalchemy import exc
from sqlalchemy.engine import Connection

from mcc.configuration.database import DatabaseAccess, Pooler
from mcc.store.database.engine import Database
from mcc.store.database.errors import BadEntry, StoreError, StoreFenced, StoreFull, StoreUnavailable, Unfit
from mcc.store.database.foreign_errors import ConnectionLost, translated
from mcc.store.store import open_store
from mcc.testing import temporary_store


def coded(words: str, code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(words)
    error.sqlite_errorcode = code
    return error


def wrapped(kind: type[exc.DBAPIError], error: Exception, *, lost: bool = False) -> exc.DBAPIError:
    return kind("SELECT 1", {}, error, connection_invalidated=lost)


@pytest.mark.parametrize(
    ("error", "own", "words"),
    [
        (wrapped(exc.OperationalError, sqlite3.OperationalError("database is locked")), StoreUnavailable, "locked"),
        (wrapped(exc.OperationalError, sqlite3.OperationalError("database or disk is full")), StoreFull, "free"),
        (wrapped(exc.OperationalError, coded("disk I/O error", sqlite3.SQLITE_IOERR_SHMSIZE)), StoreFull, "free"),
        (coded("disk I/O error", sqlite3.SQLITE_IOERR_SHMSIZE), StoreFull, "free"),
        (wrapped(exc.OperationalError, sqlite3.OperationalError("disk I/O error")), StoreUnavailable, "disk I/O"),
        (wrapped(exc.OperationalError, sqlite3.OperationalError("no such table: orders")), StoreUnavailable, "mcc db"),
        (wrapped(exc.OperationalError, sqlite3.OperationalError("no such column: x")), StoreUnavailable, "mcc db"),
        (wrapped(exc.DatabaseError, sqlite3.DatabaseError("file is not a database")), StoreUnavailable, "damaged"),
        (wrapped(exc.IntegrityError, sqlite3.IntegrityError("UNIQUE constraint failed")), BadEntry, "UNIQUE"),
        (sqlite3.DatabaseError("file is not a database"), StoreUnavailable, "opened"),
        (wrapped(exc.OperationalError, psycopg.OperationalError("connection refused")), ConnectionLost, "refused"),
        (wrapped(exc.OperationalError, errors.AdminShutdown("bye"), lost=True), ConnectionLost, "bye"),
        (wrapped(exc.OperationalError, errors.DeadlockDetected("deadlock")), ConnectionLost, "deadlock"),
        (wrapped(exc.OperationalError, errors.SerializationFailure("again")), ConnectionLost, "again"),
        (wrapped(exc.OperationalError, errors.LockNotAvailable("lock timeout")), StoreUnavailable, "lock timeout"),
        (wrapped(exc.OperationalError, errors.QueryCanceled("statement timeout")), StoreUnavailable, "timeout"),
        (wrapped(exc.OperationalError, errors.DiskFull("no space")), StoreFull, "free"),
        (wrapped(exc.OperationalError, errors.TooManyConnections("too many")), StoreUnavailable, "too many"),
        (wrapped(exc.InternalError, errors.ReadOnlySqlTransaction("read-only")), ConnectionLost, "read-only"),
        (wrapped(exc.InternalError, errors.IdleInTransactionSessionTimeout("idle"), lost=True), ConnectionLost, "idle"),
        (wrapped(exc.ProgrammingError, errors.UndefinedTable("relation")), StoreUnavailable, "mcc db upgrade"),
        (wrapped(exc.ProgrammingError, errors.UndefinedColumn("column")), StoreUnavailable, "mcc db upgrade"),
        (wrapped(exc.DataError, psycopg.DataError("cannot contain NUL")), BadEntry, "NUL"),
        (wrapped(exc.IntegrityError, errors.UniqueViolation("duplicate key")), BadEntry, "duplicate"),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"), BadEntry, "surrogates"),
        (OverflowError("Python int too large"), BadEntry, "too large"),
        (exc.TimeoutError("QueuePool limit"), StoreUnavailable, "connections"),
    ],
)
def test_every_foreign_error_has_a_name_of_ours(error: Exception, own: type[Exception], words: str) -> None:
    told = translated(error)
    assert type(told) is own
    assert words in str(told)


def test_what_is_ours_or_no_database_raised_stays_what_it_is() -> None:
    for error in (StoreFenced("stop"), KeyError("x")):
        assert translated(error) is error


STATES = {kind.sqlstate: kind for kind in vars(errors).values() if isinstance(getattr(kind, "sqlstate", None), str)}


def test_no_code_of_postgresql_comes_out_as_it_is() -> None:
    assert len(STATES) > 200
    for state, kind in STATES.items():
        base = next(exc.__dict__[one.__name__] for one in kind.__mro__ if one.__name__ in exc.__dict__)
        told = translated(wrapped(base, kind("the words of the server")))
        assert isinstance(told, StoreError), state
        assert "the words of the server" in str(told) or isinstance(told, StoreFull), state


@pytest.mark.parametrize("kind", [exc.ProgrammingError, exc.NotSupportedError, exc.InterfaceError])
def test_no_error_of_sqlite_comes_out_as_it_is(kind: type[exc.DBAPIError]) -> None:
    told = translated(wrapped(kind, getattr(sqlite3, kind.__name__)("near SELEC")))
    assert type(told) is StoreError and "near SELEC" in str(told)


GONE = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.DatabaseDropped,
    errors.IdleSessionTimeout,
    errors.ObjectNotInPrerequisiteState,
    errors.ReadOnlySqlTransaction,
)


@pytest.mark.parametrize("kind", GONE)
def test_an_error_of_the_connection_is_tried_again_on_another(kind: type[psycopg.Error]) -> None:
    assert type(translated(wrapped(exc.OperationalError, kind("gone")))) is ConnectionLost


def test_missing_rights_name_the_statements_that_give_them() -> None:
    access = DatabaseAccess("postgresql://worker:s3cret@db/orders")
    denied = wrapped(exc.ProgrammingError, errors.InsufficientPrivilege("permission denied for schema public"))
    told = translated(denied, access=access)
    assert type(told) is Unfit and "s3cret" not in str(told)
    assert "ALTER DATABASE orders OWNER TO worker" in str(told) and "GRANT SELECT" in str(told)


@pytest.mark.parametrize(
    "kind", [errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement, errors.ProtocolViolation]
)
@pytest.mark.parametrize(("pooler", "own"), [("auto", ConnectionLost), ("none", Unfit), ("session", Unfit)])
def test_a_statement_that_another_connection_prepared_is_never_a_riddle(
    kind: type[psycopg.Error], pooler: Pooler, own: type[StoreError]
) -> None:
    lost = wrapped(exc.ProgrammingError, kind("_pg3_0"))
    told = translated(lost, committing=True, access=DatabaseAccess("postgresql://db/mcc", pooler))
    assert type(told) is own
    if isinstance(told, ConnectionLost):
        assert not told.committing
    else:
        assert "MCC_DATABASE_POOLER=transaction" in str(told) and pooler in str(told)


def test_a_commit_of_unknown_outcome_is_told_apart() -> None:
    gone = wrapped(exc.OperationalError, psycopg.OperationalError("server closed the connection"))
    for committing in (True, False):
        told = translated(gone, committing=committing)
        assert isinstance(told, ConnectionLost) and told.committing is committing


def test_what_was_undone_because_of_another_was_certainly_not_committed() -> None:
    undone = wrapped(exc.OperationalError, errors.SerializationFailure("could not serialize access"))
    told = translated(undone, committing=True)
    assert isinstance(told, ConnectionLost) and told.undone and not told.committing


def test_a_password_is_never_told() -> None:
    store = open_store("postgresql://me:s3cret@127.0.0.1:1/nowhere")
    with pytest.raises(StoreUnavailable) as caught:
        store.orders.list()
    assert "s3cret" not in f"{caught.value} {store.database}"
    store.close()


def test_a_full_disk_is_told_and_nothing_is_half_written() -> None:
    store = temporary_store()
    pages = store.database.read(lambda one: one.exec_driver_sql("PRAGMA page_count").scalar())
    store.database.read(lambda one: one.exec_driver_sql(f"PRAGMA max_page_count={pages}").scalar())
    with pytest.raises(StoreFull, match="free some space"):
        for _ in range(1_000):
            store.texts.keep("x" * 100_000)
    store.database.read(lambda one: one.exec_driver_sql("PRAGMA max_page_count=1000000").scalar())
    digest = store.texts.keep("y" * 100_000)
    assert store.texts.kept(digest) == "y" * 100_000
    store.close()


@pytest.mark.parametrize("kind", [StoreFenced, sqlite3.DatabaseError])
def test_an_error_goes_with_its_handler_and_waits_for_no_garbage_collector(
    tmp_path: Path, kind: type[Exception]
) -> None:
    def work(_: Connection) -> None:
        raise kind("as if")

    database = Database(f"sqlite:///{tmp_path / 'mcc.db'}")
    gc.disable()
    try:
        for transaction in (database.read, database.write):
            try:
                transaction(work)
            except StoreError as error:
                left = weakref.ref(error)
            assert left() is None
    finally:
        gc.enable()
        database.close()
