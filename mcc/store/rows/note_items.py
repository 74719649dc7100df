"""Memories that wait or waited for a person, as items of the inbox."""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.approvals import ItemStatus, NoteItem, NoteItemStatus
from mcc.contracts.ids import is_identifier
from mcc.contracts.notes import Note
from mcc.store.database.tables import NOTES
from mcc.store.rows.note_rows import UNDECIDED, item_id, note_of, number_of

_DECIDED_LATER = sa.and_(
    NOTES.c.kind == sa.literal_column("'memory'"),
    sa.or_(NOTES.c.state != sa.literal_column("'accepted'"), NOTES.c.decided_at.is_not(None)),
)
_NEWEST = sa.select(NOTES).where(_DECIDED_LATER).order_by(NOTES.c.written_at.desc(), NOTES.c.id.desc())
_BY_STATUS: Mapping[ItemStatus, tuple[sa.ColumnElement[bool], ...]] = {
    "pending": (UNDECIDED,),
    "approved": (NOTES.c.state == "accepted", NOTES.c.decided_by.is_not(None)),
    "denied": (NOTES.c.state == "rejected", NOTES.c.decided_by.is_not(None)),
    "void": (NOTES.c.state == "rejected", NOTES.c.decided_by.is_(None)),
}


def note_items(
    connection: Connection,
    status: ItemStatus | None,
    order_id: str | None,
    before: tuple[int, str] | None,
    limit: int,
    *conditions: sa.ColumnElement[bool],
) -> Sequence[NoteItem]:
    """The newest items of this status, or of any, newest first. `before`: time in microseconds and id of the item after
    which the page begins."""
    query = _NEWEST.where(*conditions).limit(limit)
    if status is not None:
        if status not in _BY_STATUS:
            return ()
        query = query.where(*_BY_STATUS[status])
    if order_id is not None:
        query = query.where(NOTES.c.order_id == order_id)
    if before is not None:
        place = sa.tuple_(before[0], number_of(before[1]) if is_identifier(before[1]) else 0)
        query = query.where(sa.tuple_(NOTES.c.written_at, NOTES.c.id) < place)
    return [note_item(note_of(row, 0)) for row in connection.execute(query)]


def note_item(note: Note) -> NoteItem:
    """A version of a memory that was pending, as an item of the inbox."""
    status: NoteItemStatus = "approved" if note.state == "accepted" else "denied"
    if note.decided_by is None:
        status = "pending" if note.state == "pending" else "void"
    return NoteItem(
        id=item_id(note),
        order_id=note.order_id or "",
        record_id=note.record_id,
        agent=note.agent,
        depth=0,
        by=note.decided_by,
        requested_at=note.written_at,
        decided_at=note.decided_at,
        project=note.project,
        workspace=note.workspace,
        name=note.name,
        version=note.version,
        text=note.text,
        tainted=note.tainted,
        deletes=note.deleted,
        status=status,
    )
