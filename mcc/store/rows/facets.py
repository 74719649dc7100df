"""What orders are found by beside their status: agent, model, drone, cause of failure, and kind of inbox item."""

import hashlib

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.approvals import OrderItemKind
from mcc.contracts.ids import is_compaction_session
from mcc.contracts.order import OrderOutcome
from mcc.contracts.permission import OnAsk
from mcc.contracts.record import ChatRecord
from mcc.contracts.shape import to_json
from mcc.contracts.status import FailureReason, OrderStatus, Reason
from mcc.rules.patterns import Pattern
from mcc.store.database.direct import execute_later
from mcc.store.database.tables import DRONES, ORDERS
from mcc.store.rows.order_rows import OrderState

DETAIL_CHARACTERS = 2_000
"""Characters of a detail that count for its fingerprint."""

_VARYING = (
    (Pattern(r"\b[a-z][a-z0-9+.-]{0,20}://[^\s'\"<>]+", ignore_case=True), "URL"),
    (Pattern(r"\"[^\"\n]*\"|`[^`\n]*`|\B'[^'\n]*'\B"), "QUOTE"),
    (Pattern(r"[\w.+-]+@[\w.-]+"), "ADDRESS"),
    (Pattern(r"(?:\.{0,2}/)?(?:[\w.@~-]+/)+[\w.@~-]*|/[\w.@~-]+"), "PATH"),
    (Pattern(r"\b[0-9a-f]{8}[0-9a-f-]*\b", ignore_case=True), "ID"),
    (Pattern(r"\b[\w-]+(?:\.[\w-]+)*:\d+"), "ADDRESS"),
    (Pattern(r"\d+(?:[.,:]\d+)*"), "N"),
)
"""What differs between two failures of one cause, in the sequence in which it is masked."""

_WANTED = ORDERS.c.id == sa.bindparam("wanted")
_HOLDER = sa.select(DRONES.c.name).where(DRONES.c.incarnation == sa.bindparam("holder", type_=sa.String()))
_SUCCEEDED = (
    sa.update(ORDERS)
    .where(_WANTED)
    .values(
        outcome_json=sa.bindparam("outcome"),
        finished_at=sa.bindparam("finished"),
        model=sa.func.coalesce(sa.bindparam("effective", type_=sa.String()), ORDERS.c.model),
        last_drone=_HOLDER.scalar_subquery(),
    )
)
_NOT_SUCCEEDED = _SUCCEEDED.values(fingerprint=sa.bindparam("cause"), inbox=sa.bindparam("told"))
_AGENT = sa.select(ORDERS.c.agent).where(_WANTED)


def told_when_ready(on_ask: OnAsk | None, session_id: str) -> OrderItemKind | None:
    """The `inbox` of an order that has not ended, which it keeps if it succeeds: somebody who can be asked waits."""
    return "ready" if on_ask == "wait" and not is_compaction_session(session_id) else None


def told_when_failed(reason: Reason | str | None, session_id: str) -> OrderItemKind | None:
    if is_compaction_session(session_id):
        return None
    return "budget" if reason == FailureReason.BUDGET_EXHAUSTED else "failed"


def keep_outcome(
    connection: Connection, state: OrderState, outcome: OrderOutcome, record: ChatRecord | None, at: int
) -> None:
    """Store how the order ended, `at` in microseconds, and what it is found by from now on."""
    row = {
        "wanted": state.order_id,
        "outcome": to_json(outcome).decode(),
        "finished": at,
        "effective": record.model.effective if record is not None and record.model is not None else None,
        "holder": state.incarnation,
    }
    if outcome.status is OrderStatus.SUCCEEDED:
        execute_later(connection, _SUCCEEDED, row)
        return
    cause: str | None = None
    told: OrderItemKind | None = None
    if outcome.status is OrderStatus.FAILED:
        agent = record.agent if record is not None else connection.scalar(_AGENT, {"wanted": state.order_id})
        cause = fingerprint(outcome.reason, agent or "", outcome.detail or "")
        told = told_when_failed(outcome.reason, state.session_id)
    execute_later(connection, _NOT_SUCCEEDED, {**row, "cause": cause, "told": told})


def fingerprint(reason: Reason | str | None, agent: str, detail: str) -> str:
    """12 hexadecimal digits that failures of one cause have in common: of reason, agent and `masked` detail."""
    told = "\n".join((reason or "", agent, masked(detail)))
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def masked(detail: str) -> str:
    """The beginning of a detail, with its ids, numbers, quotes, paths and addresses replaced by what they are."""
    text = detail[:DETAIL_CHARACTERS]
    for pattern, name in _VARYING:
        text = pattern.sub(name, text)
    return text
