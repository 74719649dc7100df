"""What orders used: noted when they end, and added to the sums of their day by whoever takes that note first."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.order import OrderOutcome
from mcc.contracts.status import OrderStatus
from mcc.contracts.usage import Usage
from mcc.contracts.usage_days import OTHERS, UsageKind
from mcc.store.database.clock import moment
from mcc.store.database.direct import execute_later
from mcc.store.database.tables import LABELS, ORDERS, USAGE_DAYS, USAGE_OUTBOX, among
from mcc.store.rows.texts import parsed

NANOS = 1_000_000_000
"""Units of a US dollar in sums."""

HIGHEST = 10**15
"""As much of anything is counted of one order, so that no provider's figure can make a sum too large for its column."""

KEYS_OF_DAY = 1_000
"""So many keys of one kind a day has of its own; orders may have labels that no other order has."""

COUNTED = tuple(name for name in Usage.model_fields if name != "cost_usd")
SUMS = ("orders", "succeeded", "failed", "unpriced", *COUNTED, "cost_nanos")
"""Columns of `usage_days` that add up."""

_NOTED = ("order_id", "ended_at", "status", *COUNTED, "cost_nanos")
_NOTE = sa.text(f"INSERT INTO usage_outbox ({', '.join(_NOTED)}) VALUES ({', '.join(f':{name}' for name in _NOTED)})")
_FREE = (
    sa.select(USAGE_OUTBOX.c.order_id).where(among(USAGE_OUTBOX.c.order_id, "ids")).with_for_update(skip_locked=True)
)
_TAKE = sa.delete(USAGE_OUTBOX).where(USAGE_OUTBOX.c.order_id.in_(_FREE)).returning(USAGE_OUTBOX)
_ABOUT = sa.select(*(ORDERS.c[name] for name in ("id", "principal", "token_id", "agent", "model", "last_drone"))).where(
    among(ORDERS.c.id, "ids")
)
_SPECS = sa.select(ORDERS.c.id, ORDERS.c.spec_json).where(among(ORDERS.c.id, "ids"), ORDERS.c.agent.is_(None))
_LABELS = sa.select(LABELS.c.order_id, LABELS.c.label).where(among(LABELS.c.order_id, "ids"))
_KEYS = (
    sa.select(USAGE_DAYS.c.day, USAGE_DAYS.c.by, sa.func.count().label("keys"))
    .where(among(USAGE_DAYS.c.day, "days"))
    .group_by(USAGE_DAYS.c.day, USAGE_DAYS.c.by)
)
_KNOWN = sa.select(USAGE_DAYS.c.key).where(
    USAGE_DAYS.c.day == sa.bindparam("of_day"), USAGE_DAYS.c.by == sa.bindparam("kind"), among(USAGE_DAYS.c.key, "keys")
)
_ADD = sa.text(
    f'INSERT INTO usage_days (day, "by", key, {", ".join(SUMS)})'
    f" VALUES (:day, :by, :key, {', '.join(f':{name}' for name in SUMS)})"
    f' ON CONFLICT (day, "by", key) DO UPDATE SET '
    + ", ".join(f"{name} = usage_days.{name} + excluded.{name}" for name in SUMS)
)

Place = tuple[str, UsageKind, str]
"""A row of `usage_days`: its day, kind and key."""


def note_usage(connection: Connection, order_id: str, outcome: OrderOutcome, at: int) -> None:
    """Note what an order used that ends now, `at` in microseconds; to be counted later, as no row that many orders have
    in common may be written while they end."""
    used, cost = outcome.usage, outcome.usage.cost_usd
    row = {name: min(getattr(used, name), HIGHEST) for name in COUNTED}
    is_known = cost is not None and not math.isnan(cost)
    nanos = round(min(max(0.0, cost or 0.0), HIGHEST / NANOS) * NANOS) if is_known else None
    row |= {"order_id": order_id, "ended_at": at, "status": outcome.status.value, "cost_nanos": nanos}
    execute_later(connection, _NOTE, row)


def count_usage(connection: Connection, order_ids: Sequence[str]) -> Sequence[str]:
    """Add what these orders used to the sums of their days, as far as nobody else has done or does so now; answers
    which."""
    wanted = {"ids": sorted(order_ids)}
    noted = connection.execute(_TAKE, wanted).mappings().all()
    if not noted:
        return ()
    taken = {"ids": sorted(row["order_id"] for row in noted)}
    sums: defaultdict[Place, list[int]] = defaultdict(lambda: [0] * len(SUMS))
    about = {row.id: row for row in connection.execute(_ABOUT, taken)}
    agents = {row.id: parsed(row.spec_json).get("agent", "master") for row in connection.execute(_SPECS, taken)}
    labels: defaultdict[str, list[str]] = defaultdict(list)
    for order_id, label in connection.execute(_LABELS, taken).all():
        labels[order_id].append(label)
    for row in noted:
        order = about.get(row["order_id"])
        day = moment(row["ended_at"]).date().isoformat()
        succeeded, failed = (row["status"] == status for status in (OrderStatus.SUCCEEDED, OrderStatus.FAILED))
        nanos = row["cost_nanos"]
        amounts = (1, int(succeeded), int(failed), int(nanos is None), *(row[name] for name in COUNTED), nanos or 0)
        for kind, key in _keys(order, agents.get(row["order_id"], ""), labels[row["order_id"]]):
            place = sums[day, kind, day if kind == "day" else key]
            place[:] = map(int.__add__, place, amounts)
    _add(connection, sums)
    return taken["ids"]


def _keys(order: Any, agent: str, labels: Sequence[str]) -> Iterator[tuple[UsageKind, str]]:
    """What an order is counted by. `agent`: of one whose row does not tell it, as a version before placed it."""
    yield "day", ""
    if order is not None:
        yield "person", order.principal
        yield "token", order.token_id or ""
        yield "agent", order.agent or agent
        yield "model", order.model or ""
        yield "drone", order.last_drone or ""
    for label in labels or ("",):
        yield "label", label


def _add(connection: Connection, sums: dict[Place, list[int]]) -> None:
    bounded: defaultdict[Place, list[int]] = defaultdict(lambda: [0] * len(SUMS))
    for place, amounts in _bounded(connection, sums):
        bounded[place][:] = map(int.__add__, bounded[place], amounts)
    # In one sequence, as several processes may add to the same rows.
    rows = [
        {"day": day, "by": kind, "key": key, **dict(zip(SUMS, amounts, strict=True))}
        for (day, kind, key), amounts in sorted(bounded.items())
    ]
    execute_later(connection, _ADD, rows)


def _bounded(connection: Connection, sums: dict[Place, list[int]]) -> Iterator[tuple[Place, list[int]]]:
    """The sums; new keys of a day that has `KEYS_OF_DAY` of their kind become `OTHERS`."""
    counts = {
        (row["day"], row["by"]): row["keys"]
        for row in connection.execute(_KEYS, {"days": sorted({day for day, _, _ in sums})}).mappings()
    }
    by_kind: defaultdict[tuple[str, UsageKind], set[str]] = defaultdict(set)
    for day, kind, key in sums:
        by_kind[day, kind].add(key)
    for (day, kind), keys in by_kind.items():
        room = KEYS_OF_DAY - counts.get((day, kind), 0)
        of_their_own = keys
        if len(keys) > room:
            named = {"of_day": day, "kind": kind, "keys": sorted(keys)}
            known = set(connection.execute(_KNOWN, named).scalars())
            of_their_own = known | set(sorted(keys - known)[: max(0, room)])
        for key in keys:
            yield (day, kind, key if key in of_their_own else OTHERS), sums[day, kind, key]
