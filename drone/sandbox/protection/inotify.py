"""The kernel's messages about changes in directories (inotify), read without waiting for them."""

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

CLOSE_WRITE, MOVED_TO, CREATE = 0x8, 0x80, 0x100
OVERFLOW, IGNORED, IS_DIRECTORY = 0x4000, 0x8000, 0x40000000
_ONLY_DIRECTORIES = 0x01000000
_WANTED = CLOSE_WRITE | MOVED_TO | CREATE | _ONLY_DIRECTORIES
_HEAD = struct.Struct("iIII")
_PIECE = 1 << 16


class DirectoryEvent(NamedTuple):
    """What happened in the directory `number`: bits of `what`, and the name of the entry, which may be empty."""

    number: int
    what: int
    name: str


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


class Inotify:
    """Close it when done. The constructor and `add` raise OSError: ENOSPC when the user watches too much."""

    def __init__(self) -> None:
        self._fd = _checked(_libc().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def add(self, directory: int) -> int:
        """Watch an open directory, not what is below it; answers its number, the same each time."""
        path = f"/proc/self/fd/{directory}".encode()
        return _checked(_libc().inotify_add_watch(self._fd, path, _WANTED))

    def drop(self, number: int) -> None:
        """Watch this directory no longer."""
        _libc().inotify_rm_watch(self._fd, number)

    def messages(self) -> Iterator[DirectoryEvent]:
        """The messages that are there now."""
        while True:
            try:
                data = os.read(self._fd, _PIECE)
            except BlockingIOError:
                return
            at = 0
            while at < len(data):
                number, what, _, length = _HEAD.unpack_from(data, at)
                at += _HEAD.size
                yield DirectoryEvent(number, what, os.fsdecode(data[at : at + length].rstrip(b"\0")))
                at += length

    def close(self) -> None:
        os.close(self._fd)


def _checked(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno() or errno.EIO
        raise OSError(number, os.strerror(number))
    return answer
