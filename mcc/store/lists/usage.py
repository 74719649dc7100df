"""What orders used, read by day and key from the sums of days."""

from dataclasses import dataclass
from datetime import date
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.status import UNFINISHED, OrderStatus
from mcc.contracts.usage_days import MOST_KEYS, OTHERS, UsageKind, UsageOfDay, UsageReport, UsageSum
from mcc.store.database.clock import moment
from mcc.store.database.engine import Database
from mcc.store.database.tables import LIST_PROGRESS, STATE, USAGE_DAYS, USAGE_OUTBOX, among
from mcc.store.rows.usage_rows import COUNTED, HIGHEST, NANOS, SUMS
from mcc.store.rows.views import has_status

MOST_ROWS = 6_000
"""Rows of an answer, which has about 300 bytes a row: of many days fewer keys are told."""

_ADDED = tuple(sa.func.sum(USAGE_DAYS.c[name]).label(name) for name in SUMS)
_IN_RANGE = (
    USAGE_DAYS.c.by == sa.bindparam("kind"),
    USAGE_DAYS.c.day >= sa.bindparam("first"),
    USAGE_DAYS.c.day <= sa.bindparam("last"),
)
_TOTALS = sa.select(*_ADDED).where(*_IN_RANGE)
_LARGEST = (
    sa.select(USAGE_DAYS.c.key)
    .where(*_IN_RANGE, USAGE_DAYS.c.key != OTHERS)
    .group_by(USAGE_DAYS.c.key)
    .order_by(
        sa.func.sum(USAGE_DAYS.c.cost_nanos).desc(),
        sa.func.sum(USAGE_DAYS.c.input_tokens + USAGE_DAYS.c.output_tokens).desc(),
        sa.func.sum(USAGE_DAYS.c.orders).desc(),
        USAGE_DAYS.c.key,
    )
    .limit(sa.bindparam("most"))
)
_SHOWN = sa.case((among(USAGE_DAYS.c.key, "shown"), USAGE_DAYS.c.key), else_=sa.literal_column(f"'{OTHERS}'"))
_DAYS = (
    sa.select(USAGE_DAYS.c.day, _SHOWN.label("shown_key"), *_ADDED)
    .where(*_IN_RANGE)
    .group_by(USAGE_DAYS.c.day, sa.text("shown_key"))
    .order_by(USAGE_DAYS.c.day, sa.text("shown_key"))
)
_SINCE = sa.select(LIST_PROGRESS.c.reached).where(LIST_PROGRESS.c.name == "usage")
_OLDEST = sa.select(sa.func.min(USAGE_OUTBOX.c.ended_at))


def _open() -> sa.Select[Any]:
    """What is not in the sums, in one statement: an order that ends meanwhile is in one of its halves alone."""
    highest: sa.ColumnElement[int] = sa.literal_column(str(HIGHEST))
    cost = sa.case(
        (STATE.c.cost_usd >= HIGHEST / NANOS, highest),
        (STATE.c.cost_usd >= 0, sa.cast(STATE.c.cost_usd * NANOS, sa.BigInteger)),
    )
    running = sa.select(
        STATE.c.status,
        *(sa.case((STATE.c[name] > highest, highest), else_=STATE.c[name]).label(name) for name in COUNTED),
        cost.label("cost_nanos"),
    ).where(has_status(STATE.c.status, UNFINISHED))
    ended = sa.select(USAGE_OUTBOX.c.status, *(USAGE_OUTBOX.c[name] for name in COUNTED), USAGE_OUTBOX.c.cost_nanos)
    each = sa.union_all(running, ended).subquery("each_order")
    ends = {"succeeded": OrderStatus.SUCCEEDED, "failed": OrderStatus.FAILED}
    columns: list[sa.ColumnElement[Any]] = [
        sa.func.count().label("orders"),
        *(
            sa.func.sum(sa.case((each.c.status == status.value, 1), else_=0)).label(name)
            for name, status in ends.items()
        ),
        sa.func.sum(sa.case((each.c.cost_nanos.is_(None), 1), else_=0)).label("unpriced"),
        *(sa.func.sum(each.c[name]).label(name) for name in (*COUNTED, "cost_nanos")),
    ]
    return sa.select(*columns)


_OPEN = _open()


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """Which days (`first` to `last`, both included), by which kind of key."""

    by: UsageKind
    first: date
    last: date


class UsageStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def report(self, query: UsageQuery) -> UsageReport:
        """The largest keys by cost, then tokens, then orders; the others together."""
        days = (query.last - query.first).days + 1
        span = {"first": query.first.isoformat(), "last": query.last.isoformat()}

        def read(connection: Connection) -> UsageReport:
            now = self._database.clock.now()
            since = connection.scalar(_SINCE)
            # Before the sums, so that what is counted meanwhile is told twice rather than not at all.
            open_sum = _sum(connection.execute(_OPEN).mappings().one())
            oldest = connection.scalar(_OLDEST)
            wanted = {"kind": query.by, **span}
            shown = connection.execute(_LARGEST, {**wanted, "most": min(MOST_KEYS, MOST_ROWS // days)}).scalars().all()
            rows = connection.execute(_DAYS, {**wanted, "shown": shown}).mappings().all()
            totals = connection.execute(_TOTALS, {"kind": "day", **span}).mappings().one()
            return UsageReport(
                by=query.by,
                since=None if since is None else moment(int(since)),
                as_of=now if oldest is None else min(now, moment(oldest)),
                days=tuple(UsageOfDay(day=row["day"], key=row["shown_key"], **dict(_sum(row))) for row in rows),
                totals=_sum(totals),
                open=open_sum,
            )

        return self._database.read(read)


def _sum(row: sa.RowMapping) -> UsageSum:
    """Of a row of sums, which are None where there is no row to add."""
    counts = {name: int(row[name] or 0) for name in SUMS if name != "cost_nanos"}
    return UsageSum(**counts, cost_usd=int(row["cost_nanos"] or 0) / NANOS)
