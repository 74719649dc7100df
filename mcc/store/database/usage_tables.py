"""Tables that the sweep fills from orders, so that placing and ending them need not: what was used by day, and the
words by which orders are found."""

import sqlalchemy as sa
from sqlmodel import Field

from mcc.store.database.columns import Row
from mcc.store.database.history_tables import NUMBER


class UsageOutboxRow(Row, table=True):
    """An order that has ended and is not counted yet. No foreign key: whoever deletes an order counts it before.

    `cost_nanos`: billionths of a US dollar, whole numbers, so that sums do not depend on their sequence; None: unknown.
    """

    __tablename__ = "usage_outbox"

    order_id: str = Field(primary_key=True)
    ended_at: int = Field(sa_type=sa.BigInteger)
    status: str
    input_tokens: int = Field(sa_type=sa.BigInteger)
    cached_input_tokens: int = Field(sa_type=sa.BigInteger)
    cache_write_tokens: int = Field(sa_type=sa.BigInteger)
    output_tokens: int = Field(sa_type=sa.BigInteger)
    reasoning_tokens: int = Field(sa_type=sa.BigInteger)
    model_calls: int = Field(sa_type=sa.BigInteger)
    tool_calls: int = Field(sa_type=sa.BigInteger)
    cost_nanos: int | None = Field(default=None, sa_type=sa.BigInteger)


class UsageDayRow(Row, table=True):
    """What the orders used that ended on a day (UTC) and have one thing in common: `key`, of the kind `by`. `unpriced`:
    those of unknown cost, which `cost_nanos` lacks."""

    __tablename__ = "usage_days"

    day: str = Field(primary_key=True)
    by: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    orders: int = Field(sa_type=sa.BigInteger)
    succeeded: int = Field(sa_type=sa.BigInteger)
    failed: int = Field(sa_type=sa.BigInteger)
    unpriced: int = Field(sa_type=sa.BigInteger)
    input_tokens: int = Field(sa_type=sa.BigInteger)
    cached_input_tokens: int = Field(sa_type=sa.BigInteger)
    cache_write_tokens: int = Field(sa_type=sa.BigInteger)
    output_tokens: int = Field(sa_type=sa.BigInteger)
    reasoning_tokens: int = Field(sa_type=sa.BigInteger)
    model_calls: int = Field(sa_type=sa.BigInteger)
    tool_calls: int = Field(sa_type=sa.BigInteger)
    cost_nanos: int = Field(sa_type=sa.BigInteger)


class OrderWordsRow(Row, table=True):
    """The words of an order's prompt and answer. `number` grows with the order's id.

    `words`: see `mcc.store.rows.words`, with a space before each and after the last; an index of them is kept beside
    the table, on SQLite by triggers.
    """

    __tablename__ = "order_words"

    number: int = Field(sa_column=sa.Column(NUMBER, primary_key=True, autoincrement=False))
    order_id: str = Field(foreign_key="orders.id", unique=True)
    words: str


class ListProgressRow(Row, table=True):
    """How far lists are filled, by what is filled.

    `usage`: since when endings are counted, in microseconds; without a row, since the first order. `words`: orders from
    this id on have words, older ones are still to get them; without a row, all have. `words_upto`: orders up to this id
    have them, as far as they had not ended when they got them.
    """

    __tablename__ = "list_progress"

    name: str = Field(primary_key=True)
    reached: str


USAGE_OUTBOX = Row.metadata.tables["usage_outbox"]
USAGE_DAYS = Row.metadata.tables["usage_days"]
ORDER_WORDS = Row.metadata.tables["order_words"]
LIST_PROGRESS = Row.metadata.tables["list_progress"]
