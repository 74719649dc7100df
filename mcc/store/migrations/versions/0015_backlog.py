"""Indexes that spare frequent queries a scan of all orders."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

WAITING = "status = 'waiting'"
UNFINISHED = "status IN ('queued', 'running', 'waiting')"
INDEXES: tuple[tuple[str, str, tuple[str, ...], str | None], ...] = (
    ("orders_by_status", "order_state", ("status", "order_id"), None),
    ("orders_of_drone", "order_state", ("incarnation",), "incarnation IS NOT NULL"),
    ("orders_to_expire", "order_state", ("expires_at",), f"{UNFINISHED} AND expires_at IS NOT NULL"),
    ("waiting_orders", "order_state", ("reason", "order_id"), WAITING),
    ("waiting_orders_due", "order_state", ("not_before",), f"{WAITING} AND not_before IS NOT NULL"),
    ("waiting_orders_over", "order_state", ("waits_until",), WAITING),
    ("orders_of_session", "orders", ("session_id", "id"), None),
    ("orders_by_ending", "orders", ("substr(id, 33)", "id"), None),
    ("items_to_expire", "approvals", ("expires_at",), "status = 'pending' AND expires_at IS NOT NULL"),
    ("open_controls", "controls", ("order_id",), "applied_seq IS NULL AND refused_json IS NULL"),
    ("audit_by_kind", "audit", ("kind", "id"), None),
)


def upgrade() -> None:
    for name, table, columns, where in INDEXES:
        parts = [sa.text(column) if "(" in column else column for column in columns]
        condition = None if where is None else sa.text(where)
        op.create_index(name, table, parts, sqlite_where=condition, postgresql_where=condition)
    if op.get_bind().dialect.name == "postgresql":
        # The planner has no statistics for an index on an expression until ANALYZE has run.
        op.execute("ANALYZE orders")


def downgrade() -> None:
    for name, table, _, _ in reversed(INDEXES):
        op.drop_index(name, table_name=table)
