"""The present metadata of an order, and the metadata that a control sets."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("order_state", sa.Column("metadata_json", sa.String(), nullable=True))
    op.add_column("controls", sa.Column("metadata_json", sa.String(), nullable=True))


def downgrade() -> None:
    op.drop_column("controls", "metadata_json")
    op.drop_column("order_state", "metadata_json")
