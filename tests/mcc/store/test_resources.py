"""Free disk space is measured where files are written, and a shortage is reported in a sentence."""

from pathlib import Path

import pytest

from mcc.resources import Reserve, database_directory, free_bytes
from mcc.store.database.errors import StoreFull
from mcc.store.database.migrate import upgrade
from mcc.store.store import open_store
from tests.faults.disks import small_disk


def test_the_space_under_a_directory_that_is_not_there_yet_is_that_of_its_parent(tmp_path: Path) -> None:
    free = free_bytes(tmp_path / "not" / "there")
    assert free is not None and free > 0


@pytest.mark.parametrize(
    ("url", "directory"),
    [
        ("sqlite:////data/mcc.db", Path("/data")),
        ("sqlite:////data/mcc.db?timeout=3", Path("/data")),
        ("sqlite://", None),
        ("sqlite:///:memory:", None),
        ("postgresql://me@db/mcc", None),
    ],
)
def test_only_a_file_lies_in_a_directory(url: str, directory: Path | None) -> None:
    assert database_directory(url) == directory


def test_a_reserve_covers_database_and_data_dir_and_whatever_is_asked_beside(tmp_path: Path) -> None:
    reserve = Reserve.beside(f"sqlite:///{tmp_path}/mcc.db", tmp_path, 64)
    assert reserve == Reserve((tmp_path,), 64_000_000)
    assert Reserve.beside("postgresql://me@db/mcc", tmp_path, 64).places == (tmp_path,)
    free = free_bytes(tmp_path) or 0
    assert Reserve((tmp_path,), free // 2).shortage() is None
    told = Reserve((), free * 2).shortage([tmp_path])
    assert told is not None and str(tmp_path) in told and "disk_reserve_mb" in told
    assert Reserve((tmp_path,), free // 2).shortage(times=10) is not None


def test_no_reserve_is_never_short(tmp_path: Path) -> None:
    assert Reserve((tmp_path,), 0).shortage() is None


@pytest.mark.parametrize("warm", [False, True], ids=["freshly opened", "in use"])
def test_a_full_disk_has_an_error_of_its_own_and_harms_nothing(tmp_path: Path, warm: bool) -> None:
    with small_disk(tmp_path / "disk") as disk:
        url = f"sqlite:///{disk.path}/mcc.db"
        upgrade(url)
        store = open_store(url)
        if warm:
            store.texts.keep("before")
        disk.fill_up()
        for _ in range(3):
            with pytest.raises(StoreFull, match="disk"):
                store.texts.keep("x" * 200_000)
        disk.empty()
        digest = store.texts.keep("x" * 200_000)
        assert store.texts.kept(digest) == "x" * 200_000
        assert store.database.read(lambda link: link.exec_driver_sql("PRAGMA integrity_check").scalar()) == "ok"
        store.close()
