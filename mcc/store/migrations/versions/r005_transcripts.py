"""What the turns of a session are shown is stored beside their journals."""

import sqlalchemy as sa
from alembic import op

revision = "r005"
down_revision = "r004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "session_transcripts",
        sa.Column("order_id", sa.String(), sa.ForeignKey("orders.id"), primary_key=True, nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("session_seq", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("setup_digest", sa.String(), nullable=False),
        sa.Column("setup_key", sa.String(), nullable=False),
        sa.Column("found_json", sa.String(), nullable=False),
        sa.Column("last_json", sa.String(), nullable=True),
    )
    op.create_index("transcripts_of_session", "session_transcripts", ["session_id", "session_seq"])
    op.create_table(
        "session_bases",
        sa.Column("session_id", sa.String(), sa.ForeignKey("sessions.id"), primary_key=True, nullable=False),
        sa.Column("through_seq", sa.Integer(), primary_key=True, nullable=False),
        sa.Column("digest", sa.String(), primary_key=True, nullable=False),
        sa.Column("order_id", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("voided_at", sa.BigInteger(), nullable=True),
    )


def downgrade() -> None:
    op.drop_table("session_bases")
    op.drop_index("transcripts_of_session", "session_transcripts")
    op.drop_table("session_transcripts")
