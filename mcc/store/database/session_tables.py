"""Tables of sessions: the conversations themselves, how far each principal has read them, and what taints them."""

import sqlalchemy as sa
from sqlmodel import Field

from mcc.store.database.columns import Row, partial_index


class SessionRow(Row, table=True):
    """A session. Since `deleted_at` it is gone for everybody, and its rows are removed in small transactions.

    `defaults_json`: what its turns get where their orders give nothing. `forked_session_id`, `forked_turn`,
    `forked_order_id`: the turn of another session that it begins after or within. `compacts`: the session that its
    orders compact; one that has this is shown to nobody.
    """

    __tablename__ = "sessions"
    __table_args__ = (
        partial_index("deleted_sessions", "deleted_at", "id", where="deleted_at IS NOT NULL"),
        partial_index("forks_of_session", "forked_session_id", where="forked_session_id IS NOT NULL"),
        partial_index("compacting_sessions", "compacts", where="compacts IS NOT NULL"),
    )

    id: str = Field(primary_key=True)
    title_json: str
    principal: str
    created_at: int = Field(sa_type=sa.BigInteger)
    turns: int
    last_order_id: str | None = None
    archived_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    deleted_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    defaults_json: str | None = None
    context: str | None = None
    forked_session_id: str | None = None
    forked_turn: int | None = None
    forked_order_id: str | None = None
    compacts: str | None = None
    door: str | None = None
    token_id: str | None = None


class SessionReadRow(Row, table=True):
    """The last turn of a session that a principal marked as read."""

    __tablename__ = "session_reads"

    session_id: str = Field(primary_key=True, foreign_key="sessions.id")
    principal: str = Field(primary_key=True)
    turn: int


class SessionTaintRow(Row, table=True):
    """A session whose agents have been shown text from outside. `turn`: the first in which they were, 0 = not known."""

    __tablename__ = "session_taints"

    session_id: str = Field(primary_key=True, foreign_key="sessions.id")
    turn: int


class SessionWordsRow(Row, table=True):
    """What a person said to a session when no turn of it ran (`mcc.contracts.questions.SessionWords`).

    `became`: "next_turn", and `taken_by` is then the turn that shows it, None so far; or "steer" of order `taken_by`.
    """

    __tablename__ = "session_words"
    __table_args__ = (partial_index("words_to_take", "session_id", "said_at", "id", where="taken_by IS NULL"),)

    id: str = Field(primary_key=True)
    # No foreign key: a finish adds rows, and must not wait for whoever has the session locked to place a turn.
    session_id: str
    words_json: str
    became: str
    said_at: int = Field(sa_type=sa.BigInteger)
    taken_by: str | None = None


class RequestRow(Row, table=True):
    """A pull or merge request that a session has opened at a forge of the configuration."""

    __tablename__ = "requests"
    __table_args__ = (sa.Index("requests_of_session", "session_id"),)

    forge: str = Field(primary_key=True)
    project: str = Field(primary_key=True)
    number: int = Field(primary_key=True, sa_type=sa.BigInteger, sa_column_kwargs={"autoincrement": False})
    # No foreign key: the entries of an order must not wait for whoever has its session locked.
    session_id: str


SESSIONS = Row.metadata.tables["sessions"]
REQUESTS = Row.metadata.tables["requests"]
SESSION_READS = Row.metadata.tables["session_reads"]
SESSION_TAINTS = Row.metadata.tables["session_taints"]
SESSION_WORDS = Row.metadata.tables["session_words"]
