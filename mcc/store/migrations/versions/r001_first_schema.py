"""The first schema: its tables, what is never changed in them, and the search in notes."""

from alembic import op
from sqlalchemy.schema import CreateIndex, CreateTable

from mcc.store.migrations.first import documents, orders, views
from mcc.store.migrations.first.schema import INDEXES, SCHEMA

revision = "r001"
down_revision = None
branch_labels = None
depends_on = None

TABLES = (orders, documents)
"""Loading these modules fills `SCHEMA`."""

SENTENCE = "rows of this table are never changed"
APPEND_ONLY = {
    "journal": "",
    "blobs": "",
    "audit": "",
    "blueprints": "digest, name, version, text_json",
    "document_heads": "document_id, version, blueprint, title_json, brief_json",
    "document_history": "document_id, version, n, at, set_by, principal, command, node_json, fields_json",
    "document_nodes": "document_id, node_id, version, node_json",
}
"""Tables whose rows are never changed; where columns are named, not in these."""

LETS_GO = """
DO $$ DECLARE holder name; BEGIN
  FOR holder IN SELECT grantee FROM information_schema.role_table_grants
    WHERE table_schema = current_schema() AND table_name = '{table}' AND privilege_type = 'UPDATE'
  LOOP EXECUTE format('GRANT DELETE ON {table} TO %I', holder); END LOOP;
END $$
"""
"""Whoever may change these rows may delete them: an order that ends lets go of its workspace and of its grants."""

WORDS_IN_NOTES = (
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
    for table in SCHEMA.sorted_tables:
        op.execute(CreateTable(table))
    for index in INDEXES:
        op.execute(CreateIndex(index))
    if op.get_bind().dialect.name == "postgresql":
        _finish_on_postgresql()
    else:
        for statement in WORDS_IN_NOTES:
            op.execute(statement)
        for name, columns in APPEND_ONLY.items():
            _refuse_changes(name, columns, f"BEGIN SELECT RAISE(ABORT, '{SENTENCE}'); END")
    for statement in views.on(op.get_bind().dialect.name):
        op.execute(statement)


def _finish_on_postgresql() -> None:
    op.execute(
        "CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{SENTENCE}' USING ERRCODE = 'insufficient_privilege'; END $$"
    )
    for table, columns in APPEND_ONLY.items():
        _refuse_changes(table, columns, "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()")
    op.execute("CREATE INDEX note_words ON notes USING gin (to_tsvector('simple', words)) WHERE newest AND NOT deleted")
    for table in ("workspace_locks", "grants"):
        op.execute(LETS_GO.format(table=table))
    # The planner has no statistics for an index on an expression until ANALYZE has run.
    op.execute("ANALYZE orders")


def _refuse_changes(table: str, columns: str, how: str) -> None:
    op.execute(f"CREATE TRIGGER {table}_is_append_only BEFORE UPDATE {columns and f'OF {columns} '}ON {table} {how}")


def downgrade() -> None:
    op.execute("DROP VIEW mcc_load")
    op.execute("DROP VIEW mcc_orders")
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TABLE note_words")
    SCHEMA.drop_all(op.get_bind())
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION refuse_change()")
