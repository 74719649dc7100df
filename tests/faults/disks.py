"""This room is for small disks: file systems in memory that can be filled to the last byte, and emptied again."""

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


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

    def fill_up(self) -> None:
        """As `fill`, until the very last page is refused."""
        self.fill()
        with open(self._ballast, "ab", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(b"\0" * 4096)
            except OSError as full:
                assert full.errno == errno.ENOSPC

    def empty(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def _free(self) -> int:
        seen = os.statvfs(self.path)
        return seen.f_bavail * seen.f_frsize


@contextmanager
def small_disk(path: Path, megabytes: int = 8) -> Iterator[SmallDisk]:
    """Skips where this user may not mount."""
    path.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no program to mount with")
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
