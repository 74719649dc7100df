"""Deliveries as people look at them: listed, tested, replayed, counted, and removed when they are old."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import Actor
from mcc.contracts.webhooks import Delivery, DeliveryState, NewReplay, WebhookType
from mcc.store.database.clock import micros, moment, moment_or_none
from mcc.store.database.engine import Database
from mcc.store.database.errors import BadCursor, DeliveryIsNotDead, UnknownDelivery, UnknownWebhook, WebhookIsOff
from mcc.store.database.tables import WEBHOOK_DELIVERIES, WEBHOOK_ENDPOINTS, among
from mcc.store.doors.fanning_out import delivery_row
from mcc.store.rows.audit import add_note
from mcc.store.rows.order_rows import text_of
from mcc.store.rows.values import Page

DELIVERED_DAYS, DEAD_DAYS = 7, 30
"""How long rows stay of what was delivered, and of what is dead."""

MOST_COUNTED = 100_000
REMOVED_AT_ONCE = 1_000

_TABLE = WEBHOOK_DELIVERIES
_ONE = sa.select(_TABLE).where(_TABLE.c.id == sa.bindparam("wanted"))
_ENDPOINT = sa.select(WEBHOOK_ENDPOINTS).where(WEBHOOK_ENDPOINTS.c.id == sa.bindparam("wanted"))
_AGAIN: Mapping[str, Any] = {
    "state": DeliveryState.PENDING.value,
    "tries": 0,
    "ended_at": None,
    "due_at": sa.bindparam("at"),
}
_IS_DEAD = _TABLE.c.state == sa.literal_column("'dead'")
_REPLAY = sa.update(_TABLE).where(_TABLE.c.id == sa.bindparam("wanted"), _IS_DEAD).values(**_AGAIN)
_ADD = sa.insert(_TABLE)
_OLD = (
    sa.select(_TABLE.c.id)
    .where(
        _TABLE.c.ended_at.is_not(None),
        _TABLE.c.state == sa.bindparam("ended"),
        _TABLE.c.ended_at < sa.bindparam("before", type_=sa.BigInteger),
    )
    .limit(REMOVED_AT_ONCE)
)
_REMOVE = sa.delete(_TABLE).where(among(_TABLE.c.id, "ids"))
_OFF = sa.select(WEBHOOK_ENDPOINTS.c.id).where(WEBHOOK_ENDPOINTS.c.off_at.is_not(None))
_OLDEST = (
    sa.select(_TABLE.c.created_at)
    .where(_TABLE.c.state == sa.literal_column("'pending'"), _TABLE.c.endpoint_id.not_in(_OFF))
    .order_by(_TABLE.c.created_at)
    .limit(1)
)
_COUNT = sa.select(sa.func.count()).select_from(
    sa.select(sa.literal_column("1"))
    .select_from(_TABLE)
    .where(_TABLE.c.state == sa.bindparam("counted"))
    .limit(MOST_COUNTED)
    .subquery()
)


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    """Which deliveries are wanted; None: any."""

    state: DeliveryState | None = None
    endpoint: str | None = None
    order_id: str | None = None
    cursor: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class DeliveryLoad:
    """How many deliveries there are by state, at most `MOST_COUNTED` of each, and for how long the oldest of those
    waits whose endpoint is on."""

    counts: Mapping[str, int]
    oldest_seconds: float


class DeliveryLists:
    """Every method blocks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, wanted: DeliveryFilter) -> Page[Delivery]:
        """Deliveries that fit all that is given, newest first. Raises `BadCursor`."""
        if "\0" in f"{wanted.endpoint}{wanted.order_id}":
            return Page([], None)
        conditions = [
            *([_TABLE.c.state == wanted.state.value] if wanted.state is not None else []),
            *([_TABLE.c.endpoint_id == wanted.endpoint] if wanted.endpoint is not None else []),
            *([_TABLE.c.order_id == wanted.order_id] if wanted.order_id is not None else []),
            *([_before(wanted.cursor)] if wanted.cursor is not None else []),
        ]
        newest = sa.select(_TABLE).where(*conditions).order_by(_TABLE.c.created_at.desc(), _TABLE.c.id.desc())
        statement = newest.limit(wanted.limit + 1)
        rows = self._database.read(lambda connection: connection.execute(statement).mappings().all())
        shown = rows[: wanted.limit]
        cursor = f"{shown[-1]['created_at']}.{shown[-1]['id']}" if len(rows) > wanted.limit else None
        return Page([delivery_of(row) for row in shown], cursor)

    def test(self, webhook_id: str, *, by: Actor) -> Delivery:
        """Have a message of type `webhook.test` sent to the endpoint. Raises `UnknownWebhook`, `WebhookIsOff`."""
        now = self._database.clock.now()
        at = micros(now)

        def work(connection: Connection) -> Delivery:
            endpoint = connection.execute(_ENDPOINT, {"wanted": webhook_id}).mappings().first()
            if endpoint is None or endpoint["url"] is None:
                raise UnknownWebhook(f"there is no webhook {webhook_id[:100]!r} with an address that could be tested")
            if endpoint["off_at"] is not None:
                raise WebhookIsOff(f"the webhook is off ({endpoint['off_why']}): turn it on, then test it")
            event = {"order_id": webhook_id, "seq": at, "kind": WebhookType.TEST.value}
            row = delivery_row(webhook_id, event, at, webhook_id)
            connection.execute(_ADD, row)
            add_note(connection, now, "webhook.tested", by=by, order_id=None, detail={"webhook": webhook_id})
            return delivery_of(connection.execute(_ONE, {"wanted": row["id"]}).mappings().one())

        if "\0" in webhook_id:
            raise UnknownWebhook("there is no such webhook")
        return self._database.write(work)

    def replay(self, delivery_id: str, *, by: Actor) -> Delivery:
        """Try a dead delivery anew, with the same id. Raises `UnknownDelivery`, `DeliveryIsNotDead`."""
        now = self._database.clock.now()

        def work(connection: Connection) -> Delivery:
            row = connection.execute(_ONE, {"wanted": delivery_id}).mappings().first()
            if row is None:
                raise UnknownDelivery(f"there is no delivery {delivery_id[:100]!r}")
            if not connection.execute(_REPLAY, {"wanted": delivery_id, "at": micros(now)}).rowcount:
                raise DeliveryIsNotDead(f"this delivery is {row['state']}: only a dead one is replayed")
            add_note(connection, now, "webhook.replayed", by=by, order_id=None, detail={"delivery": delivery_id})
            return delivery_of(connection.execute(_ONE, {"wanted": delivery_id}).mappings().one())

        if "\0" in delivery_id:
            raise UnknownDelivery("there is no such delivery")
        return self._database.write(work)

    def replay_all(self, wanted: NewReplay, *, by: Actor) -> int:
        """Try anew what is dead; answers how many deliveries these are."""
        now = self._database.clock.now()
        conditions = [
            _IS_DEAD,
            *([_TABLE.c.endpoint_id == wanted.endpoint] if wanted.endpoint is not None else []),
            *([_TABLE.c.ended_at >= micros(wanted.since)] if wanted.since is not None else []),
        ]
        statement = sa.update(_TABLE).where(*conditions).values({**_AGAIN, "due_at": micros(now)})

        def work(connection: Connection) -> int:
            count = connection.execute(statement).rowcount
            if count:
                detail = {**wanted.model_dump(mode="json", exclude_none=True), "count": count}
                add_note(connection, now, "webhook.replayed", by=by, order_id=None, detail=detail)
            return count

        return 0 if "\0" in (wanted.endpoint or "") else self._database.write(work)

    def load(self) -> DeliveryLoad:
        def look(connection: Connection) -> DeliveryLoad:
            counts = {state.value: connection.scalar(_COUNT, {"counted": state.value}) or 0 for state in DeliveryState}
            oldest = connection.scalar(_OLDEST)
            waited = 0.0 if oldest is None else (micros(self._database.clock.now()) - oldest) / 1_000_000
            return DeliveryLoad(counts, max(waited, 0.0))

        return self._database.read(look)

    def remove_old(self) -> int:
        """Remove some rows of what ended long ago; answers how many."""
        now = self._database.clock.now()

        def work(connection: Connection) -> int:
            removed = 0
            for state, days in ((DeliveryState.DELIVERED, DELIVERED_DAYS), (DeliveryState.DEAD, DEAD_DAYS)):
                old = {"ended": state.value, "before": micros(now - timedelta(days=days))}
                ids = connection.execute(_OLD, old).scalars().all()
                removed += connection.execute(_REMOVE, {"ids": ids}).rowcount if ids else 0
            return removed

        return self._database.write(work, repeatable=True)


def delivery_of(row: Mapping[str, Any] | sa.RowMapping) -> Delivery:
    state = DeliveryState(row["state"])
    return Delivery(
        id=row["id"],
        endpoint_id=row["endpoint_id"],
        order_id=row["order_id"],
        seq=row["seq"],
        type=WebhookType(row["kind"]),
        state=state,
        tries=row["tries"],
        created_at=moment(row["created_at"]),
        due_at=moment(row["due_at"]) if state is DeliveryState.PENDING else None,
        ended_at=moment_or_none(row["ended_at"]),
        last_status=row["last_status"],
        last_error=text_of(row["last_error_json"]),
    )


def _before(cursor: str) -> sa.ColumnElement[bool]:
    """Raises `BadCursor`."""
    created, dot, delivery_id = cursor.partition(".")
    if not (dot and created.isascii() and created.isdecimal() and len(created) < 19 and "\0" not in cursor):
        raise BadCursor("this cursor is not one that a page of deliveries gave; begin without one")
    at = int(created)
    return sa.or_(_TABLE.c.created_at < at, sa.and_(_TABLE.c.created_at == at, _TABLE.c.id < delivery_id))
