"""Indexes that find questions, and pending items, among any number of other inbox items."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

COLUMNS = ["kind", "requested_at", "id"]
PENDING = sa.text("status = 'pending'")


def upgrade() -> None:
    op.create_index("items_by_kind", "approvals", COLUMNS)
    op.create_index("pending_items", "approvals", COLUMNS, sqlite_where=PENDING, postgresql_where=PENDING)


def downgrade() -> None:
    for name in ("pending_items", "items_by_kind"):
        op.drop_index(name, table_name="approvals")
