"""A connection whose other end accepts everything and answers nothing is cut and replaced."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from mcc.store.database.connections import ConnectionWatchdog, unwatched
from mcc.store.database.engine import Database
from tests.faults.tcp import Proxy

SERVER = os.environ.get("TEST_POSTGRES_URL", "postgresql://postgres@127.0.0.1:5432/postgres")


@asynccontextmanager
async def behind_a_proxy(silence_seconds: float) -> AsyncIterator[tuple[Database, Proxy]]:
    address = make_url(SERVER)
    try:
        psycopg.connect(SERVER, connect_timeout=3).close()
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL answers at {address.host}:{address.port}: {str(error).splitlines()[0]}")
    proxy = Proxy((address.host or "127.0.0.1", address.port or 5432))
    await proxy.start()
    url = address.set(host="127.0.0.1", port=proxy.port).render_as_string(hide_password=False)
    database = Database(url, connections=2, silence_seconds=silence_seconds)
    try:
        yield database, proxy
    finally:
        await asyncio.to_thread(database.close)
        await proxy.stop()


def one(database: Database) -> int:
    return database.read(lambda link: int(link.scalar(sa.text("SELECT 1")) or 0))


async def test_a_half_open_connection_is_given_up_and_the_next_one_answers() -> None:
    async with behind_a_proxy(0.5) as (database, proxy):
        assert await asyncio.to_thread(one, database) == 1
        proxy.half_open()
        async with asyncio.timeout(30):
            assert await asyncio.to_thread(one, database) == 1
        assert proxy.accepted == 2


async def test_what_moves_and_what_is_unwatched_may_take_longer() -> None:
    # A repeated statement bypasses SQLAlchemy.
    again = sa.text("SELECT pg_sleep(0.3)")

    def slow(link: sa.Connection) -> None:
        for _ in range(4):
            link.execute(sa.text("SELECT pg_sleep(0.3)"))
        for _ in range(6):
            link.execute(again)
        unwatched(link)
        link.execute(sa.text("SELECT 1"))
        link.execute(sa.text("SELECT pg_sleep(2)"))

    async with behind_a_proxy(1.0) as (database, proxy):
        await asyncio.to_thread(database.write, slow)
        assert proxy.accepted == 1


def test_the_watchdog_survives_a_connection_that_was_closed_meanwhile() -> None:
    class Closed:
        """As psycopg's connections, it has no descriptor once it is closed."""

        def fileno(self) -> int:
            raise psycopg.OperationalError("the connection is closed")

    watchdog = ConnectionWatchdog(sa.create_engine("sqlite://"), seconds=0.0)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.settimeout(10.0)
        watchdog.checked_out(Closed())
        watchdog.checked_out(ours)
        assert theirs.recv(1) == b""
    watchdog.close()
