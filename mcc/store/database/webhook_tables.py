"""Tables of webhooks: who hears of orders, what is to be told, and what became of telling it."""

import sqlalchemy as sa
from sqlmodel import Field

from mcc.store.database.columns import HALF_FILLED, Row, partial_index


class WebhookEndpointRow(Row, table=True):
    """Who hears of orders. `url` None: the built-in one, for the `webhook_url` of each order. `types_json`: a list of
    what it hears of, empty for everything.

    `secrets_json`: what its messages are signed by, as `mcc.store.doors.secrets` has it; None: it was lost, as backups
    do not have it. `off_at`: since then nothing is noted for it or sent to it.
    """

    __tablename__ = "webhook_endpoints"
    __table_args__ = (sa.Index("webhook_endpoints_by_name", "name", unique=True),)

    id: str = Field(primary_key=True)
    name: str
    url: str | None = None
    types_json: str
    filters_json: str
    secrets_json: str | None = None
    principal: str
    created_at: int = Field(sa_type=sa.BigInteger)
    off_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    off_why: str | None = None


class WebhookEventRow(Row, table=True):
    """An entry that somebody may have to hear of, until it was looked at who.

    A trigger on the journal notes it in the transaction of the entry, if an endpoint stands or the order names a
    `webhook_url` or has a reply: nobody who writes entries has to think of it, and where there is none of these, no
    statement is sent.

    Of what is of no order, `order_id` and `seq` are the id of what it is of and a number.
    """

    __tablename__ = "webhook_events"

    order_id: str = Field(primary_key=True)
    seq: int = Field(primary_key=True, sa_type=sa.BigInteger)
    kind: str


class WebhookDeliveryRow(Row, table=True):
    """A message to one endpoint. `id`: its id on the wire. `receiver`: what at most some tries go to at a time: the
    endpoint, or the host of a `webhook_url`.

    `due_at`: when it is tried next, and while a service that claimed it tries it, when its hold ends. `held_by`,
    `held_until`: that service and that time. `claims`: how often it was claimed since it was known whether its receiver
    has it. `ended_at`: since when it is delivered or dead.
    """

    __tablename__ = "webhook_deliveries"
    __table_args__ = (
        sa.UniqueConstraint("endpoint_id", "order_id", "seq", name="delivery_of_entry"),
        partial_index("due_deliveries", "receiver", "due_at", "id", where="state = 'pending'"),
        partial_index("oldest_deliveries", "created_at", where="state = 'pending'"),
        partial_index("ended_deliveries", "state", "ended_at", where="ended_at IS NOT NULL"),
        sa.Index("deliveries_by_time", "created_at", "id"),
        sa.Index("deliveries_of_order", "order_id"),
        HALF_FILLED,
    )

    id: str = Field(primary_key=True)
    endpoint_id: str
    order_id: str
    seq: int = Field(sa_type=sa.BigInteger)
    kind: str
    receiver: str
    state: str
    tries: int = 0
    claims: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    created_at: int = Field(sa_type=sa.BigInteger)
    due_at: int = Field(sa_type=sa.BigInteger)
    held_by: str | None = None
    held_until: int | None = Field(default=None, sa_type=sa.BigInteger)
    ended_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    last_status: int | None = None
    last_error_json: str | None = None


WEBHOOK_ENDPOINTS, WEBHOOK_EVENTS, WEBHOOK_DELIVERIES = (
    Row.metadata.tables[name] for name in ("webhook_endpoints", "webhook_events", "webhook_deliveries")
)
