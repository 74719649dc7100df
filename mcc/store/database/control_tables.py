"""Tables of what was asked of running orders, and of actions that no journal records."""

import sqlalchemy as sa
from sqlmodel import Field

from mcc.store.database.columns import Row, partial_index


class ControlRow(Row, table=True):
    __tablename__ = "controls"
    __table_args__ = (
        sa.UniqueConstraint("order_id", "number", name="number_of_control"),
        partial_index("open_controls", "order_id", where="applied_seq IS NULL AND refused_json IS NULL"),
    )

    id: str = Field(primary_key=True)
    order_id: str = Field(foreign_key="orders.id")
    number: int
    kind: str
    record_id: str | None = None
    message_json: str | None = None
    reason_json: str | None = None
    mode: str | None = None
    remove_tools_json: str | None = None
    metadata_json: str | None = None
    said_json: str | None = None
    principal: str
    requested_at: int = Field(sa_type=sa.BigInteger)
    delivered_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    applied_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    applied_seq: int | None = None
    refused_json: str | None = None
    door: str | None = None
    token_id: str | None = None


class AuditRow(Row, table=True):
    """Actions that no journal records, such as rollbacks and the doctor's repairs."""

    __tablename__ = "audit"
    __table_args__ = (
        sa.Index("audit_of_order", "order_id"),
        sa.Index("audit_by_kind", "kind", "id"),
        sa.Index("audit_of_principal", "principal", "id"),
    )

    id: str = Field(primary_key=True)
    at: int = Field(sa_type=sa.BigInteger)
    principal: str
    kind: str
    order_id: str | None = None
    detail_json: str
    door: str | None = None
    token_id: str | None = None


CONTROLS, AUDIT = (Row.metadata.tables[name] for name in ("controls", "audit"))
