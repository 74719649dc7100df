"""Orders made from joined rows; conditions on the status of orders and on leases."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import Actor
from mcc.contracts.ids import is_identifier
from mcc.contracts.journal import READABLE_VERSIONS
from mcc.contracts.order import NewOrder, OrderKind, OrderOrigin, OrderOutcome, WorkOrder
from mcc.contracts.permission import OnAsk
from mcc.contracts.questions import SessionWords
from mcc.contracts.shape import adopted
from mcc.contracts.status import FINAL, UNFINISHED, FailureReason, OrderStatus, WaitingReason, sources_of
from mcc.contracts.usage import Usage
from mcc.contracts.waits import WaitsFor
from mcc.store.database.clock import moment, moment_or_none
from mcc.store.database.engine import DatabaseTime
from mcc.store.database.errors import ForkOfPruned, JournalPruned, UnknownOrder
from mcc.store.database.tables import DRONES, ORDERS, SESSIONS, STATE, among
from mcc.store.rows.actors import WHO_PLACED, token_name, who
from mcc.store.rows.budget_rows import requested_limits
from mcc.store.rows.order_rows import USAGE, text_of
from mcc.store.rows.texts import parsed
from mcc.store.rows.transitions import LeaseState

COLUMNS = (
    ORDERS.c.id,
    ORDERS.c.session_id,
    ORDERS.c.session_seq,
    ORDERS.c.spec_json,
    ORDERS.c.outcome_json,
    ORDERS.c.origin_json,
    ORDERS.c.words_json,
    ORDERS.c.left_out,
    ORDERS.c.created_at,
    ORDERS.c.finished_at,
    STATE.c.status,
    STATE.c.reason,
    STATE.c.attempt,
    STATE.c.started_at,
    STATE.c.last_seq,
    STATE.c.queue,
    STATE.c.metadata_json,
    *(STATE.c[name] for name in USAGE),
    DRONES.c.name.label("drone"),
    SESSIONS.c.title_json.label("session_title"),
    SESSIONS.c.compacts,
    ORDERS.c.budget_json,
    *WHO_PLACED,
    token_name(ORDERS),
)
ORDER = sa.select(*COLUMNS).select_from(
    ORDERS.join(STATE, STATE.c.order_id == ORDERS.c.id)
    .outerjoin(DRONES, DRONES.c.incarnation == STATE.c.incarnation)
    .outerjoin(SESSIONS, SESSIONS.c.id == ORDERS.c.session_id)
)


_PRUNED = sa.select(ORDERS.c.id, ORDERS.c.pruned_at).where(ORDERS.c.id == sa.bindparam("wanted"))
_SOURCE = sa.select(ORDERS.c.pruned_at).where(ORDERS.c.id == sa.bindparam("wanted")).with_for_update(read=True)


def unknown_order(order_id: str) -> UnknownOrder:
    return UnknownOrder(f"there is no order {order_id!r}")


def is_pruned(connection: Connection, order_id: str) -> bool:
    """Whether the order's journal was pruned. Raises `UnknownOrder`."""
    row = connection.execute(_PRUNED, {"wanted": order_id}).first() if is_identifier(order_id) else None
    if row is None:
        raise unknown_order(order_id)
    return row.pruned_at is not None


def check_whole(connection: Connection, order_id: str) -> None:
    """Raises `UnknownOrder`, and `JournalPruned` when the order's journal was pruned."""
    if is_pruned(connection, order_id):
        raise JournalPruned(order_id)


def hold_source(connection: Connection, source: str, *, forked: bool) -> None:
    """Keep the source from being pruned until this transaction ends. Raises `ForkOfPruned`, and `UnknownOrder` when
    it was removed with its session.

    A pruned source is no problem for the retry of a fork: it copies the entries with which the fork began, and
    pruning keeps those.
    """
    # A shared lock: several forks of one order may begin at once, and only pruning has to wait.
    row = connection.execute(_SOURCE, {"wanted": source}).first()
    if row is None:
        raise unknown_order(source)
    if forked and row.pruned_at is not None:
        raise ForkOfPruned(source)


HELD = frozenset({OrderStatus.RUNNING, OrderStatus.WAITING})


def has_status(column: sa.ColumnElement[Any], statuses: frozenset[OrderStatus]) -> sa.ColumnElement[bool]:
    """Whether the status is one of these. The values are literals, and the conditions of partial indexes are repeated
    word for word: otherwise SQLite would not use those indexes."""
    wider = [indexed for indexed in (UNFINISHED, HELD) if statuses < indexed]
    return sa.and_(
        *(column.in_([sa.literal_column(f"'{one.value}'") for one in sorted(some)]) for some in (*wider, statuses))
    )


def is_status(column: sa.ColumnElement[Any], status: OrderStatus) -> sa.ColumnElement[bool]:
    """As `has_status` of one status, for indexes whose condition names just that one, or that begin with the status."""
    return column == sa.literal_column(f"'{status.value}'")


def first_before(state: sa.FromClause = STATE) -> sa.ScalarSelect[str]:
    """The id of the first unfinished order that comes before this one in its session."""
    earlier = STATE.alias("before")
    return (
        sa.select(earlier.c.order_id)
        .where(
            earlier.c.session_id == state.c.session_id,
            earlier.c.session_seq < state.c.session_seq,
            has_status(earlier.c.status, UNFINISHED),
        )
        .order_by(earlier.c.session_seq)
        .limit(1)
        .correlate(state)
        .scalar_subquery()
    )


def is_head(state: sa.FromClause = STATE) -> sa.ColumnElement[bool]:
    """No earlier order of the session is unfinished."""
    earlier = STATE.alias("earlier")
    blocking = (
        sa.select(earlier.c.order_id)
        .where(
            earlier.c.session_id == state.c.session_id,
            earlier.c.session_seq < state.c.session_seq,
            has_status(earlier.c.status, UNFINISHED),
        )
        .correlate(state)
    )
    # Nothing is before a first turn, as most are: looking for it would be half of the work.
    return sa.or_(state.c.session_seq == 1, ~blocking.exists())


def is_claimable(time: DatabaseTime, *, by_id: bool = False) -> sa.ColumnElement[bool]:
    """Whether an order can be claimed now. `by_id`: the statement names the orders, so no index on the status may seem
    to fit, as it would to a database without statistics."""
    statuses = sources_of("claim")
    return sa.and_(
        STATE.c.status.concat("").in_([status.value for status in sorted(statuses)])
        if by_id
        else has_status(STATE.c.status, statuses),
        sa.or_(STATE.c.not_before.is_(None), STATE.c.not_before <= time.now),
        sa.or_(STATE.c.expires_at.is_(None), STATE.c.expires_at > time.now, STATE.c.attempt > 0),
        STATE.c.journal_version.in_(READABLE_VERSIONS),
        is_head(),
    )


def in_time(time: DatabaseTime) -> sa.ColumnElement[bool]:
    """The lease has not run out. A lease from before a reboot has: uptimes of two boots cannot be compared."""
    return sa.and_(DRONES.c.lease_until > time.uptime, DRONES.c.boot == time.boot)


@lru_cache(maxsize=32)
def live_drones(time: DatabaseTime) -> sa.Select[Any]:
    return sa.select(DRONES).where(DRONES.c.state == LeaseState.LIVE.value, in_time(time))


@lru_cache(maxsize=32)
def claimable(time: DatabaseTime, most: int) -> sa.Select[Any]:
    """At most `most` claimable orders of one queue, best first; parameters `wanted` (the queue) and `besides`, ids to
    leave out."""
    left_out = among(STATE.c.order_id, "besides")
    return (
        sa.select(STATE.c.order_id, STATE.c.queue, STATE.c.priority, STATE.c.last_seq, STATE.c.barren)
        .where(STATE.c.queue == sa.bindparam("wanted"), is_claimable(time), ~left_out)
        .order_by(STATE.c.priority, STATE.c.order_id)
        .limit(most)
    )


_SHORT = 4_000
"""Longest spec, in characters, whose parsed form is cached: a claim reads a spec several times."""


@lru_cache(maxsize=64)
def _short_spec(spec_json: str) -> NewOrder:
    return NewOrder.model_validate(parsed(spec_json))


def told_waits(waits_for: WaitsFor | None) -> dict[str, Any]:
    """The fields of an unfinished order that say what it waits for."""
    return {
        "detail": waits_for.message if waits_for else None,
        "waits_for": waits_for,
        "queue_position": waits_for.position if waits_for else None,
        "blocked_by": waits_for.order_id if waits_for and waits_for.kind == "session" else None,
    }


def work_order(row: sa.RowMapping | Mapping[str, Any], waits_for: WaitsFor | None = None) -> WorkOrder:
    """One row of `ORDER` as callers see it."""
    # Only short ones are cached: prompts of megabytes would keep their memory for nothing.
    text = row["spec_json"]
    spec = _short_spec(text) if len(text) <= _SHORT else NewOrder.model_validate(parsed(text))
    status = OrderStatus(row["status"])
    from_spec = {name: value for name, value in spec if name not in ("session_id", "metadata")}
    from_spec["on_ask"] = spec.on_ask or "deny"
    if spec.kind is OrderKind.GENERATE:
        from_spec["document_id"] = row["session_id"]
    ended = OrderOutcome.model_validate(parsed(row["outcome_json"])) if row["outcome_json"] else None
    told = told_waits(waits_for)
    if ended is not None:
        told["detail"] = ended.detail
    # The row was validated when it was placed; lists of orders are read often.
    return WorkOrder.model_construct(
        **from_spec,
        id=row["id"],
        session_id=row["session_id"],
        session_seq=row["session_seq"],
        session_title=text_of(row["session_title"]) or "",
        status=status,
        reason=_reason(status, row["reason"]),
        **told,
        answer=ended.answer if ended else None,
        result=ended.result if ended else None,
        accepted=ended.accepted if ended else None,
        changes=ended.changes if ended else None,
        delivery=ended.delivery if ended else None,
        usage=ended.usage if ended else Usage.model_construct(**{name: row[name] for name in USAGE}),
        attempt=row["attempt"],
        drone=row["drone"],
        created_at=moment(row["created_at"]),
        started_at=moment_or_none(row["started_at"]),
        finished_at=moment_or_none(row["finished_at"]),
        last_seq=row["last_seq"],
        origin=OrderOrigin.model_validate(parsed(row["origin_json"])) if row["origin_json"] else None,
        left_out=row["left_out"],
        compacts=row["compacts"],
        **who(row),
        requested_limits=requested_limits(row["budget_json"]),
        words=tuple(map(SessionWords.model_validate, parsed(row["words_json"]))) if row["words_json"] else (),
        metadata=parsed(row["metadata_json"]) if row["metadata_json"] else {},
    )


_FRESH = {name: field.get_default() for name, field in WorkOrder.model_fields.items() if not field.is_required()}
"""Defaults for the fields of an order that was just placed."""


def fresh_order(
    new: NewOrder,
    order: Mapping[str, Any],
    state: Mapping[str, Any],
    session: Mapping[str, Any],
    *,
    by: Actor,
    on_ask: OnAsk,
) -> WorkOrder:
    """An order that begins a session, made from the rows that are inserted for it, without its queue position."""
    return adopted(
        WorkOrder,
        {
            **_FRESH,
            **new.__dict__,
            "id": order["id"],
            "session_id": order["session_id"],
            "session_seq": order["session_seq"],
            "session_title": text_of(session["title_json"]) or "",
            "status": OrderStatus(state["status"]),
            "reason": _reason(OrderStatus(state["status"]), state["reason"]),
            "on_ask": on_ask,
            "created_at": moment(order["created_at"]),
            "principal": by.principal,
            "door": by.door,
            "token": by.token,
            "last_seq": state["last_seq"],
            "metadata": parsed(state["metadata_json"]) if state["metadata_json"] else {},
            "origin": OrderOrigin.model_validate(parsed(order["origin_json"])) if order["origin_json"] else None,
        },
    )


def _reason(status: OrderStatus, reason: str | None) -> WaitingReason | FailureReason | None:
    if reason is None:
        return None
    return FailureReason(reason) if status in FINAL else WaitingReason(reason)


MOST_BEHIND = 100
"""Bound on the orders behind another one of which `BEGUN_BEHIND` tells."""


def _begun_behind() -> sa.Select[Any]:
    first = STATE.alias("first")
    columns = (STATE.c.order_id, STATE.c.started_at, STATE.c.queue, STATE.c.priority)
    # Bounded before it is filtered: a long queue in which nothing has begun would be read to its end.
    rows = sa.select(*columns).where(STATE.c.order_id > sa.bindparam("of")).order_by(STATE.c.order_id)
    near = rows.limit(MOST_BEHIND).subquery("near")
    return (
        sa.select(near.c.order_id, near.c.started_at)
        .join(first, sa.and_(first.c.queue == near.c.queue, first.c.priority == near.c.priority))
        .where(first.c.order_id == sa.bindparam("of"), near.c.started_at.is_not(None))
    )


BEGUN_BEHIND = _begun_behind()
