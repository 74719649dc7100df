"""Whether a database is still sound after all that was done to it, as it finds itself."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import LiteralString

import psycopg

from tests.faults.campaigns.stage import Stage

Link = psycopg.Connection[tuple[object, ...]]

_INDEXES: LiteralString = """
    SELECT i.indexrelid::regclass::text FROM pg_index i
    JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
    WHERE a.amname = 'btree' AND c.relpersistence = 'p' AND i.indisready AND i.indisvalid
"""
_TABLES: LiteralString = """
    SELECT c.oid::regclass::text FROM pg_class c JOIN pg_am a ON a.oid = c.relam
    WHERE a.amname = 'heap' AND c.relkind IN ('r', 't') AND c.relpersistence = 'p'
"""
_CHECK_INDEX: LiteralString = "SELECT bt_index_check(%s::regclass, true)"
_CHECK_TABLE: LiteralString = "SELECT msg FROM verify_heapam(%s::regclass)"


class NoCheck(Exception):
    """The database cannot look at itself; the sentence says why."""


def sound(stage: Stage) -> None:
    """Every table and every index of the family's database is whole, or a problem says which is not."""
    family = stage.family
    if family.plan.database == "sqlite":
        stage.problems += damage_of_file(family.places.private / "mcc.db")
        stage.measured["integrity checks"].append(1)
        return
    try:
        count, damage = damage_of_server(family.database_url)
    except NoCheck as why:
        stage.missing["amcheck"] = str(why)
        return
    stage.problems += damage
    stage.measured["tables and indexes checked"].append(count)


def damage_of_file(path: Path) -> list[str]:
    """What is wrong with a database of SQLite."""
    try:
        with closing(sqlite3.connect(path)) as link:
            verdicts = [str(row[0]) for row in link.execute("PRAGMA integrity_check")]
    except sqlite3.DatabaseError as broken:
        verdicts = [str(broken)]
    return [f"the database is damaged: {verdict}" for verdict in verdicts if verdict != "ok"]


def damage_of_server(url: str) -> tuple[int, list[str]]:
    """How many tables and indexes of a PostgreSQL there are, and what is wrong with them. Raises `NoCheck`."""
    with psycopg.connect(url, autocommit=True) as link:
        try:
            link.execute("CREATE EXTENSION IF NOT EXISTS amcheck")
        except psycopg.Error as problem:
            raise NoCheck(str(problem).splitlines()[0]) from problem
        names = {check: _names(link, query) for check, query in ((_CHECK_INDEX, _INDEXES), (_CHECK_TABLE, _TABLES))}
        damage = [said for check, some in names.items() for name in some for said in _damage(link, check, name)]
    return sum(map(len, names.values())), damage


def _names(link: Link, query: LiteralString) -> list[str]:
    return [str(row[0]) for row in link.execute(query)]


def _damage(link: Link, check: LiteralString, name: str) -> list[str]:
    try:
        said = [row[0] for row in link.execute(check, [name])]
    except psycopg.DatabaseError as broken:
        said = [broken]
    return [f"{name} is damaged: {one}" for one in said if one not in (None, "")]
