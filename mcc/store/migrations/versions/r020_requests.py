"""Requests at forges that sessions have opened: by these, a comment on one finds its session."""

import sqlalchemy as sa
from alembic import op

revision = "r020"
down_revision = "r019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "requests",
        sa.Column("forge", sa.String(), primary_key=True, nullable=False),
        sa.Column("project", sa.String(), primary_key=True, nullable=False),
        sa.Column("number", sa.BigInteger(), primary_key=True, autoincrement=False, nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
    )
    op.create_index("requests_of_session", "requests", ["session_id"])


def downgrade() -> None:
    op.drop_index("requests_of_session", "requests")
    op.drop_table("requests")
