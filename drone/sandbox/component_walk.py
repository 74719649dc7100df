"""This room is for opening a path one component at a time, so that no name is ever resolved outside a directory."""

import errno
import os
from collections import deque
from collections.abc import Callable

MAX_DEPTH = 200
"""Directories below the root that a walk goes down; each keeps a descriptor open until it ends."""

_LINKS = 40
_STEP = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_SYMLINK_SAYS = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK, errno.EEXIST})

Look = Callable[[int], None]
"""Is shown the descriptor of every directory on the way; what it raises ends the walk."""


def _unseen(fd: int) -> None:
    pass


def open_by_components(
    directory: int, path: bytes, flags: int, mode: int, *, symlinks: bool, look: Look = _unseen
) -> int:
    """Like `openat2`: a new descriptor for `path` beneath `directory`. Raises OSError: EXDEV when it would leave it.

    Each component is opened without following it; a symbolic link is read, and its target walked like any other path.
    More than `MAX_DEPTH` directories are ENAMETOOLONG.
    """
    return _Walk(directory, symlinks, look).open(path, flags, mode)


def resolved(directory: int, path: bytes, look: Look = _unseen) -> bytes:
    """The same directory beneath `directory` by its own names, without links and `..`; empty for itself.

    Raises OSError as `open_by_components` does.
    """
    walk = _Walk(directory, True, look)
    fd = walk.open(path + b"/.", _STEP, 0)
    try:
        look(fd)
    finally:
        os.close(fd)
    return b"/".join(walk.names)


class _Walk:
    """The descriptors from the root down to where the walk stands, and their `names`; `..` goes back along them."""

    def __init__(self, root: int, symlinks: bool, look: Look) -> None:
        self.names: list[bytes] = []
        self._below: list[int] = []
        self._root = root
        self._look = look
        self._symlinks = symlinks
        self._links_left = _LINKS
        self._pending: deque[bytes] = deque()

    @property
    def _here(self) -> int:
        return self._below[-1] if self._below else self._root

    def open(self, path: bytes, flags: int, mode: int) -> int:
        self._push(path)
        flags |= os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_DIRECTORY if path.endswith((b"/", b"/.")) else 0)
        try:
            while self._pending:
                name = self._pending.popleft()
                if name == b"..":
                    self._up()
                elif self._pending:
                    self._down(name)
                elif (fd := self._last(name, flags, mode)) is not None:
                    return fd
            return os.open(b".", flags & ~os.O_CREAT & ~os.O_EXCL, dir_fd=self._here)
        finally:
            for fd in self._below:
                os.close(fd)

    def _push(self, path: bytes) -> None:
        if path.startswith(b"/"):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        self._pending.extendleft(reversed([part for part in path.split(b"/") if part not in (b"", b".")]))

    def _up(self) -> None:
        if not self._below:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        os.close(self._below.pop())
        self.names.pop()

    def _down(self, name: bytes) -> None:
        if len(self._below) == MAX_DEPTH:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        try:
            self._below.append(os.open(name, _STEP, dir_fd=self._here))
        except OSError as error:
            if not self._follow(name, error.errno):
                raise
        else:
            self.names.append(name)
            self._look(self._here)

    def _last(self, name: bytes, flags: int, mode: int) -> int | None:
        try:
            fd = os.open(name, flags, mode, dir_fd=self._here)
        except OSError as error:
            if not self._follow(name, error.errno):
                raise
            return None
        self.names.append(name)
        return fd

    def _follow(self, name: bytes, failure: int | None) -> bool:
        """Put a symbolic link's target before what is pending; False when it is no link that failed to open."""
        if failure not in _SYMLINK_SAYS:
            return False
        try:
            target = os.readlink(name, dir_fd=self._here)
        except OSError:
            return False
        self._links_left -= 1
        if not self._symlinks or self._links_left < 0:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        self._push(target)
        return True
