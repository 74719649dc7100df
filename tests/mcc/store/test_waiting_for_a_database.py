"""Waiting for a locked database, and repeating rolled back transactions, within limits."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg import errors
from sqlalchemy import exc
from sqlalchemy.engine import Connection

from mcc.store.database.engine import UNDONE_PAUSES, Database
from mcc.store.database.errors import StoreUnavailable

PATIENCE_SECONDS = 0.05


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(f"sqlite:///{tmp_path}/x.db", patience_seconds=PATIENCE_SECONDS)
    made.write(lambda link: link.exec_driver_sql("CREATE TABLE told (word TEXT)"))
    yield made
    made.close()


def words(database: Database) -> list[str]:
    return list(database.read(lambda link: link.exec_driver_sql("SELECT word FROM told").scalars().all()))


def test_a_lock_of_another_process_is_waited_for_and_then_told(database: Database, tmp_path: Path) -> None:
    other = Database(f"sqlite:///{tmp_path}/x.db")

    def while_locked(_: Connection) -> None:
        with pytest.raises(StoreUnavailable, match="locked"):
            database.write(lambda link: link.exec_driver_sql("INSERT INTO told VALUES ('a')"))

    other.write(while_locked)
    database.write(lambda link: link.exec_driver_sql("INSERT INTO told VALUES ('b')"))
    other.close()
    assert words(database) == ["b"]


def test_whoever_waits_for_others_of_this_process_is_told_in_time_as_well(database: Database) -> None:
    inside, let_go = threading.Event(), threading.Event()

    def slow(_: Connection) -> None:
        inside.set()
        let_go.wait(30)

    holder = threading.Thread(target=database.write, args=(slow,))
    holder.start()
    inside.wait(30)
    with pytest.raises(StoreUnavailable, match="locked"):
        database.write(lambda link: link.exec_driver_sql("INSERT INTO told VALUES ('a')"))
    let_go.set()
    holder.join()
    database.write(lambda link: link.exec_driver_sql("INSERT INTO told VALUES ('b')"))
    assert words(database) == ["b"]


class Undoing:
    """Work that the database rolls back this number of times because of a concurrent transaction."""

    def __init__(self, times: int) -> None:
        self.tries = 0
        self._times = times

    def __call__(self, link: Connection) -> int:
        self.tries += 1
        link.exec_driver_sql(f"INSERT INTO told VALUES ('{self.tries}')")
        if self.tries <= self._times:
            raise exc.OperationalError("INSERT", {}, errors.SerializationFailure("could not serialize access"))
        return self.tries


def test_what_was_undone_because_of_another_is_done_again_and_stands_once(database: Database) -> None:
    assert database.write(Undoing(times=len(UNDONE_PAUSES))) == len(UNDONE_PAUSES) + 1
    assert words(database) == [str(len(UNDONE_PAUSES) + 1)]


def test_what_is_undone_for_ever_is_told_in_the_end(database: Database) -> None:
    work = Undoing(times=100)
    with pytest.raises(StoreUnavailable, match="undid"):
        database.write(work)
    assert work.tries == len(UNDONE_PAUSES) + 1
    assert words(database) == []
