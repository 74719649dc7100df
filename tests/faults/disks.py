"""Small disks: file systems of their own that can be filled, refuse writing, and be well again.

A disk in memory refuses writing while no file on it is open for writing; one in a file does so as real ones do: the
kernel takes it for damaged, and from then on refuses every write, to open files as well, until it has been mended.
"""

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.members import until

PAGE_BYTES = 4_096
BUSY_SECONDS = 10.0
"""So long files that are still open keep a disk from being mounted otherwise."""

MENDED = 1
"""What e2fsck ends with, at most, when all is well in the end."""


class NoDisk(Exception):
    """Such a disk cannot be had here; the sentence says why."""


class SmallDisk:
    """What is mounted at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self, *, leave_bytes: int = 0) -> None:
        """Take all room but so much."""
        with open(self._ballast, "ab", buffering=0) as ballast, contextlib.suppress(OSError):
            while (free := self._free() - leave_bytes) > 0:
                ballast.write(b"\0" * min(free, 65_536))

    def fill_up(self, *begun: Path) -> None:
        """As `fill`, until the very last page is refused; `begun` are files whose last pages are filled as well."""
        self.fill()
        _take_all(self._ballast)
        for file in begun:
            with open(file, "ab", buffering=0) as last:
                last.write(b"\n" * (-last.tell() % PAGE_BYTES))

    def empty(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def _free(self) -> int:
        seen = os.statvfs(self.path)
        return seen.f_bavail * seen.f_frsize


def _take_all(ballast: Path) -> None:
    with open(ballast, "ab", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * PAGE_BYTES)
        except OSError as full:
            assert full.errno == errno.ENOSPC


class MemoryDisk(SmallDisk):
    """A disk in memory."""

    def refuse_writes(self) -> None:
        """From now on it can only be read. Raises `NotInTime` while a file on it is open for writing."""
        until(lambda: self._mounted_as("ro"), BUSY_SECONDS, f"{self.path} is read-only")

    def allow_writes(self) -> None:
        until(lambda: self._mounted_as("rw"), BUSY_SECONDS, f"{self.path} can be written again")

    def _mounted_as(self, how: str) -> bool:
        words = ["mount", "-o", f"remount,{how}", str(self.path)]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0


class FailingDisk(SmallDisk):
    """A disk in a file, `image`, as large as that."""

    def __init__(self, path: Path, image: Path) -> None:
        super().__init__(path)
        self._image = image

    def fail(self) -> None:
        """The kernel meets an error, and refuses all writing from now on; what it had not written yet is lost."""
        Path(f"/sys/fs/ext4/{self._device()}/trigger_fs_error").write_text("a harness asked for it")

    def mend(self) -> None:
        """Repair it. Nobody may have a file on it open: raises `NotInTime`. Raises `NoDisk` when it is beyond that."""
        until(lambda: _done("umount", str(self.path)) == "", BUSY_SECONDS, f"nobody uses {self.path} any more")
        checked = subprocess.run(["e2fsck", "-fy", str(self._image)], capture_output=True, text=True, check=False)
        if checked.returncode > MENDED:
            raise NoDisk(f"{self._image} cannot be mended: {checked.stdout[-500:]}")
        self.mount()

    def mount(self) -> None:
        """Raises `NoDisk`."""
        _needed("mount", "-o", "loop,errors=remount-ro", str(self._image), str(self.path))

    def _device(self) -> str:
        lines = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
        return next(Path(line[0]).name for line in lines if line[1] == str(self.path.resolve()))


@contextmanager
def memory_disk(path: Path, megabytes: int = 8) -> Iterator[MemoryDisk]:
    """Raises `NoDisk` where this user may not mount one."""
    path.mkdir(parents=True, exist_ok=True)
    _needed("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path))
    try:
        yield MemoryDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@contextmanager
def failing_disk(path: Path, image: Path, megabytes: int) -> Iterator[FailingDisk]:
    """`image` is made, and gone afterwards. Raises `NoDisk` where this user may not mount one."""
    path.mkdir(parents=True, exist_ok=True)
    with open(image, "wb") as file:
        file.truncate(megabytes * 1024 * 1024)
    disk = FailingDisk(path, image)
    try:
        _needed("mkfs.ext4", "-q", "-F", "-m", "0", str(image))
        disk.mount()
        try:
            yield disk
        finally:
            subprocess.run(["umount", "--lazy", str(path)], check=False)
    finally:
        image.unlink()


@contextmanager
def small_disk(path: Path, megabytes: int = 8) -> Iterator[MemoryDisk]:
    """As `memory_disk`, for a test: skips where this user may not mount."""
    with contextlib.ExitStack() as stack:
        try:
            disk = stack.enter_context(memory_disk(path, megabytes))
        except NoDisk as why:
            pytest.skip(str(why))
        yield disk


def _needed(*words: str) -> None:
    if why := _done(*words):
        raise NoDisk(why)


def _done(*words: str) -> str:
    """What was wrong with this command; "" when nothing was."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return f"there is no program {words[0]}"
    return done.stderr.strip() or f"{words[0]} ended with {done.returncode}" if done.returncode else ""
