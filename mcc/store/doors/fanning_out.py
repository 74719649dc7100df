"""Who has to hear of what happened: a delivery to each endpoint that wants it, in the place of the noted event."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.ids import derived_id
from mcc.contracts.order import NewOrder
from mcc.contracts.replies import reply_target
from mcc.contracts.webhooks import OF_WEBHOOK_URLS, ORDERS_ENDPOINT, DeliveryState, WebhookFilters, WebhookType
from mcc.store.database.clock import micros
from mcc.store.database.columns import among
from mcc.store.database.engine import Database
from mcc.store.database.tables import ORDERS, REPLIES, WEBHOOK_DELIVERIES, WEBHOOK_ENDPOINTS, WEBHOOK_EVENTS
from mcc.store.doors.webhooks import ensure_built_in
from mcc.store.rows.texts import parsed

EVENTS_AT_ONCE = 500

_ANY = sa.select(WEBHOOK_EVENTS.c.order_id).limit(1)
_EVENTS = (
    sa.select(WEBHOOK_EVENTS)
    .order_by(WEBHOOK_EVENTS.c.order_id, WEBHOOK_EVENTS.c.seq)
    .limit(sa.bindparam("most", EVENTS_AT_ONCE))
)
_DONE = sa.delete(WEBHOOK_EVENTS).where(
    WEBHOOK_EVENTS.c.order_id == sa.bindparam("of"), WEBHOOK_EVENTS.c.seq == sa.bindparam("number")
)
_STANDING = sa.select(WEBHOOK_ENDPOINTS).where(
    WEBHOOK_ENDPOINTS.c.off_at.is_(None), WEBHOOK_ENDPOINTS.c.secrets_json.is_not(None)
)
_OF_ORDERS = sa.select(ORDERS.c.id, ORDERS.c.session_id, ORDERS.c.spec_json, ORDERS.c.principal, ORDERS.c.door).where(
    among(ORDERS.c.id, "ids")
)
_REPLIES = sa.select(REPLIES.c.order_id, REPLIES.c.target_json).where(among(REPLIES.c.order_id, "ids"))
_WAITED_FOR = (
    sa.select(
        WEBHOOK_DELIVERIES.c.endpoint_id,
        WEBHOOK_DELIVERIES.c.order_id,
        sa.func.max(WEBHOOK_DELIVERIES.c.due_at).label("due_at"),
    )
    .where(among(WEBHOOK_DELIVERIES.c.order_id, "ids"), WEBHOOK_DELIVERIES.c.state == "pending")
    .group_by(WEBHOOK_DELIVERIES.c.endpoint_id, WEBHOOK_DELIVERIES.c.order_id)
)
_COLUMNS = "id, endpoint_id, order_id, seq, kind, receiver, state, tries, created_at, due_at"
_ADD = sa.text(
    f"INSERT INTO webhook_deliveries ({_COLUMNS}) VALUES ({', '.join(f':{name}' for name in _COLUMNS.split(', '))})"
    " ON CONFLICT DO NOTHING"
)
# One at a time, so that an entry never overtakes an earlier one of its order that another service has in hand.
_MAY_FAN_OUT = sa.text("SELECT pg_try_advisory_xact_lock(hashtext('webhook_events'))")


class FanningOut:
    """Every method blocks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def advance(self) -> int:
        """Make deliveries of some noted events, the oldest orders first; answers how many events there were. Raises
        `StoreUnavailable`."""
        if self._database.read(lambda connection: connection.execute(_ANY).first()) is None:
            return 0
        return self._database.write(self._fan_out, repeatable=True)

    def _fan_out(self, connection: Connection) -> int:
        if connection.dialect.name == "postgresql" and not connection.execute(_MAY_FAN_OUT).scalar():
            return 0
        at = self._database.clock.now()
        events = _rows(connection.execute(_EVENTS, {"most": EVENTS_AT_ONCE}))
        ids = sorted({event["order_id"] for event in events})
        orders = {row["id"]: row for row in _rows(connection.execute(_OF_ORDERS, {"ids": ids}))}
        specs = {order_id: NewOrder.model_validate(parsed(row["spec_json"])) for order_id, row in orders.items()}
        if any(spec.webhook_url for spec in specs.values()):
            ensure_built_in(connection, at)
        endpoints = _rows(connection.execute(_STANDING))
        waited_for = {
            (row["endpoint_id"], row["order_id"]): row["due_at"]
            for row in connection.execute(_WAITED_FOR, {"ids": ids}).mappings()
        }
        replies = {
            row["order_id"]: (reply_target(parsed(row["target_json"])).endpoint,)
            for row in connection.execute(_REPLIES, {"ids": ids}).mappings()
        }
        deliveries = [
            {
                **delivery_row(endpoint, event, micros(at), receiver),
                # It waits for those before it anyway, and is not looked at again and again meanwhile.
                "due_at": max(micros(at), waited_for.get((endpoint, event["order_id"]), 0)),
            }
            for event in events
            for endpoint, receiver in (
                *hearing(
                    endpoints, WebhookType(event["kind"]), orders.get(event["order_id"]), specs.get(event["order_id"])
                ),
                *(
                    (place, place)
                    for place in replies.get(event["order_id"], ())
                    if event["kind"] == WebhookType.FINISHED
                ),
            )
        ]
        if deliveries:
            connection.execute(_ADD, deliveries)
        if events:
            connection.execute(_DONE, [{"of": event["order_id"], "number": event["seq"]} for event in events])
        return len(events)


def _rows(result: sa.CursorResult[Any]) -> Sequence[Mapping[str, Any]]:
    return [dict(row) for row in result.mappings()]


def delivery_row(endpoint_id: str, event: Mapping[str, Any], at: int, receiver: str) -> dict[str, Any]:
    """A new row, due at once. Its id is a function of what is told to whom, so that nothing is told twice."""
    told = derived_id(endpoint_id, event["order_id"], event["seq"]).replace("-", "")
    return {
        "id": f"msg_{told}",
        "endpoint_id": endpoint_id,
        "order_id": event["order_id"],
        "seq": event["seq"],
        "kind": event["kind"],
        "receiver": receiver,
        "state": DeliveryState.PENDING.value,
        "tries": 0,
        "created_at": at,
        "due_at": at,
    }


def hearing(
    endpoints: Iterable[Mapping[str, Any]],
    kind: WebhookType,
    order: Mapping[str, Any] | None,
    spec: NewOrder | None,
) -> Sequence[tuple[str, str]]:
    """Which of the endpoints hear of this, each with its receiver. `order` None: it is of no order, so that no filter
    speaks of it, or of one that is gone, of which nobody hears."""
    heard: list[tuple[str, str]] = []
    for endpoint in endpoints:
        if endpoint["id"] == ORDERS_ENDPOINT:
            if spec is not None and spec.webhook_url and kind in OF_WEBHOOK_URLS:
                heard.append((ORDERS_ENDPOINT, receiver_of(spec.webhook_url)))
            continue
        types = parsed(endpoint["types_json"])
        wanted = not types or kind in types
        filters = WebhookFilters.model_validate(parsed(endpoint["filters_json"]))
        if wanted and (kind is WebhookType.MISSED or (order is not None and spec and _fits(filters, order, spec))):
            heard.append((endpoint["id"], endpoint["id"]))
    return heard


def is_host(receiver: str) -> bool:
    """Whether this receiver is one of those that `receiver_of` makes, and not an endpoint."""
    return receiver.startswith("//")


def receiver_of(url: str) -> str:
    """The host of a `webhook_url`, with its port, spelled as no id of an endpoint is."""
    return "//" + url.partition("://")[2].partition("/")[0].partition("?")[0].lower()


def _fits(filters: WebhookFilters, order: Mapping[str, Any], spec: NewOrder) -> bool:
    asked = (
        (filters.kinds, (spec.kind,)),
        (filters.labels, spec.labels),
        (filters.agents, (spec.agent,)),
        (filters.principals, (order["principal"],)),
        (filters.doors, (order["door"],)),
        (filters.sessions, (order["session_id"],)),
    )
    return all(not wanted or not set(wanted).isdisjoint(has) for wanted, has in asked)
