"""Rows of sessions as callers see them, with what their turns used and how far a principal has read."""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.ids import compaction_session_id, is_identifier
from mcc.contracts.sessions import ForkedFrom, Session, SessionDefaults, TurnUsage
from mcc.contracts.shape import to_json
from mcc.contracts.status import UNFINISHED
from mcc.contracts.turn_context import LastRequest
from mcc.contracts.usage import Usage
from mcc.store.database.clock import moment
from mcc.store.database.errors import NotAConversation, UnknownSession
from mcc.store.database.tables import DOCUMENTS, ORDERS, SESSION_READS, SESSIONS, STATE, TRANSCRIPTS, among
from mcc.store.rows.order_rows import USAGE, text_of
from mcc.store.rows.texts import parsed
from mcc.store.rows.views import has_status, unknown_order

IS_THERE = sa.and_(SESSIONS.c.deleted_at.is_(None), SESSIONS.c.compacts.is_(None))
_ONE = sa.select(SESSIONS).where(SESSIONS.c.id == sa.bindparam("wanted"), IS_THERE)
_COUNTS = [name for name in USAGE if name != "cost_usd"]
_PRICED = sa.func.count(STATE.c.cost_usd)
_USED = (
    sa.select(
        ORDERS.c.session_id,
        *(sa.func.sum(STATE.c[name]).label(name) for name in _COUNTS),
        # A sum of SQL passes over orders whose price is unknown.
        sa.case((sa.func.count() == _PRICED, sa.func.sum(STATE.c.cost_usd))).label("cost_usd"),
    )
    .join(STATE, STATE.c.order_id == ORDERS.c.id)
    .where(among(ORDERS.c.session_id, "ids"))
    .group_by(ORDERS.c.session_id)
)
_BY_TURN = (
    sa.select(ORDERS.c.id, ORDERS.c.session_seq, *(STATE.c[name] for name in USAGE))
    .join(STATE, STATE.c.order_id == ORDERS.c.id)
    .where(ORDERS.c.session_id == sa.bindparam("of"))
    .order_by(ORDERS.c.session_seq)
)
_READ = sa.select(SESSION_READS.c.session_id, SESSION_READS.c.turn).where(
    among(SESSION_READS.c.session_id, "ids"), SESSION_READS.c.principal == sa.bindparam("by")
)
_NEWEST = (
    sa.select(TRANSCRIPTS.c.session_id, sa.func.max(TRANSCRIPTS.c.session_seq).label("newest"))
    .join(ORDERS, ORDERS.c.id == TRANSCRIPTS.c.order_id)
    .where(among(TRANSCRIPTS.c.session_id, "ids"), ORDERS.c.left_out.is_(False))
    .group_by(TRANSCRIPTS.c.session_id)
    .subquery()
)
_LAST = sa.select(TRANSCRIPTS.c.session_id, TRANSCRIPTS.c.tokens, TRANSCRIPTS.c.last_json).join(
    _NEWEST,
    sa.and_(
        _NEWEST.c.session_id == TRANSCRIPTS.c.session_id,
        _NEWEST.c.newest == TRANSCRIPTS.c.session_seq,
    ),
)
"""Of each session, the newest turn that later ones are shown."""
_DOCUMENT = sa.select(DOCUMENTS.c.id).where(DOCUMENTS.c.id == sa.bindparam("wanted"), DOCUMENTS.c.deleted_at.is_(None))
_RUNS = (
    sa.select(STATE.c.order_id)
    .where(STATE.c.session_id == sa.bindparam("of"), has_status(STATE.c.status, UNFINISHED))
    .limit(1)
)

_FORKED = (
    sa.select(
        SESSIONS.c.id.label("forked_session_id"),
        ORDERS.c.session_seq.label("forked_turn"),
        ORDERS.c.id.label("forked_order_id"),
        SESSIONS.c.defaults_json,
        SESSIONS.c.context,
    )
    .join(SESSIONS, SESSIONS.c.id == ORDERS.c.session_id)
    .where(ORDERS.c.id == sa.bindparam("wanted"), IS_THERE)
)


def unknown_session(session_id: str) -> UnknownSession:
    return UnknownSession(f"there is no session {session_id!r}")


def session_row(connection: Connection, session_id: str, *, locked: bool = False) -> sa.RowMapping:
    """The row of a session that was not deleted, `locked` until the transaction ends. Raises `UnknownSession`."""
    if not is_identifier(session_id):
        raise unknown_session(session_id)
    statement = _ONE.with_for_update() if locked else _ONE
    row = connection.execute(statement, {"wanted": session_id}).mappings().first()
    if row is None:
        raise unknown_session(session_id)
    return row


def check_conversation(connection: Connection, session_id: str) -> None:
    """Raises `NotAConversation` for the session of a document."""
    if connection.execute(_DOCUMENT, {"wanted": session_id}).first() is not None:
        raise NotAConversation(f"session {session_id} is that of a document, which has one history and is kept with it")


def source_of_fork(connection: Connection, order_id: str | None) -> Mapping[str, Any]:
    """The columns that the session of a fork of this order has from its source; all None where there is no source.

    Raises `UnknownOrder` when the order is gone, or its session was deleted.
    """
    if order_id is None:
        return dict.fromkeys(_FORKED.selected_columns.keys())
    row = connection.execute(_FORKED, {"wanted": order_id}).mappings().first()
    if row is None:
        raise unknown_order(order_id)
    return dict(row)


def shown_sessions(connection: Connection, rows: Sequence[sa.RowMapping], principal: str) -> Sequence[Session]:
    """Sessions as `principal` sees them, in the sequence of their rows."""
    ids = [row["id"] for row in rows]
    beside = {one: compaction_session_id(one) for one in ids}
    rows_used = connection.execute(_USED, {"ids": [*ids, *beside.values()]}).mappings()
    by_session = {row["session_id"]: _usage(row) for row in rows_used}
    # With what was spent on compacting it.
    used = {one: by_session.get(one, Usage()).plus(by_session.get(beside[one], Usage())) for one in ids}
    read = {row.session_id: row.turn for row in connection.execute(_READ, {"ids": ids, "by": principal})}
    shown = {row.session_id: row for row in connection.execute(_LAST, {"ids": ids}) if row.last_json}
    return [_session(row, used[row["id"]], read.get(row["id"], 0), shown.get(row["id"])) for row in rows]


def usage_by_turn(connection: Connection, session_id: str) -> Sequence[TurnUsage]:
    """What each turn used, in their sequence."""
    rows = connection.execute(_BY_TURN, {"of": session_id}).mappings()
    used = [(row, _usage(row)) for row in rows]
    return [
        TurnUsage(turn=row["session_seq"], order_id=row["id"], usage=usage, cached_share=usage.cached_share)
        for row, usage in used
    ]


def is_at_work(connection: Connection, session_id: str) -> bool:
    """Whether some order of the session has not ended."""
    return connection.execute(_RUNS, {"of": session_id}).first() is not None


def defaults_of(row: sa.RowMapping) -> SessionDefaults:
    return SessionDefaults.model_validate(parsed(row["defaults_json"]) if row["defaults_json"] else {})


def defaults_json(defaults: SessionDefaults) -> str | None:
    """The column `defaults_json` for these defaults; None where there are none."""
    given = {name: getattr(defaults, name) for name in SessionDefaults.model_fields}
    kept = SessionDefaults.model_construct(**given)
    return to_json(kept).decode() if any(value is not None for value in given.values()) else None


def _usage(row: sa.RowMapping) -> Usage:
    return Usage.model_validate({name: row[name] if name == "cost_usd" else int(row[name]) for name in USAGE})


def _session(row: sa.RowMapping, usage: Usage, read: int, shown: Any) -> Session:
    last = None if shown is None else LastRequest.model_validate(parsed(shown.last_json))
    forked = None
    if row["forked_session_id"] is not None:
        forked = ForkedFrom(
            session_id=row["forked_session_id"], turn=row["forked_turn"], order_id=row["forked_order_id"]
        )
    return Session(
        id=row["id"],
        title=text_of(row["title_json"]) or "",
        created_at=moment(row["created_at"]),
        turns=row["turns"],
        last_order_id=row["last_order_id"],
        archived=row["archived_at"] is not None,
        context=row["context"],
        usage=usage,
        tokens=None if last is None else last.opening_tokens + shown.tokens,
        window=None if last is None else last.window,
        cached_share=None if last is None else last.cached_share,
        unread=max(row["turns"] - read, 0),
        forked_from=forked,
        **dict(defaults_of(row)),
    )
