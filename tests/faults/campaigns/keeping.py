"""Evidence that is kept: with the database in it, so that it can be judged again without a server."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa

KEPT = "database.db"


def keep_database(directory: Path) -> None:
    """Have the tables that `run.json` points to in the directory, and point it there, so that it can be moved.

    SQLite's file, which is there already, stays where it is.
    """
    run = json.loads((directory / "run.json").read_text())
    url = sa.make_url(run["database_url"])
    if url.get_backend_name() == "sqlite":
        file = Path(url.database or "")
    else:
        _copy_tables(url, file := directory / KEPT)
    there = f"sqlite:///{file.relative_to(directory)}"
    (directory / "run.json").write_text(json.dumps({**run, "database_url": there}, indent=1) + "\n")


def _copy_tables(url: sa.URL, file: Path) -> None:
    engine = sa.create_engine(url.set(drivername="postgresql+psycopg"))
    file.unlink(missing_ok=True)
    try:
        with engine.connect() as source, closing(sqlite3.connect(file)) as target:
            for table in sa.inspect(source).get_table_names():
                _copy(source, target, table)
            target.commit()
    finally:
        engine.dispose()


def _copy(source: sa.Connection, target: sqlite3.Connection, table: str) -> None:
    rows = source.execute(sa.text(f'SELECT * FROM "{table}"'))
    columns = list(rows.keys())
    named = ", ".join(f'"{name}"' for name in columns)
    target.execute(f'CREATE TABLE "{table}" ({named})')
    places = ", ".join("?" for _ in columns)
    target.executemany(f'INSERT INTO "{table}" VALUES ({places})', [tuple(map(_plain, row)) for row in rows])


def _plain(value: object) -> object:
    return value if isinstance(value, int | float | str | bytes | None) else str(value)
