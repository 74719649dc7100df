"""Building blocks of tables and statements: the row registry, partial indexes, list conditions, rows as JSON."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import registry
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.schema import ScalarElementColumnDefault
from sqlmodel import SQLModel


def among(column: sa.ColumnElement[Any], parameter: str, values: Sequence[Any] = ()) -> sa.ColumnElement[bool]:
    """Whether the column is in the list bound to `parameter`, of texts or whole numbers; by default it is `values`.

    `IN (?, ?, …)` is a different statement for every length: each connection would prepare and keep dozens of them.
    """
    item = sa.BigInteger if isinstance(column.type, sa.Integer) else sa.Text
    return _Among(column, sa.bindparam(parameter, values, type_=_List(item)))


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
    """Has no type Boolean: SQLAlchemy would append `= 1` to it, and SQLite would then use no index."""

    inherit_cache = True


@compiles(_Among, "sqlite")
def _in_sqlite(element: _Among, compiler: SQLCompiler, **options: Any) -> str:
    column, listed = (compiler.process(part, **options) for part in element.clauses)
    return f"({column} IN (SELECT value FROM json_each({listed})))"


@compiles(_Among, "postgresql")
def _in_postgresql(element: _Among, compiler: SQLCompiler, **options: Any) -> str:
    column, listed = (compiler.process(part, **options) for part in element.clauses)
    return f"({column} = ANY ({listed}))"


class _SizeOf(FunctionElement[int]):
    inherit_cache = True
    type = sa.BigInteger()


def size_of(column: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    """Bytes of a text column. SQLite's `length` counts characters of texts, and old versions lack `octet_length`."""
    return _SizeOf(column)


@compiles(_SizeOf, "sqlite")
def _size_in_sqlite(element: _SizeOf, compiler: SQLCompiler, **options: Any) -> str:
    return f"length(CAST({compiler.process(next(iter(element.clauses)), **options)} AS BLOB))"


@compiles(_SizeOf, "postgresql")
def _size_in_postgresql(element: _SizeOf, compiler: SQLCompiler, **options: Any) -> str:
    return f"octet_length({compiler.process(next(iter(element.clauses)), **options)})"


def postgres_rows(columns: Mapping[str, str]) -> str:
    """A SELECT that expands one driver parameter, the JSON made by `listed`, into rows with columns of these types."""
    typed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    return f"SELECT * FROM json_to_recordset(%s::json) AS t({typed})"


def listed(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> str:
    """A JSON list with one object per row, as `postgres_rows` expects it."""
    return json.dumps([dict(zip(names, row, strict=True)) for row in rows])


def insert_of(table: sa.Table, columns: Sequence[str], dialect: str) -> str:
    """An INSERT in the driver's own syntax of rows with these columns; the others get their defaults.

    SQLite takes a mapping for each row; PostgreSQL one parameter, the rows as a JSON list of objects.
    """
    defaults = {
        column.name: json.dumps(column.default.arg)  # Numbers and booleans, which SQL spells as JSON does.
        for column in table.columns
        if isinstance(column.default, ScalarElementColumnDefault) and column.name not in columns
    }
    into = f"INSERT INTO {table.name} ({', '.join((*columns, *defaults))})"
    if dialect == "sqlite":
        return f"{into} VALUES ({', '.join((*(f':{name}' for name in columns), *defaults.values()))})"
    postgres = postgresql.dialect()  # type: ignore[no-untyped-call]
    typed = {name: table.c[name].type.compile(postgres) for name in columns}
    return f"{into} SELECT {', '.join((*columns, *defaults.values()))} FROM ({postgres_rows(typed)}) AS given"


HALF_FILLED = {"postgresql_with": {"fillfactor": 50}}
"""For tables whose rows are updated often: PostgreSQL writes the new row version into the same page."""


def partial_index(name: str, *columns: str, where: str, unique: bool = False) -> sa.Index:
    condition = sa.text(where)
    return sa.Index(name, *columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


class Row(SQLModel, registry=registry()):
    """Base of all rows, with a registry of its own: MCC's tables stay apart from those of a program that embeds it."""
