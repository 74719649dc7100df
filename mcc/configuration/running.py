"""The family that runs on a data directory: its published address, and the workspace roots added while it runs."""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from mcc.configuration.places import NotPrivate, read_private, refuse_others

FAMILY_FILE = "family.json"
LOCK_FILE = "family.lock"
LOOK_SECONDS = 0.1

ADDED_ROOTS_FILE = Path("run", "added-roots")
MOST_BYTES_OF_ROOTS = 64 * 1024


@dataclass(frozen=True, slots=True)
class Presence:
    """What a running family publishes.

    `purpose`: "up" for a family that stays, "run" for the embedded family of one order. `settings`: the `MCC_`
    variables of its drones, for other commands and drones started on the same data directory.
    """

    url: str
    pid: int
    flower_url: str | None
    started_at: str
    purpose: str = "up"
    redis_url: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)


class Held(Enum):
    """Why a data directory has no published address: no family has locked it, or one that is still starting has."""

    NOBODY = "nobody"
    STARTING = "starting"


def find_family(data_dir: Path) -> Presence | Held:
    """The family that holds the lock of `data_dir`. A family.json left by a killed family is ignored.

    Raises `NotPrivate` when other users could have written family.json.
    """
    try:
        descriptor = os.open(data_dir / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return Held.NOBODY
    try:
        # A lock ends with its process, however that ends: a file alone would tell of a family that was killed.
        if lock(descriptor, fcntl.LOCK_SH):
            return Held.NOBODY
    finally:
        os.close(descriptor)
    # The lock is taken first and the address published last, so locked without an address means starting.
    return published(data_dir) or Held.STARTING


def await_family(data_dir: Path, *, seconds: float = 30.0) -> Presence | Held:
    """Like `find_family`, but waits up to `seconds` for a family that is still starting. Blocks."""
    end = time.monotonic() + seconds
    while (found := find_family(data_dir)) is Held.STARTING and time.monotonic() < end:
        time.sleep(LOOK_SECONDS)
    return found


def published(data_dir: Path) -> Presence | None:
    """The content of family.json, whether or not that family still runs. Raises `NotPrivate`."""
    with contextlib.suppress(OSError, TypeError):
        content = read_private(data_dir / FAMILY_FILE)
        with contextlib.suppress(json.JSONDecodeError, UnicodeDecodeError):
            return Presence(**json.loads(content))
    return None


def lock(descriptor: int, kind: int) -> bool:
    """Try to take the lock without waiting. True when it was free; it is then held until `descriptor` is closed."""
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        return True
    return False


class AddedRoots:
    """Directories in which a running family lets orders work besides its configured roots, until it ends.

    Kept in a file of the data directory, one JSON string per line. Only the owner of that directory can add to it, only
    the owner's processes trust it, and agents never see it. Safe for many threads and processes.
    """

    def __init__(self, data_dir: Path) -> None:
        self._file = data_dir / ADDED_ROOTS_FILE
        self._known: tuple[tuple[int, int, int], tuple[Path, ...]] | None = None

    def __call__(self) -> tuple[Path, ...]:
        """The added directories, () when the file is missing or other users could have written it.

        The paths were free of symlinks when they were added.
        """
        try:
            status = self._file.stat()
            version = (status.st_ino, status.st_size, status.st_mtime_ns)
            if self._known is None or self._known[0] != version:
                self._known = version, tuple(_paths(read_private(self._file, MOST_BYTES_OF_ROOTS)))
            return self._known[1]
        except (OSError, NotPrivate):
            return ()

    def add(self, directory: Path) -> None:
        """Let orders work in `directory`, an absolute path without symlinks. Raises OSError and `NotPrivate`."""
        refuse_others(self._file.parent.stat(), self._file.parent)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._file, flags, 0o600)
        try:
            # One write with O_APPEND: lines of several processes do not mix, without a lock.
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
