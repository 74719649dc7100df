"""The survey of a directory tree of any depth: protected paths, git directories and sockets."""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from drone.sandbox.placeholders import has_mode
from drone.sandbox.private import Identity, identity
from drone.sandbox.protected import ATTRIBUTES, GIT, NAMES, OF_A_REPOSITORY, Protected, plain

MOST_NAMES = 1_000_000
"""Most names that a survey examines; some two seconds of work."""

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_UP = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_REPOSITORY = frozenset({"HEAD", "objects", "refs"})
_FURTHER_TREE = frozenset({"HEAD", "commondir", "gitdir"})
_OBJECTS = ("objects", "refs", "logs")
_OF_INTEREST = frozenset(map(str.lower, (*NAMES, *OF_A_REPOSITORY, *_REPOSITORY, *_FURTHER_TREE)))


@dataclass(slots=True)
class Directory:
    """One directory of a walk, open as `fd` until the walk goes on. `into`: those of its directories that the walk will
    descend into; the caller may remove some.

    `names` are entries that may be of interest, `others` those that are neither file nor directory nor link. `count`:
    the number of all entries.
    """

    parts: list[str]
    fd: int
    into: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    count: int = 0

    def path(self, name: str = "") -> str:
        return "/".join((*self.parts, name) if name else self.parts)


def directories(root: int, shut: list[str], *, every: bool = False, most: int = MOST_NAMES) -> Iterator[Directory]:
    """This directory and those below it, not following links. Only one is open at a time, so the depth is not limited.

    Paths of directories that cannot be opened are added to `shut`. `every`: all names are of interest. Raises OSError:
    EFBIG for too many names, ESTALE when directories are moved meanwhile.
    """
    here = os.open(".", _OPEN, dir_fd=root)
    trail: list[tuple[list[str], Identity]] = []
    parts: list[str] = []
    try:
        while True:
            found = _read(here, parts, every)
            most -= found.count
            if most < 0:
                raise OSError(errno.EFBIG, "it has too many files to look for protected ones among them")
            yield found
            trail.append((found.into, identity(os.fstat(here))))
            while trail:
                if trail[-1][0]:
                    name = trail[-1][0].pop()
                    if (below := _opened(here, name)) is None:
                        shut.append("/".join((*parts, name)))
                        continue
                    os.close(here)
                    here = below
                    parts.append(name)
                    break
                trail.pop()
                if trail:
                    parts.pop()
                    above = _above(here, root, parts)
                    os.close(here)
                    here = above
                    if identity(os.fstat(here)) != trail[-1][1]:
                        raise OSError(errno.ESTALE, "its directories are moved while they are looked at")
            else:
                return
    finally:
        os.close(here)


def _read(fd: int, parts: Sequence[str], every: bool) -> Directory:
    found = Directory(list(parts), fd)
    into, names = found.into, found.names
    with os.scandir(fd) as entries:
        for found.count, entry in enumerate(entries, 1):
            name = entry.name
            if entry.is_dir(follow_symlinks=False):
                into.append(name)
            elif not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
                found.others.append(name)
            if every or name[0] == "." or name.lower() in _OF_INTEREST or not name.isascii():
                names.append(name)
    return found


def _opened(directory: int, name: str) -> int | None:
    """None where it is gone or may not be opened. Other errors, which would hide its content, are raised."""
    try:
        return os.open(name, _OPEN, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.EIO, errno.ESTALE):
            raise
        return None


def _above(here: int, root: int, parts: Sequence[str]) -> int:
    """The directory above `here`, whose path is `parts` below the root. Walks down from the root where `here` may be
    read but not searched, so that `..` cannot be opened."""
    try:
        return os.open("..", _UP, dir_fd=here)
    except OSError:
        at = os.open(".", _OPEN, dir_fd=root)
        for name in parts:
            below = os.open(name, _OPEN, dir_fd=at)
            os.close(at)
            at = below
        return at


class Spot(NamedTuple):
    """A protected path: its directory and name, and the identity and mode of the file found there. `linked_to`: the
    target, when it is a symbolic link."""

    path: str
    parent: Identity
    name: str
    what: Identity
    mode: int
    linked_to: str | None = None

    @property
    def is_placeholder(self) -> bool:
        return has_mode(self.mode)


@dataclass(slots=True)
class Survey:
    """The result for one directory tree; directories in `shut` could not be opened."""

    spots: list[Spot] = field(default_factory=list)
    repositories: list[str] = field(default_factory=list)
    """Git directories, `.git` and others: relative paths, "" for the root itself."""
    attributes: list[str] = field(default_factory=list)
    """Relative paths of `.gitattributes` files."""
    sockets: list[str] = field(default_factory=list)
    shut: list[str] = field(default_factory=list)


def survey(root: int, protected: Protected) -> Survey:
    """Survey a directory tree. Blocks for some 20 ms per 10,000 names. Raises OSError where it cannot be read."""
    found = Survey()
    for directory in directories(root, found.shut, every=protected.has_globs):
        for spot in spots_in(directory, protected):
            found.spots.append(spot)
            for names in (directory.into, directory.others):
                if spot.name in names:
                    names.remove(spot.name)
        if is_repository(directory):
            found.repositories.append(directory.path())
            directory.into = [name for name in directory.into if name not in _OBJECTS]
        found.attributes += [directory.path(name) for name in directory.names if plain(name) == ATTRIBUTES]
        found.sockets += [directory.path(name) for name in directory.others if _is_socket(name, directory.fd)]
    return found


def is_repository(directory: Directory) -> bool:
    """Whether git would take it for a git directory, that of a repository or of a linked worktree."""
    if directory.parts and plain(directory.parts[-1]) == GIT:
        return True
    names = set(directory.names)
    return names >= _REPOSITORY or names >= _FURTHER_TREE


def spots_in(directory: Directory, protected: Protected) -> Iterator[Spot]:
    """The protected entries of this one directory."""
    of_repository = is_repository(directory)
    for name in directory.names:
        if of_repository:
            wanted = plain(name) in OF_A_REPOSITORY
        else:
            wanted = protected.covers(directory.path(name), name) or (plain(name) == GIT and name not in directory.into)
        if wanted and (spot := spot_of(directory, name)) is not None:
            yield spot


def spot_of(directory: Directory, name: str) -> Spot | None:
    """The spot of this name; None when it is gone."""
    try:
        status = os.stat(name, dir_fd=directory.fd, follow_symlinks=False)
        linked_to = os.readlink(name, dir_fd=directory.fd) if stat.S_ISLNK(status.st_mode) else None
    except OSError:
        return None
    parent = identity(os.fstat(directory.fd))
    path = directory.path(name)
    return Spot(path, parent, name, identity(status), status.st_mode, linked_to)


def _is_socket(name: str, directory: int) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except OSError:
        return False
