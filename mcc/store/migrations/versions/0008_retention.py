"""When an order's journal was pruned, and the users of each stored text.

Uses of texts in existing entries are recorded later, before anything is removed for the first time
(`mcc.store.text_uses`): that reads every entry, and here all writers would have to wait for it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

WHOLE = sa.text("finished_at IS NOT NULL AND emptied_at IS NULL")


def upgrade() -> None:
    op.add_column("orders", sa.Column("pruned_at", sa.BigInteger(), nullable=True))
    op.add_column("orders", sa.Column("emptied_at", sa.BigInteger(), nullable=True))
    op.create_index("orders_to_empty", "orders", ["finished_at"], sqlite_where=WHOLE, postgresql_where=WHOLE)
    op.create_table(
        "text_uses",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("digest", "owner"),
        sqlite_with_rowid=False,
    )
    op.create_index("texts_of_owner", "text_uses", ["owner"])


def downgrade() -> None:
    op.drop_table("text_uses")
    op.drop_index("orders_to_empty", table_name="orders")
    op.drop_column("orders", "emptied_at")
    op.drop_column("orders", "pruned_at")
