"""The store through a pooler that keeps nothing between transactions: its settings begin each of them."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection

from mcc.configuration.database import DatabaseAccess, Pooler
from mcc.contracts.callers import Actor
from mcc.contracts.order import NewOrder
from mcc.store.database.direct import execute_later, send
from mcc.store.database.engine import Database
from mcc.store.database.errors import Unfit
from mcc.store.database.fit import unfit, way_to
from mcc.store.database.migrate import schema_problem, upgrade
from mcc.store.store import open_store
from tests.conformance.store.conftest import POOLER, NewDatabase, psycopg_url
from tests.conformance.store.test_statements_given_directly import round_trips
from tests.faults.pgbouncer import NoPgBouncer, pgbouncer_before

pytestmark = pytest.mark.skipif(POOLER is not None, reason="it is about the way to a server that is reached directly")
NAMES = (
    "statement_timeout",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
    "plan_cache_mode",
    "enable_seqscan",
)
WANTED = ("15s", "5s", "5s", "force_generic_plan", "off", "read committed")
QUESTION = ", ".join(f"current_setting('{name}')" for name in (*NAMES, "transaction_isolation"))
ASK = sa.text(f"SELECT {QUESTION}")
NOTE = sa.text("SELECT set_config('mcc.seen', CAST(:x AS text) || current_setting('statement_timeout'), false)")


@pytest.fixture
def pooled(pooled_postgres: str) -> Iterator[Database]:
    database = Database(pooled_postgres, connections=4)
    yield database
    database.close()


def by_sqlalchemy(connection: Connection) -> Any:
    return tuple(connection.execute(sa.text(f"SELECT {QUESTION}")).one())


def by_driver(connection: Connection) -> Any:
    return tuple(connection.execute(ASK).one())


def by_text(connection: Connection) -> Any:
    return tuple(connection.exec_driver_sql(f"SELECT {QUESTION}").one())


def sent(connection: Connection) -> Any:
    return tuple(send(connection, f"SELECT {QUESTION}", ()).one())


def after_another(connection: Connection) -> Any:
    connection.execute(sa.text("SELECT 1"))
    execute_later(connection, NOTE, {"x": ""})
    return by_driver(connection)


@pytest.mark.parametrize("ask", [by_sqlalchemy, by_driver, by_text, sent, after_another])
@pytest.mark.parametrize("road", ["read", "write", "single", "listened"])
def test_every_statement_of_every_road_has_its_settings(
    pooled: Database, ask: Callable[[Connection], Any], road: str
) -> None:
    if road == "listened":
        event.listen(pooled.engine, "before_cursor_execute", lambda *_: None)
    roads: dict[str, Callable[[Callable[[Connection], Any]], Any]] = {
        "read": pooled.read,
        "write": pooled.write,
        "single": lambda work: pooled.write(work, single=True),
        "listened": lambda work: (pooled.read(work), pooled.write(work))[1],
    }
    for _ in range(4):
        assert roads[road](ask) == WANTED


def test_a_statement_for_many_rows_has_them_too(pooled: Database) -> None:
    rows = [{"x": number} for number in range(3)]
    for _ in range(3):
        pooled.read(lambda connection: connection.execute(NOTE, rows))
        pooled.write(lambda connection: execute_later(connection, NOTE, rows))


def test_a_snapshot_has_its_own_isolation_and_no_limit(pooled: Database) -> None:
    found = pooled.snapshot(by_text)
    assert (found[0], found[1], found[-1]) == ("0", "5s", "repeatable read")


def test_nothing_is_left_behind_with_the_pooler(pooled: Database) -> None:
    """A setting that stayed would be that of another program's transaction."""
    pooled.write(by_driver)
    raw = pooled.engine.raw_connection()
    raw.driver_connection.autocommit = True  # type: ignore[union-attr]
    cursor = raw.driver_connection.execute(f"SELECT {QUESTION}")  # type: ignore[union-attr]
    assert cursor.fetchone()[0] == "0"
    raw.invalidate()


def test_a_statement_by_itself_costs_one_round_trip_with_its_settings(pooled: Database) -> None:
    for _ in range(3):
        pooled.read(by_driver)
    assert round_trips(pooled, lambda: pooled.read(by_driver)) == 1


def test_an_error_leaves_no_transaction_open(pooled: Database) -> None:
    wrong = sa.text("SELECT 1 / CAST(:x AS int)")

    def work(connection: Connection) -> Any:
        for _ in range(3):
            with pytest.raises(sa.exc.DBAPIError):
                connection.execute(wrong, {"x": 0})
            assert connection.connection.driver_connection.info.transaction_status.name == "IDLE"  # type: ignore[union-attr]
        return by_driver(connection)

    assert pooled.read(work) == WANTED


def test_a_pooler_is_recognised_and_told(pooled: Database) -> None:
    assert unfit(pooled) is None
    way = way_to(pooled)
    assert way is not None and (way.pooled, way.mode, way.ungranted) == (True, "transaction", [])


def test_orders_are_placed_and_listed_by_more_threads_than_the_pooler_has_connections(pooled_postgres: str) -> None:
    store = open_store(pooled_postgres)

    def place(number: int) -> str:
        order = store.orders.place(NewOrder(prompt=f"order {number}"), by=Actor("test")).order
        store.orders.list(limit=5)
        return store.orders.get(order.id).prompt

    with ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(place, range(80))) == sorted(f"order {number}" for number in range(80))
    store.close()


def test_a_new_database_is_made_through_it(postgres_server: str, pooled_server: str) -> None:
    with NewDatabase(postgres_server) as url:
        through = psycopg_url(pooled_server, url.rpartition("/")[2])
        upgrade(through)
        assert schema_problem(through) is None


@pytest.mark.parametrize("pooler", ["none", "session"])
def test_another_mode_than_the_poolers_is_refused_by_name(pooled_postgres: str, pooler: Pooler) -> None:
    database = Database(DatabaseAccess(pooled_postgres, pooler), connections=4)
    with pytest.raises(Unfit, match=f"database_pooler is {pooler}") as caught:
        for _ in range(50):
            # The outer one ends last, so its connection of the server is the next one that the pooler gives away.
            database.read(lambda connection: (database.read(by_driver), by_driver(connection)))
    assert "MCC_DATABASE_POOLER" in str(caught.value)
    database.close()


@pytest.fixture(scope="module")
def in_session_mode(postgres_url: str) -> Iterator[str]:
    try:
        with pgbouncer_before(postgres_url, "session") as url:
            yield url
    except NoPgBouncer as why:
        pytest.skip(str(why))


@pytest.mark.parametrize(
    ("pooler", "mode"), [("auto", "transaction"), ("session", "session"), ("transaction", "transaction")]
)
def test_a_pooler_in_session_mode_works_as_found_out_and_as_named(
    in_session_mode: str, pooler: Pooler, mode: str
) -> None:
    database = Database(DatabaseAccess(in_session_mode, pooler), connections=2)
    for _ in range(4):
        assert database.read(by_driver) == WANTED and database.write(by_sqlalchemy) == WANTED
    way = way_to(database)
    assert way is not None and (way.pooled, way.mode) == (True, mode)
    database.close()


def test_one_that_drops_the_settings_is_not_taken_for_none(in_session_mode: str) -> None:
    with pytest.raises(Unfit, match="database_pooler is none"):
        unfit(Database(DatabaseAccess(in_session_mode, "none"), connections=2))


FORGET = "DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$"
"""Within a block, because psycopg itself forgets what it prepared when it sees the statement."""


def forget(database: Database) -> None:
    """Let a connection lose what was prepared on it, as one that a hidden pooler exchanges."""
    for _ in range(8):
        database.read(by_driver)
    database.read(lambda connection: connection.exec_driver_sql(FORGET))


def test_a_hidden_pooler_is_found_out_by_what_it_forgets(postgres_url: str) -> None:
    database = Database(DatabaseAccess(postgres_url, "auto"), connections=2)
    forget(database)
    assert way_to(database).mode == "none"  # type: ignore[union-attr]
    assert database.read(by_driver) == WANTED
    assert way_to(database).mode == "transaction"  # type: ignore[union-attr]
    assert database.write(by_driver) == WANTED
    database.close()


@pytest.mark.parametrize("pooler", ["none", "session"])
def test_a_hidden_pooler_is_named_where_the_operator_said_otherwise(postgres_url: str, pooler: Pooler) -> None:
    database = Database(DatabaseAccess(postgres_url, pooler), connections=2)
    forget(database)
    with pytest.raises(Unfit, match="MCC_DATABASE_POOLER=transaction"):
        database.read(by_driver)
    database.close()


@pytest.mark.parametrize("prepared", [True, False])
def test_statements_are_prepared_where_the_pooler_keeps_them(postgres_url: str, prepared: bool) -> None:
    database = Database(DatabaseAccess(postgres_url, "transaction", prepared), connections=2)
    known = sa.text("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'SELECT current_setting%'")
    for _ in range(8):
        database.read(by_driver)
    assert database.read(lambda connection: connection.execute(known).scalar_one()) == int(prepared)
    database.close()


def test_settings_of_the_address_go_with_each_transaction(pooled_postgres: str) -> None:
    database = Database(f"{pooled_postgres}?options=-c work_mem=7MB --maintenance-work-mem=9MB", connections=2)
    ask = sa.text("SELECT current_setting('work_mem'), current_setting('maintenance_work_mem')")
    for _ in range(3):
        assert tuple(database.read(lambda connection: connection.execute(ask).one())) == ("7MB", "9MB")
    database.close()


def test_options_that_are_no_settings_are_refused_by_name(pooled_postgres: str) -> None:
    database = Database(f"{pooled_postgres}?options=-e", connections=2)
    with pytest.raises(Unfit, match=r"'-e'.*MCC_DATABASE_URL"):
        database.read(by_driver)
    database.close()
