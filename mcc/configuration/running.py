"""The family that runs on a data directory, by what it publishes there: found by commands and drones beside it."""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from mcc.configuration.places import read_private

FAMILY_FILE = "family.json"
LOCK_FILE = "family.lock"
LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Presence:
    """What a running family publishes. `purpose`: "up" for a family that stays, "run" for one order's.

    `settings`: the `MCC_` variables of its drones, for a drone beside them.
    """

    url: str
    pid: int
    flower_url: str | None
    started_at: str
    purpose: str = "up"
    redis_url: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)


class Held(Enum):
    """A data directory without an address: not locked, or locked by a family that still starts."""

    NOBODY = "nobody"
    STARTING = "starting"


def find_family(data_dir: Path) -> Presence | Held:
    """The family that holds `data_dir`; the family.json of a killed family counts for nothing.

    Raises `NotPrivate` when others than this user could have written family.json.
    """
    try:
        descriptor = os.open(data_dir / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return Held.NOBODY
    try:
        if lock(descriptor, fcntl.LOCK_SH):
            return Held.NOBODY
    finally:
        os.close(descriptor)
    return published(data_dir) or Held.STARTING


def await_family(data_dir: Path, *, seconds: float = 30.0) -> Presence | Held:
    """As `find_family`, with up to `seconds` of patience for a family that still starts."""
    end = time.monotonic() + seconds
    while (found := find_family(data_dir)) is Held.STARTING and time.monotonic() < end:
        time.sleep(LOOK_SECONDS)
    return found


def published(data_dir: Path) -> Presence | None:
    """What family.json says, whether or not that family still runs. Raises `NotPrivate`."""
    with contextlib.suppress(OSError, TypeError):
        content = read_private(data_dir / FAMILY_FILE)
        with contextlib.suppress(json.JSONDecodeError, UnicodeDecodeError):
            return Presence(**json.loads(content))
    return None


def lock(descriptor: int, kind: int) -> bool:
    """Whether the lock of this kind was free; it is held until the descriptor is closed."""
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        return True
    return False
