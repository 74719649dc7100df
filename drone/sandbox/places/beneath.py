"""Opening paths that must stay beneath a directory: by Linux's openat2 or, without it, one component at a time."""

import ctypes
import errno
import os
import platform
import sys
from collections import deque
from collections.abc import Callable
from functools import cache

NUMBER = 437
"""The system call's number, the same on every architecture that has it (arch/*/entry/syscalls, Linux 5.6)."""

NO_MAGICLINKS = 0x02
NO_SYMLINKS = 0x04
BENEATH = 0x08

_MACHINES = frozenset({"x86_64", "aarch64"})
_TRIES = 128

MAX_DEPTH = 200
"""Directories below the root that a walk descends; it holds one descriptor for each until it ends."""

_LINKS = 40
_STEP = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_SYMLINK_ERRORS = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK, errno.EEXIST})
"""Errors of an open with O_NOFOLLOW that may be due to a symbolic link: ELOOP, or ENOTDIR with O_DIRECTORY, on Linux,
EMLINK on BSD, EEXIST with O_EXCL."""

Look = Callable[[int], None]
"""Called with the descriptor of every directory on the way; an exception that it raises ends the walk."""


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@cache
def _syscall() -> Callable[..., int]:
    return ctypes.CDLL(None, use_errno=True).syscall


def openat2(directory: int, path: bytes, flags: int, mode: int, *, symlinks: bool) -> int:
    """A new descriptor for `path` beneath the descriptor `directory`. Raises OSError: EXDEV when `path` leads outside.

    A rename elsewhere can leave the kernel unsure whether `..` stayed beneath (EAGAIN); the call is then repeated.
    """
    resolve = BENEATH | NO_MAGICLINKS | (0 if symlinks else NO_SYMLINKS)
    how = _How(flags | os.O_CLOEXEC, mode if flags & os.O_CREAT else 0, resolve)
    syscall = _syscall()
    for _ in range(_TRIES):
        fd = int(syscall(NUMBER, directory, ctypes.c_char_p(path), ctypes.byref(how), ctypes.sizeof(how)))
        if fd >= 0:
            return fd
        if (code := ctypes.get_errno()) not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(code, os.strerror(code))


def works() -> bool:
    """Whether the openat2 system call exists and is allowed (old kernels and some seccomp filters lack it)."""
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        return False
    try:
        _tried()
    except OSError:
        return False
    return True


@cache
def _tried() -> None:
    """Try openat2; only a success is cached, so a failure is tried again. Raises OSError."""
    top = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(openat2(top, b".", os.O_RDONLY | os.O_DIRECTORY, 0, symlinks=True))
    finally:
        os.close(top)


def opened_beneath(directory: int, path: str, flags: int) -> int:
    """A new descriptor for `path` beneath `directory`, following no link; works on any kernel. Raises OSError."""
    opening = openat2 if works() else open_by_components
    return opening(directory, os.fsencode(path), flags, 0, symlinks=False)


def _unseen(fd: int) -> None:
    pass


def open_by_components(
    directory: int, path: bytes, flags: int, mode: int, *, symlinks: bool, look: Look = _unseen
) -> int:
    """Like `openat2`: a new descriptor for `path` beneath `directory`. Raises OSError: EXDEV when `path` leads outside,
    ENAMETOOLONG beyond `MAX_DEPTH` directories.

    Each component is opened without following links; a symbolic link is read, and its target walked like any path.
    """
    return _Walk(directory, symlinks, look).open(path, flags, mode)


def resolved(directory: int, path: bytes, look: Look = _unseen) -> bytes:
    """The directory `path` beneath `directory`, without links and `..`; empty for `directory` itself.

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
    """The open descriptors from the root down to the current directory, and their `names`; `..` goes back along them.

    The kernel's own `..` is never used: a directory that was moved away would lead it outside the root.
    """

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
        """Put a symbolic link's target before the pending components; False when the failed name is no link."""
        if failure not in _SYMLINK_ERRORS:
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
