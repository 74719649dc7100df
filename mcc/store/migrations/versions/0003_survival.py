"""Barren takeovers, workspace locks, origins of derived orders, and the audit."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("order_state", sa.Column("barren", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("orders", sa.Column("origin_json", sa.String(), nullable=True))
    op.create_table(
        "workspace_locks",
        sa.Column("workspace_key", sa.String(), nullable=False),
        sa.Column("order_id", sa.String(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("exclusive", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"]),
        sa.PrimaryKeyConstraint("workspace_key", "order_id"),
    )
    op.create_index("lock_of_order", "workspace_locks", ["order_id"])
    op.create_table(
        "audit",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("order_id", sa.String(), nullable=True),
        sa.Column("detail_json", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("audit_of_order", "audit", ["order_id"])


def downgrade() -> None:
    op.drop_table("audit")
    op.drop_table("workspace_locks")
    op.drop_column("orders", "origin_json")
    op.drop_column("order_state", "barren")
