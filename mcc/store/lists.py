"""Conditions on a list that is one parameter, so that a statement reads the same however long the list is."""

import json
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


def among(column: sa.ColumnElement[Any], parameter: str) -> sa.ColumnElement[bool]:
    """Whether the column is in the list that is given as `parameter`, texts or whole numbers; without one, it is empty.

    `IN (?, ?, …)` is another statement for every length: each connection would prepare and keep dozens of them.
    """
    item = sa.BigInteger if isinstance(column.type, sa.Integer) else sa.Text
    return _Among(column, sa.bindparam(parameter, (), type_=_List(item)))


class _List(sa.TypeDecorator[Iterable[Any]]):
    """An array for PostgreSQL, JSON for SQLite."""

    impl = sa.Text
    cache_ok = True

    def __init__(self, item: type[sa.types.TypeEngine[Any]]) -> None:
        super().__init__()
        self.item = item

    def load_dialect_impl(self, dialect: Dialect) -> sa.types.TypeEngine[Any]:
        return dialect.type_descriptor(sa.ARRAY(self.item) if dialect.name == "postgresql" else sa.Text())

    def process_bind_param(self, value: Iterable[Any] | None, dialect: Dialect) -> Any:
        listed = list(value or ())
        return listed if dialect.name == "postgresql" else json.dumps(listed)


class _Among(FunctionElement[bool]):
    """Without the type Boolean, for which SQLAlchemy writes `= 1` behind it; SQLite finds no index for that."""

    inherit_cache = True


@compiles(_Among, "sqlite")
def _in_sqlite(element: _Among, compiler: SQLCompiler, **options: Any) -> str:
    column, listed = (compiler.process(part, **options) for part in element.clauses)
    return f"({column} IN (SELECT value FROM json_each({listed})))"


@compiles(_Among, "postgresql")
def _in_postgresql(element: _Among, compiler: SQLCompiler, **options: Any) -> str:
    column, listed = (compiler.process(part, **options) for part in element.clauses)
    return f"({column} = ANY ({listed}))"
