"""The tables of the inbox: what agents asked people, and the approvals that people let stand."""

import sqlalchemy as sa
from sqlmodel import Field

from mcc.store.columns import Row, partial_index


class ApprovalRow(Row, table=True):
    """One item of the inbox (`kind` approval, outline or question), as the journal of its order says.

    `asked_json` is the fact that asked. A decision of which the journal does not know yet stands in a control.
    """

    __tablename__ = "approvals"
    __table_args__ = (
        partial_index(
            "one_pending_item_per_call",
            "order_id",
            "call_id",
            where="status = 'pending' AND call_id IS NOT NULL",
            unique=True,
        ),
        partial_index("items_to_expire", "expires_at", where="status = 'pending' AND expires_at IS NOT NULL"),
        sa.Index("items_by_status", "status", "requested_at", "id"),
        partial_index("pending_items", "kind", "requested_at", "id", where="status = 'pending'"),
        sa.Index("items_by_kind", "kind", "requested_at", "id"),
        sa.Index("items_by_time", "requested_at", "id"),
        sa.Index("items_of_order", "order_id"),
    )

    id: str = Field(primary_key=True)
    order_id: str = Field(foreign_key="orders.id")
    kind: str
    status: str
    call_id: str | None = None
    record_id: str | None = None
    parent_id: str | None = None
    agent: str | None = None
    depth: int = 0
    asked_json: str
    asked_seq: int
    decision: str | None = None
    principal: str | None = None
    note_json: str | None = None
    remember: str | None = None
    answer_json: str | None = None
    requested_at: int = Field(sa_type=sa.BigInteger)
    expires_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    decided_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    used_seq: int | None = None


class GrantRow(Row, table=True):
    """`scope_id` is the order, the session or the key of the workspace that it is for."""

    __tablename__ = "grants"
    __table_args__ = (sa.Index("grants_of_scope", "scope", "scope_id"),)

    id: str = Field(primary_key=True)
    scope: str
    scope_id: str
    workspace_json: str | None = None
    rule_json: str
    principal: str
    approval_id: str
    created_at: int = Field(sa_type=sa.BigInteger)


APPROVALS = Row.metadata.tables["approvals"]
GRANTS = Row.metadata.tables["grants"]
