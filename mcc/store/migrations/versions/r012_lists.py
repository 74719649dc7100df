"""Orders are found by more, and the inbox tells of those that ended. Older orders are filled in by the sweep."""

import sqlalchemy as sa
from alembic import op

revision = "r012"
down_revision = "r011"
branch_labels = None
depends_on = None

ADDED = ("agent", "model", "last_drone", "fingerprint", "inbox")
INDEXES = {
    "orders_of_agent": (["agent", "id"], None),
    "orders_of_fingerprint": (["fingerprint", "id"], "fingerprint IS NOT NULL"),
    "failed_orders": (["finished_at", "id"], "fingerprint IS NOT NULL"),
    "orders_in_inbox": (["principal", "finished_at", "id"], "finished_at IS NOT NULL AND inbox IS NOT NULL"),
}


def upgrade() -> None:
    for name in ADDED:
        op.add_column("orders", sa.Column(name, sa.String(), nullable=True))
    op.add_column("drones", sa.Column("drain", sa.String(), nullable=True))
    for name, (columns, where) in INDEXES.items():
        condition = None if where is None else sa.text(where)
        op.create_index(name, "orders", columns, sqlite_where=condition, postgresql_where=condition)
    op.create_table(
        "seen",
        sa.Column("principal", sa.String(), primary_key=True, nullable=False),
        sa.Column("item", sa.String(), primary_key=True, nullable=False),
        sa.Column("order_id", sa.String(), nullable=False),
    )
    op.create_index("seen_of_order", "seen", ["order_id"])
    op.create_table(
        "seen_before",
        sa.Column("principal", sa.String(), primary_key=True, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "views",
        sa.Column("principal", sa.String(), primary_key=True, nullable=False),
        sa.Column("name_json", sa.String(), primary_key=True, nullable=False),
        sa.Column("query_json", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("shared", sa.Boolean(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("views")
    op.drop_table("seen_before")
    op.drop_index("seen_of_order", "seen")
    op.drop_table("seen")
    for name in INDEXES:
        op.drop_index(name, "orders")
    op.drop_column("drones", "drain")
    for name in reversed(ADDED):
        op.drop_column("orders", name)
