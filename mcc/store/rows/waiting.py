"""Orders as callers see them, each with what it waits for."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.entry import fact_of
from mcc.contracts.git_delivery import LATER, DeliveryFinished, DeliveryStarted, GitDelivery, delivery_so_far
from mcc.contracts.ids import delivery_record_id, root_record_id
from mcc.contracts.journal import READABLE_VERSIONS, AgentStarted, AgentStep
from mcc.contracts.model_facts import ModelRetried, ModelStarted
from mcc.contracts.order import NewOrder, OrderKind, WorkOrder
from mcc.contracts.shape import Text
from mcc.contracts.status import UNFINISHED, OrderStatus, WaitingReason
from mcc.contracts.waiting import TOLD_BY, after_entry
from mcc.contracts.waits import Queued, WaitsFor, waits_for
from mcc.store.database.clock import moment
from mcc.store.database.engine import DatabaseTime
from mcc.store.database.tables import JOURNAL, ORDERS, STATE, WORKSPACE_LOCKS, among
from mcc.store.rows.order_rows import kept_blobs
from mcc.store.rows.texts import digests, parsed, whole
from mcc.store.rows.transitions import POSITIONS
from mcc.store.rows.views import claimable, first_before, is_status, live_drones, told_waits, work_order

_Row: TypeAlias = sa.RowMapping | Mapping[str, Any]
_Drone: TypeAlias = tuple[frozenset[str], int, Any]
"""The queues and slots of a drone, and its row."""

_FIRST = sa.select(STATE.c.order_id, first_before().label("first")).where(among(STATE.c.order_id, "ids"))
_LAST_TWO = (
    sa.select(*(JOURNAL.c[name] for name in ("order_id", "seq", "kind", "at", "depth", "record_id")))
    .add_columns(JOURNAL.c.data_json, JOURNAL.c.large_json, STATE.c.last_seq)
    .join(STATE, sa.and_(STATE.c.order_id == JOURNAL.c.order_id, JOURNAL.c.seq >= STATE.c.last_seq - 1))
    .where(
        among(JOURNAL.c.order_id, "ids"),
        JOURNAL.c.kind.in_(sorted({*TOLD_BY, ModelStarted.kind})),
        STATE.c.journal_version.in_(READABLE_VERSIONS),
    )
    .order_by(JOURNAL.c.order_id, JOURNAL.c.seq)
)
_UNFINISHED = (
    sa.select(ORDERS.c.id, ORDERS.c.spec_json, STATE.c.status, STATE.c.reason, STATE.c.queue)
    .join(STATE, STATE.c.order_id == ORDERS.c.id)
    .where(among(ORDERS.c.id, "ids"))
)

# By the index of the beginnings of records: an order's journal may be long, and its delivery stands at the end.
_BEGUN = sa.select(JOURNAL.c.order_id, JOURNAL.c.record_id, JOURNAL.c.seq).where(
    among(JOURNAL.c.order_id, "orders"),
    among(JOURNAL.c.record_id, "records"),
    JOURNAL.c.kind == sa.literal_column(f"'{AgentStarted.kind}'"),
)
_STEPS = (
    sa.select(JOURNAL.c.kind, JOURNAL.c.data_json, JOURNAL.c.large_json)
    .where(
        JOURNAL.c.order_id == sa.bindparam("of"),
        JOURNAL.c.record_id == sa.bindparam("record"),
        JOURNAL.c.seq > sa.bindparam("after"),
        JOURNAL.c.kind.in_([DeliveryStarted.kind, DeliveryFinished.kind, AgentStep.kind]),
    )
    .order_by(JOURNAL.c.seq)
)


def _holders() -> sa.Select[Any]:
    """The running orders that write in the workspaces in which these orders want to write, with those orders."""
    holding = STATE.alias("holding")
    return (
        sa.select(STATE.c.order_id, holding.c.order_id.label("holder"))
        .join(WORKSPACE_LOCKS, WORKSPACE_LOCKS.c.workspace_key == STATE.c.wants_key)
        .join(
            holding,
            sa.and_(holding.c.order_id == WORKSPACE_LOCKS.c.order_id, holding.c.epoch == WORKSPACE_LOCKS.c.epoch),
        )
        .where(
            among(STATE.c.order_id, "ids"),
            holding.c.order_id != STATE.c.order_id,
            WORKSPACE_LOCKS.c.exclusive,
            is_status(holding.c.status, OrderStatus.RUNNING),
        )
    )


_HOLDERS = _holders()


@lru_cache(maxsize=32)
def _place(time: DatabaseTime) -> sa.Select[Any]:
    """The `place` of order `mine`, whose priority is `urgency`, among the first `POSITIONS` claimable orders of the
    queue `wanted`; `is_counted` 0: it is not one of these."""
    first = claimable(time, POSITIONS).subquery()
    mine, urgency = sa.bindparam("mine", type_=sa.String()), sa.bindparam("urgency", type_=sa.Integer())
    counted = sa.func.coalesce(sa.func.max(sa.case((first.c.order_id == mine, 1), else_=0)), 0)
    return sa.select(sa.func.count().label("place"), counted.label("is_counted")).where(
        sa.or_(first.c.priority < urgency, sa.and_(first.c.priority == urgency, first.c.order_id <= mine))
    )


@lru_cache(maxsize=256)
def _room(registration_json: str) -> tuple[frozenset[str], int]:
    """The queues and slots of a drone. Cached as a registration is long, and changes only when its drone starts."""
    registration = parsed(registration_json)
    return frozenset(registration["queues"]), int(registration["slots"])


def work_orders(connection: Connection, rows: Sequence[sa.RowMapping], time: DatabaseTime) -> list[WorkOrder]:
    """The orders of these rows of `ORDER`, with what they wait for."""
    waits = _waits(connection, rows, time)
    orders = [work_order(row, waits.get(row["id"])) for row in rows]
    delivering = [order for order in orders if order.deliver is not None and order.status in UNFINISHED]
    so_far = _deliveries_so_far(connection, delivering)
    return [
        order.model_copy(update={"delivery": so_far[order.id]}) if order.id in so_far else order for order in orders
    ]


def in_line(connection: Connection, order: WorkOrder, time: DatabaseTime) -> WorkOrder:
    """A queued order that has just begun its session, with what it waits for: nothing is before it there, and it has
    not asked for its workspace yet."""
    row = connection.execute(_place(time), {"wanted": order.queue, "mine": order.id, "urgency": order.priority}).one()
    queued = _told(order.queue, _drones(connection, time), position=row.place if row.is_counted else None)
    return order.model_copy(update=told_waits(waits_for(OrderStatus.QUEUED, queued=queued)))


def waits_of(connection: Connection, order_ids: Sequence[str], time: DatabaseTime) -> Mapping[str, WaitsFor | None]:
    """What each of these orders waits for; None for those that go on or have ended."""
    return _waits(connection, connection.execute(_UNFINISHED, {"ids": list(order_ids)}).mappings().all(), time)


def _waits(connection: Connection, rows: Sequence[_Row], time: DatabaseTime) -> Mapping[str, WaitsFor | None]:
    queued = _queued(connection, [row for row in rows if row["status"] == OrderStatus.QUEUED.value], time)
    begun = [row for row in rows if row["status"] in (OrderStatus.RUNNING.value, OrderStatus.WAITING.value)]
    ids = [row["id"] for row in begun]
    last = _after_last_entries(connection, ids, time) if begun else {}
    holders = {row.order_id: row.holder for row in connection.execute(_HOLDERS, {"ids": ids})} if begun else {}
    waits: dict[str, WaitsFor | None] = {
        id: waits_for(OrderStatus.QUEUED, queued=place) for id, place in queued.items()
    }
    for row in begun:
        status, reason = OrderStatus(row["status"]), row["reason"]
        waits[row["id"]] = waits_for(
            status,
            WaitingReason(reason) if reason is not None else None,
            not_before=NewOrder.model_validate(parsed(row["spec_json"])).not_before
            if reason == WaitingReason.NOT_BEFORE.value
            else None,
            workspace_of=holders.get(row["id"]),
            after=last.get(row["id"]),
        )
    return waits


def _after_last_entries(
    connection: Connection, order_ids: Sequence[str], time: DatabaseTime
) -> Mapping[str, WaitsFor | None]:
    rows = connection.execute(_LAST_TWO, {"ids": order_ids}).all()
    telling = {order_id: _telling(list(group)) for order_id, group in groupby(rows, lambda row: row.order_id)}
    kept = [row for row in telling.values() if row is not None]
    blobs = kept_blobs(connection, digests(row.large_json for row in kept))
    waits: dict[str, WaitsFor | None] = {}
    for row in kept:
        fact = fact_of(row.kind, whole(row.data_json, row.large_json, blobs))
        waits[row.order_id] = told = after_entry(fact, moment(row.at), is_subagent=row.depth > 0)
        if told is not None and row.kind == ModelRetried.kind and told.until is not None:
            # From then on the model is at work, or the next retry is written.
            over = told.until < moment(connection.execute(sa.select(time.now)).scalar_one())
            waits[row.order_id] = None if over else told
    return waits


def _telling(rows: Sequence[Any]) -> Any:
    """Which of an order's last entries says what it waits for: the last one, or where that begins another try of a
    model call, the one before it, which says why and when; None where neither does."""
    before, last = rows[0], rows[-1]
    if last.seq != last.last_seq:
        return None
    if last.kind != ModelStarted.kind:
        return last
    return before if before.kind == ModelRetried.kind and before.record_id == last.record_id else None


def _queued(connection: Connection, rows: Sequence[_Row], time: DatabaseTime) -> Mapping[str, Queued]:
    if not rows:
        return {}
    places: dict[str, int] = {}
    for queue in {row["queue"] for row in rows}:
        first = connection.execute(claimable(time, POSITIONS), {"wanted": queue})
        places.update({row.order_id: place for place, row in enumerate(first, start=1)})
    wanted = {"ids": [row["id"] for row in rows]}
    earlier = {row.order_id: row.first for row in connection.execute(_FIRST, wanted)}
    holders = {row.order_id: row.holder for row in connection.execute(_HOLDERS, wanted)}
    drones = _drones(connection, time)
    return {
        id: _told(row["queue"], drones, earlier.get(id), holders.get(id), places.get(id))
        for row in rows
        for id in (row["id"],)
    }


def _drones(connection: Connection, time: DatabaseTime) -> Sequence[_Drone]:
    return [(*_room(row.registration_json), row) for row in connection.execute(live_drones(time))]


def _told(
    queue: str,
    drones: Sequence[_Drone],
    earlier_turn: str | None = None,
    workspace_of: str | None = None,
    position: int | None = None,
) -> Queued:
    here = [(slots, drone) for queues, slots, drone in drones if queue in queues]
    at_work = [(slots, drone.active) for slots, drone in here if not drone.draining]
    return Queued(
        queue,
        earlier_turn,
        workspace_of,
        position,
        drones=len(at_work),
        leaving=len(here) - len(at_work),
        slots=sum(slots for slots, _ in at_work),
        active=sum(active for _, active in at_work),
    )


def _deliveries_so_far(connection: Connection, orders: Sequence[WorkOrder]) -> Mapping[str, GitDelivery]:
    """By order, what has become of its delivery, where that has begun."""
    records = {
        order.id: root_record_id(order.id) if order.kind is OrderKind.DELIVER else delivery_record_id(order.id)
        for order in orders
    }
    if not records:
        return {}
    begun = connection.execute(_BEGUN, {"orders": sorted(records), "records": sorted(records.values())}).all()
    deliveries: dict[str, GitDelivery] = {}
    for row in begun:
        asked = {"of": row.order_id, "record": row.record_id, "after": row.seq}
        steps = connection.execute(_STEPS, asked).all()
        blobs = kept_blobs(connection, digests(step.large_json for step in steps))
        told: list[DeliveryStarted | DeliveryFinished | Text] = []
        for step in steps:
            match fact_of(step.kind, whole(step.data_json, step.large_json, blobs)):
                case DeliveryStarted() | DeliveryFinished() as fact:
                    told.append(fact)
                case AgentStep(name=name, message=message) if name == LATER:
                    told.append(message)
        delivery = delivery_so_far(told)
        if delivery is not None:
            deliveries[row.order_id] = delivery
    return deliveries
