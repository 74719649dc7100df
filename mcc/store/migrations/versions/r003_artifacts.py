"""Files that people give to orders are stored in rows, since drones may run on other hosts than the service."""

import sqlalchemy as sa
from alembic import op

revision = "r003"
down_revision = "r002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "artifacts",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("name_json", sa.String(), nullable=False),
        sa.Column("media_type", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("width", sa.Integer(), nullable=True),
        sa.Column("height", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("artifacts_of_principal", "artifacts", ["principal", "created_at"])
    op.create_index("artifacts_by_age", "artifacts", ["created_at"])
    op.create_table(
        "artifact_chunks",
        sa.Column("artifact_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["artifact_id"], ["artifacts.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("artifact_id", "number"),
    )
    op.create_table(
        "artifact_uses",
        sa.Column("artifact_id", sa.String(), nullable=False),
        sa.Column("order_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["artifact_id"], ["artifacts.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"]),
        sa.PrimaryKeyConstraint("artifact_id", "order_id"),
    )
    op.create_index("artifacts_of_order", "artifact_uses", ["order_id"])


def downgrade() -> None:
    for name in ("artifact_uses", "artifact_chunks", "artifacts"):
        op.drop_table(name)
