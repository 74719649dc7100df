"""The database that a family finds: new, old, too new, or unreachable."""

import sqlite3
from pathlib import Path

import pytest

from mcc.local.data_dir import upgrade_database
from mcc.local.errors import UnusableDatabase
from mcc.store.database.migrate import downgrade, schema_problem


def test_a_new_database_gets_its_schema_and_a_line_says_so(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'mcc.db'}"
    assert upgrade_database(url)
    assert schema_problem(url) is None
    assert upgrade_database(url) is None


def test_an_old_schema_is_brought_up_to_date_and_a_line_says_so(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'mcc.db'}"
    upgrade_database(url)
    downgrade(url, "base")
    assert upgrade_database(url)
    assert schema_problem(url) is None


def test_a_schema_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "mcc.db"
    upgrade_database(f"sqlite:///{file}")
    with sqlite3.connect(file) as link:
        link.execute("update alembic_version set version_num = 'r999'")
    link.close()
    with pytest.raises(UnusableDatabase, match="r999"):
        upgrade_database(f"sqlite:///{file}")


def test_the_tables_of_another_program_are_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "mcc.db"
    with sqlite3.connect(file) as link:
        link.execute("create table orders (id integer)")
    link.close()
    with pytest.raises(UnusableDatabase, match=r"cannot be used: .*orders.*MCC_DATABASE_URL"):
        upgrade_database(f"sqlite:///{file}")


@pytest.mark.parametrize("url", ["mysql://host/x", "postgresql://u@127.0.0.1:1/x"])
def test_one_that_cannot_be_had_is_a_sentence(url: str) -> None:
    with pytest.raises(UnusableDatabase, match="cannot be prepared"):
        upgrade_database(url)
