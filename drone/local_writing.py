"""How the turn of `drone run` comes to write in its workspace: by the lock of this machine alone."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic

from drone.agent.ports.write_access import HoldRefused, KnownFiles, WriteHold
from drone.sandbox.host_lock import Holder, HostLock, locks_of_this_host
from drone.sandbox.places.paths import Workspace
from drone.sandbox.places.workspace_key import workspace_key
from drone.threads import in_thread
from mcc.contracts.ids import fresh_id

WRITES = "It waits for the workspace {}, in which order {} writes (process {})"
SOMEBODY = "It waits for the workspace {}, in which another process writes"


class LocalWriteAccess:
    """See `WriteAccess`. No database knows of this turn, so nobody stands in a line: whoever asks first gets the lock,
    and a process that has it is never ended. `tell` is given a sentence whenever it has to wait for somebody else.

    Use on one event loop only.
    """

    def __init__(self, order_id: str, workspace: Path, data_dir: Path, tell: Callable[[str], None]) -> None:
        self._workspace = workspace
        self._tell = tell
        self._directory = locks_of_this_host(data_dir / "run" / "workspaces")
        # A service of its own: neither this process nor a drone can look up whether the other one is fenced.
        self._me = Holder.here(order_id, 1, fresh_id(), data_dir / "run" / "none", f"drone run {os.getpid()}")
        self._key = ""
        self._lock: HostLock | None = None
        self._held: WriteHold | None = None
        self._since: float | None = None
        self._said = ""

    async def acquire(self) -> WriteHold | HoldRefused:
        """As `WriteAccess.acquire`. Where no lock can be made on this machine, the turn writes without one."""
        if self._held is None:
            refused = await in_thread(self._take)
            if refused is not None:
                self._since = monotonic() if self._since is None else self._since
                if refused != self._said:
                    self._said = refused
                    self._tell(refused)
                return HoldRefused(refused)
            waited = 0.0 if self._since is None else monotonic() - self._since
            self._held = WriteHold(self._key, waited)
        return self._held

    def _take(self) -> str | None:
        """Take the lock; the sentence that says who has it, if somebody else has. Blocks."""
        try:
            if self._lock is None:
                self._key = workspace_key(Workspace(self._workspace)).text
                self._lock = HostLock(self._directory, self._key, self._me, exclusive=True, live=frozenset)
            if self._lock.take():
                return None
            others = self._lock.others()
        except OSError:
            return None
        if not others:
            return SOMEBODY.format(self._workspace)
        return WRITES.format(self._workspace, others[0].order_id, others[0].pid)

    def withdraw(self) -> None:
        """As `WriteAccess.withdraw`: there is no line to leave."""
        self._since = None

    async def changed(self, known: KnownFiles) -> Sequence[str]:
        """As `WriteAccess.changed`: none, as nothing tells what this turn itself has left there. A file that differs
        from what was read is not overwritten all the same."""
        return ()

    def release(self) -> None:
        """Give the lock back."""
        if self._lock is not None:
            self._lock.release()
