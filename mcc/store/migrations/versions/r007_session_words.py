"""What people say to a session when no turn of it runs waits for its next one; questions are asked several at once."""

import sqlalchemy as sa
from alembic import op

revision = "r007"
down_revision = "r006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "session_words",
        sa.Column("id", sa.String(), primary_key=True, nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("words_json", sa.String(), nullable=False),
        sa.Column("became", sa.String(), nullable=False),
        sa.Column("said_at", sa.BigInteger(), nullable=False),
        sa.Column("taken_by", sa.String(), nullable=True),
    )
    op.create_index(
        "words_to_take",
        "session_words",
        ["session_id", "said_at", "id"],
        sqlite_where=sa.text("taken_by IS NULL"),
        postgresql_where=sa.text("taken_by IS NULL"),
    )
    op.add_column("orders", sa.Column("words_json", sa.String(), nullable=True))
    op.add_column("approvals", sa.Column("answers_json", sa.String(), nullable=True))


def downgrade() -> None:
    op.drop_column("approvals", "answers_json")
    op.drop_column("orders", "words_json")
    op.drop_index("words_to_take", "session_words")
    op.drop_table("session_words")
