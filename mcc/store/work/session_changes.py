"""Changes of sessions: title, archive and defaults; forks at a turn; how far somebody has read."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import Actor
from mcc.contracts.ids import fresh_id
from mcc.contracts.sessions import NewSession, NewSessionFork, SessionChange, SessionDefaults
from mcc.contracts.status import FINAL, OrderStatus
from mcc.store.database.errors import ContextIsFixed, OrderIsUnfinished, UnknownTurn
from mcc.store.database.tables import ORDERS, SESSIONS, STATE
from mcc.store.rows.order_rows import text_json, text_of
from mcc.store.rows.session_rows import check_conversation, defaults_json, defaults_of, session_row

TITLE_CHARACTERS = 200

_ADD = sa.insert(SESSIONS)
_TURN = (
    sa.select(ORDERS.c.id, STATE.c.status)
    .join(STATE, STATE.c.order_id == ORDERS.c.id)
    .where(ORDERS.c.session_id == sa.bindparam("of"), ORDERS.c.session_seq == sa.bindparam("turn"))
)
_MARK = sa.text(
    "INSERT INTO session_reads (session_id, principal, turn) VALUES (:of, :by, :turn)"
    " ON CONFLICT (session_id, principal) DO UPDATE SET turn = excluded.turn"
    " WHERE excluded.turn > session_reads.turn"
)


def new_row(new: NewSession, by: Actor, at: int) -> dict[str, Any]:
    """The row of a session to open, without turns."""
    return {
        "id": fresh_id(),
        "title_json": text_json(new.title),
        **by.columns,
        "created_at": at,
        "turns": 0,
        "defaults_json": defaults_json(new),
        "context": new.context,
    }


def open_session(connection: Connection, row: Mapping[str, Any]) -> str:
    """Insert a session; answers its id."""
    connection.execute(_ADD, row)
    return str(row["id"])


def change_session(connection: Connection, session_id: str, change: SessionChange, at: int) -> None:
    """See `SessionStore.change`."""
    row = session_row(connection, session_id, locked=True)
    fields = change.model_fields_set
    values: dict[str, Any] = {}
    if "title" in fields:
        values["title_json"] = text_json(change.title or "")
    if "archived" in fields:
        values["archived_at"] = (row["archived_at"] or at) if change.archived else None
    if "context" in fields and change.context != row["context"]:
        if row["turns"]:
            raise ContextIsFixed(
                f"session {session_id} has {row['turns']} turns: what they are shown of one another was fixed by the "
                "first; open another session, or fork this one"
            )
        values["context"] = change.context
    if changed := {name: getattr(change, name) for name in SessionDefaults.model_fields if name in fields}:
        values["defaults_json"] = defaults_json(defaults_of(row).model_copy(update=changed))
    if values:
        connection.execute(sa.update(SESSIONS).where(SESSIONS.c.id == session_id).values(values))


def fork_session(connection: Connection, session_id: str, asked: NewSessionFork, by: Actor, at: int) -> dict[str, Any]:
    """The row of a session that goes on after turn `asked.turn` of this one; see `SessionStore.fork`."""
    row = session_row(connection, session_id, locked=True)
    check_conversation(connection, session_id)
    turn = connection.execute(_TURN, {"of": session_id, "turn": asked.turn}).first()
    if turn is None:
        raise UnknownTurn(f"session {session_id} has turns 1 to {row['turns']}: there is no turn {asked.turn}")
    if OrderStatus(turn.status) not in FINAL:
        raise OrderIsUnfinished(
            f"turn {asked.turn} of session {session_id} is {turn.status}: fork the session after a turn that has ended,"
            " or the order at one of its entries"
        )
    title = asked.title if asked.title is not None else f"Fork: {text_of(row['title_json'])}"[:TITLE_CHARACTERS]
    return {
        **new_row(NewSession.model_construct(title=title), by, at),
        "defaults_json": row["defaults_json"],
        "context": row["context"],
        "forked_session_id": session_id,
        "forked_turn": asked.turn,
        "forked_order_id": turn.id,
    }


def mark_read(connection: Connection, session_id: str, turn: int, principal: str) -> None:
    """See `SessionStore.read`."""
    row = session_row(connection, session_id)
    if turn > row["turns"]:
        raise UnknownTurn(f"session {session_id} has {row['turns']} turns so far: there is no turn {turn}")
    connection.execute(_MARK, {"of": session_id, "by": principal, "turn": turn})
