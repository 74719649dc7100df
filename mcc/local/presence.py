"""The lock of a family (all processes of one `mcc up`) on its data directory, and the service that it publishes."""

import fcntl
import http.client
import json
import os
import select
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mcc.configuration import running
from mcc.configuration.places import NotPrivate
from mcc.configuration.running import FAMILY_FILE, LOCK_FILE, LOOK_SECONDS
from mcc.configuration.running import Held as Held
from mcc.configuration.running import Presence as Presence
from mcc.contracts.shape import now
from mcc.local.errors import DoesNotEnd, FamilyRunning, UnusableDirectory


class Hold:
    """The lock on a data directory; the kernel drops it when the process ends, however it ends."""

    def __init__(self, data_dir: Path, descriptor: int) -> None:
        self._data_dir = data_dir
        self._descriptor = descriptor

    @classmethod
    def take(cls, data_dir: Path, *, patience_seconds: float = 0.5) -> "Hold":
        """Take the lock, within `patience_seconds`: `find_family` in another process holds it for an instant too.

        Raises `FamilyRunning`.
        """
        descriptor = os.open(data_dir / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        until = time.monotonic() + patience_seconds
        while not running.lock(descriptor, fcntl.LOCK_EX):
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
    """The family that holds the lock on `data_dir`; the family.json that a killed family left behind is ignored.

    Raises `UnusableDirectory` when others than this user could have written family.json.
    """
    with _believed():
        return running.find_family(data_dir)


def await_family(data_dir: Path) -> Presence | Held:
    """As `find_family`, but waits for a family that is still starting."""
    with _believed():
        return running.await_family(data_dir)


def await_end(data_dir: Path) -> None:
    """Wait until no `mcc run` holds `data_dir` with a family for its own order."""
    while isinstance(found := find_family(data_dir), Presence) and found.purpose == "run":
        time.sleep(LOOK_SECONDS)


ORDERLY_SECONDS, FORCED_SECONDS = 10.0, 5.0


def end_family(data_dir: Path, family: Presence) -> None:
    """End the family that holds `data_dir`, and wait until it has ended. A second SIGTERM, after ORDERLY_SECONDS, makes
    it kill its children.

    Raises `DoesNotEnd`.
    """
    try:
        # Opened before the lock is checked: the signals then reach the process that was checked, or none.
        process = os.pidfd_open(family.pid)
    except OSError:
        raise _not_here(data_dir, family) from None
    try:
        if not _holds(data_dir, family.pid):
            raise _not_here(data_dir, family)
        ended = select.poll()
        ended.register(process, select.POLLIN)
        for seconds in (ORDERLY_SECONDS, FORCED_SECONDS):
            signal.pidfd_send_signal(process, signal.SIGTERM)
            if ended.poll(seconds * 1000):
                return
    except ProcessLookupError:
        return
    finally:
        os.close(process)
    raise DoesNotEnd(f"The process {family.pid} does not end: kill -KILL {family.pid} ends it and all its children.")


def _not_here(data_dir: Path, family: Presence) -> DoesNotEnd:
    detail = f"The process {family.pid}, which {data_dir / FAMILY_FILE} names, does not run here"
    return DoesNotEnd(f"{detail}: stop it where it was started, or in its container.")


def _holds(data_dir: Path, pid: int) -> bool:
    """Whether the process has the lock file open. Where the family runs in another container, its pid may be that of
    any process here."""
    try:
        wanted = (data_dir / LOCK_FILE).stat()
        return any(os.path.samestat(file.stat(), wanted) for file in Path(f"/proc/{pid}/fd").iterdir() if file.exists())
    except OSError:
        return False


@contextmanager
def _believed() -> Iterator[None]:
    """Translate `NotPrivate`: a family.json that others could have written must not be believed."""
    try:
        yield
    except NotPrivate as problem:
        raise UnusableDirectory(f"The description of a service here is not trusted: {problem}") from problem


def refuse_second(data_dir: Path) -> None:
    """Raises `FamilyRunning` where a family holds `data_dir`."""
    if find_family(data_dir) is not Held.NOBODY:
        raise _running(data_dir)


def _running(data_dir: Path) -> FamilyRunning:
    with _believed():
        presence = running.published(data_dir)
    if presence is None:
        return FamilyRunning(
            f"Another family is just starting on {data_dir}: wait a moment, or use another --data-dir."
        )
    what = "A family runs" if presence.purpose == "up" else "An mcc run is at work"
    return FamilyRunning(
        f"{what} on {data_dir} already (pid {presence.pid}), at {presence.url}: "
        "use that one, stop it with `mcc down`, or name another --data-dir.",
        presence.url,
    )


PATIENCE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class LocalService:
    """An HTTP service on this machine, called without a proxy; `token` may be empty."""

    host: str
    port: int
    token: str = ""

    def get(self, path: str) -> tuple[int, Any]:
        """Status and decoded JSON of `path`, None for no JSON; status 0 when nobody answers."""
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
