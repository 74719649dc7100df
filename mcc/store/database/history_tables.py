"""Tables of the history of sessions: what was said in their orders, by entry, as words to search in."""

import sqlalchemy as sa
from sqlmodel import Field

from mcc.store.database.columns import Row

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""On SQLite only an INTEGER can be the number by which a row is stored, and by which its index of words names it."""


class HistoryEntryRow(Row, table=True):
    """One journal entry that has words. `id` grows with the time of the entry; `turn` is that of its order.

    `words`: see `mcc.store.rows.words`; an index of their words is kept beside the table, on SQLite by triggers.
    """

    __tablename__ = "history_entries"
    __table_args__ = (sa.Index("history_of_order", "order_id", "seq", unique=True),)

    id: int = Field(sa_column=sa.Column(NUMBER, primary_key=True, autoincrement=False))
    session_id: str
    order_id: str = Field(foreign_key="orders.id")
    seq: int
    turn: int
    record_id: str | None = None
    agent: str | None = None
    kind: str
    at: int = Field(sa_type=sa.BigInteger)
    words: str


class HistoryIndexedRow(Row, table=True):
    """How far the journal of an order was read for `history_entries`: up to entry `seq`."""

    __tablename__ = "history_indexed"

    order_id: str = Field(primary_key=True, foreign_key="orders.id")
    seq: int


HISTORY = Row.metadata.tables["history_entries"]
INDEXED = Row.metadata.tables["history_indexed"]
