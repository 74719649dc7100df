"""Tables of triggers: what was delivered to them, and where the answers of their orders go."""

import sqlalchemy as sa
from sqlmodel import Field

from mcc.store.database.columns import Row, partial_index


class TriggerDeliveryRow(Row, table=True):
    """A delivery that came. `key`: its id, or what stands for its body. `body_digest`: the SHA-256 of its body in
    hexadecimal, where the same body is the same delivery whatever its id."""

    __tablename__ = "trigger_deliveries"
    __table_args__ = (
        partial_index("trigger_bodies", "trigger", "body_digest", where="body_digest IS NOT NULL", unique=True),
        sa.Index("trigger_deliveries_by_time", "trigger", "at"),
        sa.Index("old_trigger_deliveries", "at"),
    )

    trigger: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    body_digest: str | None = None
    verdict: str
    order_id: str | None = None
    why_json: str | None = None
    at: int = Field(sa_type=sa.BigInteger)


class ReplyRow(Row, table=True):
    """Where the answer of an order goes: `target_json` is a `mcc.contracts.replies.ReplyTarget`."""

    __tablename__ = "replies"

    order_id: str = Field(primary_key=True)
    target_json: str


TRIGGER_DELIVERIES = Row.metadata.tables["trigger_deliveries"]
REPLIES = Row.metadata.tables["replies"]
