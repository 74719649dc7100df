"""Mounts: by which names a file or directory is visible below an open directory."""

import os
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple


class DevicePath(NamedTuple):
    """A path within a file system (`device`, major:minor as the kernel numbers it), independent of mount points."""

    device: str
    path: str

    def way_to(self, other: "DevicePath") -> str | None:
        """The relative path from here down to `other`, empty for the same place; None when it is not below."""
        if self.device != other.device:
            return None
        return "" if self.path == other.path else name_below(self.path, other.path)


class MountEntry(NamedTuple):
    """`what` is mounted at `point`; `number` is the mount id, as in /proc/self/fdinfo."""

    number: str
    what: DevicePath
    point: str


class MountView:
    """What is visible below an open directory at this moment, through all mounts. Without /proc nothing is known."""

    def __init__(self, directory: int, mounts: bytes | None = None) -> None:
        """`mounts`: the answer of `mounts_here`, for callers that have it already."""
        self._directory = directory
        self._all = _by_number(mounts_here() if mounts is None else mounts)
        self._path = path_of(directory) or ""
        named = ((name_below(self._path, mount.point), mount.what) for mount in self._all.values() if self._path)
        self.mounts = {name: what for name, what in named if name}
        """Name below the directory → what is mounted there; of several mounts at one point the last."""
        self._here = self._place(directory)

    @property
    def is_known(self) -> bool:
        """Whether the kernel told where the directory lies."""
        return self._here is not None

    def names_of(self, real: str) -> frozenset[str]:
        """The names by which `real`, a path without links, is visible below the directory, and mount points that show a
        part of it; empty when it is not below.

        For a path that does not exist: the names that it would have.
        """
        place, here = self._place_of(real), self._here
        if place is None or here is None:
            return frozenset()
        return frozenset(self._names(place, {"": here, **self.mounts})) - {""}

    def status(self, name: str) -> os.stat_result:
        """Raises OSError when nothing has this name any more."""
        return os.stat(name, dir_fd=self._directory, follow_symlinks=False)

    def _names(self, place: DevicePath, tops: dict[str, DevicePath]) -> Iterator[str]:
        for top, what in tops.items():
            if (way := what.way_to(place)) is not None:
                yield "/".join(part for part in (top, way) if part)
            elif place.way_to(what):
                yield top

    def _place_of(self, real: str) -> DevicePath | None:
        """The device path of a path without links, which need not exist."""
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
            return place and DevicePath(place.device, f"{place.path.rstrip('/')}{rest}" if rest else place.path)

    def _place(self, fd: int) -> DevicePath | None:
        mount, path = self._all.get(_mount_number(fd)), path_of(fd)
        if mount is None or path is None:
            return None
        below = "" if path == mount.point else name_below(mount.point, path)
        if below is None:
            return None
        return DevicePath(mount.what.device, os.path.join(mount.what.path, below) if below else mount.what.path)


_AT = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC


def name_below(directory: str, path: str) -> str | None:
    """`path` relative to `directory`, by their texts; None when it is not below."""
    below = path.removeprefix(directory.rstrip("/") + "/")
    return below if below != path and below else None


_AT_ONCE = 65_536


def mounts_here() -> bytes:
    """The content of /proc/self/mountinfo; empty without /proc."""
    try:
        # os.open and not `open`, which is slower: this is read for each workspace, and the content rarely changes.
        info = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        parts = []
        while part := os.read(info, _AT_ONCE):
            parts.append(part)
    except OSError:
        return b""
    finally:
        os.close(info)
    return b"".join(parts)


@lru_cache(maxsize=2)
def _by_number(mounts: bytes) -> dict[str, MountEntry]:
    """Mount id → mount. Parsed once while mountinfo stays the same; callers must not change the answer."""
    found = {}
    for line in filter(None, mounts.decode("utf-8", "surrogateescape").split("\n")):
        number, _, device, root, point = line.split(" ", 5)[:5]
        found[number] = MountEntry(number, DevicePath(device, _unescaped(root)), _unescaped(point))
    return found


def _unescaped(path: str) -> str:
    """A path of mountinfo, in which the kernel writes space, tab, newline and backslash as octal escapes."""
    if "\\" not in path:
        return path
    return path.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")


_INFO_BYTES = 4_096
"""Read from /proc/self/fdinfo/N: the mount id stands in its first lines."""


def _mount_number(fd: int) -> str:
    try:
        # os.open and not `open`, which takes longer than the system call: this is asked for each private place.
        info = os.open(f"/proc/self/fdinfo/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        lines = os.read(info, _INFO_BYTES)
    except OSError:
        return ""
    finally:
        os.close(info)
    return (lines.partition(b"\nmnt_id:")[2].partition(b"\n")[0]).strip().decode("ascii")


def path_of(fd: int) -> str | None:
    """The path at which an open file or directory lies now; None without /proc."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return None


_DELETED = " (deleted)"


def real_path(path: str) -> str:
    """As `os.path.realpath`, but by one question to the kernel instead of one per component. Raises ValueError too."""
    here, rest = os.path.normpath(path), ""
    while "/.." not in path and here.startswith("/"):
        try:
            fd = os.open(here, _AT)
        except FileNotFoundError:
            if os.path.islink(here) or here == (parent := os.path.dirname(here)):
                break
            here, rest = parent, f"/{os.path.basename(here)}{rest}"
            continue
        except OSError:
            break
        try:
            found = path_of(fd)
        finally:
            os.close(fd)
        if found is None or not found.startswith("/") or found.endswith(_DELETED):
            break
        return f"{found.rstrip('/')}{rest}" if rest else found
    return os.path.realpath(path)
