"""Where things lie below an open directory, by whatever mount they are seen there."""

import os
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple


class DevicePath(NamedTuple):
    """Where something lies in its file system (`device`, as the kernel numbers it), whatever is mounted where."""

    device: str
    path: str

    def way_to(self, other: "DevicePath") -> str | None:
        """From here down to `other`, empty for the same place; None when it is not below."""
        if self.device != other.device:
            return None
        return "" if self.path == other.path else name_below(self.path, other.path)


class Mount(NamedTuple):
    """`what` is seen at `point`; `number` as in /proc/self/fdinfo."""

    number: str
    what: DevicePath
    point: str


class Below:
    """What is below an open directory at this moment, seen through all mounts. Without /proc nothing is known."""

    def __init__(self, directory: int, mounts: bytes | None = None) -> None:
        """`mounts`: as `mounts_here` answers, where that was asked already."""
        self._directory = directory
        self._all = _by_number(mounts_here() if mounts is None else mounts)
        self._path = path_of(directory) or ""
        named = ((name_below(self._path, mount.point), mount.what) for mount in self._all.values() if self._path)
        self.mounts = {name: what for name, what in named if name}
        """Name from the directory to what is mounted there; of several at one point the last."""
        self._here = self._place(directory)

    @property
    def is_known(self) -> bool:
        """Whether the kernel says where the directory lies."""
        return self._here is not None

    def names_of(self, real: str) -> frozenset[str]:
        """By which names this path without links is seen, or what is mounted there of it; by none when it is not below.

        Of what is not there: where it would be.
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
    """The name of one path from another one; None when it is not below."""
    below = path.removeprefix(directory.rstrip("/") + "/")
    return below if below != path and below else None


_AT_ONCE = 65_536


def mounts_here() -> bytes:
    """What the kernel says of all mounts that this process sees; empty without /proc."""
    try:
        # Not by `open`: it is asked for each workspace, and mostly says what it said before.
        info = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        said = []
        while part := os.read(info, _AT_ONCE):
            said.append(part)
    except OSError:
        return b""
    finally:
        os.close(info)
    return b"".join(said)


@lru_cache(maxsize=2)
def _by_number(mounts: bytes) -> dict[str, Mount]:
    """Read once for as long as the same is said; nobody may change the answer."""
    found = {}
    for line in filter(None, mounts.decode("utf-8", "surrogateescape").split("\n")):
        number, _, device, root, point = line.split(" ", 5)[:5]
        found[number] = Mount(number, DevicePath(device, _plain(root)), _plain(point))
    return found


def _plain(path: str) -> str:
    if "\\" not in path:
        return path
    return path.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")


_INFO_BYTES = 4_096
"""The number of a mount stands in the first lines of what the kernel says of a descriptor."""


def _mount_number(fd: int) -> str:
    try:
        # Not by `open`, which takes longer than the kernel does: it is asked for each private place.
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
    """Where what is open lies now; None without /proc."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return None


_DELETED = " (deleted)"


def real_path(path: str) -> str:
    """As `os.path.realpath`, asked of the kernel at once and not component by component. Raises ValueError as that."""
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
