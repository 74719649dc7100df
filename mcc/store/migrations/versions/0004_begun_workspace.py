"""The key of the workspace in which an order began, to detect a different directory in its place."""

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
