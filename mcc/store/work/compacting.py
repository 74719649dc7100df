"""Orders that compact a session between its turns: each in a session of its own that nobody is shown, one at a time."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.ids import compaction_session_id
from mcc.contracts.limits import Limits
from mcc.contracts.order import NewOrder, OrderKind
from mcc.contracts.status import FINAL, UNFINISHED, OrderStatus
from mcc.contracts.turn_context import LastRequest
from mcc.store.database.clock import micros
from mcc.store.database.engine import Database
from mcc.store.database.errors import NothingToCompact
from mcc.store.database.tables import BASES, ORDERS, SESSIONS, STATE, TRANSCRIPTS
from mcc.store.rows.new_rows import NewRows
from mcc.store.rows.order_rows import text_json
from mcc.store.rows.session_rows import check_conversation, defaults_of, session_row
from mcc.store.rows.texts import parsed
from mcc.store.rows.values import Placed
from mcc.store.rows.views import has_status, is_status
from mcc.store.work.orders import OrderStore, QueueBound, count_queued
from mcc.store.work.placing import Placing

TITLE = "Compaction"
SUMMARY_TOKENS = 8_000
"""Most tokens of a summary; of a smaller context, a tenth."""

ATTEMPTS = 3
WALL_SECONDS = 600
TAKEN_OVER = ("agent", "model", "thinking", "temperature", "max_output_tokens", "service_tier", "queue", "priority")
"""What the order has from the last turn, whose request it repeats."""

_LAST = (
    sa.select(ORDERS.c.session_seq, ORDERS.c.spec_json, ORDERS.c.principal, TRANSCRIPTS.c.last_json)
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
_UNFINISHED = (
    sa.select(STATE.c.order_id)
    .where(STATE.c.session_id == sa.bindparam("of"), has_status(STATE.c.status, UNFINISHED))
    .limit(1)
)
_TURNS = sa.select(SESSIONS.c.turns).where(SESSIONS.c.id == sa.bindparam("of")).with_for_update()
_ADD = sa.insert(SESSIONS)
_FIRST_UNFINISHED = sa.select(sa.func.min(STATE.c.session_seq)).where(
    STATE.c.session_id == sa.bindparam("of"), has_status(STATE.c.status, UNFINISHED)
)
_RUNNING = _FIRST_UNFINISHED.where(is_status(STATE.c.status, OrderStatus.RUNNING))


class CompactionStore:
    def __init__(self, database: Database, bound: QueueBound, orders: OrderStore) -> None:
        self._database = database
        self._bound = bound
        self._orders = orders

    def ask(self, session_id: str) -> Placed:
        """Place the order that compacts this session, on behalf of who placed its last turn; the one that has not
        ended, if there is one.

        Raises `UnknownSession`, `NotAConversation`, `NothingToCompact`, `QueueFull`.
        """
        order_id, created = self._database.write(lambda connection: self._place(connection, session_id))
        return Placed(self._orders.get(order_id), created)

    def next_turn(self, session_id: str) -> tuple[int, int | None]:
        """The number of the first turn that has not ended, or has not been placed, and of the one that a drone runs."""

        def numbers(connection: Connection) -> tuple[int, int | None]:
            this = {"of": session_id}
            first = connection.scalar(_FIRST_UNFINISHED, this)
            turns = connection.scalar(sa.select(SESSIONS.c.turns).where(SESSIONS.c.id == session_id))
            return (int(turns or 0) + 1 if first is None else int(first)), connection.scalar(_RUNNING, this)

        return self._database.read(numbers)

    def _place(self, connection: Connection, session_id: str) -> tuple[str, bool]:
        # Locked: of two that ask at once, the second one finds the order of the first.
        session = session_row(connection, session_id, locked=True)
        check_conversation(connection, session_id)
        beside = compaction_session_id(session_id)
        if (known := connection.scalar(_UNFINISHED, {"of": beside})) is not None:
            return str(known), False
        last = connection.execute(_LAST, {"of": session_id}).mappings().first()
        if last is None:
            raise NothingToCompact(f"no turn of session {session_id} has ended: there is nothing to compact yet")
        compacted = {"of": session_id, "last": last["session_seq"], "beside": beside}
        if connection.execute(_COMPACTED, compacted).first() is not None:
            raise NothingToCompact(f"session {session_id} has had no turn since it was compacted")
        at = self._database.clock.now()
        turns = connection.scalar(_TURNS, {"of": beside})
        if turns is None:
            row = {"id": beside, "title_json": text_json(TITLE), "principal": last["principal"]}
            connection.execute(_ADD, {**row, "created_at": micros(at), "turns": 0, "compacts": session_id})
        rows = NewRows()
        limits = defaults_of(session).limits
        new = _order(last, None if limits is None else limits.cost_usd)
        placing = Placing(new, last["principal"], None, at, self._database.time)
        accepted = placing.insert_turn(connection, rows, beside, int(turns or 0) + 1, ())
        rows.insert(connection)
        self._bound.take(lambda most: count_queued(connection, most))
        return accepted.order_id, True


def _order(last: sa.RowMapping | dict[str, Any], cost_usd: float | None) -> NewOrder:
    """The order after this last turn. Raises `NothingToCompact` where that was none of an agent."""
    spec = NewOrder.model_validate(parsed(last["spec_json"]))
    if spec.kind is not OrderKind.CHAT:
        raise NothingToCompact(f"the last turn of the session is of kind {spec.kind.value}: no agent has spoken in it")
    window = LastRequest.model_validate(parsed(last["last_json"])).window if last["last_json"] else None
    tokens = SUMMARY_TOKENS if window is None else max(1, min(SUMMARY_TOKENS, window // 10))
    limits = Limits(output_tokens=ATTEMPTS * tokens, wall_seconds=WALL_SECONDS, cost_usd=cost_usd)
    taken = {name: getattr(spec, name) for name in TAKEN_OVER}
    # Nobody steers it, as it says nothing to anybody.
    return NewOrder(kind=OrderKind.COMPACT, limits=limits, on_ask="deny", controls=(), **taken)
