"""This room is for walking a workspace: every name in byte order, links never followed, ignored ones left out."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from threading import Event

from drone.sandbox.marker import DIRECTORY
from drone.sandbox.paths import PathDenied, PathError, Workspace, shown
from drone.tools.ignore import MAX_BYTES, IgnoreFile

ENTRY_LIMIT = 200_000
"""Names looked at before a walk stops and says so."""

NEVER_SHOWN = frozenset({b".git", os.fsencode(DIRECTORY)})


class Kind(Enum):
    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Found:
    """One name of the tree. `path` is relative to the workspace; `size` in bytes, of files only."""

    path: str
    kind: Kind
    size: int = 0
    depth: int = 1

    @property
    def below(self) -> str:
        """The path relative to where the walk began, `depth` names long."""
        return "/".join(self.path.split("/")[-self.depth :])


@dataclass(frozen=True, slots=True)
class _Rules:
    """Ignore files from the root down to a directory; the deepest that says anything decides."""

    files: tuple[tuple[bytes, IgnoreFile], ...] = ()

    def ignore(self, path: bytes, directory: bool) -> bool:
        for base, file in reversed(self.files):
            verdict = file.verdict(path[len(base) :], directory=directory)
            if verdict is not None:
                return verdict
        return False

    def plus(self, directory: bytes, file: IgnoreFile | None) -> "_Rules":
        return self if file is None else _Rules((*self.files, (_prefix(directory), file)))


@dataclass
class Walk:
    """One walk, from `start` (relative, a directory) down to `depth` levels. `stop` ends it early.

    While `entries` runs, `notes` gathers sentences on what could not be seen or was left out.
    """

    workspace: Workspace
    start: str = "."
    depth: int | None = None
    stop: Event = field(default_factory=Event)
    limit: int = ENTRY_LIMIT
    notes: list[str] = field(default_factory=list)
    _seen: int = 0
    _unreadable: int = 0

    def entries(self) -> Iterator[Found]:
        """Everything below `start`, sorted by path. Raises `PathError` when `start` is no directory inside."""
        base = self._base()
        yield from self._below(base, self._rules_above(base), 1)
        if self._seen >= self.limit:
            self.notes.append(f"Stopped after {self.limit:,} names; name a smaller part of the workspace.")
        if self._unreadable:
            many = "directory" if self._unreadable == 1 else "directories"
            self.notes.append(f"{self._unreadable:,} {many} could not be read.")

    def _base(self) -> bytes:
        """`start` without links and `..`, so that every path below has one spelling; its opens still decide."""
        base = os.fsencode(self.workspace.own_name(self.start))
        if NEVER_SHOWN.intersection(base.split(b"/")):
            own = "git's own and is not listed or searched; the git tools read it"
            if b".git" not in base.split(b"/"):
                own = "the runtime's own and is not listed or searched"
            raise PathDenied(f"{shown(self.start)} is {own}.")
        return base

    def _rules_above(self, base: bytes) -> _Rules:
        rules = _Rules().plus(b"", self._ignore_file(b".git/info/exclude"))
        parts = base.split(b"/") if base else []
        for count in range(len(parts)):
            directory = b"/".join(parts[:count])
            rules = rules.plus(directory, self._ignore_file(_prefix(directory) + b".gitignore"))
        return rules

    def _below(self, top: bytes, rules: _Rules, depth: int) -> Iterator[Found]:
        """Depth first with a stack of our own, so that no depth of directories is too deep."""
        stack = [self._children(top, rules, depth)]
        while stack:
            step = next(stack[-1], None)
            if step is None or self.stop.is_set() or self._seen >= self.limit:
                stack.pop()
                continue
            found, path, inner = step
            yield found
            if found.kind is Kind.DIRECTORY and (self.depth is None or found.depth < self.depth):
                stack.append(self._children(path, inner, found.depth + 1))

    def _children(self, directory: bytes, rules: _Rules, depth: int) -> Iterator[tuple[Found, bytes, _Rules]]:
        try:
            names = self._names(directory)
        except (PathError, OSError):
            self._unreadable += 1
            return
        if any(name == b".gitignore" and kind is Kind.FILE for name, kind, _ in names):
            rules = rules.plus(directory, self._ignore_file(_prefix(directory) + b".gitignore"))
        for name, kind, size in names:
            path = _prefix(directory) + name
            self._seen += 1
            if not rules.ignore(path, kind is Kind.DIRECTORY):
                yield Found(os.fsdecode(path), kind, size, depth), path, rules

    def _names(self, directory: bytes) -> list[tuple[bytes, Kind, int]]:
        """What a directory holds, in the order in which full paths sort: a directory counts as its name and a slash."""
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
        return sorted(names, key=lambda one: one[0] + b"/" if one[1] is Kind.DIRECTORY else one[0])

    def _ignore_file(self, path: bytes) -> IgnoreFile | None:
        try:
            with self.workspace.open_file(os.fsdecode(path), symlinks=False) as file:
                data = read_up_to(file.fileno(), MAX_BYTES + 1)
        except (PathError, OSError):
            return None
        if len(data) > MAX_BYTES:
            self.notes.append(f"{os.fsdecode(path)} is longer than {MAX_BYTES:,} bytes and was not heeded.")
            return None
        return IgnoreFile.parse(data)


def normal(workspace: Workspace, path: str) -> bytes:
    """`path` relative to the root without `.` and needless slashes; empty for the root. `..` stays for the open."""
    relative = workspace.relative(path)
    return b"/".join(part for part in relative.split(b"/") if part not in (b"", b"."))


def read_up_to(fd: int, size: int) -> bytes:
    """At most `size` bytes from where the descriptor stands, however short each read is."""
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
