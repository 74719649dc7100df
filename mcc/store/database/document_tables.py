"""The tables of blueprints and documents."""

import sqlalchemy as sa
from sqlmodel import Field

from mcc.store.database.columns import HALF_FILLED, Row, partial_index


class BlueprintRow(Row, table=True):
    """One version of a blueprint; its content never changes. `kept`: it was uploaded to the service, so it is found by
    name. Others exist only because documents are pinned to them."""

    __tablename__ = "blueprints"
    __table_args__ = (sa.Index("blueprints_by_name", "name", "created_at"),)

    digest: str = Field(primary_key=True)
    name: str
    version: int
    text_json: str
    kept: bool
    created_at: int = Field(sa_type=sa.BigInteger)


class DocumentRow(Row, table=True):
    """A document, and its lock: every change locks this row first. The counts are numbers of nodes, by status."""

    __tablename__ = "documents"
    __table_args__ = (
        sa.Index("documents_of_blueprint", "name", "id"),
        partial_index("deleted_documents", "deleted_at", where="deleted_at IS NOT NULL"),
        HALF_FILLED,
    )

    id: str = Field(primary_key=True)
    title_json: str
    blueprint: str = Field(foreign_key="blueprints.digest")
    name: str
    principal: str
    version: int
    status: str
    pending: int
    done: int
    stale: int
    failed: int
    conflicts: int
    created_at: int = Field(sa_type=sa.BigInteger)
    updated_at: int = Field(sa_type=sa.BigInteger)
    deleted_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    door: str | None = None
    token_id: str | None = None


class DocumentHeadRow(Row, table=True):
    """Blueprint, title and brief of a document from this version on."""

    __tablename__ = "document_heads"

    document_id: str = Field(primary_key=True)
    version: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    blueprint: str = Field(foreign_key="blueprints.digest")
    title_json: str
    brief_json: str


class DocumentNodeRow(Row, table=True):
    """A node from this version of its document on. `node_json` is NULL where the node was removed at this version.

    Only `newest` of a row ever changes.
    """

    __tablename__ = "document_nodes"
    __table_args__ = (partial_index("newest_nodes", "document_id", "version", where="newest"),)

    document_id: str = Field(primary_key=True)
    node_id: str = Field(primary_key=True)
    version: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    newest: bool
    node_json: str | None = None


class DocumentHistoryRow(Row, table=True):
    """The effect of a command on one node; `n` numbers the rows of one version from 0. Row 0 also holds the answer that
    the caller got."""

    __tablename__ = "document_history"
    __table_args__ = (
        partial_index(
            "one_change_per_command", "document_id", "command_id", where="command_id IS NOT NULL AND n = 0", unique=True
        ),
        sa.Index("history_of_principal", "document_id", "principal", "version"),
    )

    document_id: str = Field(primary_key=True)
    version: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    n: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    command_index: int
    at: int = Field(sa_type=sa.BigInteger)
    set_by: str
    principal: str | None = None
    order_id: str | None = None
    record_id: str | None = None
    command: str
    command_id: str | None = None
    node_json: str
    fields_json: str
    undo_json: str
    removed: bool
    done_json: str | None = None
    door: str | None = None
    token_id: str | None = None


class DocumentKeyRow(Row, table=True):
    """The answer to a request with an idempotency key; the key is stored as its SHA-256."""

    __tablename__ = "document_keys"

    principal: str = Field(primary_key=True)
    key_digest: str = Field(primary_key=True)
    body_digest: str
    document_id: str
    answer_json: str
    created_at: int = Field(sa_type=sa.BigInteger, index=True)


BLUEPRINTS = Row.metadata.tables["blueprints"]
DOCUMENTS = Row.metadata.tables["documents"]
DOCUMENT_HEADS = Row.metadata.tables["document_heads"]
DOCUMENT_NODES = Row.metadata.tables["document_nodes"]
DOCUMENT_HISTORY = Row.metadata.tables["document_history"]
DOCUMENT_KEYS = Row.metadata.tables["document_keys"]
