"""The one path rule: what a tool opens lies beneath its workspace, and that beneath a root; the open itself decides."""

import errno
import os
import stat
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from threading import Thread
from typing import BinaryIO

from drone.sandbox.below import real_path
from drone.sandbox.beneath import open_by_components, openat2, opened_beneath, resolved, works
from drone.sandbox.private import IsPrivate, Private

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PATH_BYTES = 4_095
_SHOWN = 200
_PRIVATE = "{path} belongs to MCC itself (its data, configuration or secrets), and no tool sees that."


class PathError(Exception):
    """A path cannot be used; a sentence for the model that named it.

    PathError
    ├── PathDenied      it is not allowed: outside the workspace, through a link where none may be, not a regular file
    ├── PathMissing     nothing is there
    └── WorkspaceGone   the directory of the workspace itself was deleted
    """


class PathDenied(PathError):
    """The rule says no; nothing was opened."""


class PathMissing(PathError):
    """There is nothing of this name."""


class WorkspaceGone(PathError):
    """The workspace's directory was deleted while it was open: nothing is in it, and nothing can be made there."""

    def __init__(self) -> None:
        super().__init__(
            "The directory of this workspace was deleted while the order was at work: nothing in it can be read, "
            "changed or run any more, also if another one is put in its place. Trying again does not help: report it, "
            "so that a person can bring the directory back and place the order anew."
        )


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


_NOTHING = Private()


class Workspace:
    """A directory held open: every path is resolved from it, never from a string that was checked before.

    `fd` is a descriptor of `root` that is open already, and this object's from now on; without it `root` is opened by
    its name. `also`: how else the root is spelled, by people who go there through a link. `private`: what may be in
    there and no tool sees. `by_components` forces the walk that is used where the kernel has no `openat2`, and where
    something private may be below. Raises `PathError` for a root that is no directory. The descriptor closes with the
    object. Safe for use by many threads.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        fd: int | None = None,
        also: str | Path | None = None,
        private: Private = _NOTHING,
        by_components: bool = False,
    ) -> None:
        try:
            self.fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) if fd is None else fd
        except (OSError, ValueError) as error:
            raise PathError(f"The workspace {shown(str(root))} is not a directory that can be opened.") from error
        weakref.finalize(self, os.close, self.fd)
        self.root = Path(root) if fd is not None else Path(os.path.realpath(root))
        self.spellings = (os.path.abspath(root if also is None else also), str(self.root))
        self.private = private
        self._guarded = private.perhaps_in(self.fd)
        self.by_components = by_components or self._guarded or not works()

    @property
    def is_gone(self) -> bool:
        """Whether the directory was deleted. One that was moved away stays the workspace."""
        return not os.fstat(self.fd).st_nlink

    def check(self) -> None:
        """Raises `WorkspaceGone`."""
        if self.is_gone:
            raise WorkspaceGone

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
        for root in self.spellings:
            inside = _beneath(encoded, os.fsencode(root))
            if inside is not None:
                return inside
        raise PathDenied(f"{shown(path)} is outside the workspace; name paths relative to the workspace.")

    def open_beneath(self, path: str, flags: int = os.O_RDONLY, mode: int = 0o666, *, symlinks: bool = True) -> int:
        """A descriptor for `path`, which is inside. Raises `PathError` with a sentence.

        Symbolic links that stay inside are followed for reading unless `symlinks` is False, for writing never.
        """
        self.check()
        relative = self.relative(path)
        allowed = symlinks and not flags & _WRITES
        safe = flags | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
        try:
            return self._opened(relative, safe, mode, symlinks=allowed)
        except OSError as error:
            raise path_error(error, path, allowed) from error
        except IsPrivate as error:
            raise PathDenied(_PRIVATE.format(path=shown(path))) from error

    def _opened(self, path: bytes, flags: int, mode: int, *, symlinks: bool) -> int:
        """It is emptied (O_TRUNC) only once it is known to be nothing private."""
        look, asked = self.private.look, flags & ~os.O_TRUNC
        if self.by_components:
            fd = open_by_components(self.fd, path, asked, mode, symlinks=symlinks, look=look)
        else:
            fd = openat2(self.fd, path, asked, mode, symlinks=symlinks)
        try:
            look(fd)
            if flags & os.O_TRUNC:
                os.ftruncate(fd, 0)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def open_file(self, path: str, *, symlinks: bool = True) -> BinaryIO:
        """A regular file, open for reading. Raises `PathError`; pipes, devices and directories are denied unread."""
        fd = self.open_beneath(path, symlinks=symlinks)
        mode = os.fstat(fd).st_mode
        if stat.S_ISREG(mode):
            return open(fd, "rb")
        os.close(fd)
        if stat.S_ISDIR(mode):
            raise PathError(f"{shown(path)} is a directory; list_files shows what is in it.")
        raise PathDenied(f"{shown(path)} is {kind_of(mode)}, and only regular files are read.")

    def open_directory(self, path: str, *, symlinks: bool = True) -> int:
        """A descriptor for a directory. Raises `PathError`."""
        try:
            return self.open_beneath(path, os.O_RDONLY | os.O_DIRECTORY, symlinks=symlinks)
        except PathError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.ENOTDIR:
                raise PathError(f"{shown(path)} is not a directory.") from error.__cause__
            raise

    def inner(self, path: str) -> "Workspace":
        """A directory of this workspace as one of its own. Raises `PathError`."""
        return Workspace(self.root / self.own_name(path), fd=self.open_directory(path), private=self.private)

    def again(self) -> "Workspace":
        """The same directory behind a descriptor of its own."""
        return Workspace(self.root, fd=os.dup(self.fd), also=self.spellings[0], private=self.private)

    def own_name(self, path: str) -> str:
        """A directory of the workspace, relative to it, without links and `..`. Raises `PathError`."""
        self.check()
        try:
            return os.fsdecode(resolved(self.fd, self.relative(path), self.private.look))
        except OSError as error:
            raise path_error(error, path, symlinks=True) from error
        except IsPrivate as error:
            raise PathDenied(_PRIVATE.format(path=shown(path))) from error

    def hidden(self) -> Iterator[tuple[str, bool]]:
        """What is private below the root, relative to it, and whether it is a directory; the topmost names of it.

        Raises OSError where that cannot be found out.
        """
        named = dict(self.private.names_in(self.fd)) if self._guarded else {}
        yield from named.items()
        yield from ((name, False) for name in self.private.links_below(self.fd) if name not in named)

    def entries(self, directory: int) -> Iterator["os.DirEntry[str]"]:
        """What an open directory of the workspace holds, in no order; what is private is left out."""
        with os.scandir(directory) as found:
            for entry in found:
                if not self._hides(entry):
                    yield entry

    def _hides(self, entry: "os.DirEntry[str]") -> bool:
        """Directories are asked for only where one can be private, which saves a question for each."""
        if not self.private or entry.is_symlink() or (not self._guarded and entry.is_dir()):
            return False
        try:
            return self.private.holds(entry.stat(follow_symlinks=False))
        except OSError:
            return False


def shown(path: str) -> str:
    """A path for people: as it is when it is plain, otherwise with escapes; the middle of a long one is left out."""
    cut = path if len(path) <= _SHOWN else f"{path[: _SHOWN // 2]}…{path[-_SHOWN // 2 :]}"
    return cut if cut.isprintable() and cut.strip() == cut and cut else ascii(cut)


def _beneath(path: bytes, root: bytes) -> bytes | None:
    parts, base = _parts(path), _parts(root)
    return b"/".join(parts[len(base) :]) or b"." if parts[: len(base)] == base else None


def _parts(path: bytes) -> list[bytes]:
    return [part for part in path.split(b"/") if part not in (b"", b".")]


def path_error(error: OSError, path: str, symlinks: bool = False) -> PathError:
    """What the system said of `path`, as a sentence; `symlinks`: whether they might have been followed."""
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


def kind_of(mode: int) -> str:
    """What something is that is neither a file nor a directory."""
    if stat.S_ISFIFO(mode):
        return "a named pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device"


ANSWER_SECONDS = 5.0
"""A root whose file system says nothing for so long is not waited for when a drone starts."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NONBLOCK


class Roots:
    """Allowed roots, each resolved when this object is made: what takes their place later is not followed.

    One whose file system does not answer within `answer_seconds` is resolved when an order first names it and is
    answered. `private` is what lies in none of their workspaces for any tool. `added` are roots, without links, that
    may become more while this object is there. Safe for many threads.
    """

    def __init__(
        self,
        roots: Iterable[str | Path],
        private: Private | None = None,
        *,
        added: Callable[[], Iterable[Path]] = tuple,
        resolve: Callable[[str], str] = os.path.realpath,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._resolve = resolve
        self._added = added
        self._real: dict[str, Path | None] = dict.fromkeys(map(os.path.abspath, roots))
        self._private = private or Private()
        looks = [Thread(target=self._look_at, args=(root,), daemon=True) for root in self._real]
        give_up = time.monotonic() + answer_seconds
        for look in looks:
            look.start()
        for look in looks:
            look.join(max(give_up - time.monotonic(), 0.0))

    def __bool__(self) -> bool:
        return bool(self._real)

    def covering(self, asked: str, real: Path) -> Path | None:
        """The root under which a path lies that was resolved to `real`. Blocks."""
        root = self.named_by(asked)
        if root in self._real:
            self._look_at(root)
        roots = (*self._real.values(), *self._added())
        return next((root for root in roots if root is not None and real.is_relative_to(root)), None)

    def _look_at(self, root: str) -> None:
        if self._real[root] is None:
            self._real[root] = Path(self._resolve(root))

    def named_by(self, asked: str) -> str:
        """The innermost root that a path names as it is written, "" when it names none: no file system is asked."""
        path = f"{os.path.abspath(asked)}/"
        known = {*self._real, *map(str, filter(None, self._real.values()))}
        # By their texts: a `Path` of each takes longer than all else that is asked of a workspace here.
        return max((root for root in known if path.startswith(f"{root.rstrip('/')}/")), key=len, default="")

    def opened(self, asked: str) -> Workspace:
        """The workspace that an order names: its path is resolved once, then opened from its root on without a link.

        Raises `PathError` with a sentence. Blocks.
        """
        if not os.path.isabs(asked):
            raise PathError(f"The workspace {shown(asked)} is not an absolute path.")
        real = without_links(asked)
        root = self.covering(asked, real)
        if root is None:
            allowed = ", ".join(str(real or root) for root, real in self._real.items()) or "none"
            raise PathDenied(
                f"The workspace {shown(asked)} lies outside this drone's allowed roots ({allowed}); "
                "add it with mcc up --workspace, or its parent to DRONE_WORKSPACE_ROOTS, or choose another."
            )
        try:
            fd = _descended(root, real)
        except (OSError, ValueError) as error:
            if not os.path.isdir(asked):
                raise PathError(f"The workspace {shown(asked)} is not a directory on this drone's machine.") from error
            why = getattr(error, "strerror", None) or "a part of it is being replaced"
            raise PathError(f"The workspace {shown(asked)} cannot be opened: {why}.") from error
        workspace = Workspace(real, fd=fd, also=asked, private=self._private)
        if self._private.around(fd):
            raise PathDenied(
                f"The workspace {shown(asked)} lies inside MCC's own data, configuration or secrets, which no agent "
                "may see: name a directory outside of them, or let MCC keep its data elsewhere (--data-dir, "
                "MCC_DATA_DIR)."
            )
        return workspace


def without_links(path: str) -> Path:
    """The path without links, as far as it can be told; nobody is let in by it."""
    try:
        return Path(real_path(path))
    except (OSError, ValueError):
        return Path(os.path.abspath(path))


def _descended(root: Path, real: Path) -> int:
    """A descriptor for `real`, which lies under `root`. Raises OSError, ELOOP when a link is on the way by now."""
    top = os.open("/", _DIRECTORY)
    try:
        held = opened_beneath(top, os.path.relpath(root, "/"), _DIRECTORY)
    finally:
        os.close(top)
    try:
        return opened_beneath(held, os.path.relpath(real, root), _DIRECTORY)
    finally:
        os.close(held)
