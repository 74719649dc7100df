"""Directories in which a running family lets orders work besides its configured roots, until it ends."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from mcc.configuration.places import NotPrivate, read_private, refuse_others

PLACE = Path("run", "added-roots")
MOST_BYTES = 64 * 1024


class AddedRoots:
    """A file in the data directory, one directory a line as JSON. Only its owner can add to it, and only its owner's
    processes believe it; of agents none sees the data directory. Safe for many threads and processes."""

    def __init__(self, data_dir: Path) -> None:
        self._file = data_dir / PLACE
        self._known: tuple[tuple[int, int, int], tuple[Path, ...]] | None = None

    def __call__(self) -> tuple[Path, ...]:
        """Those that were added, without links when they were; none where the file cannot be believed."""
        try:
            found = self._file.stat()
            version = (found.st_ino, found.st_size, found.st_mtime_ns)
            if self._known is None or self._known[0] != version:
                self._known = version, tuple(_paths(read_private(self._file, MOST_BYTES)))
            return self._known[1]
        except (OSError, NotPrivate):
            return ()

    def add(self, directory: Path) -> None:
        """Let orders work in `directory`, which is absolute and without links. Raises OSError and `NotPrivate`."""
        refuse_others(self._file.parent.stat(), self._file.parent)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._file, flags, 0o600)
        try:
            os.write(descriptor, json.dumps(str(directory)).encode() + b"\n")
        finally:
            os.close(descriptor)

    def clear(self) -> None:
        self._file.unlink(missing_ok=True)


def _paths(content: bytes) -> Iterator[Path]:
    for line in content.splitlines():
        try:
            path = json.loads(line)
        except ValueError:
            continue
        if isinstance(path, str) and os.path.isabs(path):
            yield Path(os.path.abspath(path))
