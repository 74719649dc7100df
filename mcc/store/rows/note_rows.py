"""Rows of notes, the conditions by which they are read, and what follows when one version takes another's place."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.ids import derived_id
from mcc.contracts.notes import Note, NoteKind
from mcc.store.database.clock import micros, moment, moment_or_none
from mcc.store.database.direct import execute_later
from mcc.store.database.errors import UnknownNote
from mcc.store.database.tables import NOTES
from mcc.store.rows.order_rows import text_json, text_of

WORDS_CHARACTERS = 20_000
WORDS = 32
"""Words of a search that are used; the others are ignored."""

STALE_DAYS = 90
"""Days after which a memory that nobody has verified is stale, unless the operator says otherwise."""

UNDECIDED = NOTES.c.state == sa.literal_column("'pending'")
"""A literal, so that the partial index of pending versions is used."""

_SERIALIZE = sa.text("SELECT pg_advisory_xact_lock(hashtext(:named))")
_REPLACE = sa.update(NOTES).where(
    NOTES.c.newest,
    NOTES.c.project == sa.bindparam("of"),
    NOTES.c.kind == sa.bindparam("of_kind"),
    NOTES.c.name == sa.bindparam("named"),
)
_SUPERSEDE = (
    sa.update(NOTES)
    .where(
        UNDECIDED,
        NOTES.c.project == sa.bindparam("of"),
        NOTES.c.kind == sa.bindparam("of_kind"),
        NOTES.c.name == sa.bindparam("named"),
        NOTES.c.version < sa.bindparam("before"),
    )
    .values(state="rejected", decided_at=sa.bindparam("at"))
)


def serialize(connection: Connection, project: str, kind: NoteKind, name: str) -> None:
    """Let nobody else change this note until the transaction ends. On SQLite all writes are serialized."""
    if connection.dialect.name == "postgresql":
        execute_later(connection, _SERIALIZE, {"named": f"note {project} {kind} {name}"})


def take_place(connection: Connection, note: Note) -> None:
    """Let no earlier version count, as `note` counts from now on; earlier ones that are pending are decided by that."""
    named = {"of": note.project, "of_kind": note.kind, "named": note.name}
    connection.execute(_REPLACE.values(newest=False), named)
    supersede(connection, note)


def supersede(connection: Connection, note: Note, *others: sa.ColumnElement[bool], **values: str) -> None:
    """Decide the pending versions before `note` for which all `others` hold, whose parameters are `values`: nobody
    accepts what was replaced."""
    named = {"of": note.project, "of_kind": note.kind, "named": note.name, **values}
    at = micros(note.decided_at or note.written_at)
    connection.execute(_SUPERSEDE.where(*others), named | {"before": note.version, "at": at})


_BETWEEN_WORDS = {code: " " for code in range(128) if not chr(code).isalnum()}


def words_of(text: str) -> list[str]:
    """The words of a text, in lower case: runs of letters and digits of any script."""
    if text.isascii():
        # Most texts are, and so take a fifth of the time.
        return text.lower().translate(_BETWEEN_WORDS).split()
    return "".join(one if one.isalnum() else " " for one in text.casefold()).split()


def stale_before(now: datetime, stale_days: float) -> int:
    """A memory that was verified before this time, in microseconds, is stale."""
    return micros(now - timedelta(days=stale_days))


def number_of(item_id: str) -> int:
    """The number of the row whose inbox item has this id; both sort alike."""
    return UUID(item_id).int >> 65


def item_id(note: Note) -> str:
    """The id of the inbox item about this version."""
    return derived_id(note.project, note.kind, note.name, note.version)


def unknown(kind: NoteKind, name: str) -> UnknownNote:
    return UnknownNote(f"there is no {kind} {name[:100]!r} in this project")


def note_of(row: Any, stale: int) -> Note:
    """`stale`: as `stale_before` answers."""
    return Note(
        project=row.project,
        kind=row.kind,
        name=row.name,
        version=row.version,
        title=text_of(row.title_json) or "",
        text=text_of(row.text_json) or "",
        status=row.status,
        deleted=bool(row.deleted),
        workspace=text_of(row.workspace_json),
        principal=row.principal,
        order_id=row.order_id,
        record_id=row.record_id,
        agent=row.agent,
        seq=row.seq,
        written_at=moment(row.written_at),
        verified_at=moment(row.verified_at),
        expires_at=moment_or_none(row.expires_at),
        state=row.state,
        stale=row.kind == "memory" and row.verified_at < stale,
        tainted=bool(row.tainted),
        decided_by=row.decided_by,
        decided_at=moment_or_none(row.decided_at),
    )


def note_row(note: Note, call_id: str | None) -> dict[str, Any]:
    words = " ".join(words_of(f"{note.name} {note.title} {note.text}"))
    return {
        "id": number_of(item_id(note)),
        "project": note.project,
        "kind": note.kind,
        "name": note.name,
        "version": note.version,
        "newest": note.state == "accepted",
        "deleted": note.deleted,
        "title_json": text_json(note.title),
        "text_json": text_json(note.text),
        "words": words[:WORDS_CHARACTERS],
        "status": note.status,
        "workspace_json": text_json(note.workspace),
        "principal": note.principal,
        "order_id": note.order_id,
        "record_id": note.record_id,
        "agent": note.agent,
        "call_id": call_id,
        "seq": note.seq,
        "written_at": micros(note.written_at),
        "verified_at": micros(note.verified_at),
        "expires_at": None if note.expires_at is None else micros(note.expires_at),
        "state": note.state,
        "tainted": note.tainted,
    }
