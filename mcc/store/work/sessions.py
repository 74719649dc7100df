"""Sessions: conversations whose turns are orders."""

from collections.abc import Iterable, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import Actor
from mcc.contracts.ids import is_identifier
from mcc.contracts.order import WorkOrder
from mcc.contracts.sessions import (
    NewSession,
    NewSessionFork,
    PrunedTurn,
    Session,
    SessionChange,
    SessionDefaults,
    SessionWithTurns,
    TurnUsage,
)
from mcc.store.database.clock import micros, moment
from mcc.store.database.engine import Database
from mcc.store.database.tables import ORDERS, SESSIONS, among
from mcc.store.rows.session_rows import (
    IS_THERE,
    defaults_of,
    session_of_request,
    session_row,
    shown_sessions,
    usage_by_turn,
)
from mcc.store.rows.values import Page
from mcc.store.rows.views import ORDER
from mcc.store.rows.waiting import work_orders
from mcc.store.work.session_changes import change_session, fork_session, mark_read, new_row, open_session
from mcc.store.work.session_search import SessionFilter, search_sessions


class SessionStore:
    """Sessions as principals see them; those that were deleted are unknown."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def open(self, new: NewSession, *, by: Actor) -> Session:
        """Create a session without turns."""
        row = new_row(new, by, micros(self._database.clock.now()))
        session_id = self._database.write(lambda connection: open_session(connection, row))
        return self.get(session_id, principal=by.principal)

    def get(self, session_id: str, *, principal: str = "") -> Session:
        """The session as `principal` sees it; "" has read nothing. Raises `UnknownSession`."""

        def session(connection: Connection) -> Session:
            return shown_sessions(connection, [session_row(connection, session_id)], principal)[0]

        return self._database.read(session)

    def of_request(self, forge: str, project: str, number: int) -> str | None:
        """The session that opened this request at a forge of the configuration; None where none did, or it is
        deleted."""
        return self._database.read(lambda connection: session_of_request(connection, forge, project, number))

    def list(self, wanted: SessionFilter | None = None, *, principal: str = "", limit: int = 50) -> Page[Session]:
        """Newest first; `wanted` None: all of them.

        With `text`, at most `SEARCHED` sessions are looked through: a page with fewer than `limit` of them, or none,
        then has a cursor. Raises `BadCursor`.
        """

        def page(connection: Connection) -> Page[Session]:
            rows, following = search_sessions(connection, wanted or SessionFilter(), limit)
            return Page(shown_sessions(connection, rows, principal), following)

        return self._database.read(page)

    def turns(
        self, session_id: str, *, before: int | None = None, limit: int = 50, principal: str = ""
    ) -> SessionWithTurns:
        """A session with its newest `limit` turns before turn `before`, newest first. Raises `UnknownSession`."""

        def page(connection: Connection) -> SessionWithTurns:
            row = session_row(connection, session_id)
            newest = _NEWEST_TURNS if before is None else _NEWEST_TURNS.where(ORDERS.c.session_seq < before)
            rows = connection.execute(newest.limit(limit + 1), {"of": session_id}).mappings().all()
            following = rows[limit - 1]["session_seq"] if len(rows) > limit else None
            orders = work_orders(connection, rows[:limit], self._database.time)
            (session,) = shown_sessions(connection, [row], principal)
            return SessionWithTurns(**dict(session), orders=tuple(orders), next_before=following)

        return self._database.read(page)

    def exported(self, session_id: str, *, after: int, limit: int) -> Sequence[tuple[int, WorkOrder | PrunedTurn]]:
        """The next `limit` turns after turn `after`, oldest first, each with its number; of one whose journal was
        pruned, prompt and answer.

        Raises `UnknownSession`.
        """

        def page(connection: Connection) -> Sequence[tuple[int, WorkOrder | PrunedTurn]]:
            session_row(connection, session_id)
            rows = connection.execute(_TURNS_AFTER.limit(limit), {"of": session_id, "after": after}).mappings().all()
            marked = connection.execute(_PRUNED, {"ids": [row["id"] for row in rows]})
            pruned = {row.id: row.pruned_at for row in marked}
            turns: list[tuple[int, WorkOrder | PrunedTurn]] = []
            for order in work_orders(connection, rows, self._database.time):
                at = pruned.get(order.id)
                pruned_turn = at and PrunedTurn(
                    order_id=order.id, pruned_at=moment(at), prompt=order.prompt, answer=order.answer
                )
                turns.append((order.session_seq, pruned_turn or order))
            return turns

        return self._database.read(page)

    def usage(self, session_id: str) -> Sequence[TurnUsage]:
        """What each turn has used, in their sequence. Raises `UnknownSession`."""

        def by_turn(connection: Connection) -> Sequence[TurnUsage]:
            session_row(connection, session_id)
            return usage_by_turn(connection, session_id)

        return self._database.read(by_turn)

    def change(self, session_id: str, change: SessionChange, *, principal: str) -> Session:
        """Change the fields that are given. Raises `UnknownSession`, `ContextIsFixed`."""
        at = micros(self._database.clock.now())
        self._database.write(lambda one: change_session(one, session_id, change, at), repeatable=True)
        return self.get(session_id, principal=principal)

    def fork(self, session_id: str, asked: NewSessionFork, *, by: Actor) -> Session:
        """A new session without turns of its own, whose next turn is shown the first `asked.turn` turns of this one.
        It has the same defaults and context.

        Raises `UnknownSession`, `UnknownTurn`, `OrderIsUnfinished`, `NotAConversation`.
        """
        at = micros(self._database.clock.now())
        made = self._database.write(
            lambda connection: open_session(connection, fork_session(connection, session_id, asked, by, at))
        )
        return self.get(made, principal=by.principal)

    def read(self, session_id: str, turn: int, *, principal: str) -> None:
        """Mark the turns up to this one as read by `principal`; what was marked before stays so.

        Raises `UnknownSession`, `UnknownTurn`.
        """
        self._database.write(lambda one: mark_read(one, session_id, turn, principal), repeatable=True)

    def defaults(self, session_ids: Iterable[str]) -> Mapping[str, SessionDefaults]:
        """The defaults of those of these sessions that are there and have some, by id."""
        ids = [session_id for session_id in session_ids if is_identifier(session_id)]
        if not ids:
            return {}
        rows = self._database.read(lambda one: one.execute(_WITH_DEFAULTS, {"ids": ids}).mappings().all())
        return {row["id"]: defaults_of(row) for row in rows}


_NEWEST_TURNS = ORDER.where(ORDERS.c.session_id == sa.bindparam("of")).order_by(ORDERS.c.session_seq.desc())
_TURNS_AFTER = ORDER.where(
    ORDERS.c.session_id == sa.bindparam("of"), ORDERS.c.session_seq > sa.bindparam("after")
).order_by(ORDERS.c.session_seq)
_PRUNED = sa.select(ORDERS.c.id, ORDERS.c.pruned_at).where(among(ORDERS.c.id, "ids"), ORDERS.c.pruned_at.is_not(None))
_WITH_DEFAULTS = sa.select(SESSIONS.c.id, SESSIONS.c.defaults_json).where(
    among(SESSIONS.c.id, "ids"), IS_THERE, SESSIONS.c.defaults_json.is_not(None)
)
