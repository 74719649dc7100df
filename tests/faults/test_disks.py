"""Disks of the harness: full to the last byte, read-only for open files as well, and well again."""

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.campaigns.ground import kept
from tests.faults.disks import FailingDisk, MemoryDisk, NoDisk, failing_disk, memory_disk, small_disk

MEGABYTES = 8


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[MemoryDisk]:
    with small_disk(tmp_path / "disk") as found:
        yield found


@pytest.fixture
def failing(tmp_path: Path) -> Iterator[FailingDisk]:
    with ExitStack() as stack:
        try:
            found = stack.enter_context(failing_disk(tmp_path / "disk", tmp_path / "image", MEGABYTES))
        except NoDisk as why:
            pytest.skip(str(why))
        yield found


def why_not(path: Path) -> int | None:
    """The error number of writing a byte behind what is there."""
    try:
        with open(path, "ab", buffering=0) as file:
            file.write(b"x")
    except OSError as problem:
        return problem.errno
    return None


def test_a_full_disk_has_no_room_for_a_byte_not_even_in_a_page_that_was_begun(disk: MemoryDisk) -> None:
    begun = disk.path / "begun"
    begun.write_text("a line\n")
    disk.fill_up(begun)
    assert why_not(begun) == why_not(disk.path / "new") == errno.ENOSPC
    disk.empty()
    assert why_not(begun) is None and why_not(disk.path / "new") is None


def test_a_disk_in_memory_can_be_read_only_for_a_while(disk: MemoryDisk) -> None:
    disk.refuse_writes()
    assert why_not(disk.path / "new") == errno.EROFS
    disk.allow_writes()
    assert why_not(disk.path / "new") is None


def test_a_disk_that_fails_refuses_writes_to_open_files_and_keeps_what_was_synchronised(failing: FailingDisk) -> None:
    with open(failing.path / "file", "wb", buffering=0) as file:
        file.write(b"kept")
        os.fsync(file.fileno())
        failing.fail()
        with pytest.raises(OSError) as refused:
            file.write(b"lost")
    assert refused.value.errno == errno.EROFS
    failing.mend()
    assert (failing.path / "file").read_bytes() == b"kept"
    assert why_not(failing.path / "file") is None


def test_what_was_on_a_disk_is_there_when_the_disk_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "disk"
    with ExitStack() as stack:
        try:
            disk = stack.enter_context(kept(path, memory_disk(path)))
        except NoDisk as why:
            pytest.skip(str(why))
        (path / "file").write_text("kept")
        disk.fill_up()
    assert not os.path.ismount(path)
    assert [file.name for file in path.iterdir()] == ["file"]
    assert (path / "file").read_text() == "kept"
