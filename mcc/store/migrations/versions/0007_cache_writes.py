"""Counter of the tokens that an order's model calls wrote to a provider's cache."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("order_state", sa.Column("cache_write_tokens", sa.BigInteger(), nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("order_state", "cache_write_tokens")
