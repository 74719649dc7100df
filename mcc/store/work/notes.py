"""Notes of projects: written by agents under the lock of their order, kept in versions, found by words.

The newest accepted version of a note counts, and is marked by `newest` in its row. A memory may have versions that wait
for a person: only agents of the session that wrote them see them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import Actor
from mcc.contracts.entry import Origin
from mcc.contracts.journal import ToolStarted
from mcc.contracts.notes import MAX_NOTES, DecideNote, NewNote, Note, NoteKind, NoteState
from mcc.store.database.clock import micros
from mcc.store.database.engine import Database
from mcc.store.database.errors import AlreadyDecided, StoreFenced, TooManyNotes
from mcc.store.database.tables import JOURNAL, NOTES, STATE
from mcc.store.rows.audit import add_note
from mcc.store.rows.note_rows import (
    STALE_DAYS,
    UNDECIDED,
    WORDS,
    note_of,
    note_row,
    serialize,
    stale_before,
    supersede,
    take_place,
    unknown,
    words_of,
)
from mcc.store.rows.order_rows import is_held, lock

DELETED = "note.deleted"
DECIDED = "note.decided"

_DECIDES: Mapping[str, NoteState] = {"accept": "accepted", "reject": "rejected"}

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
_VERSION = _HISTORY.where(NOTES.c.version == sa.bindparam("version"))
_LAST = (
    sa.select(sa.func.max(NOTES.c.version))
    .select_from(NOTES)
    .where(
        NOTES.c.project == sa.bindparam("of"),
        NOTES.c.kind == sa.bindparam("kind"),
        NOTES.c.name == sa.bindparam("name"),
    )
)
_OF_SESSION = NOTES.c.order_id.in_(sa.select(STATE.c.order_id).where(STATE.c.session_id == sa.bindparam("session")))
_PENDING = sa.select(NOTES).where(
    UNDECIDED, _OF_SESSION, NOTES.c.project == sa.bindparam("of"), NOTES.c.kind == sa.bindparam("kind")
)
_PENDING_NAMED = _PENDING.where(NOTES.c.name == sa.bindparam("name")).order_by(NOTES.c.version.desc())
_DECIDE = (
    sa.update(NOTES)
    .where(NOTES.c.id == sa.bindparam("of_id"), UNDECIDED)
    .values({name: sa.bindparam(f"new_{name}") for name in ("state", "newest", "decided_by", "decided_at")})
)
_VERIFY = sa.update(NOTES).where(NOTES.c.id == sa.bindparam("of_id")).values(verified_at=sa.bindparam("at"))
_COUNT = (
    sa.select(sa.func.count())
    .select_from(NOTES)
    .where(sa.or_(NOTES.c.newest, UNDECIDED), ~NOTES.c.deleted)
    .where(NOTES.c.project == sa.bindparam("of"), NOTES.c.kind == sa.bindparam("kind"))
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
_STALE = "(n.kind = 'memory' AND n.verified_at < :stale)"
_FOUND = {
    "postgresql": "SELECT n.* FROM notes n WHERE n.newest AND NOT n.deleted AND n.project = :of"
    " AND (n.kind = :kind OR CAST(:kind AS text) IS NULL) AND (n.expires_at IS NULL OR n.expires_at > :now)"
    " AND to_tsvector('simple', n.words) @@ to_tsquery('simple', :query)"
    f" ORDER BY {_STALE}, ts_rank(to_tsvector('simple', n.words), to_tsquery('simple', :query)) DESC,"
    " n.verified_at DESC, n.id LIMIT :most",
    "sqlite": "SELECT n.* FROM note_words w JOIN notes n ON n.id = w.rowid WHERE note_words MATCH :query"
    " AND n.project = :of AND (n.kind = :kind OR :kind IS NULL) AND (n.expires_at IS NULL OR n.expires_at > :now)"
    f" ORDER BY {_STALE}, w.rank, n.verified_at DESC, n.id LIMIT :most",
}


@dataclass(frozen=True, slots=True)
class Writing:
    """The author of a note: a tool call of an agent, in an order held under `epoch` that works in `workspace`.

    `tainted`: the agent had been shown text from outside. `pending`: a person has to accept what it writes.
    """

    order_id: str
    epoch: int
    origin: Origin
    call_id: str
    project: str
    workspace: str | None = None
    tainted: bool = False
    pending: bool = False


class NoteStore:
    """Every method blocks. `stale_days`: a memory that nobody has verified for as long is stale."""

    def __init__(self, database: Database, stale_days: float = STALE_DAYS) -> None:
        self._database = database
        self._stale_days = stale_days

    def write(self, writing: Writing, new: NewNote) -> Note:
        """Write a new version of a note, and answer it; repeating the same call writes nothing more.

        An unchanged note gets no new version, but a new `verified_at`, unless what is written is pending. Raises
        `StoreFenced`, `TooManyNotes`; `UnknownNote` for a note that does not exist when neither title nor text is
        given.
        """
        return self._written(writing, lambda connection, session: self._write(connection, writing, new, session))

    def delete(self, writing: Writing, kind: NoteKind, name: str) -> Note:
        """Write a version that marks the note as deleted; earlier versions are kept, and a pending deletion leaves the
        note as it is. Raises `StoreFenced`, `UnknownNote`."""

        def work(connection: Connection, session_id: str) -> Note:
            serialize(connection, writing.project, kind, name)
            before = self._existing(connection, writing.project, kind, name)
            nothing = before.model_copy(update={"deleted": True, "text": "", "title": ""})
            return self._add(connection, writing, nothing, session_id)

        return self._written(writing, work)

    def remove(self, project: str, kind: NoteKind, name: str, *, by: Actor) -> Note:
        """As `delete`, but by a person, with an audit note. Raises `UnknownNote`."""

        def work(connection: Connection) -> Note:
            before = self._existing(connection, project, kind, name)
            nothing = {"deleted": True, "text": "", "title": "", "principal": by.principal}
            no_agent = dict.fromkeys(("order_id", "record_id", "agent", "seq", "decided_by", "decided_at"))
            serialize(connection, project, kind, name)
            note = self._follow(connection, before.model_copy(update={**nothing, **no_agent, "tainted": False}), None)
            detail = {"project": project, "kind": kind, "name": name}
            add_note(connection, note.written_at, DELETED, by=by, order_id=None, detail=detail)
            return note

        return self._database.write(work)

    def decide(self, asked: DecideNote, *, by: Actor) -> Note:
        """Accept or reject a pending version of a memory; repeating the same decision changes nothing. An accepted one
        counts from now on, and counts as verified. Raises `UnknownNote`, `AlreadyDecided`."""

        def work(connection: Connection) -> Note:
            serialize(connection, asked.project, "memory", asked.name)
            named = {"of": asked.project, "kind": "memory", "name": asked.name, "version": asked.version}
            row = connection.execute(_VERSION, named).first()
            if row is None:
                raise unknown("memory", asked.name)
            note, state = self._note(row), _DECIDES[asked.decision]
            if note.state == state and note.decided_by is not None:
                return note
            if note.state != "pending":
                replaced = note.state == "rejected" and note.decided_by is None
                said = "a later version took its place" if replaced else f"it is {note.state}"
                raise AlreadyDecided(f"version {note.version} of {note.name!r} is not pending: {said}")
            at = self._database.clock.now()
            decided = {"state": state, "decided_by": by.principal, "decided_at": at, "verified_at": at}
            after = note.model_copy(update=decided)
            if state == "accepted":
                take_place(connection, after)
                connection.execute(_VERIFY, {"of_id": row.id, "at": micros(at)})
            new = {"new_state": state, "new_newest": state == "accepted", "new_decided_by": by.principal}
            connection.execute(_DECIDE, {"of_id": row.id, "new_decided_at": micros(at), **new})
            add_note(connection, at, DECIDED, by=by, order_id=None, detail=asked.model_dump())
            return self._note(connection.execute(_VERSION, named).one())

        return self._database.write(work)

    def find(
        self,
        *,
        project: str | None = None,
        kind: NoteKind | None = None,
        state: NoteState = "accepted",
        most: int = 200,
    ) -> Sequence[Note]:
        """Notes of all projects, or of one, newest first: those that count and are neither deleted nor expired, or all
        versions of another state."""
        wanted = [NOTES.c[name] == value for name, value in (("project", project), ("kind", kind)) if value is not None]
        states = {"accepted": (NOTES.c.newest, ~NOTES.c.deleted, _NOT_EXPIRED), "pending": (UNDECIDED,)}
        of_state = states.get(state, (NOTES.c.state == state,))
        newest = sa.select(NOTES).where(*of_state, *wanted).order_by(NOTES.c.written_at.desc(), NOTES.c.id).limit(most)
        parameters = {"now": self._now()} if state == "accepted" else {}
        return self._database.read(lambda one: [self._note(row) for row in one.execute(newest, parameters)])

    def list(self, project: str, kind: NoteKind, session_id: str | None = None) -> Sequence[Note]:
        """The notes that are neither deleted nor expired, by name, stale ones last; with those that are pending in this
        session."""
        parameters = {"of": project, "kind": kind, "now": self._now()}

        def notes(connection: Connection) -> Sequence[Note]:
            rows = [*connection.execute(_OF_KIND.where(_NOT_EXPIRED), parameters)]
            rows += self._pending(connection, parameters, session_id)
            return sorted(map(self._note, rows), key=lambda note: (note.stale, note.name, note.version))

        return self._database.read(notes)

    def get(self, project: str, kind: NoteKind, name: str) -> Note:
        """The version that counts, also of an expired note. Raises `UnknownNote`."""
        return self._database.read(lambda connection: self._existing(connection, project, kind, name))

    def shown(self, project: str, kind: NoteKind, name: str, session_id: str) -> Sequence[Note]:
        """What agents of a session are shown of a note: the version that counts, also of an expired note, and then the
        one that is pending in this session; at least one. Raises `UnknownNote`."""

        def notes(connection: Connection) -> Sequence[Note]:
            current = self._found(connection, project, kind, name)
            pending = self._pending_here(connection, project, kind, name, session_id)
            found = [note for note in (current, pending) if note is not None and not note.deleted]
            if not found:
                raise unknown(kind, name)
            return found

        return self._database.read(notes)

    def history(self, project: str, kind: NoteKind, name: str) -> Sequence[Note]:
        """All stored versions, newest first."""
        note = {"of": project, "kind": kind, "name": name}
        return self._database.read(lambda one: [self._note(row) for row in one.execute(_HISTORY, note)])

    def search(
        self,
        project: str,
        question: str,
        *,
        kind: NoteKind | None = None,
        most: int = 10,
        session_id: str | None = None,
    ) -> Sequence[Note]:
        """Notes that contain at least one of the words of `question`, best match first, stale ones last, without
        expired ones; with those that are pending in this session, after the ones that are not stale."""
        words = list(dict.fromkeys(words_of(question)))[:WORDS]
        if not words:
            return ()
        # Words of letters and digits alone, in quotes: a question must not be read as the query language of the
        # database.
        terms = {"postgresql": " | ".join(f"'{word}'" for word in words)}
        query = terms.get(self._database.dialect) or " OR ".join(f'"{word}"' for word in words)
        now, stale = self._now(), self._stale_before()
        parameters = {"of": project, "kind": kind, "now": now, "query": query, "most": most, "stale": stale}
        statement = sa.text(_FOUND[self._database.dialect])

        def notes(connection: Connection) -> Sequence[Note]:
            counting = [note_of(row, stale) for row in connection.execute(statement, parameters)]
            asked = {"of": project, "kind": kind or "memory", "now": now}
            rows = self._pending(connection, asked, session_id)
            pending = [self._note(row) for row in rows if not set(words).isdisjoint(row.words.split())][:most]
            return sorted([*counting[: most - len(pending)], *pending], key=lambda note: note.stale)

        return self._database.read(notes)

    def _pending(
        self, connection: Connection, parameters: Mapping[str, object], session_id: str | None
    ) -> Sequence[sa.Row[tuple[object, ...]]]:
        """The rows of notes that are pending in the session and would, once accepted, be shown."""
        if session_id is None or parameters["kind"] != "memory":
            return ()
        statement = _PENDING.where(_NOT_EXPIRED, ~NOTES.c.deleted).order_by(NOTES.c.written_at.desc(), NOTES.c.id)
        return connection.execute(statement, {**parameters, "session": session_id}).all()

    def _pending_here(
        self, connection: Connection, project: str, kind: NoteKind, name: str, session_id: str
    ) -> Note | None:
        wanted = {"of": project, "kind": kind, "name": name, "session": session_id}
        row = connection.execute(_PENDING_NAMED, wanted).first()
        return None if row is None else self._note(row)

    def _note(self, row: Any) -> Note:
        return note_of(row, self._stale_before())

    def _stale_before(self) -> int:
        return stale_before(self._database.clock.now(), self._stale_days)

    def _now(self) -> int:
        return micros(self._database.clock.now())

    def _written(self, writing: Writing, work: Callable[[Connection, str], Note]) -> Note:
        """What `work` does for a held order; it gets the id of the order's session."""

        def fenced(connection: Connection) -> Note:
            state = lock(connection, writing.order_id)
            if state is None or not is_held(state, writing.epoch):
                raise StoreFenced(f"order {writing.order_id} is not held under epoch {writing.epoch}")
            call = {"order_id": writing.order_id, "call": writing.call_id}
            # A call that is repeated after a takeover wrote its note already.
            if (row := connection.execute(_BY_CALL, call).first()) is not None:
                return self._note(row)
            return work(connection, state.session_id)

        return self._database.write(fenced, repeatable=True)

    def _write(self, connection: Connection, writing: Writing, new: NewNote, session_id: str) -> Note:
        name = new.name or self._next_number(connection, writing.project, new.kind)
        serialize(connection, writing.project, new.kind, name)
        before = self._found(connection, writing.project, new.kind, name)
        kept = before if before is not None and not before.deleted else None
        mine = self._pending_here(connection, writing.project, new.kind, name, session_id) if writing.pending else None
        if kept is None and new.text is None and new.title is None:
            raise unknown(new.kind, name)
        if kept is None and mine is None:
            of_kind = {"of": writing.project, "kind": new.kind}
            if (connection.scalar(_COUNT, of_kind) or 0) >= MAX_NOTES:
                raise TooManyNotes(f"the project has {MAX_NOTES:,} notes of the kind {new.kind}: delete some")
        changed = {key: value for key in ("title", "text", "status") if (value := getattr(new, key)) is not None}
        now = self._database.clock.now()
        bare = {"project": writing.project, "kind": new.kind, "name": name, "version": 0}
        base = kept or Note(**bare, order_id=writing.order_id, written_at=now, verified_at=now)  # type: ignore[arg-type]
        wanted = base.model_copy(update={**changed, "expires_at": new.expires_at or base.expires_at})
        # An agent that finds a note true again confirms it; a version for each time would bury the changes.
        if kept is not None and wanted == kept:
            return kept if writing.pending else self._verified(connection, kept)
        if mine is not None and (mine.text, mine.title, mine.deleted) == (wanted.text, wanted.title, False):
            return mine
        return self._add(connection, writing, wanted, session_id)

    def _verified(self, connection: Connection, note: Note) -> Note:
        at = self._database.clock.now()
        named = _same(note.project, note.kind, note.name)
        connection.execute(sa.update(NOTES).where(NOTES.c.newest, *named).values(verified_at=micros(at)))
        return note.model_copy(update={"verified_at": at, "stale": False})

    def _add(self, connection: Connection, writing: Writing, note: Note, session_id: str) -> Note:
        """Write `note` as the next version, by this call."""
        by = {
            "workspace": writing.workspace,
            "principal": None,
            "order_id": writing.order_id,
            "record_id": writing.origin.record_id,
            "agent": writing.origin.agent,
            "seq": connection.scalar(_STARTED, {"order_id": writing.order_id, "call": writing.call_id}),
            "state": "pending" if writing.pending else "accepted",
            "tainted": writing.tainted,
            "decided_by": None,
            "decided_at": None,
        }
        return self._follow(connection, note.model_copy(update=by), writing.call_id, session_id)

    def _follow(self, connection: Connection, note: Note, call_id: str | None, session_id: str = "") -> Note:
        """Write `note` as the version after the last one; it takes the place of the one that counts, or, where it is
        pending, of earlier ones that are pending in its session."""
        at = self._database.clock.now()
        last = connection.scalar(_LAST, {"of": note.project, "kind": note.kind, "name": note.name}) or 0
        added = note.model_copy(update={"version": last + 1, "written_at": at, "verified_at": at, "stale": False})
        if added.state == "accepted":
            take_place(connection, added)
        else:
            supersede(connection, added, _OF_SESSION, session=session_id)
        connection.execute(sa.insert(NOTES), note_row(added, call_id))
        return added

    def _next_number(self, connection: Connection, project: str, kind: NoteKind) -> str:
        names = connection.execute(_NUMBERED, {"of": project, "kind": kind}).scalars().all()
        return str(1 + max((int(name) for name in names if name.isdecimal()), default=0))

    def _found(self, connection: Connection, project: str, kind: NoteKind, name: str) -> Note | None:
        row = connection.execute(_NAMED, {"of": project, "kind": kind, "name": name}).first()
        return None if row is None else self._note(row)

    def _existing(self, connection: Connection, project: str, kind: NoteKind, name: str) -> Note:
        found = self._found(connection, project, kind, name)
        if found is None or found.deleted:
            raise unknown(kind, name)
        return found


def _same(project: str, kind: NoteKind, name: str) -> tuple[sa.ColumnElement[bool], ...]:
    return NOTES.c.project == project, NOTES.c.kind == kind, NOTES.c.name == name
