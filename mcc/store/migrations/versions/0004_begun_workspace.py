"""The workspace that an order has begun in, so that another one in its place is noticed."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("order_state", sa.Column("workspace_key", sa.String(), nullable=True))


def downgrade() -> None:
    op.drop_column("order_state", "workspace_key")
