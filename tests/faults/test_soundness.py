"""A database that was damaged by hand says so, and a sound one does not; else a check after harm means nothing."""

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest

from tests.faults.campaigns.soundness import NoCheck, damage_of_file, damage_of_server
from tests.faults.postgres import NoPostgres, Postgres, own_postgres

PAGE_BYTES = 8_192


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with ExitStack() as stack:
        try:
            found = stack.enter_context(own_postgres())
        except NoPostgres as why:
            pytest.skip(str(why))
        yield found


def test_a_damaged_file_of_sqlite_is_found_out(tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    with closing(sqlite3.connect(path)) as link:
        link.execute("CREATE TABLE words (word TEXT)")
        link.execute("CREATE INDEX by_word ON words (word)")
        link.executemany("INSERT INTO words VALUES (?)", [(f"word {number}" * 10,) for number in range(500)])
        link.commit()
    assert damage_of_file(path) == []
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\xff" * 4_096)
    assert damage_of_file(path)


@pytest.mark.family
@pytest.mark.group("killed drones")
@pytest.mark.parametrize("what", ["words", "by_word"])
def test_a_damaged_table_or_index_of_postgresql_is_found_out(server: Postgres, what: str) -> None:
    with psycopg.connect(server.url, autocommit=True) as link:
        link.execute("DROP TABLE IF EXISTS words")
        link.execute("CREATE TABLE words (word text)")
        link.execute("CREATE INDEX by_word ON words (word)")
        link.execute("INSERT INTO words SELECT repeat('word ' || number, 10) FROM generate_series(1, 500) AS number")
        link.execute("CHECKPOINT")
        (file,) = link.execute("SELECT pg_relation_filepath(%s::regclass)", [what]).fetchone() or ("",)
    try:
        count, damage = damage_of_server(server.url)
    except NoCheck as why:
        pytest.skip(str(why))
    assert count > 100 and damage == []
    server.stop()
    with (server.data / file).open("r+b") as relation:
        relation.seek(PAGE_BYTES + PAGE_BYTES // 2)
        relation.write(b"\xff" * (PAGE_BYTES // 2))
    server.start()
    _, damage = damage_of_server(server.url)
    assert any(said.startswith(what) for said in damage)
