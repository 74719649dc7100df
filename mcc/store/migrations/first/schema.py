"""What the tables of the first schema are made of."""

from typing import Any

import sqlalchemy as sa

SCHEMA = sa.MetaData()
INDEXES: list[sa.Index] = []
"""In the order in which they are made: of two that serve a query equally well, SQLite takes one by it."""

TEXT, INT, LARGE, BOOL, BYTES = sa.String(), sa.Integer(), sa.BigInteger(), sa.Boolean(), sa.LargeBinary()
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""A number that SQLite takes for the row's own."""

HOT: dict[str, Any] = {"postgresql_with": {"fillfactor": 50}}
"""Of tables whose rows change often: half of each page stays free, so that a new version of a row needs no index."""


def table(name: str, *parts: sa.schema.SchemaItem, **options: Any) -> None:
    sa.Table(name, SCHEMA, *parts, **options)
    INDEXES.extend(part for part in parts if isinstance(part, sa.Index))


def column(name: str, kind: sa.types.TypeEngine[Any], *parts: sa.schema.SchemaItem, **more: Any) -> sa.Column[Any]:
    """A column that is never NULL, unless it says so."""
    return sa.Column(name, kind, *parts, **{"nullable": False, **more})


def where(condition: str) -> dict[str, Any]:
    """The option of an index over some rows only."""
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}
