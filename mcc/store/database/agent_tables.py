"""Tables of what agents ask people, what they note down, and the MCP servers that they use."""

from typing import Any

import sqlalchemy as sa
from sqlmodel import Field

from mcc.store.database.columns import Row, partial_index

NUMBER: Any = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""An INTEGER PRIMARY KEY on SQLite: `note_words` refers to rows by it, and VACUUM may renumber plain rowids."""


class ApprovalRow(Row, table=True):
    """One item of the inbox (`kind` approval, outline or question), as its order's journal states it.

    `asked_json` is the journal fact that raised the item. A decision that the journal does not contain yet is held by
    a control.
    """

    __tablename__ = "approvals"
    __table_args__ = (
        partial_index(
            "one_pending_item_per_call",
            "order_id",
            "call_id",
            where="status = 'pending' AND call_id IS NOT NULL",
            unique=True,
        ),
        partial_index("items_to_expire", "expires_at", where="status = 'pending' AND expires_at IS NOT NULL"),
        sa.Index("items_by_status", "status", "requested_at", "id"),
        partial_index("pending_items", "kind", "requested_at", "id", where="status = 'pending'"),
        sa.Index("items_by_kind", "kind", "requested_at", "id"),
        sa.Index("items_by_time", "requested_at", "id"),
        sa.Index("items_of_order", "order_id"),
    )

    id: str = Field(primary_key=True)
    order_id: str = Field(foreign_key="orders.id")
    kind: str
    status: str
    call_id: str | None = None
    record_id: str | None = None
    parent_id: str | None = None
    agent: str | None = None
    depth: int = 0
    asked_json: str
    asked_seq: int
    decision: str | None = None
    principal: str | None = None
    note_json: str | None = None
    remember: str | None = None
    answer_json: str | None = None
    answers_json: str | None = None
    requested_at: int = Field(sa_type=sa.BigInteger)
    expires_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    decided_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    used_seq: int | None = None
    door: str | None = None
    token_id: str | None = None


class GrantRow(Row, table=True):
    """`scope_id` is an order id, a session id or a workspace key, depending on `scope`."""

    __tablename__ = "grants"
    __table_args__ = (sa.Index("grants_of_scope", "scope", "scope_id"),)

    id: str = Field(primary_key=True)
    scope: str
    scope_id: str
    workspace_json: str | None = None
    rule_json: str
    principal: str
    approval_id: str
    created_at: int = Field(sa_type=sa.BigInteger)
    door: str | None = None
    token_id: str | None = None


class NoteRow(Row, table=True):
    """One version of a note. `newest`: it is the one that counts, the newest that was accepted. Only `newest`,
    `verified_at`, and what is decided of a pending version ever change.

    `words` are the words of name, title and text, in lower case and separated by spaces, so that full-text search
    matches the same on both databases. On SQLite, triggers copy them into the search table `note_words`.
    """

    __tablename__ = "notes"
    __table_args__ = (
        sa.UniqueConstraint("project", "kind", "name", "version", name="version_of_note"),
        partial_index("newest_notes", "project", "kind", "name", where="newest", unique=True),
        partial_index("pending_notes", "project", "kind", "name", where="state = 'pending'"),
        partial_index(
            "decided_notes",
            "written_at",
            "id",
            where="kind = 'memory' AND (state != 'accepted' OR decided_at IS NOT NULL)",
        ),
        partial_index("one_note_per_call", "order_id", "call_id", where="call_id IS NOT NULL", unique=True),
    )

    id: int = Field(primary_key=True, sa_type=NUMBER, sa_column_kwargs={"autoincrement": False})
    project: str
    kind: str
    name: str
    version: int
    newest: bool
    deleted: bool
    title_json: str
    text_json: str
    words: str
    status: str | None = None
    workspace_json: str | None = None
    principal: str | None = None
    order_id: str | None = None
    record_id: str | None = None
    agent: str | None = None
    call_id: str | None = None
    seq: int | None = None
    written_at: int = Field(sa_type=sa.BigInteger)
    verified_at: int = Field(sa_type=sa.BigInteger)
    expires_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    state: str = Field(default="accepted", sa_column_kwargs={"server_default": "accepted"})
    tainted: bool = Field(default=False, sa_column_kwargs={"server_default": sa.false()})
    decided_by: str | None = None
    decided_at: int | None = Field(default=None, sa_type=sa.BigInteger)


class PinRow(Row, table=True):
    """One tool of a server. `digest`: the approved definition, None while nobody has approved one; `seen`: the
    definition that a drone saw last."""

    __tablename__ = "mcp_pins"

    server: str = Field(primary_key=True)
    tool_json: str = Field(primary_key=True)
    digest: str | None = None
    seen: str
    approved_by: str | None = None
    approved_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    seen_at: int = Field(sa_type=sa.BigInteger)


class TokenRow(Row, table=True):
    """The access token of all drones for one server. `version` counts its changes; the drone `held_by` alone may
    refresh it until `held_until`."""

    __tablename__ = "mcp_tokens"

    server: str = Field(primary_key=True)
    token_json: str
    version: int
    held_by: str | None = None
    held_until: int | None = Field(default=None, sa_type=sa.BigInteger)


class TrialRow(Row, table=True):
    """A test call that the operator asks some drone to make, once."""

    __tablename__ = "mcp_trials"

    id: str = Field(primary_key=True)
    request_json: str
    requested_at: int = Field(sa_type=sa.BigInteger)
    taken: bool = False


APPROVALS = Row.metadata.tables["approvals"]
GRANTS = Row.metadata.tables["grants"]
NOTES = Row.metadata.tables["notes"]
MCP_PINS = Row.metadata.tables["mcp_pins"]
MCP_TOKENS = Row.metadata.tables["mcp_tokens"]
MCP_TRIALS = Row.metadata.tables["mcp_trials"]
