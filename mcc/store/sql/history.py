"""This room is for the earlier turns of a session, read backwards a few at a time."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.journal import ControlApplied
from mcc.contracts.order import EarlierTurn, OrderOrigin
from mcc.contracts.status import FINAL, OrderStatus
from mcc.store.context import Place, as_asked
from mcc.store.large import digests, parsed, whole
from mcc.store.sql.rows import kept_blobs
from mcc.store.sql.tables import JOURNAL, ORDERS, STATE
from mcc.store.sql.views import is_any

AT_ONCE = 20
"""Turns that are read at a time: a prompt may be long."""

_PLACES = sa.select(ORDERS.c.session_id, ORDERS.c.session_seq, ORDERS.c.origin_json)
_PLACE = _PLACES.where(ORDERS.c.id == sa.bindparam("wanted"))
_FIRST = _PLACES.where(ORDERS.c.session_id == sa.bindparam("of")).order_by(ORDERS.c.session_seq).limit(1)
_TURNS = (
    sa.select(ORDERS.c.id, ORDERS.c.session_seq, ORDERS.c.spec_json, ORDERS.c.outcome_json, STATE.c.status)
    .join(STATE, STATE.c.order_id == ORDERS.c.id)
    .where(
        ORDERS.c.session_id == sa.bindparam("of"),
        ORDERS.c.session_seq < sa.bindparam("before"),
        ORDERS.c.left_out.is_(False),
        is_any(STATE.c.status, FINAL),
    )
    .order_by(ORDERS.c.session_seq.desc())
    .limit(AT_ONCE)
)
_TOLD = (
    sa.select(JOURNAL.c.order_id, JOURNAL.c.data_json, JOURNAL.c.large_json)
    .where(
        JOURNAL.c.order_id.in_(sa.bindparam("ids", expanding=True)),
        JOURNAL.c.kind == ControlApplied.kind,
        JOURNAL.c.record_id.is_not(None),
        JOURNAL.c.parent_id.is_(None),
    )
    .order_by(JOURNAL.c.order_id, JOURNAL.c.seq)
)


class SqlHistory:
    """`mcc.store.context.History` within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def place(self, order_id: str) -> Place:
        return _place(self._connection.execute(_PLACE, {"wanted": order_id}).mappings().one())

    def first(self, session_id: str) -> Place:
        return _place(self._connection.execute(_FIRST, {"of": session_id}).mappings().one())

    def before(self, place: Place) -> Iterator[EarlierTurn]:
        before = place.session_seq
        while turns := self._some(place.session_id, before):
            yield from turns
            before = turns[-1].session_seq

    def _some(self, session_id: str, before: int) -> Sequence[EarlierTurn]:
        rows = self._connection.execute(_TURNS, {"of": session_id, "before": before}).mappings().all()
        told = self._told([row["id"] for row in rows])
        return [_turn(row, told[row["id"]]) for row in rows]

    def _told(self, ids: Sequence[str]) -> defaultdict[str, list[str]]:
        """What people told the masters of these orders while they worked, by order."""
        rows = self._connection.execute(_TOLD, {"ids": ids}).all() if ids else []
        blobs = kept_blobs(self._connection, digests(row.large_json for row in rows))
        found: defaultdict[str, list[str]] = defaultdict(list)
        for row in rows:
            data = whole(row.data_json, row.large_json, blobs)
            if data["control"] == "steer" and data.get("message"):
                found[row.order_id].append(data["message"])
        return found


def _place(row: sa.RowMapping) -> Place:
    origin = OrderOrigin.model_validate(parsed(row["origin_json"])) if row["origin_json"] else None
    return Place(row["session_id"], row["session_seq"], origin)


def _turn(row: sa.RowMapping, told: Sequence[str]) -> EarlierTurn:
    outcome = parsed(row["outcome_json"]) if row["outcome_json"] else {}
    return EarlierTurn(
        order_id=row["id"],
        session_seq=row["session_seq"],
        prompt=as_asked(parsed(row["spec_json"])["prompt"], told),
        status=OrderStatus(row["status"]),
        answer=outcome.get("answer"),
    )
