"""The commands `mcc backup` and `mcc restore`: files private to their owner, and refusals."""

import json
import stat
from pathlib import Path

import pytest
from typer.testing import Result

from mcc.cli.main import app
from mcc.contracts.callers import Actor
from mcc.contracts.order import NewOrder
from mcc.local.presence import Hold
from mcc.store.store import open_store
from mcc.testing.store import migrated_copy
from tests.mcc.cli.in_process import CliRunner


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data directory with an order, and a token."""
    directory = tmp_path / "data"
    directory.mkdir()
    migrated_copy(directory / "mcc.db")
    (directory / "token").write_text("t" * 40)
    store = open_store(f"sqlite:///{directory}/mcc.db")
    store.orders.place(NewOrder(prompt="p"), by=Actor("t"))
    store.close()
    return directory


def mcc(data_dir: Path, *arguments: object) -> Result:
    environment = {"MCC_DATA_DIR": str(data_dir), "MCC_DATABASE_URL": ""}
    return CliRunner().invoke(app, [str(one) for one in arguments], env=environment, catch_exceptions=False)


def prompts(data_dir: Path) -> list[str]:
    store = open_store(f"sqlite:///{data_dir}/mcc.db")
    found = [order.prompt for order in store.orders.list().items]
    store.close()
    return found


def test_a_backup_is_restored_elsewhere_without_the_token(data_dir: Path, tmp_path: Path) -> None:
    file, there = tmp_path / "b", tmp_path / "there"
    told = json.loads(mcc(data_dir, "backup", file, "--json").stdout)
    assert (told["rows"]["orders"], told["bytes"]) == (1, file.stat().st_size)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert mcc(there, "restore", file).exit_code == 0
    assert prompts(there) == ["p"]
    assert sorted(one.name for one in there.iterdir()) == ["family.lock", "mcc.db"]


def test_a_file_that_is_there_is_replaced_only_when_that_is_said(data_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "b"
    file.write_text("precious")
    told = mcc(data_dir, "backup", file)
    assert (told.exit_code, "--force" in told.stderr, file.read_text()) == (1, True, "precious")
    assert mcc(data_dir, "backup", file, "--force").exit_code == 0
    assert sorted(one.name for one in tmp_path.iterdir()) == ["b", "data"]


def test_what_cannot_be_written_or_read_is_a_sentence(data_dir: Path, tmp_path: Path) -> None:
    told = mcc(data_dir, "backup", tmp_path / "no" / "b")
    assert (told.exit_code, "cannot be written" in told.stderr) == (1, True)
    told = mcc(data_dir, "restore", tmp_path / "no")
    assert (told.exit_code, "cannot be read" in told.stderr) == (1, True)
    told = mcc(data_dir, "restore", data_dir / "token", "--force")
    assert (told.exit_code, "Nothing was changed" in told.stderr) == (1, True)
    assert prompts(data_dir) == ["p"]


def test_nothing_is_restored_over_orders_or_under_a_family(data_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "b"
    mcc(data_dir, "backup", file)
    told = mcc(data_dir, "restore", file)
    assert (told.exit_code, "--force" in told.stderr) == (1, True)
    hold = Hold.take(data_dir)
    assert mcc(data_dir, "restore", file, "--force").exit_code == 1
    hold.release()
    assert mcc(data_dir, "restore", file, "--force").exit_code == 0
    assert prompts(data_dir) == ["p"]
