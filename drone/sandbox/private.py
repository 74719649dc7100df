"""What belongs to MCC itself, its data, configuration and secrets: no tool sees it, through whatever name or mount."""

import errno
import os
import stat
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple


class Place(NamedTuple):
    """Where something lies in its file system (`device`, as the kernel numbers it), whatever is mounted where."""

    device: str
    path: str

    def way_to(self, other: "Place") -> str | None:
        """From here down to `other`, empty for the same place; None when it is not below."""
        if self.device != other.device:
            return None
        return "" if self.path == other.path else name_below(self.path, other.path)


class Mount(NamedTuple):
    """`what` is seen at `point`; `number` as in /proc/self/fdinfo."""

    number: str
    what: Place
    point: str


class Below:
    """What is below an open directory at this moment, seen through all mounts. Without /proc nothing is known."""

    def __init__(self, directory: int) -> None:
        self._directory = directory
        self._all = {mount.number: mount for mount in _mounts()}
        self._path = path_of(directory) or ""
        named = ((name_below(self._path, mount.point), mount.what) for mount in self._all.values() if self._path)
        self.mounts = {name: what for name, what in named if name}
        """Name from the directory to what is mounted there; of several at one point the last."""

    def names_of(self, path: str) -> frozenset[str]:
        """By which names `path` is seen, or what is mounted there of it; by none when it is not below.

        Of what is not there: where it would be.
        """
        place, here = self._place_of(os.path.realpath(path)), self._place(self._directory)
        if place is None or here is None:
            return frozenset()
        return frozenset(self._names(place, {"": here, **self.mounts})) - {""}

    def status(self, name: str) -> os.stat_result:
        """Raises OSError when nothing has this name any more."""
        return os.stat(name, dir_fd=self._directory, follow_symlinks=False)

    def _names(self, place: Place, tops: dict[str, Place]) -> Iterator[str]:
        for top, what in tops.items():
            if (way := what.way_to(place)) is not None:
                yield "/".join(part for part in (top, way) if part)
            elif place.way_to(what):
                yield top

    def _place_of(self, real: str) -> Place | None:
        """Of a path without links, which need not be there."""
        rest = ""
        while True:
            try:
                fd = os.open(real, _AT | os.O_NOFOLLOW)
            except OSError:
                if real == (parent := os.path.dirname(real)):
                    return None
                real, rest = parent, f"/{os.path.basename(real)}{rest}"
                continue
            try:
                place = self._place(fd)
            finally:
                os.close(fd)
            return place and Place(place.device, f"{place.path.rstrip('/')}{rest}" if rest else place.path)

    def _place(self, fd: int) -> Place | None:
        mount, path = self._all.get(_mount_number(fd)), path_of(fd)
        if mount is None or path is None:
            return None
        below = "" if path == mount.point else name_below(mount.point, path)
        if below is None:
            return None
        return Place(mount.what.device, os.path.join(mount.what.path, below) if below else mount.what.path)


_AT = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC


def name_below(directory: str, path: str) -> str | None:
    """The name of one path from another one; None when it is not below."""
    below = path.removeprefix(directory.rstrip("/") + "/")
    return below if below != path and below else None


def _mounts() -> Iterator[Mount]:
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
            for line in lines:
                number, _, device, root, point = line.split(" ", 5)[:5]
                yield Mount(number, Place(device, _plain(root)), _plain(point))
    except OSError:
        return


def _plain(path: str) -> str:
    return path.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")


def _mount_number(fd: int) -> str:
    try:
        with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as lines:
            return next((line.partition(":")[2].strip() for line in lines if line.startswith("mnt_id:")), "")
    except OSError:
        return ""


def path_of(fd: int) -> str | None:
    """Where what is open lies now; None without /proc."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return None


Identity = tuple[int, int]
"""Device and inode: the same for every name, link and mount of a file or directory."""

MOST = 20_000
"""Names looked at below private directories; there are some hundred in a data directory."""

MOST_LOOKED_AT = 200_000
"""Names in a workspace that are looked at for one that is private; about a second of work."""

MOST_HELD = 100
"""Files and directories kept open; there are some ten places."""

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
    paths `behind_links` holds. `linked` are the files of them that have several names."""

    tops: frozenset[Identity] = frozenset()
    all: frozenset[Identity] = frozenset()
    behind_links: frozenset[str] = frozenset()
    linked: frozenset[Identity] = frozenset()
    looked_at: float = float("-inf")


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
        self._one_at_a_time = Lock()
        weakref.finalize(self, _close, self._held)
        self._hold()

    def __bool__(self) -> bool:
        return bool(self._places)

    def holds(self, status: os.stat_result) -> bool:
        """Whether this file or directory is private."""
        number = identity(status)
        return bool(self._places) and number in self._known().all and number in self._known(_AGAIN_SECONDS).all

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
        here, seen = identity(os.fstat(directory)), Below(directory)
        return bool(seen.mounts) or any(here in _above(place) or seen.names_of(place) for place in self._paths())

    def names_in(self, directory: int) -> Iterator[tuple[str, bool]]:
        """Those that are below an open directory, by every name that they have from there, mounts of them and of what
        is around them included; with each whether it is a directory. Only the topmost: none lies below another one.

        Needs /proc; nothing is found without it.
        """
        if not self._places:
            return
        below = Below(directory)
        found = {name for place in (*self._paths(), *self._known().behind_links) for name in below.names_of(place)}
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
    def _is_among(known: frozenset[Identity], name: str, directory: int) -> bool:
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
                everything = tops | frozenset(self._everything(behind, linked))
                self._last = _Known(tops, everything, frozenset(behind), frozenset(linked), now)
            return self._last

    def _paths(self) -> tuple[str, ...]:
        """The places, and where what was there once lies now."""
        with self._one_at_a_time:
            moved = tuple(path for fd in self._held.values() if (path := path_of(fd)))
        return tuple(dict.fromkeys((*self._places, *moved)))

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

    def _everything(self, behind_links: set[str], linked: set[Identity]) -> Iterator[Identity]:
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
                    yield identity(status)
                    _note_links(status, linked)
                    behind_links.update((os.path.realpath(entry.path),) if is_link else ())
                if stat.S_ISDIR(status.st_mode) and not is_link and identity(status) not in besides:
                    pending.append(entry.path)


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


def _above(place: str) -> frozenset[Identity]:
    """The directories above a place; above where it would be, when it is not there."""
    parent = os.path.dirname(os.path.realpath(place))
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
