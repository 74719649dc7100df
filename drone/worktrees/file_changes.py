"""Applying the changes between two git trees to a workspace: each file atomically, never replacing an unknown file."""

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from drone.sandbox.places.paths import PathError, PathMissing, Workspace
from drone.sandbox.protection.protected import ATTRIBUTES, Protected, plain, refused_attributes
from drone.sandbox.protection.refusals import ChangedPath, refusals

_GITLINK = "160000"
_ATTRIBUTES_BYTES = 1_000_000
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@dataclass(frozen=True, slots=True)
class FileChange:
    """A path that differs between two trees. `status` A (added), D (deleted), M or T (changed content or type);
    `before` and `after` are git's modes."""

    path: str
    status: str
    before: str
    after: str

    @property
    def is_module(self) -> bool:
        return _GITLINK in (self.before, self.after)


def parse_changes(raw: bytes) -> list[FileChange]:
    """Parse the output of `git diff-tree -r -z --no-renames`."""
    words = raw.decode("utf-8", "surrogateescape").split("\0")
    found = []
    for about, path in zip(words[::2], words[1::2], strict=False):
        before, after, _, _, status = about.lstrip(":").split(" ")
        found.append(FileChange(path, status[:1], before, after))
    return found


def apply_changes(
    workspace: Workspace, staged: Workspace, changes: Sequence[FileChange], protected: Protected
) -> list[str]:
    """Apply these changes to the workspace, deletions first; the new files are in `staged`. Applying them again does
    nothing.

    Answers the paths that were skipped: those that no tool may change, submodules, and those where another file is in
    the way. Blocks.
    Raises OSError.
    """
    refused = refusals(workspace.fd, protected, [ChangedPath(each.path, each.status != "D") for each in changes])
    left = []
    # Deletions first: a file may become a directory.
    for change in sorted(changes, key=lambda one: (one.status != "D", one.path)):
        is_refused = change.path in refused or _has_new_drivers(workspace, staged, change)
        if change.is_module or is_refused or not _apply(workspace, staged, change):
            left.append(change.path)
    return left


def _has_new_drivers(workspace: Workspace, staged: Workspace, change: FileChange) -> bool:
    """Whether this is a `.gitattributes` with lines that name programs and that the workspace's does not have."""
    if plain(os.path.basename(change.path)) != ATTRIBUTES or change.status == "D":
        return False
    new, known = (_drivers_in(place, change.path) for place in (staged, workspace))
    return new is None or not set(new) <= set(known or ())


def _drivers_in(workspace: Workspace, path: str) -> Sequence[str] | None:
    """Such lines of a file: none where it is missing, None where it cannot be read or is too long."""
    try:
        with workspace.open_file(path, symlinks=False) as file:
            content = file.read(_ATTRIBUTES_BYTES + 1)
    except PathMissing:
        return ()
    except PathError:
        return None
    return None if len(content) > _ATTRIBUTES_BYTES else refused_attributes(content.decode("utf-8", "replace"))


def _apply(workspace: Workspace, staged: Workspace, change: FileChange) -> bool:
    """Apply one change; False where something is in the way."""
    try:
        above = _above(workspace, change.path, make=change.status != "D")
    except PathMissing:
        return change.status == "D"
    except PathError:
        return False
    name = os.path.basename(change.path)
    try:
        status = _status(name, above)
        if status is not None and (stat.S_ISDIR(status.st_mode) or workspace.private.holds(status)):
            return False
        if change.status == "D":
            if status is not None:
                os.unlink(name, dir_fd=above)
                _prune(workspace, change.path)
            return True
        source = _above(staged, change.path, make=False)
        try:
            # Applied before, by a merge that was cut off; or somebody else has made a file of that name.
            if change.status == "A" and status is not None:
                return _same(name, above, source)
            _put(name, source, above, status)
        finally:
            os.close(source)
        return True
    finally:
        os.close(above)


def _above(workspace: Workspace, path: str, *, make: bool) -> int:
    """Open the directory above `path`, following no link. `make`: create missing directories. Raises `PathError`,
    OSError."""
    parts = path.split("/")[:-1]
    here = workspace.open_directory(".", symlinks=False)
    for number, part in enumerate(parts):
        try:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=here)
        finally:
            os.close(here)
        here = workspace.open_directory("/".join(parts[: number + 1]), symlinks=False)
    return here


def _status(name: str, directory: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _put(name: str, source: int, target: int, found: os.stat_result | None) -> None:
    """Put a file or link in its place atomically. An existing file keeps its permissions, except the executable
    bits."""
    status = os.stat(name, dir_fd=source, follow_symlinks=False)
    # The draft's name is fixed, so that a repetition after a kill replaces the draft that was left behind.
    draft = f".mcc-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}.new"
    with suppress(FileNotFoundError):
        os.unlink(draft, dir_fd=target)
    if stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(name, dir_fd=source), draft, dir_fd=target)
    else:
        _copy(name, source, draft, target)
        _set_mode(draft, target, found, executable=bool(status.st_mode & stat.S_IXUSR))
    os.rename(draft, name, src_dir_fd=target, dst_dir_fd=target)


def _set_mode(draft: str, target: int, found: os.stat_result | None, *, executable: bool) -> None:
    """Set the permissions of a draft: those of the file `found` or, without one, those of a new file."""
    fresh = found is None or not stat.S_ISREG(found.st_mode)
    before = os.stat(draft, dir_fd=target) if fresh or found is None else found
    mode = stat.S_IMODE(before.st_mode) & 0o666
    os.chmod(draft, mode | ((mode & 0o444) >> 2 if executable else 0), dir_fd=target)


def _copy(name: str, source: int, draft: str, target: int) -> None:
    with (
        open(os.open(name, os.O_RDONLY | _FLAGS, dir_fd=source), "rb") as old,
        open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o666, dir_fd=target), "wb") as new,
    ):
        shutil.copyfileobj(old, new)
        new.flush()
        # The rename replaces what was there, so the new content must be on the disk first.
        os.fsync(new.fileno())


def _same(name: str, one: int, other: int) -> bool:
    """Whether both directories hold an equal file or link of this name."""
    first, second = _status(name, one), _status(name, other)
    assert first is not None
    if second is None or stat.S_IFMT(first.st_mode) != stat.S_IFMT(second.st_mode):
        return False
    if stat.S_ISLNK(first.st_mode):
        return os.readlink(name, dir_fd=one) == os.readlink(name, dir_fd=other)
    if not stat.S_ISREG(first.st_mode) or first.st_size != second.st_size:
        return False
    with (
        open(os.open(name, os.O_RDONLY | _FLAGS, dir_fd=one), "rb") as left,
        open(os.open(name, os.O_RDONLY | _FLAGS, dir_fd=other), "rb") as right,
    ):
        while piece := left.read(1 << 20):
            if piece != right.read(1 << 20):
                return False
    return True


def _prune(workspace: Workspace, path: str) -> None:
    """Remove the directories above a deleted path that are empty now."""
    parts = path.split("/")[:-1]
    while parts:
        try:
            above = _above(workspace, "/".join(parts), make=False)
        except PathError:
            return
        try:
            os.rmdir(parts[-1], dir_fd=above)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                raise
            return
        finally:
            os.close(above)
        parts.pop()
