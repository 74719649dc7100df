"""Where answers of orders go back to, and how often a delivery was claimed since it was known what became of it."""

import sqlalchemy as sa
from alembic import op

revision = "r022"
down_revision = "r021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "replies",
        sa.Column("order_id", sa.String(), primary_key=True, nullable=False),
        sa.Column("target_json", sa.String(), nullable=False),
    )
    op.add_column("webhook_deliveries", sa.Column("claims", sa.Integer(), server_default="0", nullable=False))


def downgrade() -> None:
    op.drop_column("webhook_deliveries", "claims")
    op.drop_table("replies")
