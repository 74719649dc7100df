"""This room is for sessions: a conversation whose turns are orders."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.ids import fresh_id, is_identifier
from mcc.contracts.order import EarlierTurn, NewSession, Session, WorkOrder
from mcc.store.clock import micros, moment
from mcc.store.context import context
from mcc.store.errors import BadCursor, UnknownSession
from mcc.store.sql.engine import Database
from mcc.store.sql.history import SqlHistory
from mcc.store.sql.rows import text_json, text_of
from mcc.store.sql.tables import SESSIONS
from mcc.store.values import Page

_ADD = sa.insert(SESSIONS)
_ONE = sa.select(SESSIONS).where(SESSIONS.c.id == sa.bindparam("wanted"))


class SqlSessions:
    def __init__(self, database: Database) -> None:
        self._database = database

    def open(self, new: NewSession, *, principal: str) -> Session:
        session_id = fresh_id()
        row = {
            "id": session_id,
            "title_json": text_json(new.title),
            "principal": principal,
            "created_at": micros(self._database.clock.now()),
            "turns": 0,
        }
        self._database.write(lambda connection: connection.execute(_ADD, row))
        return self.get(session_id)

    def get(self, session_id: str) -> Session:
        row = None
        if is_identifier(session_id):
            row = self._database.read(lambda one: one.execute(_ONE, {"wanted": session_id}).mappings().first())
        if row is None:
            raise UnknownSession(f"there is no session {session_id!r}")
        return _session(row)

    def list(self, *, cursor: str | None = None, limit: int = 50) -> Page[Session]:
        if cursor is not None and not is_identifier(cursor):
            raise BadCursor("this cursor is not one that a page of sessions gave; begin without one")
        statement = sa.select(SESSIONS).order_by(SESSIONS.c.id.desc()).limit(limit + 1)
        if cursor is not None:
            statement = statement.where(SESSIONS.c.id < cursor)

        def page(connection: Connection) -> Page[Session]:
            found = [_session(row) for row in connection.execute(statement).mappings()]
            return Page(found[:limit], found[limit - 1].id if len(found) > limit else None)

        return self._database.read(page)

    def context(self, order: WorkOrder, *, characters: int) -> Sequence[EarlierTurn]:
        return self._database.read(lambda connection: context(order, SqlHistory(connection), characters))


def _session(row: sa.RowMapping) -> Session:
    return Session(
        id=row["id"],
        title=text_of(row["title_json"]) or "",
        created_at=moment(row["created_at"]),
        turns=row["turns"],
        last_order_id=row["last_order_id"],
    )
