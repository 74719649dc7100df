"""Memory, processors and disk: what this process holds, what it may hold, and what is left where its data lies."""

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
"""The part of the machine's memory, or of its control group's, that is for processes of ours."""


def settle() -> None:
    """Tell glibc how this process uses memory; to be called before its threads begin. Elsewhere nothing happens.

    glibc gives every thread an arena of its own, up to eight per core, and each keeps what its threads once needed:
    with dozens of threads that take turns at the same work, two do. It also raises the size from which a block goes
    back to the system when it is freed to that of the largest one freed so far, after which journals and requests of
    megabytes leave holes for ever; so that size is held where it begins.
    """
    if (mallopt := _glibc("mallopt")) is not None:
        mallopt(ARENA_MAX, ARENAS)
        mallopt(MMAP_THRESHOLD, LARGE_BYTES)


YOUNG = 20_000
"""Allocations between two rounds over the young objects; Python's own 700 made 200 turns at once cost half again."""


def calm() -> None:
    """Collect in fewer, larger rounds, and leave what is there at the start of the process out of them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 20, 100)


def give_back() -> None:
    """Give whole free pages in the midst of the heap back to the system; milliseconds, for a quiet moment."""
    if (trim := _glibc("malloc_trim")) is not None:
        trim(0)


def resident_bytes() -> int | None:
    """What this process holds in memory now; None where the system does not say."""
    try:
        pages = Path("/proc/self/statm").read_text("ascii").split()[1]
    except (OSError, IndexError):
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def memory_here(root: Path = Path("/")) -> int | None:
    """Bytes that the machine has, or the tightest control group that this process is in; None if nobody says."""
    found = [*_of_machine(root / "proc" / "meminfo"), *_of_groups(root)]
    return min(found, default=None)


def allowed_bytes(asked_mb: float | None, shares: int, here: Callable[[], int | None] = memory_here) -> int | None:
    """How much this process may hold: `asked_mb`, else one of `shares` equal parts of what is for all of ours.

    None: there is no bound, because 0 was asked for or nobody says how much there is.
    """
    if asked_mb is not None:
        return round(asked_mb * MEGABYTE) or None
    there = here()
    return None if there is None else round(there * SHARE / shares)


@cache
def _glibc(name: str) -> Callable[..., int] | None:
    """Looked up once: each time ctypes makes a class for it, which is left to the garbage collector."""
    try:
        found: Callable[..., int] | None = getattr(ctypes.CDLL(None), name, None)
    except (OSError, TypeError):
        return None
    return found


def cores_here(root: Path = Path("/"), affinity: Callable[[], int] | None = None) -> float:
    """Processors that this process may use: those that it may run on, or what the tightest quota of its control groups
    leaves of them, such as 1.5."""
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
    """The groups of this process and those above them, in both versions of control groups."""
    mounted = root / "sys" / "fs" / "cgroup"
    try:
        lines = (root / "proc" / "self" / "cgroup").read_text("utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers or controller in controllers.split(","):
            top = mounted / controller if controllers else mounted
            # Inside of a container its own group may be mounted at the top, whatever its path is outside.
            place = top / path.lstrip("/")
            yield from (one for one in (place, *place.parents) if one.is_relative_to(top))


def existing(place: Path) -> Path:
    """`place`, or the nearest directory above it that exists."""
    while not place.exists() and place != place.parent:
        place = place.parent
    return place


def free_bytes(place: Path) -> int | None:
    """What may still be written under `place`, which need not exist yet; None where the file system does not say."""
    try:
        seen = os.statvfs(existing(place))
    except OSError:
        return None
    return seen.f_bavail * seen.f_frsize if seen.f_blocks else None


def database_directory(url: str) -> Path | None:
    """Where the file of an SQLite database lies; None for another database, or for one in memory."""
    from sqlalchemy.engine import make_url  # costs a tenth of a second, which `mcc --help` must not pay

    made = make_url(url)
    if made.get_backend_name() != "sqlite" or made.database in (None, "", ":memory:"):
        return None
    return Path(os.path.abspath(str(made.database))).parent


@dataclass(frozen=True, slots=True)
class Reserve:
    """So much must stay free under each of these places, that what runs can still be written down and ended."""

    places: tuple[Path, ...]
    bytes: int

    @classmethod
    def beside(cls, database_url: str, data_dir: Path, megabytes: float) -> "Reserve":
        """For a process that writes into this database and this directory."""
        database = database_directory(database_url)
        found = [place for place in (database, data_dir) if place is not None]
        return cls(tuple(dict.fromkeys(found)), round(megabytes * MEGABYTE))

    def shortage(self, more: Iterable[Path] = (), *, times: float = 1.0) -> str | None:
        """A sentence when there is less than `times` the reserve under a place of its own, or under one of `more`."""
        for place in (*self.places, *more):
            free = free_bytes(place)
            if free is not None and free < self.bytes * times:
                return (
                    f"The disk is nearly full: {free / MEGABYTE:,.0f} MB are free under {place}, "
                    f"and {self.bytes / MEGABYTE:,.0f} MB are kept in reserve (disk_reserve_mb). Free some space."
                )
        return None
