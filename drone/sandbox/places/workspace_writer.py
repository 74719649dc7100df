"""Writing to a workspace by descriptors: each file changes atomically, and no link redirects a change."""

import ctypes
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from drone.sandbox.places.beneath import MAX_DEPTH
from drone.sandbox.places.paths import PathDenied, PathError, PathMissing, Workspace, kind_of, path_error, shown

TEMPORARY = ".mcc-new-"
"""Prefix of the names of files that are written and not renamed to their place yet."""

_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK)
"""Errors of a file system that cannot make a hard link."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class WorkspaceWriter:
    """Makes changes in one workspace. Every method blocks and raises `PathError`. `durable`: each change survives a
    power failure once its method has returned."""

    workspace: Workspace
    durable: bool = True

    def put(self, path: str, pieces: Iterable[bytes], mode: int) -> None:
        """Write a file with this content and these permissions, replacing any file or link of that name."""
        self.stage(path, pieces, mode).place()

    def stage(self, path: str, pieces: Iterable[bytes], mode: int) -> "Staged":
        """Write the file under a temporary name beside its place. Missing directories above it are made."""
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
        """Make a symbolic link, replacing any file or link of that name."""
        with self._parent(path, make=True) as (directory, name):
            temporary = f"{TEMPORARY}{secrets.token_hex(8)}"
            os.symlink(target, temporary, dir_fd=directory)
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)

    def make_directory(self, path: str, mode: int) -> None:
        """Make a directory with these permissions; an existing one gets them."""
        with self._parent(path, make=True) as (directory, name):
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=directory)
            fd = os.open(name, _DIRECTORY, dir_fd=directory)
            try:
                os.fchmod(fd, mode)
            finally:
                os.close(fd)

    def move(self, source: str, target: str) -> None:
        """Rename a file or link to a free name."""
        with self._parent(source) as (old, old_name), self._parent(target, make=True) as (new, new_name):
            # A link and not a rename: it fails instead of replacing a file that appears there at this moment.
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
        """Delete a file or link."""
        with self._parent(path) as (directory, name):
            os.unlink(name, dir_fd=directory)
            self._sync(directory)

    def remove_directory(self, path: str) -> None:
        """Delete an empty directory."""
        with self._parent(path) as (directory, name):
            os.rmdir(name, dir_fd=directory)

    def sweep(self, path: str) -> None:
        """Delete temporary files that a killed process left in a directory; a missing directory is no error."""
        with suppress(PathError):
            directory = self._opened(path)
            try:
                for name in filter(_is_temporary, os.listdir(directory)):
                    with suppress(OSError):
                        os.unlink(name, dir_fd=directory)
            finally:
                os.close(directory)

    def status(self, path: str) -> os.stat_result | None:
        """The status of this path, not following links; None where it does not exist."""
        try:
            with self._parent(path) as (directory, name):
                return os.stat(name, dir_fd=directory, follow_symlinks=False)
        except PathMissing:
            return None

    def settle(self) -> None:
        """Flush all changes to disk, so that they survive a power failure."""
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
        """Open a directory, making it and those above it where they are missing. `wanted`: the path for errors."""
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
    """A file that is written under a temporary name. Call either `place` or `drop`, once."""

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
    """`path` relative to the workspace, in normal form. Raises `PathError`, also for the root itself and for `..`,
    which leads elsewhere when a link is on the way."""
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
    """Raises `PathError` unless this is the status of a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise PathError(f"{shown(path)} is a directory.")
    if stat.S_ISLNK(status.st_mode):
        raise PathDenied(f"{shown(path)} is a symbolic link, and nothing is written through one: name its target.")
    if not stat.S_ISREG(status.st_mode):
        raise PathDenied(f"{shown(path)} is {kind_of(status.st_mode)}, and only regular files are changed.")


def delete_tree(directory: Path) -> None:
    """Delete a directory with all its content, also where programs took the permissions from it; a missing one is no
    error. Blocks. Raises OSError."""

    def open_up(function: Callable[..., object], path: str, _: object) -> None:
        if not os.path.lexists(path):
            return
        for place in (os.path.dirname(path), path):
            if stat.S_ISDIR(os.lstat(place).st_mode):
                os.chmod(place, 0o700)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)

    if directory.exists():
        shutil.rmtree(directory, onerror=open_up)


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
