"""The inbox: approvals, questions and grants; the decision that a control carries."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

ONE = sa.text("status = 'pending' AND call_id IS NOT NULL")


def upgrade() -> None:
    op.create_table(
        "approvals",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("order_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("call_id", sa.String(), nullable=True),
        sa.Column("record_id", sa.String(), nullable=True),
        sa.Column("parent_id", sa.String(), nullable=True),
        sa.Column("agent", sa.String(), nullable=True),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("asked_json", sa.String(), nullable=False),
        sa.Column("asked_seq", sa.Integer(), nullable=False),
        sa.Column("decision", sa.String(), nullable=True),
        sa.Column("principal", sa.String(), nullable=True),
        sa.Column("note_json", sa.String(), nullable=True),
        sa.Column("remember", sa.String(), nullable=True),
        sa.Column("answer_json", sa.String(), nullable=True),
        sa.Column("requested_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("decided_at", sa.BigInteger(), nullable=True),
        sa.Column("used_seq", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "one_pending_item_per_call",
        "approvals",
        ["order_id", "call_id"],
        unique=True,
        sqlite_where=ONE,
        postgresql_where=ONE,
    )
    op.create_index("items_by_status", "approvals", ["status", "requested_at", "id"])
    op.create_index("items_by_time", "approvals", ["requested_at", "id"])
    op.create_index("items_of_order", "approvals", ["order_id"])
    op.create_table(
        "grants",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("scope_id", sa.String(), nullable=False),
        sa.Column("workspace_json", sa.String(), nullable=True),
        sa.Column("rule_json", sa.String(), nullable=False),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("approval_id", sa.String(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("grants_of_scope", "grants", ["scope", "scope_id"])
    op.add_column("controls", sa.Column("said_json", sa.String(), nullable=True))


def downgrade() -> None:
    op.drop_column("controls", "said_json")
    op.drop_table("grants")
    op.drop_table("approvals")
