"""How much work waits, and for how long: the figures that somebody on call looks at."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.store.database.engine import Database, DatabaseTime
from mcc.store.database.tables import APPROVALS, JOURNAL, NOTES, ORDERS, STATE
from mcc.store.rows.inbox_rows import PENDING
from mcc.store.rows.note_rows import UNDECIDED
from mcc.store.rows.views import is_claimable
from mcc.store.upkeep.retention import size_in_bytes


@dataclass(frozen=True, slots=True)
class Pending:
    """Items of one kind in the inbox that wait for a person, and seconds since the oldest was asked."""

    items: int
    oldest_seconds: float


@dataclass(frozen=True, slots=True)
class Load:
    """What waits in a database at one moment."""

    oldest_claimable: Mapping[str, float]
    """Seconds by queue since its oldest claimable order could be claimed; queues without such an order are left out."""

    pending: Mapping[str, Pending]
    """By kind of item; kinds of which none waits are left out."""

    database_bytes: int


class LoadReader:
    """Reads all claimable orders, so not to be asked often where hundreds of thousands wait."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def load(self) -> Load:
        """Raises `StoreUnavailable`."""
        return self._database.read(self._load)

    def _load(self, connection: Connection) -> Load:
        now = int(connection.scalar(sa.select(self._database.time.now)) or 0)
        claimable = {
            row.queue: _seconds(now, connection.scalar(_SINCE, {"wanted": row.oldest}) or now)
            for row in connection.execute(_oldest(self._database.time)).all()
        }
        waiting = [*connection.execute(_PENDING), *connection.execute(_NOTES)]
        pending = {row.kind: Pending(row.items, _seconds(now, row.asked_at)) for row in waiting if row.items}
        return Load(claimable, pending, size_in_bytes(connection))


def _oldest(time: DatabaseTime) -> sa.Select[Any]:
    """The claimable order of each queue that was placed first."""
    return (
        sa.select(STATE.c.queue, sa.func.min(STATE.c.order_id).label("oldest"))
        .where(is_claimable(time))
        .group_by(STATE.c.queue)
    )


_turn_before = sa.select(sa.func.max(ORDERS.c.finished_at)).where(ORDERS.c.session_id == STATE.c.session_id)
_SINCE = (
    # Not since it was placed: an order that ran for hours before its drone was lost has only just become claimable, as
    # has one whose session was busy until now.
    sa.select(
        sa.case((_turn_before.scalar_subquery() > JOURNAL.c.at, _turn_before.scalar_subquery()), else_=JOURNAL.c.at)
    )
    .select_from(
        STATE.join(JOURNAL, sa.and_(JOURNAL.c.order_id == STATE.c.order_id, JOURNAL.c.seq == STATE.c.last_seq))
    )
    .where(STATE.c.order_id == sa.bindparam("wanted"))
)
_PENDING = (
    sa.select(
        APPROVALS.c.kind,
        sa.func.count().label("items"),
        sa.func.min(APPROVALS.c.requested_at).label("asked_at"),
    )
    .where(PENDING)
    .group_by(APPROVALS.c.kind)
)
_NOTES = sa.select(
    sa.literal("note").label("kind"),
    sa.func.count().label("items"),
    sa.func.min(NOTES.c.written_at).label("asked_at"),
).where(UNDECIDED)


def _seconds(now: int, since: int) -> float:
    return max(now - since, 0) / 1e6
