"""The number of messages that a drone could not use, which it reports when it renews its lease."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("drones", sa.Column("refused_messages", sa.BigInteger(), nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("drones", "refused_messages")
