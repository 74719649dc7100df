"""Blueprints, and documents: their nodes at each version, and the history of commands.

Rows are append-only, except the mark of a node's newest row and the mark of an uploaded blueprint.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

DELETED = sa.text("deleted_at IS NOT NULL")
NEWEST = sa.text("newest")
SENTENCE = "rows of this table are never changed"
KEPT = {
    "blueprints": ("digest", "name", "version", "text_json"),
    "document_heads": ("document_id", "version", "blueprint", "title_json", "brief_json"),
    "document_nodes": ("document_id", "node_id", "version", "node_json"),
    "document_history": (
        "document_id",
        "version",
        "n",
        "at",
        "set_by",
        "principal",
        "command",
        "node_json",
        "fields_json",
    ),
}
FIRST_OF_COMMAND = sa.text("command_id IS NOT NULL AND n = 0")


def upgrade() -> None:
    _create_blueprints()
    _create_documents()
    _create_nodes()
    _create_history()
    op.create_table(
        "document_keys",
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("key_digest", sa.String(), nullable=False),
        sa.Column("body_digest", sa.String(), nullable=False),
        sa.Column("document_id", sa.String(), nullable=False),
        sa.Column("answer_json", sa.String(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("principal", "key_digest"),
    )
    op.create_index("ix_document_keys_created_at", "document_keys", ["created_at"])
    for table, columns in KEPT.items():
        _refuse_changes(table, columns)


def _create_blueprints() -> None:
    op.create_table(
        "blueprints",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("text_json", sa.String(), nullable=False),
        sa.Column("kept", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_index("blueprints_by_name", "blueprints", ["name", "created_at"])


def _create_documents() -> None:
    counts = [sa.Column(name, sa.Integer(), nullable=False) for name in ("pending", "done", "stale", "failed")]
    op.create_table(
        "documents",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("title_json", sa.String(), nullable=False),
        sa.Column("blueprint", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        *counts,
        sa.Column("conflicts", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("deleted_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["blueprint"], ["blueprints.digest"]),
        sa.PrimaryKeyConstraint("id"),
        postgresql_with={"fillfactor": 50},
    )
    op.create_index("documents_of_blueprint", "documents", ["name", "id"])
    op.create_index("deleted_documents", "documents", ["deleted_at"], sqlite_where=DELETED, postgresql_where=DELETED)
    op.create_table(
        "document_heads",
        sa.Column("document_id", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("blueprint", sa.String(), nullable=False),
        sa.Column("title_json", sa.String(), nullable=False),
        sa.Column("brief_json", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["blueprint"], ["blueprints.digest"]),
        sa.PrimaryKeyConstraint("document_id", "version"),
    )


def _create_nodes() -> None:
    op.create_table(
        "document_nodes",
        sa.Column("document_id", sa.String(), nullable=False),
        sa.Column("node_id", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("newest", sa.Boolean(), nullable=False),
        sa.Column("node_json", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("document_id", "node_id", "version"),
    )
    op.create_index(
        "newest_nodes", "document_nodes", ["document_id", "version"], sqlite_where=NEWEST, postgresql_where=NEWEST
    )


def _create_history() -> None:
    op.create_table(
        "document_history",
        sa.Column("document_id", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("command_index", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("set_by", sa.String(), nullable=False),
        sa.Column("principal", sa.String(), nullable=True),
        sa.Column("order_id", sa.String(), nullable=True),
        sa.Column("record_id", sa.String(), nullable=True),
        sa.Column("command", sa.String(), nullable=False),
        sa.Column("command_id", sa.String(), nullable=True),
        sa.Column("node_json", sa.String(), nullable=False),
        sa.Column("fields_json", sa.String(), nullable=False),
        sa.Column("undo_json", sa.String(), nullable=False),
        sa.Column("removed", sa.Boolean(), nullable=False),
        sa.Column("done_json", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("document_id", "version", "n"),
    )
    op.create_index(
        "one_change_per_command",
        "document_history",
        ["document_id", "command_id"],
        unique=True,
        sqlite_where=FIRST_OF_COMMAND,
        postgresql_where=FIRST_OF_COMMAND,
    )
    op.create_index("history_of_principal", "document_history", ["document_id", "principal", "version"])


def _refuse_changes(table: str, columns: tuple[str, ...]) -> None:
    body = f"BEFORE UPDATE OF {', '.join(columns)} ON {table}"
    if op.get_bind().dialect.name == "postgresql":
        body = f"{body} FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
    else:
        body = f"{body} BEGIN SELECT RAISE(ABORT, '{SENTENCE}'); END"
    op.execute(f"CREATE TRIGGER {table}_is_append_only {body}")


def downgrade() -> None:
    for table in (
        "document_keys",
        "document_history",
        "document_nodes",
        "document_heads",
        "documents",
        "blueprints",
    ):
        op.drop_table(table)
