"""Tables of what people look at: which items of the inbox they have seen, and the views that they saved."""

import sqlalchemy as sa
from sqlmodel import Field

from mcc.store.database.columns import Row


class SeenRow(Row, table=True):
    """An item of the inbox that a principal has seen. `order_id`: its order, with which the row goes."""

    __tablename__ = "seen"
    __table_args__ = (sa.Index("seen_of_order", "order_id"),)

    principal: str = Field(primary_key=True)
    item: str = Field(primary_key=True)
    order_id: str


class SeenBeforeRow(Row, table=True):
    """Up to when a principal has seen everything that the inbox had."""

    __tablename__ = "seen_before"

    principal: str = Field(primary_key=True)
    at: int = Field(sa_type=sa.BigInteger)


class ViewRow(Row, table=True):
    """Filters of a list that a principal keeps under a name; `shared`: everybody sees them."""

    __tablename__ = "views"

    principal: str = Field(primary_key=True)
    name_json: str = Field(primary_key=True)
    query_json: str
    position: int
    shared: bool
    updated_at: int = Field(sa_type=sa.BigInteger)


SEEN = Row.metadata.tables["seen"]
SEEN_BEFORE = Row.metadata.tables["seen_before"]
VIEWS = Row.metadata.tables["views"]
