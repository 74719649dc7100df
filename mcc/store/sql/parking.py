"""This room is for orders that wait: laid aside by their holder, found by who could do them, queued again."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.control import Control
from mcc.contracts.ids import is_identifier
from mcc.contracts.journal import OrderResumed, OrderWaiting
from mcc.contracts.status import OrderStatus, WaitingReason, sources_of
from mcc.store.clock import micros, moment
from mcc.store.entries import applied, told
from mcc.store.errors import ControlsPending, Fenced
from mcc.store.large import parsed
from mcc.store.sql.engine import Database
from mcc.store.sql.receipts import controls_of, settle_applied
from mcc.store.sql.rows import State, is_held, lock, write
from mcc.store.sql.tables import JOURNAL, ORDERS, STATE
from mcc.store.sql.views import is_any
from mcc.store.values import Parking, Waiting
from mcc.store.waiting import keeps_from_waiting, waits_until

_NEXT = sa.select(JOURNAL.c.kind, JOURNAL.c.epoch).where(
    JOURNAL.c.order_id == sa.bindparam("wanted"), JOURNAL.c.seq == sa.bindparam("seq")
)
_WAITING = (
    sa.select(STATE.c.order_id, STATE.c.workspace_key, ORDERS.c.spec_json, JOURNAL.c.at)
    .join(ORDERS, ORDERS.c.id == STATE.c.order_id)
    .join(JOURNAL, sa.and_(JOURNAL.c.order_id == STATE.c.order_id, JOURNAL.c.seq == STATE.c.last_seq))
    .where(
        is_any(STATE.c.status, frozenset({OrderStatus.WAITING})),
        STATE.c.reason == sa.bindparam("reason"),
        STATE.c.order_id > sa.bindparam("after"),
    )
    .order_by(STATE.c.order_id)
    .limit(sa.bindparam("most"))
)


class Parker:
    """The part of `Claims` that is about waiting."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._now = sa.select(database.time.now)

    def park(self, parking: Parking) -> int:
        return self._database.write(lambda connection: self._park(connection, parking), repeatable=True)

    def _park(self, connection: Connection, parking: Parking) -> int:
        state, number = lock(connection, parking.order_id), parking.last_seq + 1
        if state is None or not is_held(state, parking.epoch) or state.last_seq != parking.last_seq:
            if _was_parked(connection, parking, number):
                return number
            raise Fenced(
                f"order {parking.order_id} is not held under epoch {parking.epoch} at entry {parking.last_seq}"
            )
        controls = controls_of(connection, state.order_id) if state.control_seq else []
        if any(keeps_from_waiting(control, parking) for control in controls):
            raise ControlsPending(
                f"order {state.order_id} has controls up to number {state.control_seq}: read them first"
            )
        self._lay_aside(connection, state, parking)
        return number

    def _lay_aside(self, connection: Connection, state: State, parking: Parking) -> None:
        fact = OrderWaiting(reason=parking.reason, message=parking.message, until=parking.until, found=parking.found)
        due = micros(parking.until) if parking.until else None
        since = max(due or 0, int(connection.scalar(self._now) or 0))
        write(
            connection,
            state,
            [told(self._database.clock.now(), fact)],
            status=OrderStatus.WAITING,
            reason=parking.reason.value,
            epoch=state.epoch + 1,
            incarnation=None,
            claim_token=None,
            not_before=due,
            waits_until=waits_until(since, state.expires_at),
        )

    def waiting(self, reason: WaitingReason, limit: int, after: str) -> Sequence[Waiting]:
        asked = {"reason": reason.value, "after": after, "most": limit}
        rows = self._database.read(lambda connection: connection.execute(_WAITING, asked).all())
        return [
            Waiting(row.order_id, parsed(row.spec_json).get("workspace"), moment(row.at), row.workspace_key)
            for row in rows
        ]

    def wake(self, order_id: str, reason: WaitingReason, message: str) -> bool:
        at = self._database.clock.now()

        def work(connection: Connection) -> bool:
            state = lock(connection, order_id)
            if state is None or state.status not in sources_of("resume") or state.reason != reason.value:
                return False
            resume(connection, state, at, message)
            return True

        return is_identifier(order_id) and self._database.write(work)


def _was_parked(connection: Connection, parking: Parking, number: int) -> bool:
    """True when this very parking was committed before, and only the answer was lost; whatever came after it."""
    row = connection.execute(_NEXT, {"wanted": parking.order_id, "seq": number}).first()
    return row is not None and (row.kind, row.epoch) == (OrderWaiting.kind, parking.epoch + 1)


def resume(
    connection: Connection,
    state: State,
    at: datetime,
    message: str,
    control: Control | None = None,
    *,
    workspace_key: str | None = None,
) -> State:
    """A waiting order becomes claimable again, whatever time it waited for; `control` is applied by this.

    `workspace_key`: it goes on in this directory from here on.
    """
    drafts = [applied(control, at)] if control else []
    drafts.append(told(at, OrderResumed(message=message)))
    settle_applied(connection, state.order_id, list(enumerate(drafts, start=state.last_seq + 1)))
    woken: dict[str, object] = {"reason": None, "not_before": None, "waits_until": None, "epoch": state.epoch + 1}
    if workspace_key is not None:
        woken["workspace_key"] = workspace_key
    return write(connection, state, drafts, status=OrderStatus.QUEUED, **woken)
