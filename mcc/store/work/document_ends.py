"""Deletion of documents: hidden at once, rows removed later by retention."""

from collections.abc import Iterator, Sequence
from functools import partial

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.status import UNFINISHED
from mcc.store.database.clock import micros
from mcc.store.database.engine import Database
from mcc.store.database.errors import StoreUnavailable
from mcc.store.database.tables import (
    BLUEPRINTS,
    DOCUMENT_HEADS,
    DOCUMENT_HISTORY,
    DOCUMENT_KEYS,
    DOCUMENT_NODES,
    DOCUMENTS,
    SESSIONS,
    STATE,
    among,
    size_of,
)
from mcc.store.documents.changes import StateCache
from mcc.store.documents.requests import forget_requests
from mcc.store.documents.rows import lock_document
from mcc.store.rows.audit import add_note
from mcc.store.rows.views import has_status
from mcc.store.work.controls import requested

DELETED = "its document was deleted"
RACES = 3
NODES = 1_000
"""Nodes that one transaction removes, each with all its versions."""

_SESSION = sa.select(SESSIONS.c.id).where(SESSIONS.c.id == sa.bindparam("of")).with_for_update()
_UNFINISHED = (
    sa.select(STATE.c.order_id)
    .where(STATE.c.session_id == sa.bindparam("of"), has_status(STATE.c.status, UNFINISHED))
    .order_by(STATE.c.order_id)
)
_DELETE = sa.update(DOCUMENTS).where(DOCUMENTS.c.id == sa.bindparam("of_id")).values(deleted_at=sa.bindparam("at"))
_DUE = (
    sa.select(DOCUMENTS.c.id)
    .where(DOCUMENTS.c.deleted_at.is_not(None), DOCUMENTS.c.deleted_at <= sa.bindparam("before"))
    .order_by(DOCUMENTS.c.id)
)
_SOME = (
    sa.select(DOCUMENT_NODES.c.node_id)
    .where(DOCUMENT_NODES.c.document_id == sa.bindparam("of"))
    .distinct()
    .limit(NODES)
)
_NODES = sa.delete(DOCUMENT_NODES).where(
    DOCUMENT_NODES.c.document_id == sa.bindparam("of"), among(DOCUMENT_NODES.c.node_id, "ids")
)
_BYTES = sa.select(sa.func.coalesce(sa.func.sum(size_of(DOCUMENT_NODES.c.node_json)), 0)).where(
    DOCUMENT_NODES.c.document_id == sa.bindparam("of")
)
_REST = tuple(
    sa.delete(table).where(table.c.document_id == sa.bindparam("of"))
    for table in (DOCUMENT_HISTORY, DOCUMENT_HEADS, DOCUMENT_KEYS)
)
_DOCUMENT = sa.delete(DOCUMENTS).where(DOCUMENTS.c.id == sa.bindparam("of"))
_UNUSED = sa.delete(BLUEPRINTS).where(
    BLUEPRINTS.c.kept.is_(False),
    BLUEPRINTS.c.created_at <= sa.bindparam("before"),
    ~sa.select(DOCUMENTS.c.id).where(DOCUMENTS.c.blueprint == BLUEPRINTS.c.digest).exists(),
    ~sa.select(DOCUMENT_HEADS.c.version).where(DOCUMENT_HEADS.c.blueprint == BLUEPRINTS.c.digest).exists(),
)


class _OrderWasPlaced(Exception):
    """An order was placed for the document in the meantime."""


def delete_document(database: Database, cache: StateCache, document_id: str, *, by: Actor) -> Sequence[str]:
    """Mark the document as deleted and cancel its unfinished orders, whose ids are answered; those that no drone runs
    have ended then. Raises `UnknownDocument`, and `StoreUnavailable` while orders keep being placed for it.
    """
    for _ in range(RACES):
        try:
            orders = database.write(partial(_delete, database=database, document_id=document_id, by=by))
        except _OrderWasPlaced:
            continue
        cache.drop(document_id)
        return orders
    raise StoreUnavailable("orders are being placed for this document; try again")


def _delete(connection: Connection, database: Database, document_id: str, by: Actor) -> Sequence[str]:
    """Locks in the order that all transactions keep: the session, its orders, then the document."""
    lock_document(connection, document_id, reading=True)
    this, at = {"of": document_id}, database.clock.now()
    connection.execute(_SESSION, this)
    orders = connection.execute(_UNFINISHED, this).scalars().all()
    for order_id in orders:
        requested(connection, order_id, ControlKind.CANCEL, NewControl(reason=DELETED), by, at)
    lock_document(connection, document_id)
    if set(connection.execute(_UNFINISHED, this).scalars()) - set(orders):
        raise _OrderWasPlaced
    connection.execute(_DELETE, {"of_id": document_id, "at": micros(at)})
    detail = {"document": document_id, "orders": len(orders)}
    add_note(connection, at, "document.deleted", by=by, order_id=None, detail=detail)
    return orders


def purge(database: Database, before: int) -> Iterator[tuple[int, int]]:
    """Remove the rows of documents that were deleted by `before` (microseconds). Yields, after each small transaction,
    how many documents it completed, and the bytes of their nodes.

    Each transaction removes a few nodes, so that no lock is held for long; a later run continues where this one stops.
    """
    for document_id in database.read(lambda connection: connection.execute(_DUE, {"before": before}).scalars().all()):
        size = database.read(partial(_size, document_id=document_id))
        while database.write(partial(_remove_some, document_id=document_id), repeatable=True):
            yield 0, 0
        yield 1, size
    at = database.clock.now()
    database.write(lambda connection: forget_requests(connection, at), repeatable=True)
    database.write(lambda connection: connection.execute(_UNUSED, {"before": before}), repeatable=True)


def due(database: Database, before: int) -> tuple[int, int]:
    """How many documents `purge` would remove, and the bytes of their nodes."""
    ids = database.read(lambda connection: connection.execute(_DUE, {"before": before}).scalars().all())
    return len(ids), sum(database.read(partial(_size, document_id=one)) for one in ids)


def _size(connection: Connection, document_id: str) -> int:
    return int(connection.scalar(_BYTES, {"of": document_id}) or 0)


def _remove_some(connection: Connection, document_id: str) -> bool:
    """Remove some nodes, or the rest of the document if it has none left; False in that last case."""
    this = {"of": document_id}
    if ids := connection.execute(_SOME, this).scalars().all():
        connection.execute(_NODES, {**this, "ids": ids})
        return True
    for statement in (*_REST, _DOCUMENT):
        connection.execute(statement, this)
    return False
