"""Packing: replaces the rows of a journal with a pack some time after its order has ended."""

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.status import FINAL
from mcc.store.database.clock import micros
from mcc.store.database.engine import Database
from mcc.store.database.tables import JOURNAL, ORDERS, PACKS, STATE
from mcc.store.rows.order_rows import lock
from mcc.store.rows.packs import make_pack
from mcc.store.rows.views import has_status
from mcc.store.work.endings import pack_stored_record

ORDERS_AT_ONCE = 200


def after_place() -> sa.ColumnElement[bool]:
    """Orders after the last one of the page before, in the order of their ends; parameters `since` (its end in
    microseconds) and `last` (its id)."""
    place = sa.tuple_(sa.bindparam("since", type_=sa.BigInteger), sa.bindparam("last", type_=sa.String))
    return sa.tuple_(ORDERS.c.finished_at, ORDERS.c.id) > place


_ENDED = sa.select(STATE.c.order_id).where(STATE.c.order_id == ORDERS.c.id, has_status(STATE.c.status, FINAL))
_WANTED = (
    sa.select(ORDERS.c.id, ORDERS.c.finished_at)
    .where(
        ORDERS.c.finished_at.is_not(None),
        ORDERS.c.packed_at.is_(None),
        ORDERS.c.pruned_at.is_(None),
        after_place(),
        ORDERS.c.finished_at <= sa.bindparam("before", type_=sa.BigInteger),
    )
    .order_by(ORDERS.c.finished_at, ORDERS.c.id)
    .limit(ORDERS_AT_ONCE)
)
_MARK = (
    sa.update(ORDERS)
    .where(
        ORDERS.c.id == sa.bindparam("wanted"),
        ORDERS.c.packed_at.is_(None),
        ORDERS.c.pruned_at.is_(None),
        _ENDED.exists(),
    )
    .values(packed_at=sa.bindparam("at"))
)
_REPLACED = sa.delete(JOURNAL).where(
    JOURNAL.c.order_id == sa.bindparam("of"),
    sa.select(PACKS.c.order_id).where(PACKS.c.order_id == JOURNAL.c.order_id).exists(),
    sa.select(STATE.c.order_id)
    .where(STATE.c.order_id == JOURNAL.c.order_id, has_status(STATE.c.status, FINAL))
    .exists(),
)


def each_order(database: Database, wanted: sa.Select[Any], before: datetime) -> Iterator[str]:
    """The ids of the orders that `wanted` selects, page by page, each once; parameters of `wanted` are `since`, `last`
    and `before`.

    An order that the caller cannot handle now is not yielded again.
    """
    page: dict[str, Any] = {"before": micros(before), "since": -(2**62), "last": ""}
    while rows := database.read(lambda connection: connection.execute(wanted, page).all()):  # noqa: B023
        page |= {"since": rows[-1].finished_at, "last": rows[-1].id}
        yield from (row.id for row in rows)


class Packing:
    """Compresses journals of ended orders. Readers of a journal do not notice the difference."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def pack(self, before: datetime) -> Iterator[str]:
        """Pack the journals of orders that ended at `before` or earlier; yields the id of each packed order.

        A journal of more than `packs.LARGEST_BYTES` is left as it is. Raises `StoreUnavailable`.
        """
        at = micros(self._database.clock.now())
        for order_id in each_order(self._database, _WANTED, before):
            if self._database.write(partial(_pack, order_id=order_id, at=at)):
                yield order_id


def _pack(connection: Connection, order_id: str, at: int) -> bool:
    state = lock(connection, order_id, skip=True)
    # Marked even where it then turns out not to fit: otherwise every run would try it again.
    if state is None or not connection.execute(_MARK, {"wanted": order_id, "at": at}).rowcount:
        return False
    if not make_pack(connection, order_id):
        return False
    connection.execute(_REPLACED, {"of": order_id})
    pack_stored_record(connection, order_id)
    return True
