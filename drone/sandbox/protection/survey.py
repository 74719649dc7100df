"""The survey of a directory tree of any depth: protected paths, git directories and sockets."""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from drone.sandbox.places.beneath import opened_beneath, resolved
from drone.sandbox.places.mounts import path_of
from drone.sandbox.places.private import Identity, identity
from drone.sandbox.places.workspace_key import MARKER
from drone.sandbox.protection.git_directories import COMMONDIR, MARKS, is_git_directory, is_guarded
from drone.sandbox.protection.placeholders import has_mode
from drone.sandbox.protection.protected import ATTRIBUTES, GIT, OF_A_REPOSITORY, Protected, may_be_named, plain

MOST_NAMES = 1_000_000
"""Most names that a survey examines; some two seconds of work."""

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_UP = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_OBJECTS = ("objects", "refs", "logs")
_IN_GIT = frozenset((*OF_A_REPOSITORY, *MARKS))
_POINTER_BYTES = 4_096


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
            directory = read_directory(here, parts, every=every)
            most -= directory.count
            if most < 0:
                raise OSError(errno.EFBIG, "it has too many files to look for protected ones among them")
            yield directory
            trail.append((directory.into, identity(os.fstat(here))))
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


def read_directory(fd: int, parts: Sequence[str], *, every: bool) -> Directory:
    """What an open directory holds. Raises OSError."""
    directory = Directory(list(parts), fd)
    into, names = directory.into, directory.names
    with os.scandir(fd) as entries:
        for directory.count, entry in enumerate(entries, 1):
            name = entry.name
            if entry.is_dir(follow_symlinks=False):
                into.append(name)
            elif not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
                directory.others.append(name)
            if every or is_of_interest(name):
                names.append(name)
    return directory


def is_of_interest(name: str) -> bool:
    """Whether a file of this name can be protected, or can make its directory a git directory."""
    return name[0] == "." or (lower := name.lower()) in _IN_GIT or may_be_named(lower) or not name.isascii()


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
class TreeSurvey:
    """The result for one directory tree; directories in `shut` could not be opened."""

    spots: list[Spot] = field(default_factory=list)
    repositories: dict[Identity, str] = field(default_factory=dict)
    """Git directories, `.git` and others, and their common directories: relative paths, "" for the root itself."""
    commons: list[str] = field(default_factory=list)
    """Relative paths of the directories that a `commondir` names."""
    attributes: list[str] = field(default_factory=list)
    """Relative paths of `.gitattributes` files."""
    sockets: list[str] = field(default_factory=list)
    shut: list[str] = field(default_factory=list)


def survey(root: int, protected: Protected) -> TreeSurvey:
    """Survey a directory tree. Blocks for some 20 ms per 10,000 names. Raises OSError where it cannot be read."""
    result = TreeSurvey()
    for directory in directories(root, result.shut, every=protected.has_globs):
        for spot in spots_in(directory, protected):
            result.spots.append(spot)
            for names in (directory.into, directory.others):
                if spot.name in names:
                    names.remove(spot.name)
        if is_repository(directory):
            result.repositories[identity(os.fstat(directory.fd))] = directory.path()
            if (common := _common_of(root, directory)) is not None:
                result.commons.append(common)
            leave_out_objects(directory)
        result.attributes += [directory.path(name) for name in directory.names if plain(name) == ATTRIBUTES]
        result.sockets += [directory.path(name) for name in directory.others if _is_socket(name, directory.fd)]
    _survey_commons(root, result)
    return result


def is_repository(directory: Directory) -> bool:
    """Whether git would take it for a git directory, that of a repository or of a linked worktree."""
    return is_git_directory(directory.parts[-1] if directory.parts else "", directory.names)


def leave_out_objects(directory: Directory) -> None:
    """Do not descend into the objects and refs of a `.git`, which are many. Those of another git directory may be
    anything that merely looks like them, and a person may work below."""
    if GIT in map(plain, directory.parts):
        directory.into = [name for name in directory.into if name not in _OBJECTS]


def is_left_out(parts: Sequence[str]) -> bool:
    """Whether this is the path of such objects and refs."""
    return GIT in map(plain, parts[:-1]) and parts[-1] in _OBJECTS


def _common_of(root: int, directory: Directory) -> str | None:
    """The directory that a `commondir` makes git read configuration and hooks from; None where it is not below the
    root."""
    for name in directory.names:
        if plain(name) == COMMONDIR:
            try:
                with open(os.open(name, _FILE, dir_fd=directory.fd), "rb") as file:
                    pointer = file.read(_POINTER_BYTES).split(b"\n")[0]
                if pointer.startswith(b"/"):
                    pointer = os.path.relpath(pointer, os.fsencode(path_of(root) or "/"))
                else:
                    pointer = os.path.join(os.fsencode(directory.path()), pointer)
                return os.fsdecode(resolved(root, pointer))
            except OSError:
                continue
    return None


def _survey_commons(root: int, found: TreeSurvey) -> None:
    """Add the protected paths of common directories that are no git directories by themselves, for want of a HEAD."""
    for path in set(found.commons) - set(found.repositories.values()):
        try:
            fd = opened_beneath(root, path or ".", _OPEN)
        except OSError:
            continue
        try:
            directory = read_directory(fd, path.split("/") if path else [], every=False)
            known = {spot.path for spot in found.spots}
            spots = (spot_of(directory, name) for name in directory.names if plain(name) in OF_A_REPOSITORY)
            found.spots += [spot for spot in spots if spot is not None and spot.path not in known]
            found.repositories[identity(os.fstat(fd))] = path
        finally:
            os.close(fd)


def spots_in(directory: Directory, protected: Protected, *, is_git: bool | None = None) -> Iterator[Spot]:
    """The protected entries of this one directory. `is_git`: whether it is a git directory, None = to be found out."""
    in_git = is_repository(directory) if is_git is None else is_git
    in_dot_git = in_git and GIT in map(plain, directory.parts)
    for name in directory.names:
        wanted = in_git and is_guarded(name)
        # A directory that looks like a git directory may be anything else as well; below a `.git` all names are git's.
        if not wanted and not in_dot_git and not (in_git and name == MARKER):
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
