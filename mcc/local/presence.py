"""The lock on a data directory, held by one family at a time, and the service at the address that it publishes."""

import contextlib
import fcntl
import http.client
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from mcc.configuration.places import NotPrivate, read_private
from mcc.contracts.shape import now
from mcc.local.errors import FamilyRunning, UnusableDirectory

FAMILY_FILE = "family.json"
LOCK_FILE = "family.lock"
LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Presence:
    """What a running family publishes. `purpose`: "up" for a family that stays, "run" for one order's."""

    url: str
    pid: int
    flower_url: str | None
    started_at: str
    purpose: str = "up"
    redis_url: str = ""


class Held(Enum):
    """A data directory without an address: not locked, or locked by a family that still starts."""

    NOBODY = "nobody"
    STARTING = "starting"


class Hold:
    """The lock on a data directory; the kernel drops it when the process ends, however it ends."""

    def __init__(self, data_dir: Path, descriptor: int) -> None:
        self._data_dir = data_dir
        self._descriptor = descriptor

    @classmethod
    def take(cls, data_dir: Path, *, patience_seconds: float = 0.5) -> "Hold":
        """Raises `FamilyRunning`, after a moment: `find_family` holds the lock for an instant as well."""
        descriptor = os.open(data_dir / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        until = time.monotonic() + patience_seconds
        while not _locked(descriptor, fcntl.LOCK_EX):
            if time.monotonic() >= until:
                os.close(descriptor)
                raise _running(data_dir)
            time.sleep(0.02)
        (data_dir / FAMILY_FILE).unlink(missing_ok=True)
        return cls(data_dir, descriptor)

    def publish(self, presence: Presence) -> None:
        """Write family.json atomically, readable by its owner alone."""
        text = json.dumps(asdict(presence), indent=1) + "\n"
        fresh = self._data_dir / f"{FAMILY_FILE}.new"
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        fresh.replace(self._data_dir / FAMILY_FILE)

    def release(self) -> None:
        (self._data_dir / FAMILY_FILE).unlink(missing_ok=True)
        os.close(self._descriptor)


def started_now() -> str:
    return now().isoformat(timespec="seconds").replace("+00:00", "Z")


def find_family(data_dir: Path) -> Presence | Held:
    """The family that holds `data_dir`; the family.json of a killed family counts for nothing.

    Raises `UnusableDirectory` when others than this user could have written family.json.
    """
    try:
        descriptor = os.open(data_dir / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return Held.NOBODY
    try:
        if _locked(descriptor, fcntl.LOCK_SH):
            return Held.NOBODY
    finally:
        os.close(descriptor)
    return _read(data_dir) or Held.STARTING


def await_family(data_dir: Path, *, seconds: float = 30.0) -> Presence | Held:
    """As `find_family`, with up to `seconds` of patience for a family that still starts."""
    end = time.monotonic() + seconds
    while (found := find_family(data_dir)) is Held.STARTING and time.monotonic() < end:
        time.sleep(LOOK_SECONDS)
    return found


def await_end(data_dir: Path) -> None:
    """Returns when no family holds `data_dir` for one order only."""
    while isinstance(found := find_family(data_dir), Presence) and found.purpose == "run":
        time.sleep(LOOK_SECONDS)


def _locked(descriptor: int, kind: int) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        return True
    return False


def _read(data_dir: Path) -> Presence | None:
    try:
        return Presence(**json.loads(read_private(data_dir / FAMILY_FILE)))
    except NotPrivate as problem:
        raise UnusableDirectory(f"What is said of a service here is not believed: {problem}") from problem
    except (OSError, ValueError, TypeError):
        return None


def _running(data_dir: Path) -> FamilyRunning:
    presence = _read(data_dir)
    if presence is None:
        return FamilyRunning(
            f"Another family is just starting on {data_dir}: wait a moment, or use another --data-dir."
        )
    what = "A family runs" if presence.purpose == "up" else "An mcc run is at work"
    return FamilyRunning(
        f"{what} on {data_dir} already (pid {presence.pid}), at {presence.url}: "
        "use that one, stop it with Ctrl-C where it was started, or name another --data-dir.",
        presence.url,
    )


PATIENCE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Service:
    """An HTTP service on this machine, called without a proxy; `token` may be empty."""

    host: str
    port: int
    token: str = ""

    def get(self, path: str) -> tuple[int, Any]:
        """Status and decoded JSON of `path`; status 0 when nobody answers."""
        link = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_SECONDS)
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            link.request("GET", path, headers=headers)
            answer = link.getresponse()
            return answer.status, _decoded(answer.read())
        except (OSError, http.client.HTTPException):
            return 0, None
        finally:
            link.close()

    def is_ready(self) -> bool:
        return self.get("/readyz")[0] == 200

    def drones_up(self) -> int:
        """How many drones are registered and neither draining nor silent."""
        status, body = self.get("/api/v1/drones")
        if status != 200:
            return 0
        drones = body.get("items", []) if isinstance(body, Mapping) else body
        return sum(1 for drone in drones if drone.get("status") == "up")


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None
