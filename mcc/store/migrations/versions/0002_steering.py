"""Columns of steers: their mode, and the tools that they remove."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("controls", sa.Column("mode", sa.String(), nullable=True))
    op.add_column("controls", sa.Column("remove_tools_json", sa.String(), nullable=True))


def downgrade() -> None:
    op.drop_column("controls", "remove_tools_json")
    op.drop_column("controls", "mode")
