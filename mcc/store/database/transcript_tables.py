"""Tables of what the turns of a session are shown: each turn's own messages, and whole contexts up to a turn."""

import sqlalchemy as sa
from sqlmodel import Field

from mcc.store.database.columns import Row


class TranscriptRow(Row, table=True):
    """What one ended turn adds to its session. `data`: its messages as JSON, compressed (zlib). It is computed from the
    turn's journal, so a row that is missing is made again from there. `found_json`: the deferred tools that its agent
    found, `last_json`: its last request."""

    __tablename__ = "session_transcripts"
    __table_args__ = (sa.Index("transcripts_of_session", "session_id", "session_seq"),)

    order_id: str = Field(primary_key=True, foreign_key="orders.id")
    session_id: str
    session_seq: int
    data: bytes
    tokens: int
    setup_digest: str
    setup_key: str
    found_json: str
    last_json: str | None = None


class BaseRow(Row, table=True):
    """Everything that a session is shown through turn `through_seq`: the stored text `digest`, owned by the session.
    Turn 0: what a fork has from its source, which no rollback takes back.

    `order_id`: the turn that made it, `reason`: why. Since `voided_at` it does not count, as one of its turns was
    rolled back.
    """

    __tablename__ = "session_bases"

    session_id: str = Field(primary_key=True, foreign_key="sessions.id")
    through_seq: int = Field(primary_key=True)
    digest: str = Field(primary_key=True)
    order_id: str
    reason: str
    voided_at: int | None = Field(default=None, sa_type=sa.BigInteger)


TRANSCRIPTS = Row.metadata.tables["session_transcripts"]
BASES = Row.metadata.tables["session_bases"]
