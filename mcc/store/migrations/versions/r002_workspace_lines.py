"""Orders that only read hold nothing: which orders write in their workspace, and the line of those that want to."""

import sqlalchemy as sa
from alembic import op

revision = "r002"
down_revision = "r001"
branch_labels = None
depends_on = None

IN_LINE = sa.text("wants_key IS NOT NULL")
HAVE_WRITTEN = """
UPDATE order_state SET writes = true
WHERE status IN ('queued', 'running', 'waiting') AND attempt > 0 AND EXISTS (
  SELECT 1 FROM journal WHERE journal.order_id = order_state.order_id AND journal.kind = 'workspace.checkpointed'
)
"""


def upgrade() -> None:
    op.add_column("order_state", sa.Column("writes", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("order_state", sa.Column("wants_key", sa.String(), nullable=True))
    op.add_column("order_state", sa.Column("wants_at", sa.BigInteger(), nullable=True))
    op.create_index(
        "orders_in_line",
        "order_state",
        ["wants_key", "wants_at", "order_id"],
        postgresql_where=IN_LINE,
        sqlite_where=IN_LINE,
    )
    op.execute(HAVE_WRITTEN)


def downgrade() -> None:
    op.drop_index("orders_in_line", "order_state")
    for name in ("wants_at", "wants_key", "writes"):
        op.drop_column("order_state", name)
