"""This room is for the audit in memory."""

from collections.abc import Sequence

from mcc.contracts.audit import AuditNote
from mcc.contracts.ids import fresh_id
from mcc.contracts.shape import JsonObject, to_json
from mcc.store.errors import BadEntry
from mcc.store.large import parsed
from mcc.testing.shelf import Shelf


class MemoryAudit:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def note(self, kind: str, *, principal: str, order_id: str | None = None, detail: JsonObject) -> str:
        with self._shelf.lock:
            return add_note(self._shelf, kind, principal=principal, order_id=order_id, detail=detail)

    def of_order(self, order_id: str) -> Sequence[AuditNote]:
        with self._shelf.lock:
            return [note for note in self._shelf.audit if note.order_id == order_id]

    def list(self, limit: int = 50) -> Sequence[AuditNote]:
        with self._shelf.lock:
            return list(reversed(self._shelf.audit))[:limit]


def add_note(shelf: Shelf, kind: str, *, principal: str, order_id: str | None, detail: JsonObject) -> str:
    """A note under the lock of what it tells of; answers its id."""
    note = AuditNote(
        id=fresh_id(),
        at=shelf.clock.now(),
        principal=principal,
        kind=kind,
        order_id=order_id,
        detail=_copied(kind, detail),
    )
    shelf.audit.append(note)
    return note.id


def _copied(kind: str, detail: JsonObject) -> JsonObject:
    try:
        document: JsonObject = parsed(to_json(detail))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadEntry(f"the detail of this {kind} cannot be written as JSON: {error}") from error
    return document
