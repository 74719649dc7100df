"""Memory, processors and disk space: how much this process uses and may use, and how much is free."""

import ctypes
import gc
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

MEGABYTE = 1_000_000
ARENA_MAX, MMAP_THRESHOLD = -8, -3
"""Parameters of glibc's mallopt(3)."""

ARENAS = 2
LARGE_BYTES = 128 * 1024
SHARE = 0.75
"""The part of the memory of the machine, or of its control group, that MCC's processes may use together."""


def tune_allocator() -> None:
    """Configure glibc's malloc for this process; call it before threads are started. No effect without glibc.

    glibc gives every thread an arena of its own, up to eight per core, and an arena keeps the memory that its threads
    once needed. For dozens of threads that take turns at the same work, two arenas are enough. glibc also raises the
    size from which freed blocks are returned to the system to that of the largest block freed so far. After a journal
    or a request of megabytes, such blocks would fragment the heap for good; so that threshold is fixed at its default.
    """
    if (mallopt := _glibc("mallopt")) is not None:
        mallopt(ARENA_MAX, ARENAS)
        mallopt(MMAP_THRESHOLD, LARGE_BYTES)


YOUNG = 20_000
"""Allocations between two collections of young objects; with Python's default of 700, 200 concurrent turns cost half as
much again."""


def tune_collector() -> None:
    """Make garbage collections rarer and larger, and exclude objects that exist now, at the start of the process."""
    freeze_heap()
    gc.set_threshold(YOUNG, 20, 100)


def freeze_heap() -> None:
    """Exclude objects that exist now from garbage collections: modules and models are a million objects, and to go
    through them takes a tenth of a second, in which nothing else happens."""
    gc.collect()
    gc.freeze()


def trim_heap() -> None:
    """Return free pages inside the heap to the system. Takes milliseconds; call it when the process is idle."""
    if (trim := _glibc("malloc_trim")) is not None:
        trim(0)


def resident_bytes() -> int | None:
    """Resident memory of this process in bytes; None where the system does not tell."""
    try:
        pages = Path("/proc/self/statm").read_text("ascii").split()[1]
    except (OSError, IndexError):
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def memory_here(root: Path = Path("/")) -> int | None:
    """Memory in bytes of the machine, or the tightest limit of this process's control groups; None if unknown."""
    found = [*_of_machine(root / "proc" / "meminfo"), *_of_groups(root)]
    return min(found, default=None)


def allowed_bytes(limit_mb: float | None, shares: int, here: Callable[[], int | None] = memory_here) -> int | None:
    """Memory in bytes that this process may use: `limit_mb` megabytes if given, else one of `shares` equal parts of
    what all of MCC's processes may use.

    None: no limit, because `limit_mb` is 0 or the machine's memory is unknown.
    """
    if limit_mb is not None:
        return round(limit_mb * MEGABYTE) or None
    available = here()
    return None if available is None else round(available * SHARE / shares)


@cache
def _glibc(name: str) -> Callable[..., int] | None:
    """A function of glibc, looked up once: each lookup makes ctypes create a class, which waits for the collector."""
    try:
        found: Callable[..., int] | None = getattr(ctypes.CDLL(None), name, None)
    except (OSError, TypeError):
        return None
    return found


def cores_here(root: Path = Path("/"), affinity: Callable[[], int] | None = None) -> float:
    """Processors that this process may use: the number that it may run on, or the tightest quota of its control groups,
    such as 1.5."""
    own = (affinity or _affinity)()
    return min([float(own), *_quotas(root)])


def _affinity() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _quotas(root: Path) -> Iterator[float]:
    for group in _groups(root, "cpu"):
        try:
            if (group / "cpu.max").exists():
                quota, period = (group / "cpu.max").read_text("ascii").split()
            else:
                quota = (group / "cpu.cfs_quota_us").read_text("ascii").strip()
                period = (group / "cpu.cfs_period_us").read_text("ascii").strip()
        except (OSError, ValueError):
            continue
        if quota.isdigit() and period.isdigit() and int(period):
            yield int(quota) / int(period)


def _of_machine(file: Path) -> Iterator[int]:
    try:
        lines = file.read_text("ascii").splitlines()
    except OSError:
        return
    yield from (int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:"))


def _of_groups(root: Path) -> Iterator[int]:
    for group in _groups(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            try:
                limit = (group / name).read_text("ascii").strip()
            except OSError:
                continue
            if limit.isdigit():
                yield int(limit)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """The directories of this process's control groups and of those above them, for cgroups v1 and v2."""
    mounted = root / "sys" / "fs" / "cgroup"
    try:
        lines = (root / "proc" / "self" / "cgroup").read_text("utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers or controller in controllers.split(","):
            top = mounted / controller if controllers else mounted
            # In a container, its own group may be mounted at the top, whatever path /proc gives for it.
            place = top / path.lstrip("/")
            yield from (group for group in (place, *place.parents) if group.is_relative_to(top))


def existing(place: Path) -> Path:
    """`place`, or the nearest directory above it that exists."""
    while not place.exists() and place != place.parent:
        place = place.parent
    return place


def free_bytes(place: Path) -> int | None:
    """Bytes that can still be written under `place`, which need not exist yet; None where the system does not tell."""
    try:
        seen = os.statvfs(existing(place))
    except OSError:
        return None
    # A file system that counts no blocks says nothing of its space: that is not "full".
    return seen.f_bavail * seen.f_frsize if seen.f_blocks else None


def database_directory(url: str) -> Path | None:
    """The directory of an SQLite database's file; None for another database, or for one in memory."""
    from sqlalchemy.engine import make_url  # imported here: it takes a tenth of a second, too long for `mcc --help`

    made = make_url(url)
    if made.get_backend_name() != "sqlite" or made.database in (None, "", ":memory:"):
        return None
    return Path(os.path.abspath(str(made.database))).parent


@dataclass(frozen=True, slots=True)
class Reserve:
    """Disk space in `bytes` to keep free under each of these places, so that running orders can still be written and
    ended."""

    places: tuple[Path, ...]
    bytes: int

    @classmethod
    def beside(cls, database_url: str, data_dir: Path, megabytes: float) -> "Reserve":
        """The reserve of a process that writes to this database and this directory."""
        database = database_directory(database_url)
        found = [place for place in (database, data_dir) if place is not None]
        return cls(tuple(dict.fromkeys(found)), round(megabytes * MEGABYTE))

    def shortage(self, more: Iterable[Path] = (), *, times: float = 1.0) -> str | None:
        """A sentence for people if less than `times` the reserve is free under one of its places or of `more`."""
        for place in (*self.places, *more):
            free = free_bytes(place)
            if free is not None and free < self.bytes * times:
                return (
                    f"The disk is nearly full: {free / MEGABYTE:,.0f} MB are free under {place}, "
                    f"and {self.bytes / MEGABYTE:,.0f} MB are kept in reserve (disk_reserve_mb). Free some space."
                )
        return None
