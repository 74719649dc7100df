"""Tidying up: worktrees of orders that are over, and checkouts that nobody uses, are deleted where nothing is lost."""

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path

import structlog

from drone.agent.threads import in_thread
from drone.checkouts.sweep import Sweep
from drone.crew import Crew
from drone.outside import CHECKOUTS
from drone.sandbox.host_lock import Holder, HostLock, Locks
from drone.settings import Settings
from drone.tools.git_program import Git
from drone.worker.loop import AsyncStore
from drone.worker.workspaces import Site
from mcc.configuration.workspaces import KeptCheckouts
from mcc.contracts.order import WorkOrder
from mcc.contracts.status import FINAL, UNFINISHED, OrderStatus
from mcc.store.errors import StoreUnavailable, UnknownOrder
from mcc.store.store import Store
from mcc.store.values import Page

log = structlog.get_logger("drone.tidying")

DAY_SECONDS = 86_400.0
EVERY_SECONDS = 5.0
"""So long may the worktrees of an order lie that ended while no drone was at work on it: cancelled while it waited."""

AGAIN = 12
"""What cannot be deleted is tried again in each round of this number."""


class Tidying:
    """For one drone. Use on one event loop only."""

    def __init__(self, store: AsyncStore, crew: Crew, every_seconds: float = EVERY_SECONDS) -> None:
        self._store = store
        self._crew = crew
        self._every_seconds = every_seconds
        self._stay: set[str] = set()

    async def run(self) -> None:
        """Look at all of them, over and over, until cancelled."""
        for number in count():
            try:
                there = await in_thread(self._crew.with_worktrees)
                self._stay.intersection_update(there if number % AGAIN else ())
                for order_id in there:
                    if order_id not in self._stay and await self._is_over(order_id):
                        await self.after(order_id)
            except StoreUnavailable as problem:
                log.debug("worktrees wait for the database", problem=str(problem))
            except Exception:
                log.exception("worktrees could not be looked at")
            await asyncio.sleep(self._every_seconds)

    async def after(self, order_id: str) -> None:
        """An order is over. Whatever is wrong is said in the log: what cannot be saved stays where it is."""
        try:
            if left := await self._crew.clear_up(order_id):
                self._stay.add(order_id)
                log.warning("worktrees stay, which alone have what is in them", order_id=order_id, count=left)
        except Exception:
            self._stay.add(order_id)
            log.exception("worktrees could not be tidied up", order_id=order_id)

    async def clear_checkouts(self, site: Site, settings: Settings, children: Path) -> KeptCheckouts:
        """Delete those that were not used for long; answers which of them stay. Raises OSError, `StoreUnavailable`."""
        if site.checkouts is None or site.locks is None:
            return KeptCheckouts()
        before = time.time() - settings.checkout_days * DAY_SECONDS if settings.checkout_days else -math.inf
        most = settings.checkouts_mb * 1_000_000 or math.inf
        git = Git(self._crew.programs)
        alone = partial(self._alone, site.locks, children)
        sweep = Sweep(site.checkouts, git, before, most, self._is_free, alone)
        kept = await sweep.run(self._crew.pools.of(CHECKOUTS))
        for one in kept.kept:
            log.info("a checkout stays, which alone has what is in it", place=one.place, why=one.why)
        return kept

    def _live(self) -> set[str]:
        return {one.incarnation for one in self._store.store.leases.registrations()}

    @asynccontextmanager
    async def _alone(self, locks: Locks, children: Path, name: str) -> AsyncIterator[bool]:
        """Whether nobody of this machine is in the checkout of this name, nor comes in meanwhile."""
        me = Holder.here(CHECKOUTS, 1, "", children, locks.service)
        lock = HostLock(locks.directory, name, me, exclusive=True, live=self._live)
        taken = await self._store.patiently(lambda _: lock.take())
        try:
            yield taken
        finally:
            lock.release()

    async def _is_free(self, session_id: str) -> bool:
        """Whether no order of the session goes on."""
        for status in UNFINISHED:
            listed = partial(_listed, session_id=session_id, status=status)
            if (await self._store.once(listed)).items:
                return False
        return True

    async def _is_over(self, order_id: str) -> bool:
        """Also of one that the database does not know: it was of no service, or was deleted."""
        try:
            order = await self._store.once(lambda store: store.orders.get(order_id))
        except UnknownOrder:
            return True
        return order.status in FINAL


def _listed(store: Store, *, session_id: str, status: OrderStatus) -> Page[WorkOrder]:
    return store.orders.list(session_id=session_id, status=status, limit=1)
