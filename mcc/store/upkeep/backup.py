"""Backups: writing every row of a database to one compressed file, and restoring a database from it.

The file is gzipped JSON lines: a head; for each table a line with its columns and one line per row; and an end with the
numbers of rows and the SHA-256 of all lines before. The format is the same for SQLite and PostgreSQL.
"""

import gzip
import hashlib
import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.shape import now
from mcc.store.database.clock import micros
from mcc.store.database.connections import unwatched
from mcc.store.database.engine import Database
from mcc.store.database.errors import StoreUnavailable
from mcc.store.database.migrate import downgrade_with, prepare, revisions, unfit_for_upgrade, upgrade_with
from mcc.store.database.tables import (
    DRONES,
    JOURNAL_PARTS,
    METADATA,
    ONE_TIME,
    ORDERS,
    SESSIONS,
    SIGNINS,
    SWEEPERS,
    WEBHOOK_DELIVERIES,
    WEBHOOK_ENDPOINTS,
    WEBHOOK_EVENTS,
)
from mcc.store.doors.webhooks import WITHOUT_SECRET
from mcc.store.rows.views import in_time
from mcc.store.work.leases import CUT, LIVE

KIND, FORMAT = "mcc backup", 1
LEVEL = 5
ROWS = 50
"""Rows per read; few, because a row may have megabytes."""

PIECE_BYTES = 2_000_000
"""Approximate bytes per INSERT."""

LONGEST_LINE = 512_000_000
SWEPT_SECONDS = 10
"""A sweeper with a heartbeat since then is running; it sends two per second."""

LEFT_OUT = frozenset({SWEEPERS, JOURNAL_PARTS, SIGNINS, ONE_TIME, WEBHOOK_EVENTS, WEBHOOK_DELIVERIES})
"""Heartbeats of sweepers are not worth keeping, parts of journals are made again, an ended sign-in must not count again
after a restore, and what was told then must not be told again."""

WITHHELD = frozenset({WEBHOOK_ENDPOINTS.c.secrets_json})
"""Columns that stand empty in a backup."""

TABLES = tuple(table for table in METADATA.sorted_tables if table not in LEFT_OUT)
"""In the order in which foreign keys let rows be inserted."""


class BadBackup(Exception):
    """The file cannot be restored, for the reason in the message. Nothing was changed."""


class OccupiedDatabase(Exception):
    """The database must not be overwritten, for the reason in the message. `used`: a service or drone works on it."""

    def __init__(self, message: str, *, used: bool) -> None:
        super().__init__(message)
        self.used = used


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a backup: numbers of rows by table, the version of MCC and the schema that wrote it, and the time
    (ISO 8601)."""

    rows: dict[str, int]
    version: str
    schema: str
    made_at: str


def write_backup(database: Database, file: IO[bytes], version: str) -> Contents:
    """Write all rows as of one moment; orders may run meanwhile. Raises `StoreUnavailable`, OSError."""
    head = {"kind": KIND, "format": FORMAT, "version": version, "schema": revisions()[-1], "made_at": now().isoformat()}
    digest, rows = hashlib.sha256(), dict[str, int]()
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=LEVEL) as packed:

        def put(line: object) -> None:
            encoded = json.dumps(line, separators=(",", ":")).encode() + b"\n"
            digest.update(encoded)
            packed.write(encoded)

        def copy(connection: Connection) -> None:
            put(head)
            for table in TABLES:
                put({"table": table.name, "columns": [column.name for column in table.columns]})
                rows[table.name] = 0
                columns = (sa.null().label(each.name) if each in WITHHELD else each for each in table.columns)
                result = connection.execution_options(yield_per=ROWS).execute(sa.select(*columns).select_from(table))
                for row in result:
                    put([{"base64": b64encode(value).decode()} if isinstance(value, bytes) else value for value in row])
                    rows[table.name] += 1

        database.snapshot(copy)
        packed.write(json.dumps({"rows": rows, "sha256": digest.hexdigest()}).encode() + b"\n")
    return Contents(rows, version, str(head["schema"]), str(head["made_at"]))


def restore(database: Database, file: IO[bytes], *, force: bool = False) -> Contents:
    """Replace the contents of the database with the backup, in one transaction, and upgrade to this version's schema.

    The file is checked as a whole before the database is touched. `force`: overwrite a database that is not empty.
    Orders that ran when the backup was made are taken over by the next drone.

    Raises `BadBackup`, `OccupiedDatabase`, `StoreUnavailable`.
    """
    if unfit := unfit_for_upgrade(database):
        raise StoreUnavailable(unfit)
    check_free(database, force=force)
    contents = _checked(file)
    prepare(database)

    def fill(connection: Connection) -> None:
        if connection.dialect.name == "postgresql":
            unwatched(connection)
            connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
            connection.execute(sa.text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        # Down to nothing and up to the backup's schema: its rows fit only the tables of the version that wrote it.
        downgrade_with(connection, "base")
        upgrade_with(connection, contents.schema)
        # Read twice: a defect at the end of the file must be known before the database is emptied.
        file.seek(0)
        lines = _Lines(file)
        lines.head()
        for table, columns, rows in lines.tables():
            _insert(connection, table, columns, rows)
        # Cut, not lost: that they are gone is no failure of their orders, and counts as no loss.
        connection.execute(sa.text("UPDATE drones SET state = :cut WHERE state = :live"), {"cut": CUT, "live": LIVE})
        upgrade_with(connection)
        # Noted by the trigger on the journal, as every entry is.
        connection.execute(sa.delete(WEBHOOK_EVENTS))
        connection.execute(WITHOUT_SECRET, {"at": micros(now())})

    database.write(fill)
    return contents


def _checked(file: IO[bytes]) -> Contents:
    """The contents of the file, all of which is read and checked. Raises `BadBackup`."""
    lines = _Lines(file)
    head = lines.head()
    for _, _, rows in lines.tables():
        for _ in rows:
            pass
    return replace(head, rows=lines.checked())


def check_free(database: Database, *, force: bool) -> None:
    """Raises `OccupiedDatabase` if a service or drone works on the database, or if it is not empty and not `force`."""

    def look(connection: Connection) -> tuple[bool, bool]:
        if not sa.inspect(connection).has_table(ORDERS.name):
            return False, False
        live = sa.select(DRONES.c.incarnation).where(DRONES.c.state == LIVE, in_time(database.time)).limit(1)
        since = database.time.now - SWEPT_SECONDS * 1_000_000
        swept = sa.select(SWEEPERS.c.name).where(SWEEPERS.c.beat_at > since).limit(1)
        used = any(connection.execute(one).first() is not None for one in (live, swept))
        return used, any(connection.execute(sa.select(one.c.id).limit(1)).first() for one in (ORDERS, SESSIONS))

    used, filled = database.read(look)
    if used:
        raise OccupiedDatabase(
            "a service or a drone works on this database, or did until a moment ago: end all of them, then wait "
            f"{SWEPT_SECONDS} s",
            used=True,
        )
    if filled and not force:
        raise OccupiedDatabase("there are orders or sessions in this database already", used=False)


def _insert(connection: Connection, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    statement = sa.insert(sa.table(table, *(sa.column(name) for name in columns)))
    waiting: list[dict[str, object]] = []
    size = 0
    for row in rows:
        values = (b64decode(cell["base64"]) if isinstance(cell, dict) else cell for cell in row)
        waiting.append(dict(zip(columns, values, strict=True)))
        size += sum(
            len(value) if isinstance(value, str) else len(str(value.get("base64")))
            for value in row
            if isinstance(value, str | dict)
        )
        if size > PIECE_BYTES or len(waiting) == 1_000:
            connection.execute(statement, waiting)
            waiting, size = [], 0
    if waiting:
        connection.execute(statement, waiting)


class _Lines:
    """Reader of a backup: head, then tables, then end. Any defect raises `BadBackup`."""

    def __init__(self, file: IO[bytes]) -> None:
        self._packed = gzip.GzipFile(mode="rb", fileobj=file)
        self._digest = hashlib.sha256()
        self._rows: dict[str, int] = {}
        self._end: Any = None

    def head(self) -> Contents:
        head = self._next()
        if not isinstance(head, dict) or head.get("kind") != KIND:
            raise BadBackup("this is not a backup of mcc")
        version, schema = str(head.get("version")), str(head.get("schema"))
        if schema.isdecimal():
            raise BadBackup(
                f"mcc {version} made this backup (schema {schema}) before the first release: nothing reads it any more"
            )
        if head.get("format") != FORMAT or schema not in revisions():
            raise BadBackup(f"mcc {version} made this backup (schema {schema}): restore it with that version, or newer")
        return Contents({}, version, schema, str(head.get("made_at")))

    def tables(self) -> Iterator[tuple[str, Sequence[str], Iterator[Sequence[object]]]]:
        """Each table with its columns and rows; read all rows of one before the next table."""
        line = self._next()
        while isinstance(line, dict) and "table" in line:
            name, named = str(line["table"]), line.get("columns")
            if not isinstance(named, list):
                raise BadBackup(f"the backup is damaged: the table {name!r} has no list of columns")
            columns = [str(column) for column in named]
            if name not in METADATA.tables or name in self._rows:
                raise BadBackup(f"the backup has a table {name!r} that does not belong there")
            self._rows[name] = 0
            following: list[object] = []
            yield name, columns, self._rows_of(name, len(columns), following)
            line = following[0]
        self._end = line

    def _rows_of(self, name: str, columns: int, following: list[object]) -> Iterator[Sequence[object]]:
        while isinstance(line := self._next(), list):
            if len(line) != columns:
                raise BadBackup(f"the backup is damaged: a row of {name} has {len(line)} values")
            self._rows[name] += 1
            yield line
        following.append(line)

    def checked(self) -> dict[str, int]:
        """The numbers of rows by table, after all were read; the end of the file must agree."""
        end = self._end
        if not isinstance(end, dict) or end.get("rows") != self._rows or end.get("sha256") != self._before_end:
            raise BadBackup("the backup is damaged: its end does not match its content")
        if self._read():
            raise BadBackup("the backup is damaged: it goes on after its end")
        return dict(self._rows)

    def _next(self) -> object:
        # Which line is the last is known only when it was read, and it is not part of what it vouches for.
        self._before_end = self._digest.hexdigest()
        line = self._read()
        if not line.endswith(b"\n"):
            raise BadBackup("the backup is cut off: its end is missing")
        self._digest.update(line)
        try:
            value: object = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadBackup(f"the backup is damaged: {error}") from error
        return value

    def _read(self) -> bytes:
        try:
            # Bounded: a file of one endless line must not fill the memory.
            return self._packed.readline(LONGEST_LINE)
        except (OSError, EOFError, zlib.error) as error:
            raise BadBackup(f"the backup cannot be read; it is damaged, or not a backup: {error}") from error
