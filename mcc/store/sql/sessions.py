"""This room is for sessions: a conversation whose turns are orders."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.ids import fresh_id
from mcc.contracts.order import EarlierTurn, NewSession, Session, WorkOrder
from mcc.contracts.status import FINAL, OrderStatus
from mcc.store.clock import micros, moment
from mcc.store.context import newest, repeated_by
from mcc.store.errors import BadCursor, UnknownSession
from mcc.store.large import parsed
from mcc.store.ports import Page
from mcc.store.sql.engine import Database
from mcc.store.sql.orders import is_identifier
from mcc.store.sql.rows import text_json, text_of
from mcc.store.sql.tables import ORDERS, SESSIONS, STATE
from mcc.store.sql.views import is_any

MOST_TURNS = 200
"""Rows that are read at most, however short the turns are."""

_ADD = sa.insert(SESSIONS)
_TURNS = (
    sa.select(ORDERS.c.spec_json, ORDERS.c.outcome_json, STATE.c.session_seq, STATE.c.status)
    .join(ORDERS, ORDERS.c.id == STATE.c.order_id)
    .where(
        ORDERS.c.session_id == sa.bindparam("of"),
        ORDERS.c.session_seq < sa.bindparam("before"),
        ORDERS.c.left_out.is_(False),
        ORDERS.c.id != sa.bindparam("besides"),
        is_any(STATE.c.status, FINAL),
    )
    .order_by(ORDERS.c.session_seq.desc())
    .limit(MOST_TURNS)
)
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
        asked = {"of": order.session_id, "before": order.session_seq, "besides": repeated_by(order)}

        def turns(connection: Connection) -> Sequence[EarlierTurn]:
            with connection.execute(_TURNS, asked) as rows:
                return newest(map(_turn, rows.mappings()), characters)

        return self._database.read(turns)


def _turn(row: sa.RowMapping) -> EarlierTurn:
    outcome = parsed(row["outcome_json"]) if row["outcome_json"] else {}
    return EarlierTurn(
        session_seq=row["session_seq"],
        prompt=parsed(row["spec_json"])["prompt"],
        status=OrderStatus(row["status"]),
        answer=outcome.get("answer"),
    )


def _session(row: sa.RowMapping) -> Session:
    return Session(
        id=row["id"],
        title=text_of(row["title_json"]) or "",
        created_at=moment(row["created_at"]),
        turns=row["turns"],
        last_order_id=row["last_order_id"],
    )
