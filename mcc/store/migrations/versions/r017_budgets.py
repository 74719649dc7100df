"""Budgets of people and tokens a day, and what orders reserved of them when they were placed.

Orders from before have reserved nothing.
"""

import sqlalchemy as sa
from alembic import op

revision = "r017"
down_revision = "r016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("people", sa.Column("budget_json", sa.String(), nullable=True))
    op.add_column("api_tokens", sa.Column("budget_json", sa.String(), nullable=True))
    op.add_column("orders", sa.Column("budget_day", sa.String(), nullable=True))
    op.add_column("orders", sa.Column("reserved", sa.BigInteger(), nullable=True))
    op.add_column("orders", sa.Column("budget_json", sa.String(), nullable=True))
    op.create_table(
        "budget_days",
        sa.Column("owner", sa.String(), primary_key=True, nullable=False),
        sa.Column("day", sa.String(), primary_key=True, nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("orders", "reserved", "spent")),
    )
    op.create_table(
        "budget_rules",
        sa.Column("name", sa.String(), primary_key=True, nullable=False),
        sa.Column("budget_json", sa.String(), nullable=False),
        sa.Column("timezone", sa.String(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("budget_rules")
    op.drop_table("budget_days")
    for name in ("budget_json", "reserved", "budget_day"):
        op.drop_column("orders", name)
    op.drop_column("api_tokens", "budget_json")
    op.drop_column("people", "budget_json")
