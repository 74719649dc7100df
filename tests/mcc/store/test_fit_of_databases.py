"""An SQLite file that MCC cannot use is refused with what to do; one that it uses takes no more of the disk than it
must."""

import os
from pathlib import Path

import pytest
from sqlalchemy.engine import Connection

from mcc.store.database.connections import LOG_BYTES
from mcc.store.database.engine import Database
from mcc.store.database.fit import standbys_of, unfit, way_to
from mcc.testing.store import migrated_copy


def test_a_file_of_ones_own_is_fit_and_has_neither_pooler_nor_standby(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{migrated_copy(tmp_path / 'mcc.db')}")
    assert (unfit(database), way_to(database), standbys_of(database)) == (None, None, None)
    database.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("closed", ["mcc.db", "."])
def test_a_file_that_cannot_be_written_is_told(tmp_path: Path, closed: str) -> None:
    file = migrated_copy(tmp_path / "mcc.db")
    database = Database(f"sqlite:///{file}")
    (tmp_path / closed).chmod(0o500)
    try:
        assert "cannot be written: make it writable" in (unfit(database) or "")
    finally:
        (tmp_path / closed).chmod(0o700)
        database.close()


def test_a_log_that_a_long_reader_let_grow_is_cut_again(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{migrated_copy(tmp_path / 'mcc.db')}", connections=2)
    log = tmp_path / "mcc.db-wal"

    def run(text: str) -> None:
        database.write(lambda connection: connection.exec_driver_sql(text))

    def during(reader: Connection) -> None:
        reader.exec_driver_sql("SELECT count(*) FROM orders").scalar()
        run(f"INSERT INTO long VALUES (zeroblob({LOG_BYTES + 2_000_000}))")
        assert log.stat().st_size > LOG_BYTES

    run("CREATE TABLE long (x)")
    database.snapshot(during)
    database.read(lambda connection: connection.exec_driver_sql("PRAGMA wal_checkpoint(RESTART)").all())
    run("INSERT INTO long VALUES (1)")
    assert log.stat().st_size <= LOG_BYTES
    database.close()
