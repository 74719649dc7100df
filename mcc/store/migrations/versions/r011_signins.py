"""Browsers sign in by a link that counts once."""

import sqlalchemy as sa
from alembic import op

revision = "r011"
down_revision = "r010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "signins",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("sid", sa.String(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("agent_json", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("signins_by_digest", "signins", ["digest"], unique=True)
    op.create_index("signins_of_principal", "signins", ["principal", "created_at"])
    op.create_index("signins_by_end", "signins", ["expires_at"])
    op.create_table(
        "one_time",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("data_json", sa.String(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_index("one_time_by_end", "one_time", ["expires_at"])
    op.create_table(
        "preferences",
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("preferences_json", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("principal"),
    )


def downgrade() -> None:
    for name in ("preferences", "one_time", "signins"):
        op.drop_table(name)
