"""What was said in the turns of sessions can be searched by words."""

import sqlalchemy as sa
from alembic import op

revision = "r006"
down_revision = "r005"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
WORDS_IN_HISTORY = (
    "CREATE VIRTUAL TABLE history_words USING fts5(words, content='', detail=none, tokenize='ascii')",
    "CREATE TRIGGER history_added AFTER INSERT ON history_entries"
    " BEGIN INSERT INTO history_words (rowid, words) VALUES (NEW.id, NEW.words); END",
    "CREATE TRIGGER history_removed AFTER DELETE ON history_entries"
    " BEGIN INSERT INTO history_words (history_words, rowid, words) VALUES ('delete', OLD.id, OLD.words); END",
)


def upgrade() -> None:
    op.create_table(
        "history_entries",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            primary_key=True,
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("order_id", sa.String(), sa.ForeignKey("orders.id"), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("record_id", sa.String(), nullable=True),
        sa.Column("agent", sa.String(), nullable=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("words", sa.String(), nullable=False),
    )
    op.create_index("history_of_order", "history_entries", ["order_id", "seq"], unique=True)
    op.create_table(
        "history_indexed",
        sa.Column("order_id", sa.String(), sa.ForeignKey("orders.id"), primary_key=True, nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute("CREATE INDEX history_words ON history_entries USING gin (to_tsvector('simple', words))")
        # The planner has no statistics for an index on an expression until ANALYZE has run.
        op.execute("ANALYZE history_entries")
    else:
        for statement in WORDS_IN_HISTORY:
            op.execute(statement)


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TABLE history_words")
    op.drop_table("history_indexed")
    op.drop_table("history_entries")
