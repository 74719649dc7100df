"""What belongs to MCC itself, its data, configuration and secrets: no tool sees it, through whatever name or mount."""

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

from drone.sandbox.below import Below, mounts_here, path_of, real_path

Identity = tuple[int, int]
"""Device and inode: the same for every name, link and mount of a file or directory."""

MOST = 20_000
"""Names looked at below private directories; there are some hundred in a data directory."""

MOST_LOOKED_AT = 200_000
"""Names in a workspace that are looked at for one that is private; about a second of work."""

MOST_HELD = 100
"""Files and directories kept open; there are some ten places."""

MOST_ANSWERS = 1_000
"""Directories of which is kept whether something private may be in them; of further ones it is asked each time."""

_LOOK_SECONDS = 1.0
_AGAIN_SECONDS = 0.02
"""What is found to be private is looked up again: something else may have the number of what was there a moment ago."""
_HELD = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_CLOEXEC
_UP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


class IsPrivate(Exception):
    """What was opened belongs to MCC itself."""


def identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino


@dataclass(frozen=True, slots=True)
class _Known:
    """`tops` are the places themselves; `all` what lies below them as well, files behind their links included, whose
    paths `behind_links` holds, each with the path at which it was found. `linked` are the files of them that have
    several names."""

    tops: frozenset[Identity] = frozenset()
    all: Mapping[Identity, str] = field(default_factory=dict)
    behind_links: frozenset[str] = frozenset()
    linked: frozenset[Identity] = frozenset()
    looked_at: float = float("-inf")


class _Surroundings(NamedTuple):
    """What is mounted, and where the places lie, without links: with where a directory lies that says what is in it."""

    mounts: bytes = b""
    places: tuple[str, ...] = ()


class _Answers(NamedTuple):
    """Whether a place may be found below a directory, which is told by what it is and where it lies."""

    under: _Surroundings
    found: dict[tuple[Identity, str | None], bool]


class Private:
    """Files and directories that no tool sees, with all that is below them.

    What is there now is looked up at most once a second, so that files which come and go are known also by their hard
    links and mounts. What was once found at a place stays private as long as it is there: who moves it, or what is
    around it, and puts something else in its place makes nothing of it seen. Safe for many threads. Without `places`
    nothing is private. `besides`: directories in them of which what is below is not private to who was given a
    descriptor of it; whoever comes by way of their place is refused there.
    """

    def __init__(
        self,
        places: Iterable[str | os.PathLike[str]] = (),
        *,
        besides: Iterable[str | os.PathLike[str]] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._besides = tuple(os.path.abspath(place) for place in besides)
        self._places = tuple(os.path.abspath(place) for place in places)
        self._clock = clock
        self._last = _Known()
        self._held: dict[Identity, int] = {}
        self._answers = _Answers(_Surroundings(), {})
        self._one_at_a_time = Lock()
        weakref.finalize(self, _close, self._held)
        self._hold()

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
        # Perhaps it has gone since, and its number to a file that an agent made: then it is looked for anew.
        return _is_at(known.all[number], number) or number in self._known(0.0).all

    def look(self, fd: int) -> None:
        """Raises `IsPrivate` when what is open there is."""
        if self.holds(os.fstat(fd)):
            raise IsPrivate

    def around(self, directory: int) -> bool:
        """Whether an open directory is private, or lies in one that is."""
        if not self._places:
            return False
        chain = tuple(_upwards(directory))
        return self.holds(os.fstat(directory)) or not self._known().tops.isdisjoint(chain)

    def perhaps_in(self, directory: int) -> bool:
        """Whether one of the places, there or not, may be found somewhere below an open directory.

        A mount in there may be one of them under another name; it counts.
        """
        if not self._places:
            return False
        surroundings = _Surroundings(mounts_here(), self._real_paths())
        known = self._answers
        if known.under != surroundings:
            known = self._answers = _Answers(surroundings, {})
        here = identity(os.fstat(directory)), path_of(directory)
        if here not in known.found:
            seen = Below(directory, surroundings.mounts)
            answer = bool(seen.mounts) or _is_above(here[0], surroundings.places)
            answer = answer or any(map(seen.names_of, surroundings.places))
            if not seen.is_known or len(known.found) >= MOST_ANSWERS:
                return answer
            known.found[here] = answer
        return known.found[here]

    def names_in(self, directory: int) -> Iterator[tuple[str, bool]]:
        """Those that are below an open directory, by every name that they have from there, mounts of them and of what
        is around them included; with each whether it is a directory. Only the topmost: none lies below another one.

        Needs /proc; nothing is found without it.
        """
        if not self._places:
            return
        below = Below(directory)
        real = map(real_path, (*self._paths(), *self._known().behind_links))
        found = {name for place in real for name in below.names_of(place)}
        covered: list[str] = []
        for name in sorted(found):
            try:
                is_directory = stat.S_ISDIR(below.status(name).st_mode)
            except OSError:
                continue
            if not any(name.startswith(f"{above}/") for above in covered):
                covered += [name] if is_directory else []
                yield name, is_directory

    def links_below(self, directory: int) -> Iterator[str]:
        """Further names of private files below an open directory: hard links, which nothing but the file gives away.

        All names there are looked at, and only where some private file has several. Raises OSError for too many.
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
        """What was found there, so many seconds ago at most."""
        with self._one_at_a_time:
            now = self._clock()
            if now - self._last.looked_at >= seconds:
                tops, behind, linked = self._hold(), set[str](), set[Identity]()
                everything = dict(self._everything(behind, linked)) | dict.fromkeys(tops, "")
                self._last = _Known(tops, everything, frozenset(behind), frozenset(linked), now)
            return self._last

    def _paths(self) -> tuple[str, ...]:
        """The places, and where what was there once lies now."""
        with self._one_at_a_time:
            moved = tuple(path for fd in self._held.values() if (path := path_of(fd)))
        return tuple(dict.fromkeys((*self._places, *moved)))

    def _real_paths(self) -> tuple[str, ...]:
        """The same without links. Of what is held open the kernel says where it lies, which saves most questions."""
        with self._one_at_a_time:
            held = {number: path for number, fd in self._held.items() if (path := path_of(fd))}
        found, parents = dict.fromkeys(held.values()), dict[str, str]()
        for place in self._places:
            try:
                path = _named_once(os.lstat(place), held)
            except FileNotFoundError:
                # Not even a link is there: where it would be is said by what is above it.
                parent, name = os.path.split(place)
                above = parents[parent] = parents.get(parent) or real_path(parent)
                path = os.path.join(above, name)
            except OSError:
                path = None
            found[path or real_path(place)] = None
        return tuple(found)

    def _hold(self) -> frozenset[Identity]:
        """What is at the places now, and what was and is elsewhere: open, so that no other one gets its number."""
        for known in [known for known, fd in self._held.items() if not os.fstat(fd).st_nlink]:
            os.close(self._held.pop(known))
        found = set(self._held)
        for place in self._places:
            try:
                fd = os.open(place, _HELD)
            except OSError:
                continue
            found.add(now := identity(os.fstat(fd)))
            if len(self._held) >= MOST_HELD or self._held.setdefault(now, fd) != fd:
                os.close(fd)
        return frozenset(found)

    def _everything(self, behind_links: set[str], linked: set[Identity]) -> Iterator[tuple[Identity, str]]:
        for fd in self._held.values():
            _note_links(os.fstat(fd), linked)
        held = (f"/proc/self/fd/{fd}" for fd in self._held.values())
        besides = frozenset(_identities(self._besides))
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
                if stat.S_ISDIR(status.st_mode) and not is_link and identity(status) not in besides:
                    pending.append(entry.path)


def _named_once(status: os.stat_result, held: Mapping[Identity, str]) -> str | None:
    """Where this lies, if that is one of those whose paths are known; None for a file of several names."""
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
    """What this user cannot open, nothing in a sandbox can; all else would leave names out."""
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
    """A directory and those above it, up to the root or to where nothing more is seen."""
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
    """Whether this directory is above one of these places, named without links, or would be."""
    return any(directory in _above(parent) for parent in dict.fromkeys(map(os.path.dirname, places)))


def _above(parent: str) -> frozenset[Identity]:
    """A directory, named without links, and those above it; those above where it would be, when it is not there."""
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
