"""Free disk space: how much is left where a database, a data directory or a workspace lies."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MEGABYTE = 1_000_000


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
