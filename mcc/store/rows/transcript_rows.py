"""Rows of what a session is shown: a turn's own messages and bases, written with the end of the turn."""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.store.database.direct import execute_later
from mcc.store.database.tables import BASES, ORDERS, among
from mcc.store.rows.order_rows import keep_blobs
from mcc.store.rows.stored_turns import NewBase, StoredTurn
from mcc.store.rows.texts import text_digest

_ADD = sa.text(
    "INSERT INTO session_transcripts (order_id, session_id, session_seq, data, tokens, setup_digest, setup_key,"
    " found_json, artifacts_json) VALUES (:order_id, :session_id, :session_seq, :data, :tokens, :setup_digest,"
    " :setup_key, :found_json, :artifacts_json) ON CONFLICT (order_id) DO NOTHING"
)
_ADD_BASE = sa.text(
    "INSERT INTO session_bases (session_id, through_seq, digest, order_id, reason)"
    " VALUES (:session_id, :through_seq, :digest, :order_id, :reason) ON CONFLICT DO NOTHING"
)
_ROLLED_BACK = sa.select(ORDERS.c.id).where(among(ORDERS.c.id, "ids"), ORDERS.c.left_out.is_(True)).limit(1)
_VOID = (
    sa.update(BASES)
    .where(
        BASES.c.session_id == sa.bindparam("of"),
        BASES.c.through_seq >= sa.bindparam("through"),
        BASES.c.voided_at.is_(None),
    )
    .values(voided_at=sa.bindparam("at"))
)


def keep_turn(connection: Connection, turn: StoredTurn) -> None:
    """Store what a turn adds to its session; a turn that is stored already stays as it is."""
    execute_later(connection, _ADD, turn.row())


def keep_base(connection: Connection, turn: StoredTurn, base: NewBase, at: int) -> None:
    """Store the context through this turn, owned by its session; not if one of its turns was rolled back while this one
    ran. `at`: in microseconds."""
    if connection.execute(_ROLLED_BACK, {"ids": list(base.turns)}).first() is not None:
        return
    digest = text_digest(base.text)
    keep_blobs(connection, {digest: base.text}, at, [(digest, turn.session_id)])
    row = {"session_id": turn.session_id, "through_seq": turn.session_seq, "digest": digest}
    execute_later(connection, _ADD_BASE, row | {"order_id": turn.order_id, "reason": base.reason})


def void_bases(connection: Connection, session_id: str, seq: int, at: int) -> None:
    """Let the bases that contain this turn count no longer. `at`: in microseconds."""
    connection.execute(_VOID, {"of": session_id, "through": seq, "at": at})
