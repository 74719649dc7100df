"""Which turns the history of a reader has: those before an order in its session, and before it through forks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.order import OrderOrigin, WorkOrder
from mcc.store.database.tables import INDEXED, ORDERS, SESSIONS, STATE
from mcc.store.rows.texts import parsed

MOST_FORKS = 20
LAST_TURN = 2**31 - 1


@dataclass(frozen=True, slots=True)
class PastTurn:
    """A turn that can be searched. `back`: from how many forks before the reader's session it is; 0: of that session.

    `last_seq`: the number of its last entry, `indexed`: of the last one that was read for the index.
    """

    order_id: str
    session_id: str
    number: int
    back: int
    left_out: bool
    pruned: bool
    last_seq: int
    indexed: int
    at: int
    """When it was placed, in microseconds."""


@dataclass(frozen=True, slots=True)
class _Place:
    session_id: str
    before: int
    origin: OrderOrigin | None = None


_THERE = sa.select(SESSIONS.c.id).where(SESSIONS.c.id == ORDERS.c.session_id, SESSIONS.c.deleted_at.is_(None)).exists()
_PLACES = sa.select(ORDERS.c.session_id, ORDERS.c.session_seq, ORDERS.c.origin_json).where(_THERE)
_PLACE = _PLACES.where(ORDERS.c.id == sa.bindparam("wanted"))
_FIRST = _PLACES.where(ORDERS.c.session_id == sa.bindparam("of")).order_by(ORDERS.c.session_seq).limit(1)
_FORKED = sa.select(SESSIONS.c.forked_session_id, SESSIONS.c.forked_turn).where(
    SESSIONS.c.id == sa.bindparam("of"), SESSIONS.c.forked_session_id.is_not(None)
)
_TURNS = (
    sa.select(
        ORDERS.c.id,
        ORDERS.c.session_id,
        ORDERS.c.session_seq,
        ORDERS.c.left_out,
        ORDERS.c.pruned_at,
        ORDERS.c.created_at,
        STATE.c.last_seq,
        sa.func.coalesce(INDEXED.c.seq, 0).label("indexed"),
    )
    .select_from(
        ORDERS.join(STATE, STATE.c.order_id == ORDERS.c.id).outerjoin(INDEXED, INDEXED.c.order_id == ORDERS.c.id)
    )
    .where(_THERE, ORDERS.c.session_id == sa.bindparam("of"), ORDERS.c.session_seq < sa.bindparam("before"))
    .order_by(ORDERS.c.session_seq.desc())
)
_ORDER = _TURNS.where(ORDERS.c.id == sa.bindparam("wanted"))


def turns_before(connection: Connection, order: WorkOrder) -> Sequence[PastTurn]:
    """What an agent of this order may read, newest first: its own order, and the turns before it that were not rolled
    back."""
    this = {"of": order.session_id, "before": LAST_TURN, "wanted": order.id}
    own = [_turn(row, 0) for row in connection.execute(_ORDER, this)]
    place = _Place(order.session_id, order.session_seq, order.origin)
    return [*own, *(turn for turn in _chain(connection, place) if not turn.left_out)]


def turns_of(connection: Connection, session_id: str) -> Sequence[PastTurn]:
    """What people may read of a session, newest first: all its turns, and those before it that it was forked from."""
    return [*_chain(connection, _Place(session_id, LAST_TURN))]


def turn_of(turns: Sequence[PastTurn], number: int, back: int | None = None) -> PastTurn | None:
    """The turn of this number, so many forks `back`; without that the one that is the fewest forks back."""
    return next((turn for turn in turns if turn.number == number and back in (None, turn.back)), None)


def _chain(connection: Connection, place: _Place | None) -> Iterator[PastTurn]:
    for back in range(MOST_FORKS + 1):
        # A retry stands where the turn stands that it repeats.
        while place is not None and place.origin is not None and place.origin.kind == "retry":
            place = _place(connection.execute(_PLACE, {"wanted": place.origin.order_id}).first())
        if place is None:
            return
        span = {"of": place.session_id, "before": place.before}
        yield from (_turn(row, back) for row in connection.execute(_TURNS, span).all())
        place = _source(connection, place.session_id)


def _source(connection: Connection, session_id: str) -> _Place | None:
    """Before which turn of another session this one begins; None: it is no fork, or its source is gone."""
    # Of the session's first order: a fork of an order opens a session, and is its first turn.
    first = _place(connection.execute(_FIRST, {"of": session_id}).first())
    if first is not None and first.origin is not None and first.origin.kind == "fork":
        return _place(connection.execute(_PLACE, {"wanted": first.origin.order_id}).first())
    row = connection.execute(_FORKED, {"of": session_id}).first()
    return None if row is None else _Place(row.forked_session_id, row.forked_turn + 1)


def _place(row: Any) -> _Place | None:
    if row is None:
        return None
    origin = OrderOrigin.model_validate(parsed(row.origin_json)) if row.origin_json else None
    return _Place(row.session_id, row.session_seq, origin)


def _turn(row: Any, back: int) -> PastTurn:
    return PastTurn(
        order_id=row.id,
        session_id=row.session_id,
        number=row.session_seq,
        back=back,
        left_out=bool(row.left_out),
        pruned=row.pruned_at is not None,
        last_seq=row.last_seq,
        indexed=row.indexed,
        at=row.created_at,
    )
