"""The tables of blueprints and documents."""

import sqlalchemy as sa
from sqlmodel import Field

from mcc.store.columns import HALF_FILLED, Row, partial_index


class BlueprintRow(Row, table=True):
    """One content, which never changes. `kept`: it was handed to the service, so that its name finds it."""

    __tablename__ = "blueprints"
    __table_args__ = (sa.Index("blueprints_by_name", "name", "created_at"),)

    digest: str = Field(primary_key=True)
    name: str
    version: int
    text_json: str
    kept: bool
    created_at: int = Field(sa_type=sa.BigInteger)


class DocumentRow(Row, table=True):
    """The lock of a document: whoever changes it first locks this row. Counts are of its nodes, by status."""

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


class DocumentHeadRow(Row, table=True):
    """What a document is beside its nodes, from this version on."""

    __tablename__ = "document_heads"

    document_id: str = Field(primary_key=True)
    version: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    blueprint: str = Field(foreign_key="blueprints.digest")
    title_json: str
    brief_json: str


class DocumentNodeRow(Row, table=True):
    """A node from this version of its document on; without `node_json` it is not there any more.

    Nothing of a row ever changes but `newest`.
    """

    __tablename__ = "document_nodes"
    __table_args__ = (partial_index("newest_nodes", "document_id", "version", where="newest"),)

    document_id: str = Field(primary_key=True)
    node_id: str = Field(primary_key=True)
    version: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    newest: bool
    node_json: str | None = None


class DocumentHistoryRow(Row, table=True):
    """A command as done to one node; `n` counts those of one version. The first one has what was answered."""

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


class DocumentKeyRow(Row, table=True):
    """What a request about a document was answered; the key is kept as its SHA-256."""

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
