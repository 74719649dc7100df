"""The entries of a journal in short, by the thousand: made from journals by whoever reads them, so none at first; and
what people have begun to write about orders."""

import sqlalchemy as sa
from alembic import op

revision = "r013"
down_revision = "r012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "journal_parts",
        sa.Column("order_id", sa.String(), nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("packed", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"]),
        sa.PrimaryKeyConstraint("order_id", "part"),
    )
    op.create_table(
        "drafts",
        sa.Column("order_id", sa.String(), nullable=False),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("drafts_json", sa.String(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"]),
        sa.PrimaryKeyConstraint("order_id", "principal"),
    )


def downgrade() -> None:
    op.drop_table("drafts")
    op.drop_table("journal_parts")
