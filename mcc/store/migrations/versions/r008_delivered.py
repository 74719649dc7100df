"""A subagent that ran in the background is delivered to its parent at most once."""

import sqlalchemy as sa
from alembic import op

revision = "r008"
down_revision = "r007"
branch_labels = None
depends_on = None

DELIVERED = sa.text("kind = 'agent.delivered'")


def upgrade() -> None:
    op.create_index(
        "one_delivery_per_child",
        "journal",
        ["order_id", "call_id"],
        unique=True,
        postgresql_where=DELIVERED,
        sqlite_where=DELIVERED,
    )


def downgrade() -> None:
    op.drop_index("one_delivery_per_child", "journal")
