"""How an order comes into a workspace that it has claimed: who is still in there, what is swept and seen first."""

import asyncio
from collections.abc import Callable

import structlog

from drone.agent.journal import Fenced as Lost
from drone.crew import Crew
from drone.order_context import Seen
from drone.sandbox.guard import sweep_placeholders
from drone.sandbox.host_lock import HostLock, Overtaken
from drone.sandbox.paths import Workspace
from drone.worker.keeper import Keeper
from drone.worker.loop import AsyncStore
from mcc.contracts.order import OrderKind
from mcc.store.errors import StoreUnavailable
from mcc.store.values import Claim

log = structlog.get_logger("drone.workspaces")

GRACE_SECONDS = 3.0
"""Another process of this machine that is still in the workspace has so long to notice that it has lost it."""

LOOK_SECONDS = 0.1
BUSY = "Another process of this machine is still at work in its workspace"


class Busy(Exception):
    """The workspace cannot be had now; the sentence says why."""


class Entrance:
    """Into the workspaces of one drone. Use on one event loop only."""

    def __init__(
        self, store: AsyncStore, crew: Crew, lease: Keeper, grace_seconds: float, clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._crew = crew
        self._lease = lease
        self._grace_seconds = grace_seconds
        self._clock = clock

    async def opened(self, lock: HostLock, claim: Claim, workspace: Workspace | None) -> Seen | None:
        """Take the lock, once nobody of this machine is in there who lost the workspace, and sweep away what a killed
        one put into it for its programs. Answers what is seen there first, if that is known by now.

        Raises `Busy`, and `drone.agent.journal.Fenced` when the order is another's by now.
        """
        threads = self._crew.pools.of(claim.order.id)
        try:
            # Most find nobody: all of it is one piece of work for one thread then.
            there, seen = await threads.claim(self._at_once, lock, claim, workspace)
        except StoreUnavailable:
            there, seen = False, None
        except Overtaken as problem:
            raise Lost(str(problem)) from problem
        if there:
            return seen
        await self._take(lock)
        return await threads.claim(self._seen, lock, claim, workspace)

    def _at_once(self, lock: HostLock, claim: Claim, workspace: Workspace | None) -> tuple[bool, Seen | None]:
        """Whether the lock was to be had, and what is seen then. Blocks."""
        there = self._taken(lock)
        return there, self._seen(lock, claim, workspace) if there else None

    def _seen(self, lock: HostLock, claim: Claim, workspace: Workspace | None) -> Seen | None:
        """Of a workspace that is entered. Blocks."""
        if workspace is None:
            return None
        try:
            sweep_placeholders(workspace.fd, whole=lock.succeeds or claim.epoch > 1)
        except OSError as problem:
            log.warning("a workspace cannot be swept", order_id=claim.order.id, problem=str(problem))
        return None if claim.order.kind is OrderKind.REVERT else self._crew.seen_in(workspace)

    async def _take(self, lock: HostLock) -> None:
        give_up = self._clock() + self._grace_seconds
        ended = False
        try:
            while not await self._store.patiently(lambda _: self._taken(lock)):
                if self._clock() >= give_up:
                    if ended or not self._lease.trusted or not await self._store.patiently(lambda _: lock.end_others()):
                        raise Busy(BUSY)
                    ended, give_up = True, self._clock() + self._grace_seconds
                await asyncio.sleep(LOOK_SECONDS)
        except Overtaken as problem:
            raise Lost(str(problem)) from problem

    @staticmethod
    def _taken(lock: HostLock) -> bool:
        """Whether it was to be had; where there cannot be one, it is gone without. Blocks."""
        try:
            return lock.take()
        except OSError as problem:
            log.warning("a workspace is not locked on this machine", problem=str(problem))
            return True
