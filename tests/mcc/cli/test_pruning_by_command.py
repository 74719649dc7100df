"""The command `mcc prune`: what it removes, prints and refuses."""

import json
from pathlib import Path

import pytest
from typer.testing import Result

from mcc.cli.main import app
from mcc.contracts.callers import Actor
from mcc.contracts.order import NewOrder
from mcc.local.presence import Hold
from mcc.store.database.errors import JournalPruned
from mcc.store.store import open_store
from mcc.testing.hand_drone import HandDrone
from mcc.testing.store import migrated_copy
from tests.mcc.cli.in_process import CliRunner


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data directory with an order that has just ended."""
    migrated_copy(tmp_path / "mcc.db")
    store = open_store(f"sqlite:///{tmp_path}/mcc.db")
    held = HandDrone(store).claim(store.orders.place(NewOrder(prompt="p"), by=Actor("t")).order.id)
    held.start()
    held.finish()
    store.close()
    return tmp_path


def prune(data_dir: Path, *arguments: str, **more: str) -> Result:
    wanted = {"MCC_DATA_DIR": str(data_dir), "MCC_DATABASE_URL": "", "MCC_RETENTION_DAYS": "", **more}
    return CliRunner().invoke(app, ["prune", *arguments], env=wanted, catch_exceptions=False)


def is_readable(data_dir: Path) -> bool:
    store = open_store(f"sqlite:///{data_dir}/mcc.db")
    (order,) = store.orders.list().items
    try:
        return bool(store.journal.read(order.id))
    except JournalPruned:
        return False
    finally:
        store.close()


def test_a_dry_run_says_what_would_go(data_dir: Path) -> None:
    told = prune(data_dir, "--older-than", "0m", "--dry-run")
    assert told.exit_code == 0
    assert told.stdout.startswith("Would remove the journal of 1 order that ended before")
    assert is_readable(data_dir)


def test_what_is_older_goes_and_what_is_not_stays(data_dir: Path) -> None:
    assert json.loads(prune(data_dir, "--json").stdout)["orders"] == 0
    assert is_readable(data_dir)
    told = json.loads(prune(data_dir, "--older-than", "0d", "--json").stdout)
    assert (told["orders"], told["removed"]) == (1, True)
    assert not is_readable(data_dir)
    assert prune(data_dir, "--older-than", "0d").stdout.startswith("There is nothing to remove")


@pytest.mark.parametrize("age", ["", "30", "d", "-1d", "1e9d", "nand", "30 days"])
def test_what_is_no_age_is_refused(age: str, data_dir: Path) -> None:
    told = prune(data_dir, "--older-than", age)
    assert (told.exit_code, "is no age" in told.stderr) == (2, True)


def test_without_a_retention_an_age_must_be_said(data_dir: Path) -> None:
    told = prune(data_dir, MCC_RETENTION_DAYS="0")
    assert (told.exit_code, "--older-than" in told.stderr) == (2, True)
    assert prune(data_dir, "--older-than", "0d", MCC_RETENTION_DAYS="0").exit_code == 0


def test_a_file_is_made_smaller_only_while_nothing_runs(data_dir: Path) -> None:
    hold = Hold.take(data_dir)
    told = prune(data_dir, "--older-than", "0d", "--compact")
    assert (told.exit_code, "stop it first" in told.stderr) == (1, True)
    assert is_readable(data_dir)
    hold.release()
    told = prune(data_dir, "--older-than", "0d", "--compact", "--json")
    assert json.loads(told.stdout)["database"]["free"] == 0


def test_without_a_database_it_says_so(tmp_path: Path) -> None:
    told = prune(tmp_path)
    assert (told.exit_code, "There is no database" in told.stderr) == (1, True)
