"""Where things lie below an open directory, by whatever mount they are seen there."""

import os
from collections.abc import Iterator
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

    def __init__(self, directory: int) -> None:
        self._directory = directory
        self._all = {mount.number: mount for mount in _mounts()}
        self._path = path_of(directory) or ""
        named = ((name_below(self._path, mount.point), mount.what) for mount in self._all.values() if self._path)
        self.mounts = {name: what for name, what in named if name}
        """Name from the directory to what is mounted there; of several at one point the last."""
        self._here = self._place(directory)

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


def _mounts() -> Iterator[Mount]:
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
            for line in lines:
                number, _, device, root, point = line.split(" ", 5)[:5]
                yield Mount(number, DevicePath(device, _plain(root)), _plain(point))
    except OSError:
        return


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
