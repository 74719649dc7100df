"""The audit: notes about actions that no journal records."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.ids import fresh_id
from mcc.contracts.shape import Closed, JsonObject, Moment, to_json
from mcc.store.database.clock import micros, moment
from mcc.store.database.engine import Database
from mcc.store.database.errors import BadEntry
from mcc.store.database.tables import AUDIT
from mcc.store.rows.texts import parsed


class AuditNote(Closed):
    """One action. `kind` names it (`order.rolled_back`), `detail` holds its particulars."""

    id: str
    at: Moment
    principal: str
    kind: str
    order_id: str | None = None
    detail: JsonObject


_ADD = sa.insert(AUDIT)
_OF_ORDER = sa.select(AUDIT).where(AUDIT.c.order_id == sa.bindparam("wanted")).order_by(AUDIT.c.id)
_FIRST = sa.select(AUDIT).where(AUDIT.c.kind == sa.bindparam("wanted")).order_by(AUDIT.c.id).limit(1)
_ONE_AT_A_TIME = sa.text("SELECT pg_advisory_xact_lock(hashtext(:kind))")
_NEWEST = sa.select(AUDIT).order_by(AUDIT.c.id.desc()).limit(sa.bindparam("most"))


class Audit:
    """Notes about actions that no journal records. Notes are added, never changed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def note(self, kind: str, *, principal: str, order_id: str | None = None, detail: JsonObject) -> str:
        """Add a note; answers its id. Raises `BadEntry` for a detail that is not JSON."""
        at = self._database.clock.now()
        return self._database.write(
            lambda connection: add_note(connection, at, kind, principal=principal, order_id=order_id, detail=detail)
        )

    def note_once(self, kind: str, *, principal: str, detail: JsonObject) -> AuditNote:
        """The oldest note of this kind, which is added if there is none: however many ask at once, all get the same.

        Raises `BadEntry`.
        """
        at = self._database.clock.now()

        def noted(connection: Connection) -> AuditNote:
            # Ids are older than commits: without a lock, a note could come before one that was read already.
            if connection.dialect.name == "postgresql":
                connection.execute(_ONE_AT_A_TIME, {"kind": kind})
            if (row := connection.execute(_FIRST, {"wanted": kind}).first()) is None:
                add_note(connection, at, kind, principal=principal, order_id=None, detail=detail)
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

    def list(self, limit: int = 50) -> Sequence[AuditNote]:
        """The newest notes, newest first."""
        return self._database.read(
            lambda connection: [_note(row) for row in connection.execute(_NEWEST, {"most": limit})]
        )


def add_note(
    connection: Connection, at: datetime, kind: str, *, principal: str, order_id: str | None, detail: JsonObject
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
        "principal": principal,
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
        principal=known["principal"],
        kind=known["kind"],
        order_id=known["order_id"],
        detail=parsed(known["detail_json"]),
    )
