"""Walking a workspace in byte order, without ignored files and without following links; listings of limited length."""

import os
import stat
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from enum import Enum
from itertools import takewhile
from threading import Event

from drone.sandbox.places.paths import PathDenied, PathError, Workspace, shown
from drone.sandbox.places.workspace_key import MARKER
from drone.tools.files.ignore import MAX_BYTES, Ignored, IgnoreReader, ignore_matcher
from drone.tools.frame.display_text import display_path
from mcc.side_process import SideProcess

ENTRY_LIMIT = 200_000
"""Names visited before a walk stops and notes that it did."""

SECONDS = 20.0
"""How long a walk takes before it stops and notes that it did."""

NEVER_SHOWN = frozenset({b".git", os.fsencode(MARKER)})


class Kind(Enum):
    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class WalkedEntry:
    """One entry: `path` relative to the workspace, `size` in bytes (files only), `depth` 1 directly below the start."""

    path: str
    kind: Kind
    size: int = 0
    depth: int = 1

    @property
    def below(self) -> str:
        """The path relative to the walk's start."""
        return "/".join(self.path.split("/")[-self.depth :])


@dataclass
class Walk:
    """One walk from the directory `start` (relative to the workspace) down to `depth` levels; `stop` ends it early.

    `heeds`: whether it leaves out what ignore files name. While `entries` runs, `notes` collects sentences on what was
    left out or could not be read. Not thread-safe.
    """

    workspace: Workspace
    start: str = "."
    depth: int | None = None
    stop: Event = field(default_factory=Event)
    limit: int = ENTRY_LIMIT
    seconds: float = SECONDS
    heeds: bool = True
    notes: list[str] = field(default_factory=list)
    _until: float = float("inf")
    _seen: int = 0
    _unreadable: int = 0

    def entries(self) -> Iterator[WalkedEntry]:
        """All entries below `start`, sorted by path. Raises `PathError` if `start` is no directory of the workspace."""
        base = self._base()
        self._until = time.monotonic() + self.seconds
        with closing(SideProcess(ignore_matcher, self.stop)) as aside:
            reader = IgnoreReader(aside, self.notes, lambda: self.stop.is_set() or self._is_late)
            yield from self._below(reader, base, self._ignored_above(reader, base), 1)
        if self._seen >= self.limit:
            self.notes.append(f"Stopped after {self.limit:,} names; name a smaller part of the workspace.")
        elif self._is_late:
            self.notes.append(f"Stopped after {self.seconds:g} s; name a smaller part of the workspace.")
        if self._unreadable:
            many = "directory" if self._unreadable == 1 else "directories"
            self.notes.append(f"{self._unreadable:,} {many} could not be read.")

    def _base(self) -> bytes:
        """`start` without links and `..`, so that each path has one spelling; access is still checked at each open."""
        base = os.fsencode(self.workspace.own_name(self.start))
        if NEVER_SHOWN.intersection(base.split(b"/")):
            why = "git's own and is not listed or searched; the git tools read it"
            if b".git" not in base.split(b"/"):
                why = "the runtime's own and is not listed or searched"
            raise PathDenied(f"{shown(self.start)} is {why}.")
        return base

    @property
    def _is_late(self) -> bool:
        return time.monotonic() > self._until

    def _ignored_above(self, reader: IgnoreReader, base: bytes) -> Ignored:
        ignored = self._plus(Ignored(), reader, b"", b".git/info/exclude")
        parts = base.split(b"/") if base else []
        for count in range(len(parts)):
            directory = b"/".join(parts[:count])
            ignored = self._plus(ignored, reader, directory, _prefix(directory) + b".gitignore")
        return ignored

    def _below(self, reader: IgnoreReader, top: bytes, ignored: Ignored, depth: int) -> Iterator[WalkedEntry]:
        """Depth first, with an explicit stack: deep trees must not exceed Python's recursion limit."""
        stack = [self._children(reader, top, ignored, depth)]
        while stack:
            step = next(stack[-1], None)
            if step is None or self.stop.is_set() or self._seen >= self.limit or self._is_late:
                stack.pop()
                continue
            entry, path, inner = step
            yield entry
            if entry.kind is Kind.DIRECTORY and (self.depth is None or entry.depth < self.depth):
                stack.append(self._children(reader, path, inner, entry.depth + 1))

    def _children(
        self, reader: IgnoreReader, directory: bytes, ignored: Ignored, depth: int
    ) -> Iterator[tuple[WalkedEntry, bytes, Ignored]]:
        try:
            names = self._names(directory)
        except (PathError, OSError):
            self._unreadable += 1
            return
        if any(name == b".gitignore" and kind is Kind.FILE for name, kind, _ in names):
            ignored = self._plus(ignored, reader, directory, _prefix(directory) + b".gitignore")
        paths = [(_prefix(directory) + name, kind is Kind.DIRECTORY) for name, kind, _ in names]
        for (_, kind, size), (path, _), is_ignored in zip(names, paths, ignored.among(paths), strict=True):
            self._seen += 1
            if not is_ignored:
                yield WalkedEntry(os.fsdecode(path), kind, size, depth), path, ignored

    def _names(self, directory: bytes) -> list[tuple[bytes, Kind, int]]:
        """A directory's entries, in the order of their full paths: a directory sorts as its name and a slash."""
        fd = self.workspace.open_directory(os.fsdecode(directory or b"."), symlinks=False)
        names: list[tuple[bytes, Kind, int]] = []
        try:
            for entry in self.workspace.entries(fd):
                if len(names) > self.limit or self.stop.is_set():
                    break
                name = os.fsencode(entry.name)
                if name not in NEVER_SHOWN:
                    names.append((name, *_kind_and_size(entry)))
        finally:
            os.close(fd)
        return sorted(names, key=lambda entry: entry[0] + b"/" if entry[1] is Kind.DIRECTORY else entry[0])

    def _plus(self, ignored: Ignored, reader: IgnoreReader, directory: bytes, path: bytes) -> Ignored:
        """`ignored` and the rules of the ignore file at `path`, which apply below `directory`."""
        if not self.heeds:
            return ignored
        try:
            with self.workspace.open_file(os.fsdecode(path), symlinks=False) as file:
                data = read_up_to(file.fileno(), MAX_BYTES + 1)
        except (PathError, OSError):
            return ignored
        rules = reader.rules(shown(os.fsdecode(path)), data, ignored)
        return ignored if rules is None else ignored.plus(_prefix(directory), rules)


def normal(workspace: Workspace, path: str) -> bytes:
    """`path` relative to the root, without `.` and extra slashes; empty for the root. `..` is left to the open."""
    relative = workspace.relative(path)
    return b"/".join(part for part in relative.split(b"/") if part not in (b"", b"."))


def read_up_to(fd: int, size: int) -> bytes:
    """At most `size` bytes from the descriptor's position; repeats short reads."""
    pieces: list[bytes] = []
    while size > 0 and (piece := os.read(fd, min(size, 1 << 20))):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _kind_and_size(entry: "os.DirEntry[str]") -> tuple[Kind, int]:
    try:
        if entry.is_symlink():
            return Kind.LINK, 0
        if entry.is_dir(follow_symlinks=False):
            return Kind.DIRECTORY, 0
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return Kind.OTHER, 0
    return (Kind.FILE, status.st_size) if stat.S_ISREG(status.st_mode) else (Kind.OTHER, 0)


def _prefix(directory: bytes) -> bytes:
    return directory + b"/" if directory else b""


_MARKS = {Kind.LINK: " (symbolic link)", Kind.OTHER: " (not a regular file)"}


def folded(found: Sequence[WalkedEntry], most: int) -> list[str]:
    """At most `most` lines for the entries, in their order, and one more that says what is not shown.

    Too many entries are folded into their directories. A directory that `found` does not name has a line only where it
    is folded.
    """
    if len(found) <= most:
        return [_line(entry) for entry in found]
    lines, hidden = _Tree(found).lines(most)
    if (more := len(lines) - most) > 0:
        return [*lines[:most], f"[{more:,} more are not shown. Name a directory below, or raise limit.]"]
    files = plural(hidden, "file")
    return [*lines, f"[{files} in folded directories: not shown. Name a directory as path, or raise limit.]"]


class _Tree:
    """The entries by their directory; directories above them that were not found themselves are added.

    `_named` are the directories that were found; `_files` counts the files anywhere below each directory.
    """

    def __init__(self, found: Sequence[WalkedEntry]) -> None:
        self._named = {entry.path for entry in found if entry.kind is Kind.DIRECTORY}
        self._top = _common_directory([entry.path.rpartition("/")[0] for entry in found])
        self._below: dict[str, dict[str, WalkedEntry]] = defaultdict(dict)
        self._files: dict[str, int] = defaultdict(int)
        for entry in found:
            self._add(entry)

    def _add(self, entry: WalkedEntry) -> None:
        path, is_new, is_file = entry.path, True, entry.kind is not Kind.DIRECTORY
        while path != self._top:
            parent = path.rpartition("/")[0]
            if is_new:
                is_new = path not in self._below[parent]
                self._below[parent].setdefault(path, entry if path == entry.path else WalkedEntry(path, Kind.DIRECTORY))
            self._files[parent] += is_file
            if not (is_new or is_file):
                return
            path = parent

    def _opened(self, most: int) -> set[str]:
        """The directories whose entries fit into `most` lines, breadth first; always includes the topmost one."""
        opened, waiting = {self._top}, deque(self._directories(self._top))
        lines = len(self._below[self._top])
        while waiting:
            directory = waiting.popleft()
            more = len(self._below[directory]) - (directory not in self._named)
            if lines + more <= most:
                lines += more
                opened.add(directory)
                waiting.extend(self._directories(directory))
        return opened

    def _directories(self, directory: str) -> list[str]:
        return [path for path, entry in self._below[directory].items() if entry.kind is Kind.DIRECTORY]

    def lines(self, most: int) -> tuple[list[str], int]:
        """The lines, each directory before its entries, and the number of files in folded directories."""
        opened, hidden = self._opened(most), 0
        lines: list[str] = []
        stack = list(reversed(self._below[self._top].values()))
        while stack:
            entry = stack.pop()
            if entry.path in opened:
                lines.extend([_line(entry)] if entry.path in self._named else [])
                stack.extend(reversed(self._below[entry.path].values()))
                continue
            files = self._files.get(entry.path, 0)
            lines.append(_line(entry) + (f" ({plural(files, 'file')})" if files else ""))
            hidden += files
        return lines, hidden


def plural(number: int, word: str) -> str:
    many = word[:-1] + "ies" if word.endswith("y") else word + "s"
    return f"{number:,} {word if number == 1 else many}"


def _line(found: WalkedEntry) -> str:
    if found.kind is Kind.DIRECTORY:
        return display_path(found.path + "/")
    return display_path(found.path) + _MARKS.get(found.kind, "")


def _common_directory(directories: Sequence[str]) -> str:
    """The deepest directory that holds all of these."""
    parts = [directory.split("/") for directory in directories]
    same = zip(min(parts), max(parts), strict=False)
    return "/".join(name for name, _ in takewhile(lambda names: names[0] == names[1], same))
