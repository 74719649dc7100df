"""Whether a database server is fit for MCC: one check for upgrade, service, drone and doctor, a sentence per lack.

A connection that can be made has the settings that MCC needs (`mcc.store.database.postgres`); whether the tables are
those of this version is in `mcc.store.database.migrate`.
"""

import os
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Connection

from mcc.store.database.engine import Database
from mcc.store.database.tables import METADATA

OLDEST_POSTGRES = 12
"""The first version with `plan_cache_mode` and MATERIALIZED."""
OLDEST_SQLITE = (3, 35, 0)
"""The first version with RETURNING."""

NEVER_CHANGED = frozenset({"journal", "blobs", "audit"})
"""Tables whose rows nobody may change, so that nobody needs the right to."""

NEVER_DELETED = frozenset(
    {
        "api_tokens",
        "artifact_chunks",
        "audit",
        "budget_days",
        "budget_rules",
        "mcp_pins",
        "mcp_tokens",
        "people",
        "preferences",
        "seen_before",
        "usage_days",
    }
)
"""Tables whose rows stay for good, or go with those of another table (`ON DELETE CASCADE`, as the tables' owner)."""

_LOOK = """
SELECT current_setting('server_encoding') AS server_encoding, current_setting('client_encoding') AS client_encoding,
  current_setting('transaction_read_only') = 'on' AS reads_only, pg_is_in_recovery() AS is_standby,
  current_setting('server_version_num')::int AS version, current_setting('search_path') AS search_path,
  current_schema()::text AS schema, current_database()::text AS database, current_user::text AS role,
  coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS may_create,
  ARRAY(
    SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'p') AND c.relname = ANY (%(tables)s)
      AND NOT (has_table_privilege(c.oid, 'SELECT') AND (c.relname = 'alembic_version' OR (
        has_table_privilege(c.oid, 'INSERT')
        AND (c.relname = ANY (%(never_changed)s) OR has_table_privilege(c.oid, 'UPDATE'))
        AND (c.relname = ANY (%(never_deleted)s) OR has_table_privilege(c.oid, 'DELETE')))))
    ORDER BY c.relname
  ) AS forbidden,
  ARRAY(
    SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'p') AND c.relname = ANY (%(tables)s)
      AND row_security_active(c.oid)
    ORDER BY c.relname
  ) AS hidden
"""

_STANDBYS = """
SELECT current_setting('synchronous_standby_names') <> '' AS named, current_setting('synchronous_commit') AS commit,
  (SELECT count(*) FROM pg_stat_replication) AS standbys
"""
_WAITS_FOR_STANDBY = frozenset({"on", "remote_write", "remote_apply"})
"""Values of `synchronous_commit` with which a commit waits for the synchronous standbys that are named."""


def unfit(database: Database, *, to_upgrade: bool = False) -> str | None:
    """None when the server has what MCC needs, else a sentence that ends with what to do. `to_upgrade`: tables are to
    be made, not only used.

    Raises `Unfit` where no connection is made because its settings are not kept, `StoreUnavailable` when the server
    does not answer or cannot be written at present.
    """
    return _unfit_file(database) if database.dialect == "sqlite" else _unfit_server(database, to_upgrade)


def _unfit_file(database: Database) -> str | None:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        return (
            f"this Python has SQLite {sqlite3.sqlite_version}, and MCC needs {'.'.join(map(str, OLDEST_SQLITE[:2]))} "
            "or newer: install a newer Python"
        )
    file = Path(str(database.url.database))
    for place in (file, file.parent):
        # The directory too: SQLite makes its write-ahead log beside the file.
        if place.exists() and not os.access(place, os.W_OK):
            return f"{place} cannot be written: make it writable for this user, or name another one in MCC_DATABASE_URL"
    return None


def _unfit_server(database: Database, to_upgrade: bool) -> str | None:
    seen = database.read(_look)
    role, name = seen.role, seen.database
    if seen.version // 10_000 < OLDEST_POSTGRES:
        return f"the server is PostgreSQL {seen.version // 10_000}: MCC needs {OLDEST_POSTGRES} or newer"
    if seen.server_encoding != "UTF8":
        return (
            f"the database {name} has the encoding {seen.server_encoding}, and MCC needs UTF8: make another one "
            f"(CREATE DATABASE {name}_utf8 TEMPLATE template0 ENCODING 'UTF8') and name it in MCC_DATABASE_URL"
        )
    if seen.client_encoding != "UTF8":
        return (
            f"text arrives from the database in {seen.client_encoding}, although UTF8 was asked for: let the "
            "connection pooler pass client_encoding on"
        )
    if seen.is_standby:
        return "the database cannot be written, because it is a standby: name the primary in MCC_DATABASE_URL"
    if seen.reads_only:
        return (
            "the database cannot be written, because default_transaction_read_only is on: reset it where it was set "
            f"(ALTER DATABASE {name} RESET default_transaction_read_only; ALTER ROLE {role} RESET …; postgresql.conf)"
        )
    if seen.schema is None:
        return (
            f"the role {role} may use none of the schemas {seen.search_path}: GRANT USAGE ON SCHEMA public TO {role}, "
            "or correct its search_path"
        )
    if to_upgrade and not seen.may_create:
        return (
            f"the role {role} may make no tables in the schema {seen.schema}: ALTER DATABASE {name} OWNER TO {role}, "
            f"or GRANT CREATE ON SCHEMA {seen.schema} TO {role}"
        )
    if seen.forbidden:
        return (
            f"the role {role} may not use {', '.join(seen.forbidden)}: as their owner, GRANT SELECT, INSERT, UPDATE, "
            f"DELETE ON ALL TABLES IN SCHEMA {seen.schema} TO {role}; or ALTER DATABASE {name} OWNER TO {role} and let "
            "it make them"
        )
    if seen.hidden:
        return (
            f"row security hides rows of {', '.join(seen.hidden)} from the role {role}: ALTER TABLE {seen.hidden[0]} "
            f"DISABLE ROW LEVEL SECURITY, and so on, or ALTER ROLE {role} BYPASSRLS"
        )
    return None


def _look(connection: Connection) -> Any:
    tables = [*METADATA.tables, "alembic_version"]
    values = {"tables": tables, "never_changed": list(NEVER_CHANGED), "never_deleted": list(NEVER_DELETED)}
    return connection.exec_driver_sql(_LOOK, values).one()


@dataclass(frozen=True, slots=True)
class Way:
    """How PostgreSQL is reached, for people. `mode`: as in `database.postgres.Sessions`. `ungranted`: settings of
    the planner that are not in force."""

    pooled: bool
    mode: str
    ungranted: Sequence[str]


def way_to(database: Database) -> Way | None:
    """Known after the first call of the database; None for a file."""
    found = database.sessions
    return None if found is None else Way(found.pooled, found.mode, found.ungranted)


@dataclass(frozen=True, slots=True)
class Standbys:
    """What a confirmed commit survives. `count`: standbys connected now. `synchronous`: a commit waits for one.
    `on_disk`: a commit waits for the server's own disk."""

    count: int
    synchronous: bool
    on_disk: bool


def standbys_of(database: Database) -> Standbys | None:
    """None for a file. Raises `StoreUnavailable`."""
    if database.dialect == "sqlite":
        return None
    # Not from the column sync_state, which only a role with pg_monitor may read.
    seen = database.read(lambda connection: connection.exec_driver_sql(_STANDBYS).one())
    return Standbys(seen.standbys, seen.named and seen.commit in _WAITS_FOR_STANDBY, seen.commit != "off")
