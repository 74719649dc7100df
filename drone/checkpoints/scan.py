"""Scanning a workspace for a checkpoint: every file is kept by content, also ignored and untracked ones.

A file that is unchanged since the last scan, by its inode, size and times (as git's index does), is not read again.
"""

import hashlib
import os
import stat
import struct
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from threading import Event

from drone.checkpoints.store import PIECE, CheckpointStore
from drone.checkpoints.tree import EMPTY, SHUT, Listing, TreeEntry, at, digest_of, watched_names, with_paths
from drone.sandbox.places.paths import PathError, Workspace, kind_of, shown
from drone.sandbox.places.workspace_key import MARKER
from drone.sandbox.protection import placeholders

MOST_NAMES = 250_000
"""Most files, links and directories of one checkpoint; further ones are left out and reported."""

MOST_BYTES = 8_000_000_000
"""Most bytes that one checkpoint adds to the store."""

LARGEST_FILE = 256_000_000
MAX_DEPTH = 200

_STAMP = struct.Struct(">QQQqq")
_SETTLED_NS = 2_000_000_000
"""A file that changed within this time before the scan is read again next time: a further change in the same tick of
the clock would not alter its times."""

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_TRIES = 3
_NAMED = 3


class ScanStopped(Exception):
    """The scan was stopped, as nobody waits for it any more."""


@dataclass(slots=True)
class ScanReport:
    """The result of one scan: how many `files` (links included), their `size` in bytes, how many entries were
    `left_out` for which reason, and the names of the first of those. `names`: how many files, links and directories
    are watched. `shut`: how many of those left out are directories, whose content is not watched, and the first names
    of these."""

    files: int = 0
    size: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    named: list[str] = field(default_factory=list)
    names: int = 0
    shut: int = 0
    shut_named: list[str] = field(default_factory=list)

    def leave_out(self, path: bytes, why: str, *, is_directory: bool) -> None:
        self.left_out[why] += 1
        self.shut += is_directory
        for names in (self.named, *([self.shut_named] if is_directory else [])):
            if len(names) < _NAMED:
                names.append(shown(os.fsdecode(path)))

    @property
    def sentence(self) -> str:
        """What was left out, in words; empty where nothing was."""
        if not self.left_out:
            return ""
        counted = ", ".join(f"{count:,} {why}" for why, count in self.left_out.items())
        return f"Not kept, and not to be restored: {counted} ({', '.join(self.named)} …)."

    @property
    def unwatched(self) -> str:
        """Which directories were not looked into, in words; empty where all were."""
        return unwatched(self.shut, self.shut_named)


def unwatched(count: int, named: Sequence[str]) -> str:
    """The sentence about so many directories that are not watched, some of them by name; empty for none."""
    if not count:
        return ""
    which = f"1 directory is not watched ({named[0]})" if count == 1 else f"{count:,} directories are not watched"
    more = "" if count == 1 else f" ({', '.join(named)}{' …' if count > len(named) else ''})"
    return (
        f"{which}{more}: of a workspace only the first {MOST_NAMES:,} names, {MAX_DEPTH} levels and what can be read "
        "are. What changes in there is not listed, and no revert takes it back."
    )


class Scan:
    """One scan of a workspace, inside a transaction of its store. Blocks."""

    def __init__(self, workspace: Workspace, store: CheckpointStore, stop: Event, most_names: int = MOST_NAMES) -> None:
        self.report = ScanReport()
        self._most_names = most_names
        self._earlier = EMPTY
        self._room_for_names: int | None = None
        self._workspace = workspace
        self._store = store
        self._stop = stop
        self._before = store.seen()
        self._seen: dict[bytes, tuple[bytes, bytes]] = {}
        self._settled_before = time.time_ns() - _SETTLED_NS
        room = os.statvfs(store.path.parent)
        # Half of what is free, so that one checkpoint cannot fill the disk.
        self._room = min(MOST_BYTES, room.f_bavail * room.f_frsize // 2)

    def whole(self, earlier: bytes = EMPTY) -> bytes:
        """The tree of the whole workspace. Raises OSError where the root cannot be read, `ScanStopped`.

        `earlier`: an earlier tree of the same order. What is watched in it stays watched and what is not stays so,
        whatever appears or goes meanwhile: a file that nobody touched must not look like a changed one. Only what is
        new takes the room that is left, in the order of the names.
        """
        self._earlier, self._room_for_names = earlier, None
        root = os.dup(self._workspace.fd)
        try:
            digest = self._directory(root, b"", 0, self._store.tree(earlier))
        finally:
            os.close(root)
        self._store.replace_seen(self._seen, self._before)
        return digest

    def only(self, base: bytes, paths: Iterable[bytes]) -> bytes:
        """The tree `base` with these paths updated to their current state."""
        now: dict[bytes, TreeEntry | None] = {}
        for path in paths:
            node, known = self.node(path), at(self._store.tree, base, path)
            if node is not None and node.kind == "directory" and known is not None and known.kind == "directory":
                node = node._replace(digest=known.digest)
            now[path] = node
        return with_paths(self._store.tree, self._store.keep_tree, base, now)

    def node(self, path: bytes) -> TreeEntry | None:
        """The current node of a path, a directory without its content; None where the path does not exist."""
        above, _, name = path.rpartition(b"/")
        try:
            directory = self._workspace.open_directory(os.fsdecode(above) or ".", symlinks=False)
        except PathError:
            return None
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                return TreeEntry("directory", stat.S_IMODE(status.st_mode), 0, EMPTY)
            if self._workspace.private.holds(status):
                return None
            return self._leaf(directory, name, path, status)
        except (FileNotFoundError, NotADirectoryError):
            return None
        finally:
            os.close(directory)

    def _directory(self, fd: int, path: bytes, depth: int, earlier: Listing) -> bytes:
        if self._stop.is_set():
            raise ScanStopped
        listing: dict[bytes, TreeEntry] = {}
        for name, status in sorted(self._entries(fd, top=not path), key=itemgetter(0)):
            below = path + b"/" + name if path else name
            before = earlier.get(name)
            if before is None or before.kind == "left_out":
                if before is not None and stat.S_ISDIR(status.st_mode):
                    listing[name] = self._left_out(below, status, "that were not watched before")
                    continue
                if not self._has_room_for_name():
                    listing[name] = self._left_out(below, status, f"beyond {self._most_names:,} names")
                    continue
            self.report.names += 1
            node = self._node(fd, name, below, status, depth, before)
            if node is not None:
                listing[name] = node
        return self._store.keep_listing(listing)

    def _has_room_for_name(self) -> bool:
        """Take room for one new name; False where there is none. What the earlier tree takes is counted once it must
        be known."""
        if self._room_for_names is None:
            self._room_for_names = self._most_names - watched_names(self._store.tree, self._earlier)
        self._room_for_names -= 1
        return self._room_for_names >= 0

    def _entries(self, fd: int, *, top: bool) -> Iterator[tuple[bytes, os.stat_result]]:
        for entry in self._workspace.entries(fd):
            if top and entry.name == MARKER:
                continue
            try:
                yield os.fsencode(entry.name), entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue

    def _node(
        self, above: int, name: bytes, path: bytes, status: os.stat_result, depth: int, before: TreeEntry | None
    ) -> TreeEntry | None:
        if not stat.S_ISDIR(status.st_mode):
            return self._leaf(above, name, path, status)
        if depth >= MAX_DEPTH:
            return self._left_out(path, status, f"deeper than {MAX_DEPTH} directories")
        try:
            fd = os.open(name, _OPEN | os.O_DIRECTORY, dir_fd=above)
        except FileNotFoundError:
            return None
        except OSError as error:
            return self._left_out(path, status, _why(error))
        try:
            earlier = self._store.tree(before.digest) if before is not None and before.kind == "directory" else {}
            return TreeEntry(
                "directory", stat.S_IMODE(status.st_mode), 0, self._directory(fd, path, depth + 1, earlier)
            )
        except PermissionError as error:
            return self._left_out(path, status, _why(error))
        finally:
            os.close(fd)

    def _leaf(self, above: int, name: bytes, path: bytes, status: os.stat_result) -> TreeEntry | None:
        try:
            if placeholders.has_mode(status.st_mode):
                return None
            if stat.S_ISLNK(status.st_mode):
                return self._link(above, name)
            if stat.S_ISREG(status.st_mode):
                return self._file(above, name, path, status)
        except FileNotFoundError:
            return None
        except OSError as error:
            return self._left_out(path, status, _why(error))
        return self._left_out(path, status, f"as {kind_of(status.st_mode)}")

    def _link(self, above: int, name: bytes) -> TreeEntry:
        target = os.readlink(name, dir_fd=above)
        digest = digest_of(target)
        if not self._store.has(digest):
            self._store.keep(digest, [target])
        self.report.files += 1
        return TreeEntry("link", 0, len(target), digest)

    def _file(self, above: int, name: bytes, path: bytes, status: os.stat_result) -> TreeEntry:
        if status.st_size > LARGEST_FILE:
            return self._left_out(path, status, f"larger than {LARGEST_FILE:,} bytes")
        stamp, known = stamp_of(status), self._before.get(path)
        if known is not None and known[0] == stamp:
            self._seen[path] = known
            return self._counted(status, status.st_size, known[1])
        fd = os.open(name, _OPEN, dir_fd=above)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                return self._left_out(path, status, "replaced while they were looked at")
            return self._read(fd, path, status)
        finally:
            os.close(fd)

    def _read(self, fd: int, path: bytes, status: os.stat_result) -> TreeEntry:
        for _ in range(_TRIES):
            digest, size, first = _hashed(fd)
            if self._store.has(digest):
                break
            if size > self._room:
                return self._left_out(path, status, "for want of room on the disk")
            if first is not None:
                self._store.keep(digest, [first])
                self._room -= size
                break
            # Hashed once more while it is stored: somebody may write the file, and what is kept must be what its digest
            # says.
            again = hashlib.sha256()
            self._store.keep(digest, _pieces(fd, again))
            if again.digest() == digest:
                self._room -= size
                break
            self._store.drop(digest)
        else:
            return self._left_out(path, status, "written while they were read")
        if status.st_ctime_ns < self._settled_before and status.st_mtime_ns < self._settled_before:
            self._seen[path] = (stamp_of(status), digest)
        return self._counted(status, size, digest)

    def _counted(self, status: os.stat_result, size: int, digest: bytes) -> TreeEntry:
        self.report.files += 1
        self.report.size += size
        return TreeEntry("file", stat.S_IMODE(status.st_mode), size, digest)

    def _left_out(self, path: bytes, status: os.stat_result, why: str) -> TreeEntry:
        is_directory = stat.S_ISDIR(status.st_mode)
        self.report.leave_out(path, why, is_directory=is_directory)
        mark = SHUT if is_directory else digest_of(stamp_of(status))
        return TreeEntry("left_out", stat.S_IMODE(status.st_mode), status.st_size, mark)


def stamp_of(status: os.stat_result) -> bytes:
    """A stamp that changes when the file does: device, inode, size and times."""
    return _STAMP.pack(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _hashed(fd: int) -> tuple[bytes, int, bytes | None]:
    """Digest and size of an open file, and its content if it fits one piece."""
    os.lseek(fd, 0, os.SEEK_SET)
    first = os.read(fd, PIECE)
    if len(first) < PIECE and not os.read(fd, PIECE):
        return digest_of(first), len(first), first
    digest, size = hashlib.sha256(), 0
    for piece in _pieces(fd, digest):
        size += len(piece)
    return digest.digest(), size, None


def _pieces(fd: int, whole: "hashlib._Hash") -> Iterator[bytes]:
    os.lseek(fd, 0, os.SEEK_SET)
    while piece := os.read(fd, PIECE):
        whole.update(piece)
        yield piece


def _why(error: OSError) -> str:
    return "unreadable" if isinstance(error, PermissionError) else f"that cannot be read ({error.strerror})"
