"""Deliveries as a service works on them: which are due, claimed for a while, and what became of each try."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.webhooks import ORDERS_ENDPOINT, DeliveryState, WebhookType
from mcc.store.database.clock import micros, moment
from mcc.store.database.engine import Database
from mcc.store.database.tables import WEBHOOK_DELIVERIES
from mcc.store.doors.webhooks import GONE, turn_off
from mcc.store.rows.order_rows import text_json

HOLD_SECONDS = 60
"""For so long a claimed delivery is its service's; one that is killed meanwhile leaves it to others after that."""

_TABLE = WEBHOOK_DELIVERIES
_EARLIER = _TABLE.alias("earlier")
_PENDING = "state = 'pending'"
# From one receiver to the next by the index, however many deliveries wait for each: those for a receiver that is silent
# for days must not slow down the others.
_DUE = sa.text(
    f"""
    WITH RECURSIVE receivers(receiver) AS (
      SELECT min(receiver) FROM webhook_deliveries WHERE {_PENDING}
      UNION ALL
      SELECT (SELECT min(d.receiver) FROM webhook_deliveries d WHERE d.{_PENDING} AND d.receiver > r.receiver)
      FROM receivers r WHERE r.receiver IS NOT NULL
    )
    SELECT receiver, due_at FROM (
      SELECT r.receiver, (SELECT min(d.due_at) FROM webhook_deliveries d WHERE d.{_PENDING} AND d.receiver = r.receiver)
        AS due_at
      FROM receivers r WHERE r.receiver IS NOT NULL
    ) AS earliest WHERE due_at <= :at AND NOT EXISTS (
      SELECT 1 FROM webhook_endpoints e WHERE e.off_at IS NOT NULL
        AND (e.id = earliest.receiver OR (e.url IS NULL AND substr(earliest.receiver, 1, 2) = '//'))
    ) ORDER BY due_at"""
)
_IS_PENDING = _TABLE.c.state == sa.literal_column("'pending'")
_IS_FIRST = ~(
    sa.select(_EARLIER.c.id)
    .where(
        _EARLIER.c.endpoint_id == _TABLE.c.endpoint_id,
        _EARLIER.c.order_id == _TABLE.c.order_id,
        _EARLIER.c.seq < _TABLE.c.seq,
        _EARLIER.c.state == sa.literal_column("'pending'"),
    )
    .exists()
)
_OF_RECEIVER = (
    sa.select(_TABLE.c.id)
    .where(
        _IS_PENDING,
        _TABLE.c.receiver == sa.bindparam("to"),
        _TABLE.c.due_at <= sa.bindparam("at", type_=sa.BigInteger),
        _IS_FIRST,
    )
    .order_by(_TABLE.c.due_at, _TABLE.c.id)
    .limit(sa.bindparam("most"))
)
_CLAIM = (
    sa.update(_TABLE)
    .where(
        _TABLE.c.id == sa.bindparam("wanted"),
        _IS_PENDING,
        _TABLE.c.due_at <= sa.bindparam("at", type_=sa.BigInteger),
    )
    .values(
        held_by=sa.bindparam("who"),
        held_until=sa.bindparam("until"),
        due_at=sa.bindparam("until"),
        claims=_TABLE.c.claims + 1,
    )
    .returning(
        *(
            _TABLE.c[name]
            for name in ("id", "endpoint_id", "order_id", "seq", "kind", "receiver", "tries", "claims", "created_at")
        )
    )
)
_MINE = (_TABLE.c.id == sa.bindparam("wanted"), _TABLE.c.held_by == sa.bindparam("who"), _IS_PENDING)
_TRIED = {
    "tries": _TABLE.c.tries + 1,
    "claims": _TABLE.c.claims * sa.bindparam("unsure", type_=sa.Integer),
    "held_by": None,
    "held_until": None,
    "last_status": sa.bindparam("status"),
    "last_error_json": sa.bindparam("error"),
}
_END = sa.update(_TABLE).where(*_MINE).values(state=sa.bindparam("new_state"), ended_at=sa.bindparam("at"), **_TRIED)
_AGAIN = sa.update(_TABLE).where(*_MINE).values(due_at=sa.bindparam("due"), **_TRIED)
_LET_GO = sa.update(_TABLE).where(*_MINE).values(held_by=None, held_until=None, due_at=sa.bindparam("due"))
_NEXT = (
    sa.update(_TABLE)
    .where(
        _TABLE.c.endpoint_id == sa.bindparam("endpoint"),
        _TABLE.c.order_id == sa.bindparam("of"),
        _TABLE.c.seq > sa.bindparam("number"),
        _IS_PENDING,
        _TABLE.c.held_by.is_(None),
    )
    .values(due_at=sa.bindparam("due"))
)
"""What waits for a delivery of the same endpoint and order is due with it."""


@dataclass(frozen=True, slots=True)
class ClaimedDelivery:
    """A delivery that a service holds. `tries`: those before this one. `may_be_there`: of a try before this one nobody
    knows whether the receiver has it."""

    id: str
    endpoint_id: str
    order_id: str
    seq: int
    type: WebhookType
    receiver: str
    tries: int
    created_at: datetime
    may_be_there: bool = False


@dataclass(frozen=True, slots=True)
class TryResult:
    """What became of a try. `again_seconds`: it is tried again so much later; None: it is dead, unless `delivered`.
    `gone`: the receiver wants nothing any more. `unsure`: it may have got it all the same."""

    delivered: bool
    status: int | None = None
    error: str | None = None
    again_seconds: float | None = None
    gone: bool = False
    unsure: bool = False


class DeliveryStore:
    """Every method blocks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def due(self) -> Sequence[str]:
        """The receivers for which something is due, the longest due first."""
        at = {"at": micros(self._database.clock.now())}
        return self._database.read(lambda connection: [row.receiver for row in connection.execute(_DUE, at)])

    def claim(self, who: str, wanted: Mapping[str, int]) -> Sequence[ClaimedDelivery]:
        """Hold due deliveries, for each of these receivers at most so many; nobody else holds them."""
        at = micros(self._database.clock.now())
        until = at + HOLD_SECONDS * 1_000_000

        def work(connection: Connection) -> Sequence[ClaimedDelivery]:
            claimed: list[ClaimedDelivery] = []
            for receiver, most in sorted(wanted.items()):
                ids = connection.execute(_OF_RECEIVER, {"to": receiver, "at": at, "most": most}).scalars().all()
                for each in ids:
                    row = connection.execute(_CLAIM, {"wanted": each, "at": at, "who": who, "until": until}).first()
                    if row is not None:
                        claimed.append(_claimed(row))
            return claimed

        return self._database.write(work) if wanted else ()

    def settle(self, claimed: ClaimedDelivery, who: str, result: TryResult) -> None:
        """Note what became of a try, if `who` still holds it, and let those go on that wait for it."""
        now = self._database.clock.now()
        at = micros(now)
        ended = result.delivered or result.again_seconds is None
        due = at if ended else at + round((result.again_seconds or 0) * 1_000_000)
        values: dict[str, Any] = {
            "wanted": claimed.id,
            "who": who,
            "status": result.status,
            "unsure": int(result.unsure),
            "error": None if result.delivered else text_json(result.error),
        }
        state = DeliveryState.DELIVERED if result.delivered else DeliveryState.DEAD

        def work(connection: Connection) -> None:
            if ended:
                changed = connection.execute(_END, {**values, "new_state": state.value, "at": at})
            else:
                changed = connection.execute(_AGAIN, {**values, "due": due})
            if not changed.rowcount:
                return
            following = {"endpoint": claimed.endpoint_id, "of": claimed.order_id, "number": claimed.seq, "due": due}
            connection.execute(_NEXT, following)
            # The one for all orders serves many receivers, of which one is gone.
            if result.gone and claimed.endpoint_id != ORDERS_ENDPOINT:
                turn_off(connection, claimed.endpoint_id, GONE, now)

        self._database.write(work, repeatable=True)

    def let_go(self, claimed: Sequence[ClaimedDelivery], who: str) -> None:
        """Give back what was not tried to its end: it is due at once, for anybody."""
        due = micros(self._database.clock.now())

        def work(connection: Connection) -> None:
            for each in claimed:
                connection.execute(_LET_GO, {"wanted": each.id, "who": who, "due": due})

        if claimed:
            self._database.write(work, repeatable=True)


def _claimed(row: Any) -> ClaimedDelivery:
    return ClaimedDelivery(
        id=row.id,
        endpoint_id=row.endpoint_id,
        order_id=row.order_id,
        seq=row.seq,
        type=WebhookType(row.kind),
        receiver=row.receiver,
        tries=row.tries,
        created_at=moment(row.created_at),
        may_be_there=row.claims > 1,
    )
