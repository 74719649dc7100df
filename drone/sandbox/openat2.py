"""This room is for Linux's `openat2`: an open that the kernel itself keeps beneath a directory, without a race."""

import ctypes
import errno
import os
import platform
import sys
from collections.abc import Callable
from functools import cache

NUMBER = 437
"""The system call's number, the same on every architecture that has it (arch/*/entry/syscalls, Linux 5.6)."""

NO_MAGICLINKS = 0x02
NO_SYMLINKS = 0x04
BENEATH = 0x08

_MACHINES = frozenset({"x86_64", "aarch64"})
_TRIES = 128


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@cache
def _syscall() -> Callable[..., int]:
    return ctypes.CDLL(None, use_errno=True).syscall


def openat2(directory: int, path: bytes, flags: int, mode: int, *, symlinks: bool) -> int:
    """A new descriptor for `path` beneath the descriptor `directory`. Raises OSError: EXDEV when it would leave it.

    A rename elsewhere can make the kernel unsure whether `..` stayed beneath (EAGAIN); then it is asked again.
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


def works(directory: int) -> bool:
    """Whether the system call is there and allowed (old kernels and some seccomp filters lack it)."""
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        return False
    try:
        os.close(openat2(directory, b".", os.O_RDONLY | os.O_DIRECTORY, 0, symlinks=True))
    except OSError:
        return False
    return True
