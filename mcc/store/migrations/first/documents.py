"""The tables of documents, notes and MCP servers."""

import sqlalchemy as sa

from mcc.store.migrations.first.schema import BOOL, HOT, INT, LARGE, NUMBER, TEXT, column, table, where

table(
    "blueprints",
    column("digest", TEXT, primary_key=True),
    column("name", TEXT),
    column("version", INT),
    column("text_json", TEXT),
    column("kept", BOOL),
    column("created_at", LARGE),
    sa.Index("blueprints_by_name", "name", "created_at"),
)
table(
    "document_history",
    column("document_id", TEXT, primary_key=True),
    column("version", INT, primary_key=True, autoincrement=False),
    column("n", INT, primary_key=True, autoincrement=False),
    column("command_index", INT),
    column("at", LARGE),
    column("set_by", TEXT),
    column("principal", TEXT, nullable=True),
    column("order_id", TEXT, nullable=True),
    column("record_id", TEXT, nullable=True),
    column("command", TEXT),
    column("command_id", TEXT, nullable=True),
    column("node_json", TEXT),
    column("fields_json", TEXT),
    column("undo_json", TEXT),
    column("removed", BOOL),
    column("done_json", TEXT, nullable=True),
    sa.Index(
        "one_change_per_command", "document_id", "command_id", unique=True, **where("command_id IS NOT NULL AND n = 0")
    ),
    sa.Index("history_of_principal", "document_id", "principal", "version"),
)
table(
    "document_keys",
    column("principal", TEXT, primary_key=True),
    column("key_digest", TEXT, primary_key=True),
    column("body_digest", TEXT),
    column("document_id", TEXT),
    column("answer_json", TEXT),
    column("created_at", LARGE),
    sa.Index("ix_document_keys_created_at", "created_at"),
)
table(
    "document_nodes",
    column("document_id", TEXT, primary_key=True),
    column("node_id", TEXT, primary_key=True),
    column("version", INT, primary_key=True, autoincrement=False),
    column("newest", BOOL),
    column("node_json", TEXT, nullable=True),
    sa.Index("newest_nodes", "document_id", "version", **where("newest")),
)
table(
    "mcp_pins",
    column("server", TEXT, primary_key=True),
    column("tool_json", TEXT, primary_key=True),
    column("digest", TEXT, nullable=True),
    column("seen", TEXT),
    column("approved_by", TEXT, nullable=True),
    column("approved_at", LARGE, nullable=True),
    column("seen_at", LARGE),
)
table(
    "mcp_tokens",
    column("server", TEXT, primary_key=True),
    column("token_json", TEXT),
    column("version", INT),
    column("held_by", TEXT, nullable=True),
    column("held_until", LARGE, nullable=True),
)
table(
    "mcp_trials",
    column("id", TEXT, primary_key=True),
    column("request_json", TEXT),
    column("requested_at", LARGE),
    column("taken", BOOL),
)
table(
    "notes",
    column("id", NUMBER, primary_key=True, autoincrement=False),
    column("project", TEXT),
    column("kind", TEXT),
    column("name", TEXT),
    column("version", INT),
    column("newest", BOOL),
    column("deleted", BOOL),
    column("title_json", TEXT),
    column("text_json", TEXT),
    column("words", TEXT),
    column("status", TEXT, nullable=True),
    column("workspace_json", TEXT, nullable=True),
    column("principal", TEXT, nullable=True),
    column("order_id", TEXT, nullable=True),
    column("record_id", TEXT, nullable=True),
    column("agent", TEXT, nullable=True),
    column("call_id", TEXT, nullable=True),
    column("seq", INT, nullable=True),
    column("written_at", LARGE),
    column("verified_at", LARGE),
    column("expires_at", LARGE, nullable=True),
    sa.UniqueConstraint("project", "kind", "name", "version", name="version_of_note"),
    sa.Index("newest_notes", "project", "kind", "name", unique=True, **where("newest")),
    sa.Index("one_note_per_call", "order_id", "call_id", unique=True, **where("call_id IS NOT NULL")),
)
table(
    "document_heads",
    column("document_id", TEXT, primary_key=True),
    column("version", INT, primary_key=True, autoincrement=False),
    column("blueprint", TEXT, sa.ForeignKey("blueprints.digest")),
    column("title_json", TEXT),
    column("brief_json", TEXT),
)
table(
    "documents",
    column("id", TEXT, primary_key=True),
    column("title_json", TEXT),
    column("blueprint", TEXT, sa.ForeignKey("blueprints.digest")),
    column("name", TEXT),
    column("principal", TEXT),
    column("version", INT),
    column("status", TEXT),
    column("pending", INT),
    column("done", INT),
    column("stale", INT),
    column("failed", INT),
    column("conflicts", INT),
    column("created_at", LARGE),
    column("updated_at", LARGE),
    column("deleted_at", LARGE, nullable=True),
    sa.Index("documents_of_blueprint", "name", "id"),
    sa.Index("deleted_documents", "deleted_at", **where("deleted_at IS NOT NULL")),
    **HOT,
)
