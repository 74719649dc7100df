"""Notes of agents, with full-text search: an index on PostgreSQL, a table of words on SQLite."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

NEWEST = sa.text("newest")
CALL = sa.text("call_id IS NOT NULL")
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
FOUND = "newest AND NOT deleted"

WORDS = (
    "CREATE VIRTUAL TABLE note_words USING fts5(words, content='')",
    "CREATE TRIGGER note_written AFTER INSERT ON notes WHEN NEW.newest AND NOT NEW.deleted"
    " BEGIN INSERT INTO note_words (rowid, words) VALUES (NEW.id, NEW.words); END",
    "CREATE TRIGGER note_followed AFTER UPDATE OF newest ON notes"
    " WHEN OLD.newest AND NOT NEW.newest AND NOT OLD.deleted"
    " BEGIN INSERT INTO note_words (note_words, rowid, words) VALUES ('delete', OLD.id, OLD.words); END",
    "CREATE TRIGGER note_removed AFTER DELETE ON notes WHEN OLD.newest AND NOT OLD.deleted"
    " BEGIN INSERT INTO note_words (note_words, rowid, words) VALUES ('delete', OLD.id, OLD.words); END",
)


def upgrade() -> None:
    op.create_table(
        "notes",
        sa.Column("id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("newest", sa.Boolean(), nullable=False),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        sa.Column("title_json", sa.String(), nullable=False),
        sa.Column("text_json", sa.String(), nullable=False),
        sa.Column("words", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=True),
        sa.Column("workspace_json", sa.String(), nullable=True),
        sa.Column("principal", sa.String(), nullable=True),
        sa.Column("order_id", sa.String(), nullable=True),
        sa.Column("record_id", sa.String(), nullable=True),
        sa.Column("agent", sa.String(), nullable=True),
        sa.Column("call_id", sa.String(), nullable=True),
        sa.Column("seq", sa.Integer(), nullable=True),
        sa.Column("written_at", sa.BigInteger(), nullable=False),
        sa.Column("verified_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("project", "kind", "name", "version", name="version_of_note"),
    )
    op.create_index(
        "newest_notes",
        "notes",
        ["project", "kind", "name"],
        unique=True,
        sqlite_where=NEWEST,
        postgresql_where=NEWEST,
    )
    op.create_index(
        "one_note_per_call", "notes", ["order_id", "call_id"], unique=True, sqlite_where=CALL, postgresql_where=CALL
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"CREATE INDEX note_words ON notes USING gin (to_tsvector('simple', words)) WHERE {FOUND}")
    else:
        for statement in WORDS:
            op.execute(statement)


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TABLE note_words")
    op.drop_table("notes")
