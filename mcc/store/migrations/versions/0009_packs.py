"""Packs: compressed journals of ended orders, and the records of pruned ones."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

ROWS = sa.text("finished_at IS NOT NULL AND packed_at IS NULL AND pruned_at IS NULL")


def upgrade() -> None:
    op.add_column("orders", sa.Column("packed_at", sa.BigInteger(), nullable=True))
    op.create_index("orders_to_pack", "orders", ["finished_at"], sqlite_where=ROWS, postgresql_where=ROWS)
    op.create_table(
        "journal_packs",
        sa.Column("order_id", sa.String(), nullable=False),
        sa.Column("packed", sa.LargeBinary(), nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"]),
        sa.PrimaryKeyConstraint("order_id"),
    )


def downgrade() -> None:
    op.drop_table("journal_packs")
    op.drop_index("orders_to_pack", table_name="orders")
    op.drop_column("orders", "packed_at")
