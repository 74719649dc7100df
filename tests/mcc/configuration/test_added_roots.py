"""Directories that are added to a running family: kept for its owner's processes alone, and forgotten with it."""

from pathlib import Path

import pytest

from mcc.configuration.added_roots import PLACE, AddedRoots
from mcc.configuration.places import NotPrivate


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir(mode=0o700)
    return tmp_path


def test_what_one_process_adds_another_one_reads_until_it_is_cleared(data_dir: Path) -> None:
    reader, writer = AddedRoots(data_dir), AddedRoots(data_dir)
    assert reader() == ()
    writer.add(Path("/srv/a b"))
    assert reader() == (Path("/srv/a b"),)
    writer.add(Path("/srv/\udcff\n"))
    assert reader() == (Path("/srv/a b"), Path("/srv/\udcff\n"))
    writer.clear()
    assert reader() == ()


@pytest.mark.parametrize("whose", ["file", "directory"])
def test_what_others_could_have_written_counts_for_nothing(data_dir: Path, whose: str) -> None:
    roots = AddedRoots(data_dir)
    roots.add(Path("/srv"))
    (data_dir / PLACE if whose == "file" else data_dir / "run").chmod(0o777)
    assert AddedRoots(data_dir)() == ()


def test_nothing_is_added_where_others_could_write(data_dir: Path) -> None:
    (data_dir / "run").chmod(0o777)
    with pytest.raises(NotPrivate):
        AddedRoots(data_dir).add(Path("/srv"))


def test_a_line_that_is_no_absolute_path_is_passed_over(data_dir: Path) -> None:
    (data_dir / PLACE).write_text('nonsense\n"relative"\n7\n"/srv/../opt"\n')
    (data_dir / PLACE).chmod(0o600)
    assert AddedRoots(data_dir)() == (Path("/opt"),)
