"""What orders used is counted by day, and orders are found by the words of their prompts and answers.

Endings from before are not counted; the words of older orders are filled in by the sweep, newest first.
"""

import time

import sqlalchemy as sa
from alembic import op

revision = "r014"
down_revision = "r013"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
USED = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_tokens",
    "output_tokens",
    "reasoning_tokens",
    "model_calls",
    "tool_calls",
)
WORDS_OF_ORDERS = (
    "CREATE VIRTUAL TABLE order_words_index USING fts5(words, content='', detail=none, tokenize='ascii')",
    "CREATE TRIGGER order_words_added AFTER INSERT ON order_words"
    " BEGIN INSERT INTO order_words_index (rowid, words) VALUES (NEW.number, NEW.words); END",
    "CREATE TRIGGER order_words_removed AFTER DELETE ON order_words"
    " BEGIN INSERT INTO order_words_index (order_words_index, rowid, words) VALUES ('delete', OLD.number, OLD.words);"
    " END",
    "CREATE TRIGGER order_words_changed AFTER UPDATE OF words ON order_words BEGIN"
    " INSERT INTO order_words_index (order_words_index, rowid, words) VALUES ('delete', OLD.number, OLD.words);"
    " INSERT INTO order_words_index (rowid, words) VALUES (NEW.number, NEW.words); END",
)


def upgrade() -> None:
    op.create_table(
        "usage_outbox",
        sa.Column("order_id", sa.String(), primary_key=True, nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in USED),
        sa.Column("cost_nanos", sa.BigInteger(), nullable=True),
    )
    op.create_table(
        "usage_days",
        *(sa.Column(name, sa.String(), primary_key=True, nullable=False) for name in ("day", "by", "key")),
        *(
            sa.Column(name, sa.BigInteger(), nullable=False)
            for name in ("orders", "succeeded", "failed", "unpriced", *USED, "cost_nanos")
        ),
    )
    op.create_table(
        "order_words",
        sa.Column("number", NUMBER, primary_key=True, autoincrement=False, nullable=False),
        sa.Column("order_id", sa.String(), sa.ForeignKey("orders.id"), nullable=False, unique=True),
        sa.Column("words", sa.String(), nullable=False),
    )
    op.create_table(
        "list_progress",
        sa.Column("name", sa.String(), primary_key=True, nullable=False),
        sa.Column("reached", sa.String(), nullable=False),
    )
    connection = op.get_bind()
    if connection.dialect.name == "postgresql":
        op.execute("CREATE INDEX order_words_index ON order_words USING gin (to_tsvector('simple', words))")
        # The planner has no statistics for an index on an expression until ANALYZE has run.
        op.execute("ANALYZE order_words")
    else:
        for statement in WORDS_OF_ORDERS:
            op.execute(statement)
    newest = connection.execute(sa.text("SELECT max(id) FROM orders")).scalar()
    if newest is not None:
        progress = sa.text("INSERT INTO list_progress (name, reached) VALUES (:name, :reached)")
        since = str(time.time_ns() // 1_000)
        # Above all ids, so that the newest order is the first that is filled in.
        reached = {"usage": since, "words": "g", "words_upto": newest}
        connection.execute(progress, [{"name": name, "reached": value} for name, value in reached.items()])


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TABLE order_words_index")
    op.drop_table("list_progress")
    op.drop_table("order_words")
    op.drop_table("usage_days")
    op.drop_table("usage_outbox")
