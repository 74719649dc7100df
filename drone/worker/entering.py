"""Enters a workspace to write in it: waits for former holders of this machine to leave, and sweeps their remains."""

import asyncio
from collections.abc import Callable

import structlog

from drone.agent.ports.journal import Fenced
from drone.crew import Crew
from drone.sandbox.host_lock import HostLock, Overtaken
from drone.sandbox.places.paths import Workspace
from drone.sandbox.protection.guard import sweep_placeholders
from drone.worker.keeper import Keeper
from drone.worker.loop import AsyncStore
from mcc.store.database.errors import StoreUnavailable
from mcc.store.rows.values import Claim

log = structlog.get_logger("drone.workspaces")

GRACE_SECONDS = 3.0
"""How long a process of this machine that still uses the workspace may take to notice that it has lost its order."""

LOOK_SECONDS = 0.1
BUSY = "Another process of this machine is still at work in its workspace"


class Busy(Exception):
    """The workspace cannot be entered now; the sentence says why."""


class Entrance:
    """Enters the workspaces of one drone's orders. Use on one event loop only."""

    def __init__(
        self, store: AsyncStore, crew: Crew, lease: Keeper, grace_seconds: float, clock: Callable[[], float]
    ) -> None:
        self.store = store
        self.crew = crew
        self._lease = lease
        self._grace_seconds = grace_seconds
        self._clock = clock

    async def enter(self, lock: HostLock, claim: Claim, workspace: Workspace | None) -> None:
        """Take the lock, once no process of this machine that lost the workspace still uses it; then delete the
        placeholders that a killed process left there for its programs. `workspace` None: it is not open yet.

        Raises `Busy`, and `drone.agent.ports.journal.Fenced` when another drone holds the order by now.
        """
        threads = self.crew.pools.of(claim.order.id)
        try:
            # Most workspaces are free: then locking and sweeping are one piece of work for one thread.
            locked = await threads.claim(self._try_once, lock, claim, workspace)
        except StoreUnavailable:
            locked = False
        except Overtaken as problem:
            raise Fenced(str(problem)) from problem
        if not locked:
            await self._wait_for(lock)
            await threads.claim(self._sweep, lock, claim, workspace)

    def _try_once(self, lock: HostLock, claim: Claim, workspace: Workspace | None) -> bool:
        """Whether the lock was free; the workspace is swept in that case. Blocks."""
        locked = self._try_lock(lock)
        if locked:
            self._sweep(lock, claim, workspace)
        return locked

    @staticmethod
    def _sweep(lock: HostLock, claim: Claim, workspace: Workspace | None) -> None:
        """Sweep a locked workspace. Blocks."""
        if workspace is None:
            return
        try:
            sweep_placeholders(workspace.fd, whole=lock.succeeds or claim.epoch > 1)
        except OSError as problem:
            log.warning("a workspace cannot be swept", order_id=claim.order.id, problem=str(problem))

    async def _wait_for(self, lock: HostLock) -> None:
        """Wait for the lock; end its former holders after the grace period. Raises `Busy` and `Fenced`."""
        give_up = self._clock() + self._grace_seconds
        ended = False
        try:
            while not await self.store.patiently(lambda _: self._try_lock(lock)):
                if self._clock() >= give_up:
                    if ended or not self._lease.trusted or not await self.store.patiently(lambda _: lock.end_others()):
                        raise Busy(BUSY)
                    ended, give_up = True, self._clock() + self._grace_seconds
                await asyncio.sleep(LOOK_SECONDS)
        except Overtaken as problem:
            raise Fenced(str(problem)) from problem

    @staticmethod
    def _try_lock(lock: HostLock) -> bool:
        """Whether the lock was free. True, without a lock, where this machine cannot create one. Blocks."""
        try:
            return lock.take()
        except OSError as problem:
            log.warning("a workspace is not locked on this machine", problem=str(problem))
            return True
