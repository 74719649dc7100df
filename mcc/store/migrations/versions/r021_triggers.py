"""What was delivered to triggers."""

import sqlalchemy as sa
from alembic import op

revision = "r021"
down_revision = "r020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "trigger_deliveries",
        sa.Column("trigger", sa.String(), primary_key=True, nullable=False),
        sa.Column("key", sa.String(), primary_key=True, nullable=False),
        sa.Column("body_digest", sa.String(), nullable=True),
        sa.Column("verdict", sa.String(), nullable=False),
        sa.Column("order_id", sa.String(), nullable=True),
        sa.Column("why_json", sa.String(), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
    )
    told = sa.text("body_digest IS NOT NULL")
    op.create_index(
        "trigger_bodies",
        "trigger_deliveries",
        ["trigger", "body_digest"],
        unique=True,
        sqlite_where=told,
        postgresql_where=told,
    )
    op.create_index("trigger_deliveries_by_time", "trigger_deliveries", ["trigger", "at"])
    op.create_index("old_trigger_deliveries", "trigger_deliveries", ["at"])


def downgrade() -> None:
    op.drop_table("trigger_deliveries")
