"""Deletion of sessions: unknown at once, then their orders are cancelled and all their rows go, a few at a time.

Each step looks at what is still there, so whoever comes next goes on where another one stopped.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import islice

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.status import FINAL, UNFINISHED
from mcc.store.database.clock import micros
from mcc.store.database.engine import Database
from mcc.store.database.errors import (
    ControlNotTaken,
    NotAConversation,
    OrderIsFinal,
    SessionOfDocument,
    StoreUnavailable,
)
from mcc.store.database.tables import (
    BLOBS,
    CONTROLS,
    GRANTS,
    HISTORY,
    JOURNAL,
    METADATA,
    NOTES,
    ORDERS,
    SESSIONS,
    STATE,
    TEXT_USES,
    among,
)
from mcc.store.rows.audit import add_note
from mcc.store.rows.control_rows import controls_of
from mcc.store.rows.order_rows import lock, text_json
from mcc.store.rows.session_rows import check_conversation, is_at_work, session_row
from mcc.store.rows.transcript_rows import lacks_base
from mcc.store.rows.transitions import cancels_order
from mcc.store.rows.usage_rows import count_usage
from mcc.store.rows.views import has_status
from mcc.store.upkeep.retention import CHUNK, KEPT_HOURS, TEXTS, remove_texts
from mcc.store.work.controls import requested

DELETED = "session.deleted"
"""Kind of the audit note about a deleted session."""

WHY = "its session was deleted"
REMOVER = "mcc"
SESSIONS_AT_ONCE = 5
STEPS = 40
"""Transactions for one session in one round: a sweep has to be quick, and the next one comes soon."""
ORDERS_AT_ONCE = 200

KEPT_TABLES = frozenset({"audit", "notes", "document_history", "webhook_deliveries"})
"""Tables whose rows name an order and outlive it: the audit, what was noted for a project, the history of documents,
what was sent to webhooks."""

_OF_ORDER = tuple(
    sa.delete(table).where(table.c.order_id == sa.bindparam("of"))
    for table in reversed(METADATA.sorted_tables)
    if "order_id" in table.c and table.name not in KEPT_TABLES and table is not JOURNAL
)
"""For each table with rows of an order. By their columns, so that none is forgotten that is added later."""
_OF_SESSION = tuple(
    sa.delete(table).where(table.c.session_id == sa.bindparam("of"))
    for table in reversed(METADATA.sorted_tables)
    if "session_id" in table.c and "order_id" not in table.c and table is not ORDERS
)
_DUE = sa.select(SESSIONS.c.id).where(SESSIONS.c.deleted_at.is_not(None), SESSIONS.c.id > sa.bindparam("after"))
_DELETE = (
    sa.update(SESSIONS)
    .where(SESSIONS.c.id == sa.bindparam("of_id"))
    .values(deleted_at=sa.bindparam("at"), title_json=text_json(""), defaults_json=None)
)
"""With its title, as the row itself may stay for a while."""
_CHILD = SESSIONS.alias("child")
_NEEDED = sa.select(_CHILD.c.id).where(
    _CHILD.c.forked_session_id == sa.bindparam("of"), _CHILD.c.deleted_at.is_(None), lacks_base(_CHILD)
)
"""Forks that have what they are shown from their source: they have ended no turn, or the store ended it, or it was
rolled back."""
_BESIDE = sa.select(SESSIONS.c.id).where(SESSIONS.c.compacts == sa.bindparam("of"))
"""The session of the orders that compact this one: it goes first, as they may still leave something here."""
_DELETE_BESIDE = (
    sa.update(SESSIONS).where(SESSIONS.c.compacts == sa.bindparam("of_id")).values(deleted_at=sa.bindparam("at"))
)
_LATE_BESIDE = _BESIDE.where(SESSIONS.c.deleted_at.is_(None))
"""One that a turn made which ended while its session was deleted."""
_CANCELS = sa.select(CONTROLS.c.id).where(
    CONTROLS.c.order_id == STATE.c.order_id, CONTROLS.c.kind == ControlKind.CANCEL.value, CONTROLS.c.record_id.is_(None)
)
_UNCANCELLED = (
    sa.select(STATE.c.order_id)
    .where(STATE.c.session_id == sa.bindparam("of"), has_status(STATE.c.status, UNFINISHED), ~_CANCELS.exists())
    .order_by(STATE.c.order_id)
    .limit(ORDERS_AT_ONCE)
)
_UNMARKED = (
    sa.select(ORDERS.c.id)
    .where(ORDERS.c.session_id == sa.bindparam("of"), ORDERS.c.pruned_at.is_(None))
    .order_by(ORDERS.c.id)
    .limit(ORDERS_AT_ONCE)
)
_MARK = (
    sa.update(ORDERS)
    .where(among(ORDERS.c.id, "ids"), ORDERS.c.pruned_at.is_(None))
    .values(pruned_at=sa.bindparam("at"))
)
_SOME_ORDERS = (
    sa.select(ORDERS.c.id).where(ORDERS.c.session_id == sa.bindparam("of")).order_by(ORDERS.c.id).limit(ORDERS_AT_ONCE)
)
_SOME_ENTRIES = (
    sa.select(JOURNAL.c.seq).where(JOURNAL.c.order_id == sa.bindparam("of")).order_by(JOURNAL.c.seq).limit(CHUNK)
)
_ENTRIES = sa.delete(JOURNAL).where(JOURNAL.c.order_id == sa.bindparam("of"), JOURNAL.c.seq <= sa.bindparam("upto"))
_SOME_HISTORY = (
    sa.select(HISTORY.c.seq).where(HISTORY.c.order_id == sa.bindparam("of")).order_by(HISTORY.c.seq).limit(CHUNK)
)
_ITS_HISTORY = sa.delete(HISTORY).where(HISTORY.c.order_id == sa.bindparam("of"), HISTORY.c.seq <= sa.bindparam("upto"))
_GRANTS = sa.delete(GRANTS).where(GRANTS.c.scope == sa.bindparam("in"), GRANTS.c.scope_id == sa.bindparam("of"))
_HAND_OVER = sa.text(
    "INSERT INTO text_uses (digest, owner) SELECT digest, :session FROM text_uses WHERE owner = :of"
    " ON CONFLICT DO NOTHING"
)
_RELEASE = sa.delete(TEXT_USES).where(TEXT_USES.c.owner == sa.bindparam("of"))
_ORDER = sa.delete(ORDERS).where(ORDERS.c.id == sa.bindparam("of"))
_OLD_TEXTS = (
    sa.select(TEXT_USES.c.digest)
    .join(BLOBS, BLOBS.c.digest == TEXT_USES.c.digest)
    .where(TEXT_USES.c.owner == sa.bindparam("of"), BLOBS.c.created_at < sa.bindparam("before"))
    .limit(TEXTS)
)
_ITS_TEXTS = sa.select(TEXT_USES.c.digest).where(TEXT_USES.c.owner == sa.bindparam("of")).limit(1)
_RELEASE_SOME = sa.delete(TEXT_USES).where(
    TEXT_USES.c.owner == sa.bindparam("of"), among(TEXT_USES.c.digest, "digests")
)
_ITS_NOTES = sa.delete(NOTES).where(NOTES.c.project == sa.bindparam("of"))
_SESSION = sa.delete(SESSIONS).where(SESSIONS.c.id == sa.bindparam("of"))


class SessionRemoval:
    """Deletes sessions. `begin` hides one; `advance`, which every process calls again and again, removes its rows."""

    def __init__(self, database: Database, *, steps: int = STEPS) -> None:
        """`steps`: transactions for one session in one round."""
        self._database = database
        self._most_steps = steps
        self._after = ""

    def begin(self, session_id: str, *, by: Actor) -> None:
        """Make a session unknown, with an audit note. Raises `UnknownSession`, `SessionOfDocument`."""
        at = self._database.clock.now()

        def mark(connection: Connection) -> None:
            row = session_row(connection, session_id, locked=True)
            try:
                check_conversation(connection, session_id)
            except NotAConversation:
                raise SessionOfDocument(
                    f"session {session_id} is that of a document: delete the document, and the session can go too"
                ) from None
            for statement in (_DELETE, _DELETE_BESIDE):
                connection.execute(statement, {"of_id": session_id, "at": micros(at)})
            detail = {"session_id": session_id, "turns": row["turns"]}
            add_note(connection, at, DELETED, by=by, order_id=None, detail=detail)

        self._database.write(mark)

    def advance(self) -> Mapping[str, str]:
        """Take the next steps for a few deleted sessions. Answers errors by session; one that cannot be removed does
        not hold up the others. Raises `StoreUnavailable`.
        """
        page = _DUE.order_by(SESSIONS.c.id).limit(SESSIONS_AT_ONCE)
        due = self._database.read(lambda one: one.execute(page, {"after": self._after}).scalars().all())
        # In turns: some wait for a drone, for a fork, or until their texts are old enough.
        self._after = due[-1] if len(due) == SESSIONS_AT_ONCE else ""
        failures: dict[str, str] = {}
        for session_id in due:
            try:
                for _ in islice(self._steps(session_id), self._most_steps):
                    pass
            except StoreUnavailable:
                raise
            except Exception as problem:
                failures[session_id] = f"{type(problem).__name__}: {problem}"
        return failures

    def _steps(self, session_id: str) -> Iterator[object]:
        """Remove what is left of a session; yields after each transaction. Ends early where something has to end
        first: an order, or a turn of a fork."""
        database, at = self._database, self._database.clock.now()
        this = {"of": session_id}
        if database.read(lambda one: one.execute(_LATE_BESIDE, this).first()) is not None:
            gone = {"of_id": session_id, "at": micros(at)}
            yield database.write(partial(Connection.execute, statement=_DELETE_BESIDE, parameters=gone))
        for order_id in database.read(lambda one: one.execute(_UNCANCELLED, this).scalars().all()):
            yield database.write(partial(_cancel, order_id=order_id, at=at))
        if database.read(
            lambda one: (
                is_at_work(one, session_id) or any(one.execute(some, this).first() for some in (_NEEDED, _BESIDE))
            )
        ):
            return
        # All journals first: then nobody reads a part of one, and no fork begins with one.
        while ids := database.read(lambda one: one.execute(_UNMARKED, this).scalars().all()):
            marked = {"at": micros(at), "ids": ids}
            yield database.write(partial(Connection.execute, statement=_MARK, parameters=marked), repeatable=True)
        for order_id in database.read(lambda one: one.execute(_SOME_ORDERS, this).scalars().all()):
            while database.write(partial(_remove_entries, order_id=order_id), repeatable=True):
                yield None
            yield database.write(partial(_remove_order, order_id=order_id, session_id=session_id), repeatable=True)
        old = micros(at - timedelta(hours=KEPT_HOURS))
        while database.write(partial(_remove_old_texts, session_id=session_id, before=old), repeatable=True):
            yield None
        yield database.write(partial(_remove_session, session_id=session_id), repeatable=True)


def _cancel(connection: Connection, order_id: str, at: datetime) -> None:
    """Cancel an order, unless somebody did so before or it has ended."""
    state = lock(connection, order_id, skip=True)
    if state is None or any(map(cancels_order, controls_of(connection, order_id))):
        return
    try:
        requested(connection, order_id, ControlKind.CANCEL, NewControl(reason=WHY), Actor(REMOVER), at)
    except (OrderIsFinal, ControlNotTaken):
        return


def _remove_entries(connection: Connection, order_id: str) -> int:
    """Remove some entries of a journal that is marked as pruned, and then of what can be searched of it; answers how
    many."""
    for some, removal in ((_SOME_ENTRIES, _ENTRIES), (_SOME_HISTORY, _ITS_HISTORY)):
        if seqs := connection.execute(some, {"of": order_id}).scalars().all():
            if lock(connection, order_id, skip=True) is None:
                return 0
            return connection.execute(removal, {"of": order_id, "upto": seqs[-1]}).rowcount
    return 0


def _remove_order(connection: Connection, order_id: str, session_id: str) -> None:
    """Remove what is left of an order; its texts are the session's then. Whoever has it locked goes first."""
    this = {"of": order_id}
    state = lock(connection, order_id, skip=True)
    if state is None or state.status not in FINAL or connection.execute(_SOME_ENTRIES, this).first() is not None:
        return
    # What it used stays counted.
    count_usage(connection, [order_id])
    connection.execute(_HAND_OVER, {"session": session_id, **this})
    connection.execute(_RELEASE, this)
    connection.execute(_GRANTS, {"in": "order", **this})
    for statement in (*_OF_ORDER, _ORDER):
        connection.execute(statement, this)


def _remove_old_texts(connection: Connection, session_id: str, before: int) -> Sequence[str]:
    """Remove some of the session's texts that nobody else uses. Younger ones stay until then: a program may have
    stored one a moment ago, and use it next."""
    digests = connection.execute(_OLD_TEXTS, {"of": session_id, "before": before}).scalars().all()
    if digests:
        connection.execute(_RELEASE_SOME, {"of": session_id, "digests": digests})
        remove_texts(connection, {"digests": digests, "before": before})
    return digests


def _remove_session(connection: Connection, session_id: str) -> None:
    """Remove the session itself, once no order and no text of it is left."""
    this = {"of": session_id}
    if any(connection.execute(query, this).first() is not None for query in (_SOME_ORDERS, _ITS_TEXTS)):
        return
    connection.execute(_GRANTS, {"in": "session", **this})
    for statement in (_ITS_NOTES, *_OF_SESSION, _SESSION):
        connection.execute(statement, this)
