"""Holes of Redis and Valkey that are publicly known, and in which releases they were mended."""

from collections.abc import Sequence
from dataclasses import dataclass

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Hole:
    """`mended`: the first good release of each line; a line between them that is not named was never mended."""

    name: str
    server: str
    what: str
    since: Version
    mended: Sequence[Version]

    def is_in(self, version: Version) -> bool:
        if version < self.since:
            return False
        line = version[:2]
        of_line = [release for release in self.mended if release[:2] == line]
        return version < of_line[0] if of_line else line < max(self.mended)[:2]


SCRIPTS = "a script may run foreign code in the server"
KNOWN = (
    Hole("CVE-2025-49844", "redis", SCRIPTS, (0,), ((6, 2, 20), (7, 2, 11), (7, 4, 6), (8, 0, 4), (8, 2, 2))),
    Hole("CVE-2025-49844", "valkey", SCRIPTS, (0,), ((7, 2, 11), (8, 0, 6), (8, 1, 4))),
    Hole("CVE-2026-23479", "redis", "a client with a login may run foreign code in the server", (7, 2), ((8, 6, 3),)),
)
"""From the advisories of both projects. A distribution may mend an older release without changing its number."""


def holes_in(server: str, version: str) -> Sequence[Hole]:
    """Those that a server of this version came out with; none for a version that cannot be read."""
    parts = version.split(".")
    if not all(part.isascii() and part.isdecimal() for part in parts):
        return ()
    numbers = tuple(map(int, parts))
    return [hole for hole in KNOWN if hole.server == server and hole.is_in(numbers)]
