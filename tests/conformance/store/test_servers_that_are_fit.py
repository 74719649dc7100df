"""A PostgreSQL that lacks something is refused with what to do; one that can be used is used, however it is set up."""

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any, LiteralString
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql
from sqlalchemy import exc
from sqlalchemy.engine import Connection

import mcc.store
from mcc.configuration.database import DatabaseAccess, Pooler
from mcc.contracts.callers import Actor
from mcc.contracts.order import NewOrder
from mcc.store.database.engine import Database
from mcc.store.database.errors import StoreUnavailable, Unfit
from mcc.store.database.fit import NEVER_DELETED, standbys_of, unfit, way_to
from mcc.store.database.foreign_errors import ConnectionLost, translated
from mcc.store.database.migrate import schema_problem, upgrade
from mcc.store.database.tables import METADATA
from mcc.store.store import open_store
from tests.conformance.store.conftest import POOLER, NewDatabase, psycopg_url
from tests.faults.pgbouncer import NoPgBouncer, pgbouncer_before

pytestmark = pytest.mark.skipif(POOLER is not None, reason="it is about the way to a server that is reached directly")
WORDS = "an arrow → and Ünïcode 🙂"


def ran(url: str, *statements: LiteralString, name: str = "") -> None:
    with psycopg.connect(url, autocommit=True) as link:
        for statement in statements:
            link.execute(sql.SQL(statement).format(sql.Identifier(name)) if name else sql.SQL(statement))


@pytest.fixture
def new_database(postgres_server: str) -> Iterator[str]:
    with NewDatabase(postgres_server) as url:
        yield url


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII", "EUC_JP"])
def test_an_encoding_other_than_utf8_is_refused_with_how_to_make_another_database(
    postgres_server: str, encoding: LiteralString
) -> None:
    with NewDatabase(postgres_server, f"TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'") as url:
        assert f"has the encoding {encoding}" in (schema_problem(url) or "")
        with pytest.raises(Unfit, match="TEMPLATE template0 ENCODING 'UTF8'"):
            upgrade(url)
        with psycopg.connect(url) as link:
            assert link.execute("SELECT to_regclass('orders')").fetchone() == (None,)


def kept(url: str) -> str:
    """The prompt of an order after it was stored and read back."""
    store = open_store(url)
    try:
        order = store.orders.place(NewOrder(prompt=WORDS), by=Actor("test")).order
        return store.orders.get(order.id).prompt
    finally:
        store.close()


@pytest.mark.parametrize("encoding", ["latin1", "sql_ascii", "euc_jp"])
def test_text_is_exchanged_as_utf8_whatever_encoding_an_address_names(postgres_url: str, encoding: str) -> None:
    assert kept(f"{postgres_url}?client_encoding={encoding}") == WORDS


def test_text_is_exchanged_as_utf8_whatever_encoding_a_role_or_a_database_is_given(new_database: str) -> None:
    upgrade(new_database)
    name = new_database.rpartition("/")[2]
    ran(new_database, "ALTER DATABASE {} SET client_encoding = 'latin1'", name=name)
    assert kept(new_database) == WORDS


@pytest.fixture
def limited(new_database: str) -> Iterator[str]:
    """The address of an empty database for a role that owns nothing."""
    role = f"mcc_limited_{uuid4().hex}"
    ran(new_database, "CREATE ROLE {}", name=role)
    ran(new_database, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    yield f"{new_database}?options=-c role={role}"
    ran(new_database, "DROP OWNED BY {}", "DROP ROLE {}", name=role)


def role_of(url: str) -> str:
    return url.rpartition("=")[2]


def test_a_role_that_may_make_no_tables_is_told_which_statement_lets_it(limited: str) -> None:
    with pytest.raises(Unfit, match=f"OWNER TO {role_of(limited)}, or GRANT CREATE ON SCHEMA public TO"):
        upgrade(limited)
    ran(limited.partition("?")[0], "GRANT CREATE ON SCHEMA public TO {}", name=role_of(limited))
    upgrade(limited)
    assert schema_problem(limited) is None


def test_a_role_without_rights_on_the_tables_is_told_them_and_which_statement_gives_them(limited: str) -> None:
    plain, role = limited.partition("?")[0], role_of(limited)
    upgrade(plain)
    problem = schema_problem(limited) or ""
    assert "orders" in problem and f"ON ALL TABLES IN SCHEMA public TO {role}" in problem
    ran(plain, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {}", name=role)
    assert schema_problem(limited) is None
    ran(plain, "REVOKE UPDATE ON journal, blobs, audit FROM {}", name=role)
    assert schema_problem(limited) is None, "nobody changes rows of these"
    ran(plain, "REVOKE UPDATE ON order_state FROM {}", name=role)
    assert "order_state" in (schema_problem(limited) or "")


def test_a_role_that_may_not_delete_where_rows_go_is_told_so_and_no_other_one(limited: str) -> None:
    plain, role = limited.partition("?")[0], role_of(limited)
    upgrade(plain)
    ran(plain, "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO {}", name=role)
    named = (schema_problem(limited) or "").partition("may not use ")[2].partition(":")[0].split(", ")
    assert named == sorted({*METADATA.tables} - NEVER_DELETED)
    ran(plain, "GRANT DELETE ON ALL TABLES IN SCHEMA public TO {}", name=role)
    ran(plain, "REVOKE DELETE ON workspace_locks FROM {}", name=role)
    assert "may not use workspace_locks:" in (schema_problem(limited) or "")


def test_rows_are_deleted_from_every_table_but_those_that_are_said_to_keep_theirs() -> None:
    deleted = set[str]()
    for module in pkgutil.walk_packages(mcc.store.__path__, "mcc.store."):
        if ".migrations" not in module.name:
            for value in vars(importlib.import_module(module.name)).values():
                found = value if isinstance(value, tuple) else (value,)
                deleted |= {str(one.table) for one in found if isinstance(one, sa.Delete)}
    assert deleted == {*METADATA.tables} - NEVER_DELETED


def test_a_role_from_which_row_security_hides_rows_is_told_where(limited: str) -> None:
    plain, role = limited.partition("?")[0], role_of(limited)
    upgrade(plain)
    ran(plain, "GRANT ALL ON ALL TABLES IN SCHEMA public TO {}", name=role)
    ran(plain, "ALTER TABLE orders ENABLE ROW LEVEL SECURITY")
    assert "row security hides rows of orders" in (schema_problem(limited) or "")
    assert schema_problem(plain) is None, "nothing is hidden from the owner"


def test_a_login_that_the_server_refuses_is_told_as_that_and_not_as_a_lost_connection(new_database: str) -> None:
    database = Database(f"{new_database}_nope", connections=1)
    with pytest.raises(StoreUnavailable, match=r"does not admit MCC .*_nope.* correct user, password"):
        database.read(lambda connection: connection.execute(PID))
    database.close()


@pytest.mark.parametrize("pooler", ["auto", "session"])
def test_a_pooler_without_a_free_connection_is_waited_for_and_not_taken_for_one_of_another_kind(pooler: Pooler) -> None:
    full = exc.OperationalError("SELECT 1", None, psycopg.errors.ProtocolViolation("query_wait_timeout"))
    found = translated(full, access=DatabaseAccess("postgresql://mcc@db/mcc", pooler))
    assert isinstance(found, ConnectionLost) and "default_pool_size" in str(found)


def test_a_pooler_that_keeps_no_transaction_is_refused_with_what_to_set(new_database: str) -> None:
    try:
        with pgbouncer_before(new_database, "statement") as url, pytest.raises(Unfit, match="set pool_mode to"):
            upgrade(psycopg_url(url, new_database.rpartition("/")[2]))
    except NoPgBouncer as problem:
        pytest.skip(str(problem))


def test_rights_that_are_taken_away_later_are_named_by_whoever_needs_them(limited: str) -> None:
    plain, role = limited.partition("?")[0], role_of(limited)
    upgrade(plain)
    store = open_store(limited)
    with pytest.raises(Unfit, match="ALTER DATABASE mcc_test_"):
        store.orders.list()
    ran(plain, "GRANT ALL ON ALL TABLES IN SCHEMA public TO {}", name=role)
    assert store.orders.list().items == []
    store.close()


def test_a_role_that_may_not_even_look_into_the_schema_is_told_so(limited: str) -> None:
    ran(limited.partition("?")[0], "REVOKE USAGE ON SCHEMA public FROM PUBLIC")
    assert f"GRANT USAGE ON SCHEMA public TO {role_of(limited)}" in (schema_problem(limited) or "")


def test_a_server_that_takes_no_writes_is_told_and_used_as_soon_as_it_does(new_database: str) -> None:
    upgrade(new_database)
    name = new_database.rpartition("/")[2]
    ran(new_database, "ALTER DATABASE {} SET default_transaction_read_only = on", name=name)
    store = open_store(new_database)
    with pytest.raises(StoreUnavailable, match="takes no writes now"):
        store.schema_problem()
    asked = f"{new_database}?target_session_attrs=any"
    assert f"ALTER DATABASE {name} RESET default_transaction_read_only" in (schema_problem(asked) or "")
    assert store.database.answers()
    ran(asked, "SET default_transaction_read_only = off", "ALTER DATABASE {} RESET ALL", name=name)
    assert store.schema_problem() is None
    store.close()


PID = sa.text("SELECT pg_backend_pid()")
NO_WRITES = "SET default_transaction_read_only = on"
KEEP = sa.text("CREATE TEMP TABLE kept (x int)")


def nested(database: Database, depth: int, work: Callable[[Connection], object]) -> None:
    """Do it on so many connections at once."""

    def deeper(connection: Connection) -> None:
        work(connection)
        if depth > 1:
            nested(database, depth - 1, work)

    database.read(deeper)


@pytest.mark.parametrize("poisoned", [1, 3])
def test_a_connection_that_takes_no_writes_is_closed_with_all_older_ones_and_the_work_done_on_a_new_one(
    postgres_url: str, poisoned: int
) -> None:
    database = Database(postgres_url, connections=4)
    pids: set[int] = set()

    def poison(connection: Connection) -> None:
        pids.add(connection.execute(PID).scalar_one())
        connection.exec_driver_sql(NO_WRITES)

    def write(connection: Connection) -> int:
        connection.execute(KEEP)
        return int(connection.execute(PID).scalar_one())

    nested(database, poisoned, poison)
    assert len(pids) == poisoned
    assert database.write(write) not in pids
    with psycopg.connect(postgres_url) as link:
        alive = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY (%s)"
        # A backend ends a moment after its connection.
        while link.execute(alive, [list(pids)]).fetchone() != (0,):
            link.rollback()
    database.close()


def test_one_in_use_that_is_older_than_a_lost_one_is_closed_when_it_is_returned(postgres_url: str) -> None:
    database = Database(postgres_url, connections=4)

    def outer(connection: Connection) -> int:
        pid = int(connection.execute(PID).scalar_one())
        database.read(lambda inner: inner.exec_driver_sql(NO_WRITES))
        database.write(lambda inner: inner.execute(KEEP))
        return pid

    old = database.read(outer)
    assert all(database.read(lambda one: one.execute(PID).scalar_one()) != old for _ in range(3))
    database.close()


@pytest.mark.parametrize("state", ["57P01", "57P02", "57P03", "57P04", "57P05", "55000", "25006"])
def test_an_error_of_the_connection_is_answered_by_another_connection(postgres_url: str, state: str) -> None:
    database = Database(postgres_url, connections=2)
    raised = f"DO $$ BEGIN RAISE EXCEPTION 'as if' USING ERRCODE = '{state}'; END $$"
    pids = list[int]()

    def work(connection: Connection) -> None:
        pids.append(connection.execute(PID).scalar_one())
        if len(pids) == 1:
            connection.exec_driver_sql(raised)

    for transaction in (database.write, database.read):
        pids.clear()
        transaction(work)
        assert len(set(pids)) == 2
    database.close()


@pytest.mark.parametrize("state", ["0A000", "42883", "22012", "XX000", "P0001", "2F003", "38000"])
def test_no_other_code_comes_out_as_it_is(postgres_url: str, state: str) -> None:
    database = Database(postgres_url, connections=2)
    raised = f"DO $$ BEGIN RAISE EXCEPTION 'as if' USING ERRCODE = '{state}'; END $$"
    for transaction in (database.write, database.read, database.snapshot):
        with pytest.raises(Exception, match="as if") as caught:
            transaction(lambda connection: connection.exec_driver_sql(raised))
        assert type(caught.value).__module__.startswith("mcc.store")
    database.close()


def test_several_hosts_as_libpq_writes_them_are_tried_until_one_can_be_written(postgres_url: str) -> None:
    base = sa.make_url(postgres_url)
    login = f"{base.username}@" if base.username else ""
    hosts = f"127.0.0.1:1,{base.host}:{base.port or 5432}"
    database = Database(f"postgresql://{login}{hosts}/{base.database}", connections=2)
    assert unfit(database) is None
    database.close()


def test_what_a_fail_over_would_lose_is_known(postgres_url: str) -> None:
    database = Database(postgres_url, connections=2)
    found = standbys_of(database)
    assert found is not None and found.on_disk and (found.synchronous, found.count) == (False, 0)
    database.close()


def settings_of(connection: Connection) -> Any:
    names = ("statement_timeout", "lock_timeout", "plan_cache_mode", "enable_seqscan", "transaction_isolation")
    row = connection.exec_driver_sql(f"SELECT {', '.join(f'current_setting({name!r})' for name in names)}").one()
    return tuple(row)


def test_a_direct_connection_is_recognised_and_has_its_settings(postgres_server: str, postgres_url: str) -> None:
    database = Database(DatabaseAccess(postgres_url, "auto"), connections=2)
    wanted = ("15s", "5s", "force_generic_plan", "off", "read committed")
    assert database.read(settings_of) == wanted and database.write(settings_of) == wanted
    way = way_to(database)
    assert way is not None and (way.pooled, way.mode, way.ungranted) == (False, "none", [])
    database.close()
