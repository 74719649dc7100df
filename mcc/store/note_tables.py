"""The table of notes; on SQLite a second one, kept by triggers, has their words (`note_words`)."""

from typing import Any

import sqlalchemy as sa
from sqlmodel import Field

from mcc.store.columns import Row, partial_index

NUMBER: Any = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""A key that SQLite keeps when it compacts its file; `note_words` names rows by it."""


class NoteRow(Row, table=True):
    """One version of a note. Nothing of a row ever changes but `newest` and `verified_at`.

    `words` are those of name, title and text, in lower case and parted by spaces, so that both databases find the same.
    """

    __tablename__ = "notes"
    __table_args__ = (
        sa.UniqueConstraint("project", "kind", "name", "version", name="version_of_note"),
        partial_index("newest_notes", "project", "kind", "name", where="newest", unique=True),
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


NOTES = Row.metadata.tables["notes"]
