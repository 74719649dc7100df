"""Rows of what a session is shown: a turn's own messages and bases, written with the end of the turn."""

import zlib
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import ColumnElement, FromClause
from sqlalchemy.engine import Connection

from mcc.contracts.callers import Actor
from mcc.store.database.clock import micros
from mcc.store.database.direct import execute_later
from mcc.store.database.tables import BASES, BLOBS, ORDERS, TEXT_USES, TRANSCRIPTS, among
from mcc.store.rows.audit import add_note
from mcc.store.rows.forking import ROLLED_BACK
from mcc.store.rows.order_rows import keep_blobs
from mcc.store.rows.stored_turns import NewBase, StoredTurn
from mcc.store.rows.texts import named_in, text_digest

_ADD = sa.text(
    "INSERT INTO session_transcripts (order_id, session_id, session_seq, data, tokens, setup_digest, setup_key,"
    " found_json, last_json) VALUES (:order_id, :session_id, :session_seq, :data, :tokens, :setup_digest, :setup_key,"
    " :found_json, :last_json) ON CONFLICT (order_id) DO NOTHING"
)
_ADD_BASE = sa.text(
    "INSERT INTO session_bases (session_id, through_seq, digest, order_id, reason)"
    " VALUES (:session_id, :through_seq, :digest, :order_id, :reason) ON CONFLICT DO NOTHING"
)
SHORTENING = frozenset({"handles", "summary"})
"""Reasons of bases after which a set-up is made anew."""
SHORTENS = sa.case((BASES.c.reason.in_(sorted(SHORTENING | {"results"})), 1), else_=0)
"""Orders bases through the same turn: a roll-up of what was shown before does not hide what an order made shorter."""
_PRUNED = ORDERS.alias("pruned")
_LEFT_OUT = (
    sa.select(ORDERS.c.left_out)
    .where(among(ORDERS.c.id, "ids"), ORDERS.c.session_id == sa.bindparam("of"))
    .order_by(ORDERS.c.id)
    .with_for_update(read=True)
)
"""Locks the rows: a rollback that has begun is waited for, and one that begins now finds the base and voids it. The
source of a fork is not looked at: what the fork was shown of it stays."""
_LEAVE_OUT = (
    sa.update(ORDERS)
    .where(ORDERS.c.id == sa.bindparam("wanted"), ORDERS.c.left_out.is_(False))
    .values(left_out=True)
    .returning(ORDERS.c.session_id, ORDERS.c.session_seq)
)
_VOID = (
    sa.update(BASES)
    .where(
        BASES.c.session_id == sa.bindparam("of"),
        BASES.c.through_seq >= sa.bindparam("through"),
        BASES.c.voided_at.is_(None),
    )
    .values(voided_at=sa.bindparam("at"))
)
_OF_PRUNED = (
    sa.select(BASES.c.session_id, BASES.c.through_seq, BASES.c.digest, BASES.c.voided_at, ORDERS.c.pruned_at)
    .join(ORDERS, ORDERS.c.id == BASES.c.order_id)
    .where(
        BASES.c.session_id
        == sa.select(_PRUNED.c.session_id).where(_PRUNED.c.id == sa.bindparam("of")).scalar_subquery()
    )
    .order_by(BASES.c.through_seq.desc(), SHORTENS.desc(), BASES.c.order_id.desc(), BASES.c.digest)
)
_DROP = sa.delete(BASES).where(
    BASES.c.session_id == sa.bindparam("in"),
    BASES.c.through_seq == sa.bindparam("through"),
    BASES.c.digest == sa.bindparam("base"),
)
_LET_GO = sa.delete(TEXT_USES).where(TEXT_USES.c.owner == sa.bindparam("in"), among(TEXT_USES.c.digest, "digests"))
_ITS_TURN = sa.select(TRANSCRIPTS.c.session_id, TRANSCRIPTS.c.session_seq, TRANSCRIPTS.c.data).where(
    TRANSCRIPTS.c.order_id == sa.bindparam("of")
)
_NEWEST = sa.select(sa.func.max(BASES.c.through_seq)).where(
    BASES.c.session_id == sa.bindparam("in"), BASES.c.voided_at.is_(None)
)


def lacks_base(session: FromClause) -> ColumnElement[bool]:
    """Whether a session was forked, and no base of its own counts: what it began with has only its source."""
    counts = sa.select(BASES.c.digest).where(BASES.c.session_id == session.c.id, BASES.c.voided_at.is_(None))
    return sa.and_(session.c.forked_session_id.is_not(None), ~counts.exists())


_BEFORE = (
    sa.select(BASES.c.digest, (ORDERS.c.session_id != BASES.c.session_id).label("compacted"))
    .join(BLOBS, BLOBS.c.digest == BASES.c.digest)
    .join(ORDERS, ORDERS.c.id == BASES.c.order_id)
    .where(
        BASES.c.session_id == sa.bindparam("of"),
        BASES.c.through_seq < sa.bindparam("before"),
        BASES.c.voided_at.is_(None),
    )
    .order_by(BASES.c.through_seq.desc(), SHORTENS.desc(), BASES.c.order_id.desc(), BASES.c.digest)
    .limit(1)
)
"""The newest base before a turn, if it can be read, and whether an order that compacts the session made it."""
_SAME_AGAIN = frozenset({"rollup", "clip"})
"""Reasons of bases that show nearly what was shown before, and must not hide a shorter one that was made meanwhile."""

KEPT_BASES = 2
"""Bases of a session that stay when the journals of their turns have gone: the newest ones."""


def keep_turn(connection: Connection, turn: StoredTurn) -> None:
    """Store what a turn adds to its session; a turn that is stored already stays as it is."""
    execute_later(connection, _ADD, turn.row())


def keep_base(connection: Connection, base: NewBase, order_id: str, session_id: str, seq: int, at: int) -> None:
    """Store the context through turn `seq`, which this order made, owned by its session; not if one of its turns was
    rolled back while the order ran. `at`: in microseconds."""
    turns = {"ids": list(base.turns), "of": session_id}
    if any(connection.execute(_LEFT_OUT, turns).scalars().all()):
        return
    if base.reason in _SAME_AGAIN:
        newest = connection.execute(_BEFORE, {"of": session_id, "before": seq}).first()
        if newest is not None and newest.compacted and newest.digest != base.over:
            return
    digest = text_digest(base.text)
    keep_blobs(connection, {digest: base.text}, at, [(digest, session_id)])
    row = {"session_id": session_id, "through_seq": seq, "digest": digest}
    execute_later(connection, _ADD_BASE, row | {"order_id": order_id, "reason": base.reason})


def void_bases(connection: Connection, session_id: str, seq: int, at: int) -> None:
    """Let the bases that contain this turn count no longer. `at`: in microseconds."""
    connection.execute(_VOID, {"of": session_id, "through": seq, "at": at})


def drop_old_bases(connection: Connection, order_id: str) -> None:
    """Drop the bases of this order's session that turns with a pruned journal made, but none of the newest two that
    count, and not what it has from the source that it was forked from. Texts that no other base holds are let go."""
    bases = connection.execute(_OF_PRUNED, {"of": order_id}).all()
    kept = [base for base in bases if base.voided_at is None][:KEPT_BASES]
    kept += [base for base in bases if base.through_seq == 0]
    gone = [base for base in bases if base.pruned_at is not None and base not in kept]
    for base in gone:
        place = {"in": base.session_id, "through": base.through_seq, "base": base.digest}
        connection.execute(_DROP, place)
    held = {base.digest for base in bases if base not in gone}
    if unheld := {base.digest for base in gone} - held:
        connection.execute(_LET_GO, {"in": gone[0].session_id, "digests": sorted(unheld)})


def named_by_turn(connection: Connection, order_id: str) -> set[str]:
    """Digests of the texts and pictures that later turns may read of this one, as no base holds it yet."""
    row = connection.execute(_ITS_TURN, {"of": order_id}).first()
    if row is None or row.session_seq <= (connection.scalar(_NEWEST, {"in": row.session_id}) or 0):
        return set()
    return set(named_in(zlib.decompress(row.data).decode()))


def leave_out(connection: Connection, order_id: str, at: datetime, by: Actor) -> None:
    """Leave a turn out of its session's context, with an audit note; repeating it changes and notes nothing."""
    if (row := connection.execute(_LEAVE_OUT, {"wanted": order_id}).first()) is not None:
        void_bases(connection, row.session_id, row.session_seq, micros(at))
        add_note(connection, at, ROLLED_BACK, by=by, order_id=order_id, detail={})
