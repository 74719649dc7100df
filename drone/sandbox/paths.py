"""This room is for the one path rule: whatever a tool opens lies beneath its workspace, decided by the open itself."""

import errno
import os
import stat
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from drone.sandbox.component_walk import open_by_components
from drone.sandbox.openat2 import openat2, works

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PATH_BYTES = 4_095
_SHOWN = 200


class PathError(Exception):
    """A path cannot be used; a sentence for the model that named it.

    PathError
    ├── PathDenied    it is not allowed: outside the workspace, through a link where none may be, not a regular file
    └── PathMissing   nothing is there
    """


class PathDenied(PathError):
    """The rule says no; nothing was opened."""


class PathMissing(PathError):
    """There is nothing of this name."""


_SENTENCES: Mapping[int, str] = {
    errno.ENOTDIR: "{path} cannot be opened: a part of it is a file, not a directory.",
    errno.EISDIR: "{path} is a directory.",
    errno.EACCES: "{path} cannot be opened: permission denied.",
    errno.EPERM: "{path} cannot be opened: permission denied.",
    errno.EROFS: "{path} cannot be written: the file system is read-only.",
    errno.EEXIST: "{path} exists already.",
    errno.ENAMETOOLONG: "{path} is longer than a path or name may be.",
    errno.EMFILE: "{path} cannot be opened now: too many files are open here. Try again.",
    errno.ENOSPC: "{path} cannot be written: the disk is full.",
}


class Workspace:
    """A directory held open: every path is resolved from it, never from a string that was checked before.

    `by_components` forces the walk that is used where the kernel has no `openat2`. Raises `PathError` for a root that
    is no directory. The descriptor closes with the object. Safe for use by many threads.
    """

    def __init__(self, root: str | Path, *, by_components: bool = False) -> None:
        self._given = Path(os.path.abspath(root))
        try:
            self._fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            raise PathError(f"The workspace {shown(str(root))} is not a directory that can be opened.") from error
        weakref.finalize(self, os.close, self._fd)
        self.root = self._given.resolve()
        self._open = open_by_components if by_components or not works(self._fd) else openat2

    @property
    def by_components(self) -> bool:
        """Whether paths are walked component by component, for want of `openat2`."""
        return self._open is open_by_components

    def relative(self, path: str) -> bytes:
        """`path` as bytes relative to the root; an absolute one must begin with the root's own components.

        Raises `PathDenied`. Whether it stays inside (`..`, links) is for the open to say.
        """
        if "\0" in path:
            raise PathDenied(f"{shown(path)} has a NUL in it, which no path can have.")
        try:
            encoded = os.fsencode(path)
        except UnicodeEncodeError:
            raise PathDenied(f"{shown(path)} cannot be the name of a file: it is not valid Unicode.") from None
        if len(encoded) > _PATH_BYTES:
            raise PathDenied(f"{shown(path)} is longer than a path may be ({_PATH_BYTES:,} bytes).")
        if not encoded.startswith(b"/"):
            return encoded or b"."
        for root in (self._given, self.root):
            inside = _beneath(encoded, os.fsencode(root))
            if inside is not None:
                return inside
        raise PathDenied(f"{shown(path)} is outside the workspace; name paths relative to the workspace.")

    def open_beneath(self, path: str, flags: int = os.O_RDONLY, mode: int = 0o666, *, symlinks: bool = True) -> int:
        """A descriptor for `path`, which is inside. Raises `PathError` with a sentence.

        Symbolic links that stay inside are followed for reading unless `symlinks` is False, for writing never.
        """
        relative = self.relative(path)
        allowed = symlinks and not flags & _WRITES
        safe = flags | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
        try:
            return self._open(self._fd, relative, safe, mode, symlinks=allowed)
        except OSError as error:
            raise _translated(error, path, allowed) from error

    def open_file(self, path: str, *, symlinks: bool = True) -> BinaryIO:
        """A regular file, open for reading. Raises `PathError`; pipes, devices and directories are denied unread."""
        fd = self.open_beneath(path, symlinks=symlinks)
        mode = os.fstat(fd).st_mode
        if stat.S_ISREG(mode):
            return open(fd, "rb")
        os.close(fd)
        if stat.S_ISDIR(mode):
            raise PathError(f"{shown(path)} is a directory; list_files shows what is in it.")
        raise PathDenied(f"{shown(path)} is {_kind(mode)}, and only regular files are read.")

    def open_directory(self, path: str, *, symlinks: bool = True) -> int:
        """A descriptor for a directory. Raises `PathError`."""
        try:
            return self.open_beneath(path, os.O_RDONLY | os.O_DIRECTORY, symlinks=symlinks)
        except PathError as error:
            cause = error.__cause__
            if isinstance(cause, OSError) and cause.errno == errno.ENOTDIR:
                raise PathError(f"{shown(path)} is not a directory.") from cause
            raise


def shown(path: str) -> str:
    """A path for people: as it is when it is plain, otherwise with escapes; the middle of a long one is left out."""
    cut = path if len(path) <= _SHOWN else f"{path[: _SHOWN // 2]}…{path[-_SHOWN // 2 :]}"
    return cut if cut.isprintable() and cut.strip() == cut and cut else ascii(cut)


def _beneath(path: bytes, root: bytes) -> bytes | None:
    parts, base = _parts(path), _parts(root)
    return b"/".join(parts[len(base) :]) or b"." if parts[: len(base)] == base else None


def _parts(path: bytes) -> list[bytes]:
    return [part for part in path.split(b"/") if part not in (b"", b".")]


def _translated(error: OSError, path: str, symlinks: bool) -> PathError:
    name = shown(path)
    if error.errno == errno.EXDEV:
        return PathDenied(f"{name} is outside the workspace, or a link on the way leads outside; it is not opened.")
    if error.errno in (errno.ELOOP, errno.EAGAIN, errno.EMLINK):
        why = (
            "its links have no end, or are not of the ordinary kind"
            if symlinks
            else "a symbolic link is on the way, and none may be"
        )
        return PathDenied(f"{name} is not opened: {why}.")
    if error.errno == errno.ENOENT:
        return PathMissing(f"{name} does not exist.")
    if error.errno in (errno.ENXIO, errno.ENODEV):
        return PathDenied(f"{name} is a pipe, socket or device, and only regular files are opened.")
    sentence = _SENTENCES.get(error.errno or 0)
    if sentence is not None:
        return PathError(sentence.format(path=name))
    return PathError(f"{name} cannot be opened: {error.strerror}.")


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a named pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device"
