"""Notes of projects: written by agents under the lock of their order, kept in versions, found by words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.entry import Origin
from mcc.contracts.ids import derived_id
from mcc.contracts.journal import ToolStarted
from mcc.contracts.notes import MAX_NOTES, NewNote, Note, NoteKind
from mcc.store.database.clock import micros, moment
from mcc.store.database.engine import Database
from mcc.store.database.errors import StoreFenced, TooManyNotes, UnknownNote
from mcc.store.database.tables import JOURNAL, NOTES
from mcc.store.rows.audit import add_note
from mcc.store.rows.order_rows import is_held, lock, text_json, text_of

WORDS = 32
"""Words of a search that are used; the others are ignored."""

WORDS_CHARACTERS = 20_000
DELETED = "note deleted"

_NEWEST = sa.select(NOTES).where(NOTES.c.newest, NOTES.c.project == sa.bindparam("of"))
_OF_KIND = _NEWEST.where(NOTES.c.kind == sa.bindparam("kind"), ~NOTES.c.deleted)
_NOT_EXPIRED = sa.or_(NOTES.c.expires_at.is_(None), NOTES.c.expires_at > sa.bindparam("now"))
_NAMED = _NEWEST.where(NOTES.c.kind == sa.bindparam("kind"), NOTES.c.name == sa.bindparam("name"))
_BY_CALL = sa.select(NOTES).where(NOTES.c.order_id == sa.bindparam("order_id"), NOTES.c.call_id == sa.bindparam("call"))
_HISTORY = (
    sa.select(NOTES)
    .where(
        NOTES.c.project == sa.bindparam("of"),
        NOTES.c.kind == sa.bindparam("kind"),
        NOTES.c.name == sa.bindparam("name"),
    )
    .order_by(NOTES.c.version.desc())
)
_COUNT = (
    sa.select(sa.func.count())
    .select_from(NOTES)
    .where(NOTES.c.newest, NOTES.c.project == sa.bindparam("of"), NOTES.c.kind == sa.bindparam("kind"))
    .where(~NOTES.c.deleted)
)
_NUMBERED = sa.select(NOTES.c.name).where(
    NOTES.c.newest, NOTES.c.project == sa.bindparam("of"), NOTES.c.kind == sa.bindparam("kind")
)
_STARTED = (
    sa.select(JOURNAL.c.seq)
    .where(
        JOURNAL.c.order_id == sa.bindparam("order_id"),
        JOURNAL.c.kind == ToolStarted.kind,
        JOURNAL.c.call_id == sa.bindparam("call"),
    )
    .order_by(JOURNAL.c.seq.desc())
    .limit(1)
)
_FOUND = {
    "postgresql": "SELECT n.* FROM notes n WHERE n.newest AND NOT n.deleted AND n.project = :of"
    " AND (n.kind = :kind OR CAST(:kind AS text) IS NULL) AND (n.expires_at IS NULL OR n.expires_at > :now)"
    " AND to_tsvector('simple', n.words) @@ to_tsquery('simple', :query)"
    " ORDER BY ts_rank(to_tsvector('simple', n.words), to_tsquery('simple', :query)) DESC, n.verified_at DESC, n.id"
    " LIMIT :most",
    "sqlite": "SELECT n.* FROM note_words w JOIN notes n ON n.id = w.rowid WHERE note_words MATCH :query"
    " AND n.project = :of AND (n.kind = :kind OR :kind IS NULL) AND (n.expires_at IS NULL OR n.expires_at > :now)"
    " ORDER BY w.rank, n.verified_at DESC, n.id LIMIT :most",
}


@dataclass(frozen=True, slots=True)
class Writing:
    """The author of a note: a tool call of an agent, in an order held under `epoch` that works in `workspace`."""

    order_id: str
    epoch: int
    origin: Origin
    call_id: str
    project: str
    workspace: str | None = None


def words_of(text: str) -> Sequence[str]:
    """The words of a text, in lower case: runs of letters and digits of any script."""
    return "".join(one if one.isalnum() else " " for one in text.casefold()).split()


class NoteStore:
    """Every method blocks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def write(self, writing: Writing, new: NewNote) -> Note:
        """Write a new version of a note, and answer it; repeating the same call writes nothing more.

        An unchanged note gets no new version, but a new `verified_at`. Raises `StoreFenced`, `TooManyNotes`;
        `UnknownNote` for a note that does not exist when neither title nor text is given.
        """
        return self._written(writing, lambda connection: self._write(connection, writing, new))

    def delete(self, writing: Writing, kind: NoteKind, name: str) -> Note:
        """Write a version that marks the note as deleted; earlier versions are kept. Raises `StoreFenced`,
        `UnknownNote`."""

        def work(connection: Connection) -> Note:
            before = self._existing(connection, writing.project, kind, name)
            return self._add(connection, writing, before.model_copy(update={"deleted": True, "text": "", "title": ""}))

        return self._written(writing, work)

    def remove(self, project: str, kind: NoteKind, name: str, *, principal: str) -> Note:
        """As `delete`, but by a person, with an audit note. Raises `UnknownNote`."""

        def work(connection: Connection) -> Note:
            before = self._existing(connection, project, kind, name)
            nothing = {"deleted": True, "text": "", "title": "", "principal": principal}
            no_agent = dict.fromkeys(("order_id", "record_id", "agent", "seq"))
            note = self._follow(connection, before.model_copy(update={**nothing, **no_agent}), None)
            detail = {"project": project, "kind": kind, "name": name}
            add_note(connection, note.written_at, DELETED, principal=principal, order_id=None, detail=detail)
            return note

        return self._database.write(work)

    def find(self, *, project: str | None = None, kind: NoteKind | None = None, most: int = 200) -> Sequence[Note]:
        """Notes of all projects, or of one, that are neither deleted nor expired; newest first."""
        wanted = [NOTES.c[name] == value for name, value in (("project", project), ("kind", kind)) if value is not None]
        statement = sa.select(NOTES).where(NOTES.c.newest, ~NOTES.c.deleted, _NOT_EXPIRED, *wanted)
        newest = statement.order_by(NOTES.c.written_at.desc(), NOTES.c.id).limit(most)
        return self._database.read(lambda one: [_note(row) for row in one.execute(newest, {"now": self._now()})])

    def list(self, project: str, kind: NoteKind) -> Sequence[Note]:
        """The notes that are neither deleted nor expired, by name."""
        parameters = {"of": project, "kind": kind, "now": self._now()}
        statement = _OF_KIND.where(_NOT_EXPIRED).order_by(NOTES.c.name)
        return self._database.read(lambda one: [_note(row) for row in one.execute(statement, parameters)])

    def get(self, project: str, kind: NoteKind, name: str) -> Note:
        """The newest version, also of an expired note. Raises `UnknownNote`."""
        return self._database.read(lambda connection: self._existing(connection, project, kind, name))

    def history(self, project: str, kind: NoteKind, name: str) -> Sequence[Note]:
        """All stored versions, newest first."""
        note = {"of": project, "kind": kind, "name": name}
        return self._database.read(lambda one: [_note(row) for row in one.execute(_HISTORY, note)])

    def search(self, project: str, question: str, *, kind: NoteKind | None = None, most: int = 10) -> Sequence[Note]:
        """Notes that contain at least one of the words of `question`, best match first, without expired ones."""
        words = list(dict.fromkeys(words_of(question)))[:WORDS]
        if not words:
            return ()
        # Words of letters and digits alone, in quotes: a question must not be read as the query language of the
        # database.
        terms = {"postgresql": " | ".join(f"'{word}'" for word in words)}
        query = terms.get(self._database.dialect) or " OR ".join(f'"{word}"' for word in words)
        parameters = {"of": project, "kind": kind, "now": self._now(), "query": query, "most": most}
        statement = sa.text(_FOUND[self._database.dialect])
        return self._database.read(lambda one: [_note(row) for row in one.execute(statement, parameters)])

    def _now(self) -> int:
        return micros(self._database.clock.now())

    def _written(self, writing: Writing, work: Callable[[Connection], Note]) -> Note:
        def fenced(connection: Connection) -> Note:
            state = lock(connection, writing.order_id)
            if state is None or not is_held(state, writing.epoch):
                raise StoreFenced(f"order {writing.order_id} is not held under epoch {writing.epoch}")
            call = {"order_id": writing.order_id, "call": writing.call_id}
            # A call that is repeated after a takeover wrote its note already.
            if (row := connection.execute(_BY_CALL, call).first()) is not None:
                return _note(row)
            return work(connection)

        return self._database.write(fenced, repeatable=True)

    def _write(self, connection: Connection, writing: Writing, new: NewNote) -> Note:
        name = new.name or self._next_number(connection, writing.project, new.kind)
        before = self._found(connection, writing.project, new.kind, name)
        if before is None or before.deleted:
            if new.text is None and new.title is None:
                raise _unknown(new.kind, name)
            of_kind = {"of": writing.project, "kind": new.kind}
            if (connection.scalar(_COUNT, of_kind) or 0) >= MAX_NOTES:
                raise TooManyNotes(f"the project has {MAX_NOTES:,} notes of the kind {new.kind}: delete some")
        kept = before if before is not None and not before.deleted else None
        changed = {key: value for key in ("title", "text", "status") if (value := getattr(new, key)) is not None}
        bare = {"project": writing.project, "kind": new.kind, "name": name, "version": before.version if before else 0}
        now = self._database.clock.now()
        base = kept or Note(**bare, order_id=writing.order_id, written_at=now, verified_at=now)  # type: ignore[arg-type]
        wanted = base.model_copy(update={**changed, "expires_at": new.expires_at or base.expires_at})
        # An agent that finds a note true again confirms it; a version for each time would bury the changes.
        if kept is not None and wanted == kept:
            return self._verified(connection, kept)
        return self._add(connection, writing, wanted)

    def _verified(self, connection: Connection, note: Note) -> Note:
        at = self._database.clock.now()
        named = _same(note.project, note.kind, note.name)
        connection.execute(sa.update(NOTES).where(NOTES.c.newest, *named).values(verified_at=micros(at)))
        return note.model_copy(update={"verified_at": at})

    def _add(self, connection: Connection, writing: Writing, note: Note) -> Note:
        """Write `note` as the next version, by this call."""
        seq = connection.scalar(_STARTED, {"order_id": writing.order_id, "call": writing.call_id})
        by = {
            "workspace": writing.workspace,
            "principal": None,
            "order_id": writing.order_id,
            "record_id": writing.origin.record_id,
            "agent": writing.origin.agent,
            "seq": seq,
        }
        return self._follow(connection, note.model_copy(update=by), writing.call_id)

    def _follow(self, connection: Connection, note: Note, call_id: str | None) -> Note:
        """Write `note` as the version after its own number, and make it the newest."""
        at = self._database.clock.now()
        added = note.model_copy(update={"version": note.version + 1, "written_at": at, "verified_at": at})
        named = _same(note.project, note.kind, note.name)
        connection.execute(sa.update(NOTES).where(NOTES.c.newest, *named).values(newest=False))
        connection.execute(sa.insert(NOTES), _row(added, call_id))
        return added

    def _next_number(self, connection: Connection, project: str, kind: NoteKind) -> str:
        names = connection.execute(_NUMBERED, {"of": project, "kind": kind}).scalars().all()
        return str(1 + max((int(name) for name in names if name.isdecimal()), default=0))

    def _found(self, connection: Connection, project: str, kind: NoteKind, name: str) -> Note | None:
        row = connection.execute(_NAMED, {"of": project, "kind": kind, "name": name}).first()
        return None if row is None else _note(row)

    def _existing(self, connection: Connection, project: str, kind: NoteKind, name: str) -> Note:
        found = self._found(connection, project, kind, name)
        if found is None or found.deleted:
            raise _unknown(kind, name)
        return found


def _unknown(kind: NoteKind, name: str) -> UnknownNote:
    return UnknownNote(f"there is no {kind} {name[:100]!r} in this project")


def _same(project: str, kind: NoteKind, name: str) -> tuple[sa.ColumnElement[bool], ...]:
    return NOTES.c.project == project, NOTES.c.kind == kind, NOTES.c.name == name


def _note(row: Any) -> Note:
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
        expires_at=None if row.expires_at is None else moment(row.expires_at),
    )


def _row(note: Note, call_id: str | None) -> dict[str, Any]:
    words = " ".join(words_of(f"{note.name} {note.title} {note.text}"))
    return {
        "id": UUID(derived_id(note.project, note.kind, note.name, note.version)).int >> 65,
        "project": note.project,
        "kind": note.kind,
        "name": note.name,
        "version": note.version,
        "newest": True,
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
    }
