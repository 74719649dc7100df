"""Orders that compact a session between its turns: each in a session of its own that nobody is shown, one at a time."""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import Actor
from mcc.contracts.status import FINAL, UNFINISHED, OrderStatus
from mcc.contracts.turn_context import LastRequest
from mcc.store.database.engine import Database
from mcc.store.database.errors import BudgetUsedUp, NothingToCompact
from mcc.store.database.tables import BASES, ORDERS, SESSIONS, STATE, TRANSCRIPTS
from mcc.store.rows.budget_rows import NewReservation, reserve
from mcc.store.rows.session_rows import check_conversation, session_row
from mcc.store.rows.texts import parsed
from mcc.store.rows.transitions import StoreEnding
from mcc.store.rows.values import Placed
from mcc.store.rows.views import has_status, is_status
from mcc.store.work.compact_orders import Compacting, compact_order
from mcc.store.work.endings import end_by_store, may_end
from mcc.store.work.orders import OrderStore, QueueBound, count_queued

ASKED_NOW = "somebody asked for the compaction at once: another order does it"

_LAST = (
    sa.select(ORDERS.c.session_seq, ORDERS.c.spec_json, TRANSCRIPTS.c.last_json)
    .join(STATE, STATE.c.order_id == ORDERS.c.id)
    .outerjoin(TRANSCRIPTS, TRANSCRIPTS.c.order_id == ORDERS.c.id)
    .where(
        ORDERS.c.session_id == sa.bindparam("of"),
        ORDERS.c.left_out.is_(False),
        has_status(STATE.c.status, FINAL),
    )
    .order_by(ORDERS.c.session_seq.desc())
    .limit(1)
)
_COMPACTED = (
    sa.select(BASES.c.digest)
    .join(ORDERS, ORDERS.c.id == BASES.c.order_id)
    .where(
        BASES.c.session_id == sa.bindparam("of"),
        BASES.c.through_seq >= sa.bindparam("last"),
        BASES.c.voided_at.is_(None),
        ORDERS.c.session_id == sa.bindparam("beside"),
    )
    .limit(1)
)
"""A base through the last turn that an order of this kind has made."""
_FIRST_UNFINISHED = sa.select(sa.func.min(STATE.c.session_seq)).where(
    STATE.c.session_id == sa.bindparam("of"), has_status(STATE.c.status, UNFINISHED)
)
_RUNNING = _FIRST_UNFINISHED.where(is_status(STATE.c.status, OrderStatus.RUNNING))


class CompactionStore:
    def __init__(self, database: Database, bound: QueueBound, orders: OrderStore) -> None:
        self._database = database
        self._bound = bound
        self._orders = orders

    def ask(self, session_id: str, *, by: Actor) -> Placed:
        """Place the order that compacts this session, for whoever asks; the one that has not ended, if there is one.

        Raises `UnknownSession`, `NotAConversation`, `NothingToCompact`, `BudgetUsedUp`, `QueueFull`.
        """
        order_id, created = self._database.write(lambda connection: self._place(connection, session_id, by))
        return Placed(self._orders.get(order_id), created)

    def next_turn(self, session_id: str) -> tuple[int, int | None]:
        """The number of the first turn that has not ended, or has not been placed, and of the one that a drone runs."""

        def numbers(connection: Connection) -> tuple[int, int | None]:
            this = {"of": session_id}
            first = connection.scalar(_FIRST_UNFINISHED, this)
            turns = connection.scalar(sa.select(SESSIONS.c.turns).where(SESSIONS.c.id == session_id))
            return (int(turns or 0) + 1 if first is None else int(first)), connection.scalar(_RUNNING, this)

        return self._database.read(numbers)

    def _place(self, connection: Connection, session_id: str, by: Actor) -> tuple[str, bool]:
        # Before the session of the orders: whoever deletes this one locks them in the same sequence.
        session = session_row(connection, session_id, locked=True)
        check_conversation(connection, session_id)
        last = connection.execute(_LAST, {"of": session_id}).mappings().first()
        if last is None:
            raise NothingToCompact(f"no turn of session {session_id} has ended: there is nothing to compact yet")
        at = self._database.clock.now()
        compacting = Compacting.of(connection, session_id, by, at)
        waiting = compacting.waiting(connection)
        if compacting.unfinished is not None and (waiting is None or not may_end(connection, waiting)):
            return compacting.unfinished, False
        compacted = {"of": session_id, "last": last["session_seq"], "beside": compacting.session_id}
        if connection.execute(_COMPACTED, compacted).first() is not None:
            raise NothingToCompact(f"session {session_id} has had no turn since it was compacted")
        window = LastRequest.model_validate(parsed(last["last_json"])).window if last["last_json"] else None
        new = compact_order(last, session, window, None)
        if waiting is not None:
            end_by_store(connection, waiting, StoreEnding(OrderStatus.CANCELLED, None, ASKED_NOW), at)
        wish = NewReservation(new, by, at)
        (reserved,) = reserve(connection, [wish])
        if isinstance(reserved, BudgetUsedUp):
            raise reserved
        order_id = compacting.place(connection, wish, reserved, self._database.time)
        self._bound.take(lambda most: count_queued(connection, most))
        return order_id, True
