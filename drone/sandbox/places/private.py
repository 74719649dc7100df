"""MCC's own data, configuration and secrets, which no tool may see under any name, link or mount."""

import errno
import os
import stat
import time
import weakref
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

from drone.sandbox.places.mounts import MountView, mounts_here, path_of, real_path

Identity = tuple[int, int]
"""Device and inode: the same for every name, link and mount of a file or directory."""

MOST = 20_000
"""Most names examined below private directories; a data directory has some hundred."""

MOST_LOOKED_AT = 200_000
"""Most names of a workspace that are examined for hard links of private files; about a second of work."""

MOST_HELD = 100
"""Most private files and directories kept open; there are some ten places."""

MOST_ANSWERS = 1_000
"""Directories for which `may_be_below` caches its answer; for further ones it is computed each time."""

_LOOK_SECONDS = 1.0
"""How old the listing of private files may be."""

_AGAIN_SECONDS = 0.02
"""How old it may be once a file matches it: the inode may have been reused for another file a moment ago."""
_HELD = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_CLOEXEC
_UP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


class IsPrivate(Exception):
    """The opened file or directory belongs to MCC itself."""


def identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino


@dataclass(frozen=True, slots=True)
class _Known:
    """A listing of private files. `tops`: the places themselves. `all`: these and everything below them, targets of
    links included, each with the path at which it was found. `behind_links`: the paths of those targets. `linked`:
    those files that have several hard links. `looked_at`: when, by the object's clock."""

    tops: frozenset[Identity] = frozenset()
    all: Mapping[Identity, str] = field(default_factory=dict)
    behind_links: frozenset[str] = frozenset()
    linked: frozenset[Identity] = frozenset()
    looked_at: float = float("-inf")


class _Surroundings(NamedTuple):
    """The mounts and the resolved paths of the places: together with a directory's own path they determine whether a
    place lies below it."""

    mounts: bytes = b""
    places: tuple[str, ...] = ()


class _Answers(NamedTuple):
    """Cache of `may_be_below`, valid in these surroundings: identity and path of a directory → the answer."""

    under: _Surroundings
    found: dict[tuple[Identity, str | None], bool]


class Private:
    """Files and directories (`places`) that no tool sees, with everything below them.

    They are listed at most once a second, so that files which come and go are recognised by their hard links and mounts
    too. A file that was once found at a place stays private as long as it exists: moving it or a directory above it,
    and putting another file in its place, exposes nothing. Without `places` nothing is private. Safe for many threads.

    `except_below`: directories inside the places whose content is not private for a caller that holds a descriptor of
    it; a path that leads through the place itself is still refused.
    """

    def __init__(
        self,
        places: Iterable[str | os.PathLike[str]] = (),
        *,
        except_below: Iterable[str | os.PathLike[str]] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._except_below = tuple(os.path.abspath(place) for place in except_below)
        self._places = tuple(os.path.abspath(place) for place in places)
        self._clock = clock
        self._last = _Known()
        self._held: dict[Identity, int] = {}
        self._answers = _Answers(_Surroundings(), {})
        self._one_at_a_time = Lock()
        weakref.finalize(self, _close, self._held)
        self._open_places()

    def __bool__(self) -> bool:
        return bool(self._places)

    def holds(self, status: os.stat_result) -> bool:
        """Whether this file or directory is private."""
        number = identity(status)
        if not self._places or number not in self._known().all:
            return False
        known = self._known(_AGAIN_SECONDS)
        if number in known.tops or number not in known.all:
            return number in known.tops
        # The private file may be gone since, and its inode reused for a file of the agent: then list them anew.
        return _is_at(known.all[number], number) or number in self._known(0.0).all

    def look(self, fd: int) -> None:
        """Raises `IsPrivate` when this open file or directory is private."""
        if self.holds(os.fstat(fd)):
            raise IsPrivate

    def encloses(self, directory: int) -> bool:
        """Whether an open directory is private or lies inside a private one."""
        if not self._places:
            return False
        chain = tuple(_upwards(directory))
        return self.holds(os.fstat(directory)) or not self._known().tops.isdisjoint(chain)

    def may_be_below(self, directory: int) -> bool:
        """Whether one of the places, existing or not, may lie anywhere below an open directory.

        Any mount below the directory counts, as it may show a place under another name.
        """
        if not self._places:
            return False
        surroundings = _Surroundings(mounts_here(), self._real_paths())
        known = self._answers
        if known.under != surroundings:
            known = self._answers = _Answers(surroundings, {})
        here = identity(os.fstat(directory)), path_of(directory)
        if here not in known.found:
            seen = MountView(directory, surroundings.mounts)
            answer = bool(seen.mounts) or _is_above(here[0], surroundings.places)
            answer = answer or any(map(seen.names_of, surroundings.places))
            if not seen.is_known or len(known.found) >= MOST_ANSWERS:
                return answer
            known.found[here] = answer
        return known.found[here]

    def names_in(self, directory: int) -> Iterator[tuple[str, bool]]:
        """The private files and directories below an open directory: every relative name that they have there, also
        through mounts of them or of directories above them, and whether each is a directory. Only topmost names are
        answered: none lies below another one.

        Needs /proc; finds nothing without it.
        """
        if not self._places:
            return
        below = MountView(directory)
        real = map(real_path, (*self._paths(), *self._known().behind_links))
        names = {name for place in real for name in below.names_of(place)}
        covered: list[str] = []
        for name in sorted(names):
            try:
                is_directory = stat.S_ISDIR(below.status(name).st_mode)
            except OSError:
                continue
            if not any(name.startswith(f"{above}/") for above in covered):
                covered += [name] if is_directory else []
                yield name, is_directory

    def links_below(self, directory: int) -> Iterator[str]:
        """Hard links of private files below an open directory: only a look at every file there finds them.

        So all names are examined, and only if some private file has several links. Raises OSError for too many names.
        """
        linked = self._known().linked if self._places else frozenset()
        try:
            yield from self._links_among(linked, directory) if linked else ()
        except RecursionError as error:
            raise OSError(errno.ELOOP, "its directories lie too deep to look for private files in them") from error

    def _links_among(self, linked: frozenset[Identity], directory: int) -> Iterator[str]:
        left = MOST_LOOKED_AT
        for here, directories, files, fd in os.fwalk(".", dir_fd=directory, onerror=_unless_closed_or_gone):
            directories[:] = [name for name in directories if not self._is_among(self._last.all, name, fd)]
            left -= len(directories) + len(files)
            if left < 0:
                raise OSError(
                    errno.EFBIG, f"it has more than {MOST_LOOKED_AT:,} names, too many to look for private ones"
                )
            yield from (os.path.normpath(f"{here}/{name}") for name in files if self._is_among(linked, name, fd))

    @staticmethod
    def _is_among(known: Container[Identity], name: str, directory: int) -> bool:
        try:
            return identity(os.stat(name, dir_fd=directory, follow_symlinks=False)) in known
        except OSError:
            return False

    def _known(self, seconds: float = _LOOK_SECONDS) -> _Known:
        """The listing, at most so many seconds old."""
        with self._one_at_a_time:
            now = self._clock()
            if now - self._last.looked_at >= seconds:
                tops, behind, linked = self._open_places(), set[str](), set[Identity]()
                everything = dict(self._everything(behind, linked)) | dict.fromkeys(tops, "")
                self._last = _Known(tops, everything, frozenset(behind), frozenset(linked), now)
            return self._last

    def _paths(self) -> tuple[str, ...]:
        """The places, and the current paths of files that were found there and may have been moved since."""
        with self._one_at_a_time:
            moved = tuple(path for fd in self._held.values() if (path := path_of(fd)))
        return tuple(dict.fromkeys((*self._places, *moved)))

    def _real_paths(self) -> tuple[str, ...]:
        """The same paths without links. For a held descriptor the kernel tells the path, which saves most look-ups."""
        with self._one_at_a_time:
            held = {number: path for number, fd in self._held.items() if (path := path_of(fd))}
        paths, parents = dict.fromkeys(held.values()), dict[str, str]()
        for place in self._places:
            try:
                path = _named_once(os.lstat(place), held)
            except FileNotFoundError:
                # It does not exist, not even as a link: resolve its parent to get the path that it would have.
                parent, name = os.path.split(place)
                above = parents[parent] = parents.get(parent) or real_path(parent)
                path = os.path.join(above, name)
            except OSError:
                path = None
            paths[path or real_path(place)] = None
        return tuple(paths)

    def _open_places(self) -> frozenset[Identity]:
        """Open what is at the places now, and keep what was there before unless it was deleted. An open file keeps its
        inode, so no other file gets the same number."""
        for known in [known for known, fd in self._held.items() if not os.fstat(fd).st_nlink]:
            os.close(self._held.pop(known))
        places = set(self._held)
        for place in self._places:
            try:
                fd = os.open(place, _HELD)
            except OSError:
                continue
            places.add(now := identity(os.fstat(fd)))
            if len(self._held) >= MOST_HELD or self._held.setdefault(now, fd) != fd:
                os.close(fd)
        return frozenset(places)

    def _everything(self, behind_links: set[str], linked: set[Identity]) -> Iterator[tuple[Identity, str]]:
        """Identity and path of everything below the places, up to `MOST` names. Fills the two sets on the way."""
        for fd in self._held.values():
            _note_links(os.fstat(fd), linked)
        held = (f"/proc/self/fd/{fd}" for fd in self._held.values())
        except_below = frozenset(_identities(self._except_below))
        pending, left = [*held, *self._places], MOST
        while pending and left > 0:
            for entry in _entries(pending.pop()):
                left -= 1
                try:
                    status, is_link = entry.stat(), entry.is_symlink()
                except OSError:
                    continue
                if stat.S_ISREG(status.st_mode) or not is_link:
                    yield identity(status), entry.path
                    _note_links(status, linked)
                    behind_links.update((os.path.realpath(entry.path),) if is_link else ())
                if stat.S_ISDIR(status.st_mode) and not is_link and identity(status) not in except_below:
                    pending.append(entry.path)


def _named_once(status: os.stat_result, held: Mapping[Identity, str]) -> str | None:
    """The path of this file among the held ones; None where it is unknown, or ambiguous because of hard links."""
    several = stat.S_ISREG(status.st_mode) and status.st_nlink > 1
    return None if several else held.get(identity(status))


def _is_at(path: str, number: Identity) -> bool:
    try:
        return identity(os.stat(path)) == number
    except OSError:
        return False


def _identities(paths: Iterable[str]) -> Iterator[Identity]:
    for path in paths:
        with suppress(OSError):
            yield identity(os.stat(path, follow_symlinks=False))


def _unless_closed_or_gone(error: OSError) -> None:
    """Ignores directories that this user cannot open, as programs in a sandbox cannot open them either. Any other error
    would leave names out, and is raised."""
    if not isinstance(error, (PermissionError, FileNotFoundError, NotADirectoryError)):
        raise error


def _note_links(status: os.stat_result, linked: set[Identity]) -> None:
    if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
        linked.add(identity(status))


def _close(held: dict[Identity, int]) -> None:
    for fd in held.values():
        os.close(fd)


def _entries(directory: str) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []


def _upwards(directory: int) -> Iterator[Identity]:
    """A directory and those above it, up to the root or to the first that cannot be opened."""
    here = os.dup(directory)
    try:
        last = identity(os.fstat(here))
        yield last
        while True:
            try:
                above = os.open("..", _UP, dir_fd=here)
            except OSError:
                return
            os.close(here)
            here = above
            if (now := identity(os.fstat(here))) == last:
                return
            last = now
            yield now
    finally:
        os.close(here)


def _is_above(directory: Identity, places: Iterable[str]) -> bool:
    """Whether this directory is above one of these resolved paths, or would be if the path existed."""
    return any(directory in _above(parent) for parent in dict.fromkeys(map(os.path.dirname, places)))


def _above(parent: str) -> frozenset[Identity]:
    """A directory, given by its resolved path, and those above it; the existing ones only, when it does not exist."""
    while True:
        try:
            fd = os.open(parent, _UP)
        except OSError:
            if parent == os.path.dirname(parent):
                return frozenset()
            parent = os.path.dirname(parent)
            continue
        try:
            return frozenset(_upwards(fd))
        finally:
            os.close(fd)
