"""The path rule: a tool opens files beneath its workspace only, and the open itself enforces it, not a check before."""

import errno
import os
import stat
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from threading import Thread
from typing import BinaryIO

from drone.sandbox.places.beneath import open_by_components, openat2, opened_beneath, resolved, works
from drone.sandbox.places.mounts import real_path
from drone.sandbox.places.private import IsPrivate, Private

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PATH_BYTES = 4_095
_SHOWN = 200
_PRIVATE = "{path} belongs to MCC itself (its data, configuration or secrets), and no tool sees that."


class PathError(Exception):
    """A path cannot be used; the message is a sentence for the model that named it.

    PathError
    ├── PathDenied      not allowed: outside the workspace, through a forbidden link, or not a regular file
    ├── PathMissing     no such file or directory
    └── WorkspaceGone   the directory of the workspace itself was deleted
    """


class PathDenied(PathError):
    """The path rule forbids this path; nothing was opened."""


class PathMissing(PathError):
    """No file or directory has this path."""


class WorkspaceGone(PathError):
    """The workspace's directory was deleted while it was open: it is empty, and nothing can be created in it."""

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


MOUNTED = "/workspace"
"""The workspace's path in the sandbox: what commands print is a path for every tool."""

_NOTHING = Private()


class Workspace:
    """A directory held open: every path is resolved from its descriptor, never from a string that was checked before.

    `spellings`: the absolute paths of the root, as it was named, without links, and as programs in the sandbox see it.
    `fd` is an open descriptor of `root`, which this object takes over; without it `root` is opened by name. `also` is
    another spelling of the root, for people who reach it through a link. `private`: files that may lie in there and
    that no tool sees. `by_components` forces the component-wise walk, which is otherwise used only without `openat2`
    or where something private may lie below. Raises `PathError` when the root is not a directory. The descriptor
    closes with the object. Safe for many threads.
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
        self.spellings = (os.path.abspath(root if also is None else also), str(self.root), MOUNTED)
        self.private = private
        self._guarded = private.may_be_below(self.fd)
        self.by_components = by_components or self._guarded or not works()

    @property
    def is_gone(self) -> bool:
        """Whether the directory was deleted. A directory that was renamed is still the workspace."""
        return not os.fstat(self.fd).st_nlink

    def check(self) -> None:
        """Raises `WorkspaceGone`."""
        if self.is_gone:
            raise WorkspaceGone

    def relative(self, path: str) -> bytes:
        """`path` as bytes relative to the root; an absolute path must begin with the root's own components.

        Raises `PathDenied`. Whether the path stays inside (`..`, links) is decided later, by the open.
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
        """A descriptor for `path`, which must lie inside. Raises `PathError`.

        Reading follows symbolic links that stay inside, unless `symlinks` is False; writing follows none.
        """
        self.check()
        relative = self.relative(path)
        allowed = symlinks and not flags & _WRITES
        # O_NONBLOCK: opening a named pipe must not wait for its other end.
        safe = flags | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
        try:
            return self._opened(relative, safe, mode, symlinks=allowed)
        except OSError as error:
            raise path_error(error, path, allowed) from error
        except IsPrivate as error:
            raise PathDenied(_PRIVATE.format(path=shown(path))) from error

    def _opened(self, path: bytes, flags: int, mode: int, *, symlinks: bool) -> int:
        """Open a path. O_TRUNC is applied only after the file is known not to be private."""
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
        """A regular file, open for reading. Raises `PathError`, also for pipes, devices and directories, unread."""
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
        """A directory of this workspace as a workspace of its own. Raises `PathError`."""
        return Workspace(self.root / self.own_name(path), fd=self.open_directory(path), private=self.private)

    def again(self) -> "Workspace":
        """The same workspace with a duplicated descriptor."""
        return Workspace(self.root, fd=os.dup(self.fd), also=self.spellings[0], private=self.private)

    def own_name(self, path: str) -> str:
        """The relative path of a directory of the workspace, without links and `..`. Raises `PathError`."""
        self.check()
        try:
            return os.fsdecode(resolved(self.fd, self.relative(path), self.private.look))
        except OSError as error:
            raise path_error(error, path, symlinks=True) from error
        except IsPrivate as error:
            raise PathDenied(_PRIVATE.format(path=shown(path))) from error

    def hidden(self) -> Iterator[tuple[str, bool]]:
        """The topmost private files and directories below the root: relative path, and whether it is a directory.

        Raises OSError where they cannot be determined.
        """
        named = dict(self.private.names_in(self.fd)) if self._guarded else {}
        yield from named.items()
        yield from ((name, False) for name in self.private.links_below(self.fd) if name not in named)

    def entries(self, directory: int) -> Iterator["os.DirEntry[str]"]:
        """The entries of an open directory of the workspace, unordered and without private ones."""
        with os.scandir(directory) as found:
            for entry in found:
                if not self._hides(entry):
                    yield entry

    def _hides(self, entry: "os.DirEntry[str]") -> bool:
        """Whether an entry is private. Directories are examined only where one can be private: it saves a stat each."""
        if not self.private or entry.is_symlink() or (not self._guarded and entry.is_dir()):
            return False
        try:
            return self.private.holds(entry.stat(follow_symlinks=False))
        except OSError:
            return False


def shown(path: str) -> str:
    """A path for display: unchanged when it is printable, otherwise escaped; a long one loses its middle."""
    cut = path if len(path) <= _SHOWN else f"{path[: _SHOWN // 2]}…{path[-_SHOWN // 2 :]}"
    return cut if cut.isprintable() and cut.strip() == cut and cut else ascii(cut)


def _beneath(path: bytes, root: bytes) -> bytes | None:
    parts, base = _parts(path), _parts(root)
    return b"/".join(parts[len(base) :]) or b"." if parts[: len(base)] == base else None


def _parts(path: bytes) -> list[bytes]:
    return [part for part in path.split(b"/") if part not in (b"", b".")]


def path_error(error: OSError, path: str, symlinks: bool = False) -> PathError:
    """An OSError about `path` as a `PathError`; `symlinks`: whether the open could follow symbolic links."""
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
    """The kind of a file that is neither a regular file nor a directory, in words."""
    if stat.S_ISFIFO(mode):
        return "a named pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device"


ANSWER_SECONDS = 5.0
"""At its start a drone waits this long for the file systems of its roots, and no longer."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NONBLOCK


class Roots:
    """The allowed roots of workspaces. Each is resolved when this object is made, so a link that replaces a root later
    is not followed.

    A root whose file system does not answer within `answer_seconds` is resolved when an order first names it.
    `private`: files that no tool sees in any workspace. `added` answers further roots, without links; their number may
    grow. Safe for many threads.
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
        self.private = private or Private()
        looks = [Thread(target=self._look_at, args=(root,), daemon=True) for root in self._real]
        give_up = time.monotonic() + answer_seconds
        for look in looks:
            look.start()
        for look in looks:
            look.join(max(give_up - time.monotonic(), 0.0))

    def __bool__(self) -> bool:
        return bool(self._real)

    def covering(self, asked: str, real: Path) -> Path | None:
        """The root above the path `asked`, which resolves to `real`; None when no root is above it. Blocks."""
        root = self.named_by(asked)
        if root in self._real:
            self._look_at(root)
        roots = (*self._real.values(), *self._added())
        return next((root for root in roots if root is not None and real.is_relative_to(root)), None)

    def _look_at(self, root: str) -> None:
        if self._real[root] is None:
            self._real[root] = Path(self._resolve(root))

    def named_by(self, asked: str) -> str:
        """The innermost root above a path by its text, "" when there is none; does not touch the file system."""
        path = f"{os.path.abspath(asked)}/"
        known = {*self._real, *map(str, filter(None, self._real.values()))}
        # Compared as strings: building a `Path` for each root takes longer than everything else here.
        return max((root for root in known if path.startswith(f"{root.rstrip('/')}/")), key=len, default="")

    def opened(self, asked: str) -> Workspace:
        """The workspace that an order names: its path is resolved once, then opened from its root down, following no
        link. Raises `PathError`. Blocks."""
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
        workspace = Workspace(real, fd=fd, also=asked, private=self.private)
        if self.private.encloses(fd):
            raise PathDenied(
                f"The workspace {shown(asked)} lies inside MCC's own data, configuration or secrets, which no agent "
                "may see: name a directory outside of them, or let MCC keep its data elsewhere (--data-dir, "
                "MCC_DATA_DIR)."
            )
        return workspace


def without_links(path: str) -> Path:
    """The path with its links resolved, as far as possible. It decides about no access: `_descended` does."""
    try:
        return Path(real_path(path))
    except (OSError, ValueError):
        return Path(os.path.abspath(path))


def _descended(root: Path, real: Path) -> int:
    """A descriptor for `real`, which lies under `root`. Raises OSError: ELOOP when a link has appeared on the way."""
    top = os.open("/", _DIRECTORY)
    try:
        held = opened_beneath(top, os.path.relpath(root, "/"), _DIRECTORY)
    finally:
        os.close(top)
    try:
        return opened_beneath(held, os.path.relpath(real, root), _DIRECTORY)
    finally:
        os.close(held)
