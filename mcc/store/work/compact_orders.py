"""Orders that compact a session, inside the transaction that asks for one or ends a turn: one unfinished at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import Actor
from mcc.contracts.compaction import CompactionOutcome
from mcc.contracts.ids import compaction_session_id
from mcc.contracts.limits import Limits
from mcc.contracts.order import NewOrder, OrderKind
from mcc.contracts.status import UNFINISHED, OrderStatus
from mcc.store.database.clock import micros
from mcc.store.database.engine import DatabaseTime
from mcc.store.database.errors import BudgetUsedUp, NothingToCompact, UnknownSession
from mcc.store.database.tables import ORDERS, SESSIONS, STATE
from mcc.store.rows.actors import WHO_PLACED, actor_of
from mcc.store.rows.budget_rows import NewReservation, Reserved, reserve
from mcc.store.rows.new_rows import NewRows
from mcc.store.rows.order_rows import OrderState, lock, text_json
from mcc.store.rows.session_rows import defaults_of, session_row
from mcc.store.rows.stored_turns import PlannedCompaction
from mcc.store.rows.texts import parsed
from mcc.store.rows.transitions import waits_until
from mcc.store.rows.views import has_status
from mcc.store.work.placing import Placing

TITLE = "Compaction"
SUMMARY_TOKENS = 8_000
"""Most tokens of a summary; of a smaller context, a tenth."""

ATTEMPTS = 3
WALL_SECONDS = 600
TAKEN_OVER = ("agent", "model", "thinking", "temperature", "max_output_tokens", "service_tier", "queue", "priority")
"""What the order has from the last turn, whose request it repeats."""

_ADD = sa.text(
    "INSERT INTO sessions (id, title_json, principal, door, token_id, created_at, turns, compacts)"
    " VALUES (:id, :title_json, :principal, :door, :token_id, :created_at, 0, :compacts) ON CONFLICT (id) DO NOTHING"
)
_TURNS = sa.select(SESSIONS.c.turns).where(SESSIONS.c.id == sa.bindparam("of")).with_for_update()
_UNFINISHED = (
    sa.select(STATE.c.order_id, ORDERS.c.spec_json)
    .join(ORDERS, ORDERS.c.id == STATE.c.order_id)
    .where(STATE.c.session_id == sa.bindparam("of"), has_status(STATE.c.status, UNFINISHED))
    .limit(1)
)
_OUTCOME = (
    sa.select(ORDERS.c.outcome_json)
    .join(STATE, STATE.c.order_id == ORDERS.c.id)
    .where(
        ORDERS.c.session_id == sa.bindparam("of"),
        has_status(STATE.c.status, frozenset({OrderStatus.SUCCEEDED, OrderStatus.FAILED})),
    )
    .order_by(ORDERS.c.session_seq.desc())
    .limit(1)
)
_TURN = sa.select(ORDERS.c.session_id, ORDERS.c.spec_json, *WHO_PLACED).where(ORDERS.c.id == sa.bindparam("of"))
_MOVE = (
    sa.update(STATE)
    .where(STATE.c.order_id == sa.bindparam("of"))
    .values(not_before=sa.bindparam("due"), waits_until=sa.bindparam("over"))
)


@dataclass(frozen=True, slots=True)
class Compacting:
    """The session of the orders that compact another one, locked until the transaction ends. `turns`: how many it has
    had. `unfinished`: the one that has not ended, if any; `is_idle`: it was to wait until nobody spoke."""

    session_id: str
    turns: int
    unfinished: str | None
    is_idle: bool

    @classmethod
    def of(cls, connection: Connection, session_id: str, by: Actor, at: datetime) -> "Compacting":
        """That of `session_id`, whose own row stays free: a turn that ends must not wait for one that is placed."""
        beside = compaction_session_id(session_id)
        row = {"id": beside, "title_json": text_json(TITLE), **by.columns, "compacts": session_id}
        connection.execute(_ADD, {**row, "created_at": micros(at)})
        # From here on, of two that ask at once, the second one finds the order of the first.
        turns = int(connection.execute(_TURNS, {"of": beside}).scalar_one())
        known = connection.execute(_UNFINISHED, {"of": beside}).first()
        if known is None:
            return cls(beside, turns, None, False)
        return cls(beside, turns, known.order_id, _spec(known.spec_json).not_before is not None)

    def place(self, connection: Connection, wish: NewReservation, reserved: Reserved | None, time: DatabaseTime) -> str:
        """Place the order; answers its id. `reserved`: what it may spend."""
        rows = NewRows()
        placing = Placing(wish.new, wish.by, None, wish.at, time)
        accepted = placing.insert_turn(connection, rows, self.session_id, self.turns + 1, ())
        if reserved is not None:
            rows.change_orders(connection, {accepted.order_id: placing.budgeted(reserved)})
        rows.insert(connection)
        return accepted.order_id

    def waiting(self, connection: Connection) -> OrderState | None:
        """The unfinished order, locked, if it waits until nobody speaks. One that somebody else has locked is about to
        do something else."""
        if self.unfinished is None or not self.is_idle:
            return None
        state = lock(connection, self.unfinished, skip=True)
        return state if state is not None and state.status in (OrderStatus.WAITING, OrderStatus.QUEUED) else None


EndedTurn: TypeAlias = tuple[str, PlannedCompaction, datetime]
"""A turn after which its session is to be compacted: its id, the plan, and when it ended."""


def place_when_idle(connection: Connection, time: DatabaseTime, ended: Sequence[EndedTurn]) -> None:
    """Place the orders that compact the sessions of these ended turns at the planned times; one that waits already
    waits until then instead. Nothing happens where the session was deleted, the last one freed little of as much, or
    the budget of the day does not suffice."""
    # All that is locked before the first reservation, as nothing may be afterwards.
    wanted = [idle for each in ended if (idle := _idle(connection, *each)) is not None]
    if not wanted:
        return
    answers = reserve(connection, [wish for _, wish in wanted])
    for (compacting, wish), reserved in zip(wanted, answers, strict=True):
        if not isinstance(reserved, BudgetUsedUp):
            compacting.place(connection, wish, reserved, time)


def _idle(
    connection: Connection, order_id: str, planned: PlannedCompaction, at: datetime
) -> tuple[Compacting, NewReservation] | None:
    """The order to place after this turn; None for none, or where one waits already, which then waits longer."""
    turn = connection.execute(_TURN, {"of": order_id}).mappings().one()
    try:
        session = session_row(connection, turn["session_id"])
    except UnknownSession:
        return None
    compacting = Compacting.of(connection, turn["session_id"], actor_of(turn), at)
    if compacting.unfinished is None:
        last = _last_outcome(connection, compacting.session_id)
        if last is not None and last.is_repeated_at(planned.tokens):
            return None
        return compacting, NewReservation(compact_order(turn, session, planned.window, planned.due), actor_of(turn), at)
    if (waiting := compacting.waiting(connection)) is not None:
        due = micros(planned.due)
        over = waits_until(due, waiting.expires_at) if waiting.status is OrderStatus.WAITING else None
        connection.execute(_MOVE, {"of": waiting.order_id, "due": due, "over": over})
    return None


def _last_outcome(connection: Connection, beside: str) -> CompactionOutcome | None:
    """What the last order in this session of such orders came to; None: unknown, or there was none."""
    text = connection.execute(_OUTCOME, {"of": beside}).scalar()
    result = parsed(text).get("result") if text else None
    return None if result is None else CompactionOutcome.model_validate(result)


def compact_order(last: sa.RowMapping, session: sa.RowMapping, window: int | None, due: datetime | None) -> NewOrder:
    """The order after this last turn, for a model that takes in `window` tokens. Raises `NothingToCompact` where that
    was none of an agent."""
    spec = _spec(last["spec_json"])
    if spec.kind is not OrderKind.CHAT:
        raise NothingToCompact(f"the last turn of the session is of kind {spec.kind.value}: no agent has spoken in it")
    tokens = SUMMARY_TOKENS if window is None else max(1, min(SUMMARY_TOKENS, window // 10))
    session_limits = defaults_of(session).limits
    cost_usd = None if session_limits is None else session_limits.cost_usd
    limits = Limits(output_tokens=ATTEMPTS * tokens, wall_seconds=WALL_SECONDS, cost_usd=cost_usd)
    taken = {name: getattr(spec, name) for name in TAKEN_OVER}
    # Nobody steers it, as it says nothing to anybody.
    return NewOrder(kind=OrderKind.COMPACT, limits=limits, on_ask="deny", controls=(), not_before=due, **taken)


def _spec(text: str) -> NewOrder:
    return NewOrder.model_validate(parsed(text))
