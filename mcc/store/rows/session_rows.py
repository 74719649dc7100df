"""Rows of sessions as callers see them, with what their turns used and how far a principal has read; marks of sessions
that are written with the entries which say so: of text from outside, and of requests that they opened at forges."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.fact import Fact
from mcc.contracts.git_delivery import DeliveryFinished, DeliveryStarted
from mcc.contracts.ids import compaction_session_id, is_identifier
from mcc.contracts.journal import AgentStarted, ToolFinished
from mcc.contracts.sessions import ForkedFrom, Session, SessionDefaults, TurnUsage
from mcc.contracts.shape import to_json
from mcc.contracts.status import UNFINISHED
from mcc.contracts.turn_context import LastRequest
from mcc.contracts.usage import Usage
from mcc.store.database.clock import moment
from mcc.store.database.direct import execute_later
from mcc.store.database.errors import NotAConversation, UnknownSession
from mcc.store.database.tables import (
    DOCUMENTS,
    JOURNAL,
    ORDERS,
    REQUESTS,
    SESSION_READS,
    SESSION_TAINTS,
    SESSIONS,
    STATE,
    TRANSCRIPTS,
    among,
)
from mcc.store.rows.actors import token_name, who
from mcc.store.rows.order_rows import USAGE, text_of
from mcc.store.rows.texts import parsed
from mcc.store.rows.views import has_status, unknown_order

IS_THERE = sa.and_(SESSIONS.c.deleted_at.is_(None), SESSIONS.c.compacts.is_(None))
_ONE = sa.select(SESSIONS, token_name(SESSIONS)).where(SESSIONS.c.id == sa.bindparam("wanted"), IS_THERE)
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
    sa.select(ORDERS.c.id, ORDERS.c.session_id, ORDERS.c.session_seq, *(STATE.c[name] for name in USAGE))
    .join(STATE, STATE.c.order_id == ORDERS.c.id)
    .where(among(ORDERS.c.session_id, "ids"))
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
    """What each turn used, in their sequence, and behind it the orders that compacted the session after it."""
    rows = connection.execute(_BY_TURN, {"ids": [session_id, compaction_session_id(session_id)]}).mappings().all()
    turns = {row["id"]: row["session_seq"] for row in rows if row["session_id"] == session_id}
    used = []
    for row in rows:
        # Ids grow with the time at which their orders were placed.
        turn = turns.get(row["id"]) or max((seq for order_id, seq in turns.items() if order_id < row["id"]), default=0)
        usage, is_turn = _usage(row), row["id"] in turns
        share = usage.cached_share
        used.append(TurnUsage(turn=turn, order_id=row["id"], compaction=not is_turn, usage=usage, cached_share=share))
    return sorted(used, key=lambda used_by: (used_by.turn, used_by.compaction, used_by.order_id))


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
        **who(row),
        **dict(defaults_of(row)),
    )


_MARK = sa.text(
    "INSERT INTO session_taints (session_id, turn) SELECT session_id, session_seq FROM orders WHERE id = :of"
    " ON CONFLICT DO NOTHING"
)
_MARKED = sa.select(SESSION_TAINTS.c.session_id).where(
    SESSION_TAINTS.c.session_id == sa.bindparam("of"), SESSION_TAINTS.c.turn < sa.bindparam("before")
)


def taints(fact: Fact) -> bool:
    """Whether this entry says that an agent was shown text from outside."""
    return isinstance(fact, AgentStarted | ToolFinished) and fact.tainted


def mark_tainted(connection: Connection, order_id: str, facts: Iterable[Fact]) -> None:
    """Mark the session of the order if one of these entries says so. What is marked once stays marked: later turns are
    shown, or can look up, what this one was shown."""
    if any(map(taints, facts)):
        execute_later(connection, _MARK, {"of": order_id})


def is_tainted(connection: Connection, session_id: str, before: int) -> bool:
    """Whether a turn of this session before turn `before` showed text from outside."""
    return connection.execute(_MARKED, {"of": session_id, "before": before}).first() is not None


_BEGUN = (
    sa.select(JOURNAL.c.data_json)
    .where(JOURNAL.c.order_id == sa.bindparam("of"), JOURNAL.c.kind == DeliveryStarted.kind)
    .order_by(JOURNAL.c.seq.desc())
    .limit(1)
)
_OPENED = sa.text(
    "INSERT INTO requests (forge, project, number, session_id)"
    " SELECT :forge, :project, :number, session_id FROM orders WHERE id = :of"
    " ON CONFLICT (forge, project, number) DO UPDATE SET session_id = excluded.session_id"
)
_SESSION = sa.select(REQUESTS.c.session_id).where(
    REQUESTS.c.forge == sa.bindparam("of_forge"),
    # No forge tells projects apart by that, and events may spell them otherwise than addresses do.
    sa.func.lower(REQUESTS.c.project) == sa.func.lower(sa.bindparam("of_project")),
    REQUESTS.c.number == sa.bindparam("of_number"),
)


def note_requests(connection: Connection, order_id: str, facts: Iterable[Fact]) -> None:
    """Note the requests that these entries of an order, which are in its journal already, have opened or updated."""
    for fact in facts:
        if not isinstance(fact, DeliveryFinished) or fact.request is None:
            continue
        # Where it was opened is said by the beginning of that step.
        if (begun := connection.scalar(_BEGUN, {"of": order_id})) is not None:
            place = {name: parsed(begun)[name] for name in ("forge", "project")}
            connection.execute(_OPENED, {**place, "number": fact.request.number, "of": order_id})


def session_of_request(connection: Connection, forge: str, project: str, number: int) -> str | None:
    """The session that opened this request; None where none did, or it was deleted."""
    wanted = {"of_forge": forge, "of_project": project, "of_number": number}
    session_id: str | None = connection.scalar(_SESSION, wanted)
    return session_id
