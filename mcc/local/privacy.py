"""The modes of a data directory: what is ours in it is its owner's alone, also where an older version left it open."""

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

FILES = (
    "token",
    "flower.auth",
    "family.json",
    "family.lock",
    "mcc.toml",
    "mcc.db",
    "mcc.db-wal",
    "mcc.db-shm",
    "mcc.db-journal",
)
DIRECTORIES = ("logs", "run", "redis")
"""What is ours in a data directory; whatever else lies there is somebody's own."""

OTHERS = stat.S_IRWXG | stat.S_IRWXO
DEEPEST = 6


def make_private(data_dir: Path) -> Sequence[str]:
    """Take away what others may do with `data_dir` and what is ours in it. Answers sentences about what was open, and
    about what stays as it is: symlinks are not followed, and what belongs to another user is not touched."""
    told: list[str] = []
    with _directory(None, data_dir) as descriptor:
        if _mend(descriptor, ".", data_dir, told):
            told.append(f"{data_dir} was open to others; now it is yours alone.")
        for name in (*FILES, *DIRECTORIES):
            _mend_below(descriptor, name, data_dir / name, told, DEEPEST if name in DIRECTORIES else 0)
    return told


def _mend_below(parent: int, name: str, path: Path, told: list[str], depth: int) -> None:
    _mend(parent, name, path, told)
    if not depth or not stat.S_ISDIR(_found(parent, name)):
        return
    try:
        with _directory(parent, path) as directory:
            for inside in os.listdir(directory):
                _mend_below(directory, inside, path / inside, told, depth - 1)
    except OSError as error:
        told.append(f"{path} could not be looked into: {error.strerror}.")


def _found(parent: int, name: str) -> int:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    except OSError:
        return 0


def _mend(parent: int, name: str, path: Path, told: list[str]) -> bool:
    """Whether this was open to others and is not any more."""
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            told.append(f"{path} is a symlink, so what it leads to is left as it is.")
        elif found.st_mode & OTHERS and found.st_uid != os.geteuid():
            told.append(f"{path} is open to others and belongs to another user (uid {found.st_uid}): left as it is.")
        elif found.st_mode & OTHERS:
            _close(parent, name, found)
            return True
    except FileNotFoundError:
        pass
    except OSError as error:
        told.append(f"{path} is open to others, and that cannot be changed: {error.strerror}.")
    return False


def _close(parent: int, name: str, found: os.stat_result) -> None:
    """Through a descriptor of the very file that was looked at: by its name a symlink could be followed.

    O_PATH, because closing any other descriptor of an SQLite file would give up this process's locks on it.
    """
    if sys.platform != "linux":
        os.chmod(name, stat.S_IMODE(found.st_mode) & ~OTHERS, dir_fd=parent, follow_symlinks=False)
        return
    descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        now = os.fstat(descriptor)
        if (now.st_dev, now.st_ino) == (found.st_dev, found.st_ino):
            os.chmod(f"/proc/self/fd/{descriptor}", stat.S_IMODE(now.st_mode) & ~OTHERS)
    finally:
        os.close(descriptor)


@contextmanager
def _directory(parent: int | None, path: Path) -> Iterator[int]:
    """A directory; below a parent never one that a symlink leads to."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    opened = os.open(path, flags) if parent is None else os.open(path.name, flags | os.O_NOFOLLOW, dir_fd=parent)
    try:
        yield opened
    finally:
        os.close(opened)
