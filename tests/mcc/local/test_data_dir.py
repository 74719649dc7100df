"""A data directory: private to its owner, with Flower's login in it."""

import stat
from pathlib import Path

import pytest

from mcc.local.data_dir import flower_login, prepare_directory
from mcc.local.errors import UnusableDirectory


def test_a_directory_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnusableDirectory, match="--data-dir"):
        prepare_directory(tmp_path / "file" / "data")


def test_a_new_data_directory_is_its_owners_alone(tmp_path: Path) -> None:
    prepare_directory(tmp_path / "data")
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


def test_the_login_of_flower_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    made = flower_login(tmp_path)
    user, _, password = made.partition(":")
    assert user == "mcc" and len(password) >= 32
    assert flower_login(tmp_path) == made
    assert stat.S_IMODE((tmp_path / "flower.auth").stat().st_mode) == 0o600


def test_an_empty_login_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "flower.auth").touch()
    assert flower_login(tmp_path).startswith("mcc:")
    assert list(tmp_path.iterdir()) == [tmp_path / "flower.auth"]
