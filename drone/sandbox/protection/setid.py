"""Takes setuid, setgid and capabilities from the files that changed while a program could write to a directory.

The sandbox refuses to set them (`drone.sandbox.seccomp`); this finds what arrived there all the same.
"""

import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress

from drone.sandbox.protection.survey import Directory, directories

BITS = stat.S_ISUID | stat.S_ISGID
CAPABILITY = "security.capability"

_COARSE_CLOCK = getattr(time, "CLOCK_REALTIME_COARSE", 5)
"""The clock by which the kernel dates changes of files at the earliest: none that follows is dated before it."""

_HELD = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_NOFOLLOW | os.O_CLOEXEC


def now_ns() -> int:
    """The time with which a file that changes now is dated, in nanoseconds."""
    return time.clock_gettime_ns(_COARSE_CLOCK)


def strip_setid(root: int, since_ns: int) -> list[str]:
    """Take them from every file in this directory that changed since; answers the relative paths.

    A file that had them before and was not touched keeps them. Directories are left alone: there setuid means nothing,
    and setgid only hands the group down, as the kernel does by itself in a directory that has it. Blocks for some 40 ms
    per 10,000 names. Raises OSError where the directory cannot be looked through, or a file keeps them.
    """
    stripped = []
    for directory in directories(root, []):
        for name in _raised(directory, since_ns):
            with suppress(FileNotFoundError):
                _lower(directory.fd, name)
                stripped.append(directory.path(name))
    return stripped


def _raised(directory: Directory, since_ns: int) -> Iterator[str]:
    with os.scandir(directory.fd) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                if status.st_ctime_ns < since_ns or stat.S_ISDIR(status.st_mode) or stat.S_ISLNK(status.st_mode):
                    continue
                if status.st_mode & BITS or _has_capabilities(f"/proc/self/fd/{directory.fd}/{entry.name}"):
                    yield entry.name


def _has_capabilities(path: str) -> bool:
    with suppress(OSError):
        os.getxattr(path, CAPABILITY)
        return True
    return False


def _lower(directory: int, name: str) -> None:
    fd = os.open(name, _HELD, dir_fd=directory)
    try:
        path, mode = f"/proc/self/fd/{fd}", os.fstat(fd).st_mode
        if stat.S_ISLNK(mode) or stat.S_ISDIR(mode):
            return
        if mode & BITS:
            os.chmod(path, stat.S_IMODE(mode) & ~BITS)
        if _has_capabilities(path):
            os.removexattr(path, CAPABILITY)
    finally:
        os.close(fd)
