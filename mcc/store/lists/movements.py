"""Which orders have new entries, for whoever hears of all of them as they are committed."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.entry import Entry
from mcc.contracts.order import NewOrder
from mcc.contracts.status import OrderStatus
from mcc.store.database.clock import CLOCKS_DIFFER, id_at, micros, moment
from mcc.store.database.engine import Database
from mcc.store.database.tables import JOURNAL, ORDERS, STATE, among
from mcc.store.rows.order_rows import entries_after
from mcc.store.rows.texts import parsed
from mcc.store.rows.views import is_status

_OPEN = (OrderStatus.RUNNING, OrderStatus.WAITING)
_HEADS = sa.select(STATE.c.order_id, STATE.c.last_seq)
_AT_WORK = {status: _HEADS.where(is_status(STATE.c.status, status)) for status in _OPEN}
_NAMED = _HEADS.where(among(STATE.c.order_id, "ids"))
_SINCE = sa.bindparam("since", type_=sa.BigInteger)
_PLACED = (
    sa.select(ORDERS.c.id)
    .where(ORDERS.c.id >= sa.bindparam("lowest"), ORDERS.c.created_at >= _SINCE)
    .order_by(ORDERS.c.id)
)
# By the index of orders whose entries are not deleted yet.
_ENDED = sa.select(ORDERS.c.id).where(
    ORDERS.c.finished_at.is_not(None), ORDERS.c.emptied_at.is_(None), ORDERS.c.finished_at >= _SINCE
)
_FACTS = sa.select(
    ORDERS.c.id, ORDERS.c.session_id, ORDERS.c.spec_json, ORDERS.c.principal, ORDERS.c.door, ORDERS.c.created_at
).where(among(ORDERS.c.id, "ids"))
_BEFORE = (
    sa.select(JOURNAL.c.order_id, sa.func.max(JOURNAL.c.seq).label("seq"))
    .where(among(JOURNAL.c.order_id, "ids"), JOURNAL.c.at < _SINCE)
    .group_by(JOURNAL.c.order_id)
)


@dataclass(frozen=True, slots=True)
class OrderTraits:
    """What orders are chosen by; it never changes."""

    session_id: str
    agent: str
    labels: Sequence[str]
    principal: str
    door: str | None
    created_at: datetime


class MovementStore:
    """Every method blocks, and raises `StoreUnavailable`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def now(self) -> datetime:
        return self._database.clock.now()

    def at_work(self) -> Mapping[str, int]:
        """The number of the last entry of each order that is running or waiting."""
        return self._database.read(lambda connection: _heads_at_work(connection, _OPEN))

    def heads(self, named: Collection[str], since: datetime | None) -> Mapping[str, int]:
        """The number of the last entry of each order that is running or `named`; with `since`, also of those that wait,
        and that were placed or have ended since then."""

        def read(connection: Connection) -> dict[str, int]:
            ids = set(named)
            if since is not None:
                at = {"since": micros(since)}
                ids.update(connection.execute(_PLACED, {**at, "lowest": id_at(since, -CLOCKS_DIFFER)}).scalars())
                ids.update(connection.execute(_ENDED, at).scalars())
            heads = _heads_at_work(connection, _OPEN[:1] if since is None else _OPEN)
            if more := ids - heads.keys():
                heads |= {row.order_id: row.last_seq for row in connection.execute(_NAMED, {"ids": sorted(more)})}
            return heads

        return self._database.read(read)

    def traits(self, order_ids: Collection[str]) -> Mapping[str, OrderTraits]:
        """Those of the known ones of these orders, by id."""

        def read(connection: Connection) -> dict[str, OrderTraits]:
            rows = connection.execute(_FACTS, {"ids": sorted(order_ids)}).all()
            specs = [NewOrder.model_validate(parsed(row.spec_json)) for row in rows]
            return {
                row.id: OrderTraits(
                    row.session_id, spec.agent, spec.labels, row.principal, row.door, moment(row.created_at)
                )
                for row, spec in zip(rows, specs, strict=True)
            }

        return self._database.read(read) if order_ids else {}

    def positions(self, order_ids: Collection[str], since: datetime) -> Mapping[str, int]:
        """The number of the last entry of each of these orders that was written before then, where there is one."""
        asked = {"ids": sorted(order_ids), "since": micros(since)}
        rows = self._database.read(lambda connection: connection.execute(_BEFORE, asked).all()) if order_ids else []
        return {row.order_id: row.seq for row in rows}

    def entries(self, order_id: str, after: int, limit: int) -> Sequence[Entry]:
        """Entries after number `after`, in order; of a journal that was pruned what is left of it."""
        return self._database.read(lambda connection: entries_after(connection, order_id, after, limit))


def _heads_at_work(connection: Connection, statuses: Sequence[OrderStatus]) -> dict[str, int]:
    return {row.order_id: row.last_seq for status in statuses for row in connection.execute(_AT_WORK[status])}
