"""Changing a workspace by descriptors: each file is whole or as it was, and no link leads a change anywhere else."""

import ctypes
import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from drone.sandbox.beneath import MAX_DEPTH
from drone.sandbox.paths import PathDenied, PathError, PathMissing, Workspace, kind_of, path_error, shown

TEMPORARY = ".mcc-new-"
"""Begins the names of files that are not in their place yet."""

_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK)
"""What a file system says that has no further names of files."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Placing:
    """Changes in one workspace. Every method blocks and raises `PathError`. `durable`: what is done survives a power
    failure as soon as it is done."""

    workspace: Workspace
    durable: bool = True

    def put(self, path: str, pieces: Iterable[bytes], mode: int) -> None:
        """A file with this content and these permissions, in place of what had its name, which is no directory."""
        self.stage(path, pieces, mode).place()

    def stage(self, path: str, pieces: Iterable[bytes], mode: int) -> "Staged":
        """The file beside its place, not in it yet. Directories above it are made."""
        above, name = _split(path)
        directory = self._directory(above, path)
        temporary = f"{TEMPORARY}{secrets.token_hex(8)}"
        try:
            fd = os.open(temporary, _NEW, 0o600, dir_fd=directory)
            try:
                for piece in pieces:
                    _write(fd, piece)
                os.fchmod(fd, mode)
                if self.durable:
                    os.fsync(fd)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=directory)
                raise
            finally:
                os.close(fd)
        except OSError as error:
            os.close(directory)
            raise path_error(error, path) from error
        except BaseException:
            os.close(directory)
            raise
        return Staged(path, name, temporary, directory, self.durable)

    def link(self, path: str, target: bytes) -> None:
        """A symbolic link, in place of what had its name, which is no directory."""
        with self._parent(path, make=True) as (directory, name):
            temporary = f"{TEMPORARY}{secrets.token_hex(8)}"
            os.symlink(target, temporary, dir_fd=directory)
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)

    def make_directory(self, path: str, mode: int) -> None:
        """A directory with these permissions; one that is there gets them."""
        with self._parent(path, make=True) as (directory, name):
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=directory)
            fd = os.open(name, _DIRECTORY, dir_fd=directory)
            try:
                os.fchmod(fd, mode)
            finally:
                os.close(fd)

    def move(self, source: str, target: str) -> None:
        """Give a file or link another name, which nothing has."""
        with self._parent(source) as (old, old_name), self._parent(target, make=True) as (new, new_name):
            # A link and not a rename: what somebody puts there at this moment is not replaced.
            try:
                os.link(old_name, new_name, src_dir_fd=old, dst_dir_fd=new, follow_symlinks=False)
                os.unlink(old_name, dir_fd=old)
            except OSError as error:
                if error.errno not in _NO_LINKS or self.status(target) is not None:
                    raise
                os.rename(old_name, new_name, src_dir_fd=old, dst_dir_fd=new)
            self._sync(old)
            self._sync(new)

    def remove(self, path: str) -> None:
        """A file or link is there no more."""
        with self._parent(path) as (directory, name):
            os.unlink(name, dir_fd=directory)
            self._sync(directory)

    def remove_directory(self, path: str) -> None:
        """An empty directory is there no more."""
        with self._parent(path) as (directory, name):
            os.rmdir(name, dir_fd=directory)

    def sweep(self, path: str) -> None:
        """Take away what a process that died left in a directory on its way into place; nothing for one that is not
        there."""
        with suppress(PathError):
            directory = self._opened(path)
            try:
                left = [name for name in os.listdir(directory) if _is_temporary(name)]
                for name in left:
                    with suppress(OSError):
                        os.unlink(name, dir_fd=directory)
            finally:
                os.close(directory)

    def status(self, path: str) -> os.stat_result | None:
        """Of what has this name, links not followed; None where nothing is."""
        try:
            with self._parent(path) as (directory, name):
                return os.stat(name, dir_fd=directory, follow_symlinks=False)
        except PathMissing:
            return None

    def settle(self) -> None:
        """All that was done survives a power failure."""
        if ctypes.CDLL(None, use_errno=True).syncfs(self.workspace.fd) != 0:
            os.sync()

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        above, name = _split(path)
        directory = self._directory(above, path) if make else self._opened(above)
        try:
            yield directory, name
        except OSError as error:
            raise path_error(error, path) from error
        finally:
            os.close(directory)

    def _opened(self, path: str) -> int:
        return self.workspace.open_directory(path or ".", symlinks=False)

    def _directory(self, path: str, wanted: str) -> int:
        """The directory, made where it is missing, with those above it."""
        try:
            return self._opened(path)
        except PathMissing:
            above, name = _split(path)
        with suppress(FileExistsError):
            directory = self._directory(above, wanted)
            try:
                os.mkdir(name, 0o777, dir_fd=directory)
            except FileExistsError:
                raise
            except OSError as error:
                raise path_error(error, wanted) from error
            finally:
                os.close(directory)
        return self._opened(path)

    def _sync(self, directory: int) -> None:
        if self.durable:
            os.fsync(directory)


@dataclass(frozen=True, slots=True)
class Staged:
    """A file that is written and not in its place. One of the two is to be called, once."""

    path: str
    name: str
    temporary: str
    directory: int
    durable: bool

    def place(self) -> None:
        try:
            os.rename(self.temporary, self.name, src_dir_fd=self.directory, dst_dir_fd=self.directory)
            if self.durable:
                os.fsync(self.directory)
        except OSError as error:
            with suppress(OSError):
                os.unlink(self.temporary, dir_fd=self.directory)
            raise path_error(error, self.path) from error
        finally:
            os.close(self.directory)

    def drop(self) -> None:
        with suppress(OSError):
            os.unlink(self.temporary, dir_fd=self.directory)
        os.close(self.directory)


def own_path(workspace: Workspace, path: str) -> str:
    """`path` relative to the workspace, as the names on the way to it are. Raises `PathError`, also for the root and
    for `..`, which leads elsewhere where a link is on the way."""
    relative = os.fsdecode(workspace.relative(path))
    parts = [part for part in relative.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise PathDenied(f"{shown(path)} has .. in it: name what is to be changed by its path from the workspace.")
    if not parts:
        raise PathError(f"{shown(path)} is the workspace itself, and no file.")
    if len(parts) > MAX_DEPTH:
        raise PathError(f"{shown(path)} lies deeper than {MAX_DEPTH} directories.")
    return "/".join(parts)


def regular(status: os.stat_result, path: str) -> None:
    """Raises `PathError` for what is no regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise PathError(f"{shown(path)} is a directory.")
    if stat.S_ISLNK(status.st_mode):
        raise PathDenied(f"{shown(path)} is a symbolic link, and nothing is written through one: name its target.")
    if not stat.S_ISREG(status.st_mode):
        raise PathDenied(f"{shown(path)} is {kind_of(status.st_mode)}, and only regular files are changed.")


def _is_temporary(name: str) -> bool:
    number = name.removeprefix(TEMPORARY)
    return number != name and len(number) == 16 and not number.strip("0123456789abcdef")


def _split(path: str) -> tuple[str, str]:
    above, _, name = path.rpartition("/")
    return above, name


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
