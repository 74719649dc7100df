"""The audit: notes about actions that no journal records."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import Actor
from mcc.contracts.ids import fresh_id, is_identifier
from mcc.contracts.people import AuditNote as AuditNote
from mcc.contracts.shape import JsonObject, to_json
from mcc.store.database.clock import CLOCKS_DIFFER, id_at, micros, moment
from mcc.store.database.engine import Database
from mcc.store.database.errors import BadCursor, BadEntry
from mcc.store.database.tables import AUDIT
from mcc.store.rows.actors import token_name, who
from mcc.store.rows.texts import parsed
from mcc.store.rows.values import Page

_ADD = sa.insert(AUDIT)
_AUDIT = sa.select(AUDIT, token_name(AUDIT))
_OF_ORDER = _AUDIT.where(AUDIT.c.order_id == sa.bindparam("wanted")).order_by(AUDIT.c.id)
_FIRST = _AUDIT.where(AUDIT.c.kind == sa.bindparam("wanted")).order_by(AUDIT.c.id).limit(1)
_ONE_AT_A_TIME = sa.text("SELECT pg_advisory_xact_lock(hashtext(:kind))")
_NEWEST = _AUDIT.order_by(AUDIT.c.id.desc()).limit(sa.bindparam("most"))


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which notes are wanted; None: any. `since`, `until`: from this time on, and before this time."""

    who: str | None = None
    kind: str | None = None
    order_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    cursor: str | None = None
    limit: int = 50


class Audit:
    """Notes about actions that no journal records. Notes are added, never changed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def note(self, kind: str, *, by: Actor, order_id: str | None = None, detail: JsonObject) -> str:
        """Add a note; answers its id. Raises `BadEntry` for a detail that is not JSON."""
        at = self._database.clock.now()
        return self._database.write(
            lambda connection: add_note(connection, at, kind, by=by, order_id=order_id, detail=detail)
        )

    def note_once(self, kind: str, *, by: Actor, detail: JsonObject) -> AuditNote:
        """The oldest note of this kind, which is added if there is none: however many ask at once, all get the same.

        Raises `BadEntry`.
        """
        at = self._database.clock.now()

        def noted(connection: Connection) -> AuditNote:
            # Ids are older than commits: without a lock, a note could come before one that was read already.
            if connection.dialect.name == "postgresql":
                connection.execute(_ONE_AT_A_TIME, {"kind": kind})
            if (row := connection.execute(_FIRST, {"wanted": kind}).first()) is None:
                add_note(connection, at, kind, by=by, order_id=None, detail=detail)
                row = connection.execute(_FIRST, {"wanted": kind}).one()
            return _note(row)

        return self._database.write(noted, repeatable=True)

    def of_order(self, order_id: str) -> Sequence[AuditNote]:
        """The notes about an order, oldest first."""
        if "\0" in order_id:
            return ()
        return self._database.read(
            lambda connection: [_note(row) for row in connection.execute(_OF_ORDER, {"wanted": order_id})]
        )

    def first(self, kind: str) -> AuditNote | None:
        """The oldest note of this kind."""
        row = self._database.read(lambda connection: connection.execute(_FIRST, {"wanted": kind}).first())
        return None if row is None else _note(row)

    def find(self, wanted: AuditFilter) -> Page[AuditNote]:
        """Notes that fit all that is given, newest first. Raises `BadCursor`."""
        if wanted.cursor is not None and not is_identifier(wanted.cursor):
            raise BadCursor("this cursor is not one that a page of the audit gave; begin without one")
        conditions = [
            *([AUDIT.c.principal == wanted.who] if wanted.who is not None else []),
            *([AUDIT.c.kind == wanted.kind] if wanted.kind is not None else []),
            *([AUDIT.c.order_id == wanted.order_id] if wanted.order_id is not None else []),
            *([AUDIT.c.id < wanted.cursor] if wanted.cursor is not None else []),
        ]
        # Ids, which sort by time, bound what is read of the audit; the time itself decides.
        if wanted.since is not None:
            conditions += [AUDIT.c.id >= id_at(wanted.since, -CLOCKS_DIFFER), AUDIT.c.at >= micros(wanted.since)]
        if wanted.until is not None:
            conditions += [AUDIT.c.id < id_at(wanted.until, CLOCKS_DIFFER), AUDIT.c.at < micros(wanted.until)]
        if any("\0" in text for text in (wanted.who, wanted.kind, wanted.order_id) if text is not None):
            return Page([], None)
        newest = _AUDIT.where(*conditions).order_by(AUDIT.c.id.desc()).limit(wanted.limit + 1)
        notes = self._database.read(lambda connection: [_note(row) for row in connection.execute(newest)])
        return Page(notes[: wanted.limit], notes[wanted.limit - 1].id if len(notes) > wanted.limit else None)

    def list(self, limit: int = 50) -> Sequence[AuditNote]:
        """The newest notes, newest first."""
        return self._database.read(
            lambda connection: [_note(row) for row in connection.execute(_NEWEST, {"most": limit})]
        )


def add_note(
    connection: Connection, at: datetime, kind: str, *, by: Actor, order_id: str | None, detail: JsonObject
) -> str:
    """Add a note in the transaction of the action that it describes; answers its id. Raises `BadEntry`."""
    note_id = fresh_id()
    try:
        document = to_json(detail).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadEntry(f"the detail of this {kind} cannot be written as JSON: {error}") from error
    row = {
        "id": note_id,
        "at": micros(at),
        **by.columns,
        "kind": kind,
        "order_id": order_id,
        "detail_json": document,
    }
    connection.execute(_ADD, row)
    return note_id


def _note(row: sa.Row[tuple[object, ...]]) -> AuditNote:
    known = row._mapping
    return AuditNote(
        id=known["id"],
        at=moment(known["at"]),
        **who(known),
        kind=known["kind"],
        order_id=known["order_id"],
        detail=parsed(known["detail_json"]),
    )
