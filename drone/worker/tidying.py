"""Deletes worktrees of ended orders and unused checkouts, wherever that loses nothing."""

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path

import structlog

from drone.access import CHECKOUTS
from drone.checkouts.sweep import Sweep
from drone.crew import Crew
from drone.sandbox.host_lock import Holder, HostLock, Locks
from drone.settings import Settings
from drone.threads import in_thread
from drone.tools.git.program import Git
from drone.worker.loop import AsyncStore
from drone.worker.site import Site, live_incarnations
from mcc.configuration.workspaces import KeptCheckouts
from mcc.contracts.order import WorkOrder
from mcc.contracts.status import FINAL, UNFINISHED, OrderStatus
from mcc.store.database.errors import StoreUnavailable, UnknownOrder
from mcc.store.rows.values import Page
from mcc.store.store import Store

log = structlog.get_logger("drone.tidying")

DAY_SECONDS = 86_400.0
EVERY_SECONDS = 5.0
"""Interval between rounds, which find the worktrees of orders that ended without a drone: cancelled while they
waited."""

AGAIN = 12
"""Worktrees that could not be deleted are tried again every so many rounds."""


class Tidying:
    """Deletes the worktrees and checkouts of one drone. Use on one event loop only."""

    def __init__(self, store: AsyncStore, crew: Crew, every_seconds: float = EVERY_SECONDS) -> None:
        self._store = store
        self._crew = crew
        self._every_seconds = every_seconds
        self._stay: set[str] = set()

    async def run(self) -> None:
        """Look for worktrees of ended orders, round after round, until cancelled."""
        for number in count():
            try:
                order_ids = await in_thread(self._crew.orders_with_worktrees)
                self._stay.intersection_update(order_ids if number % AGAIN else ())
                for order_id in order_ids:
                    if order_id not in self._stay and await self._is_over(order_id):
                        await self.after(order_id)
            except StoreUnavailable as problem:
                log.debug("worktrees wait for the database", problem=str(problem))
            except Exception:
                log.exception("worktrees could not be looked at")
            await asyncio.sleep(self._every_seconds)

    async def after(self, order_id: str) -> None:
        """Delete the worktrees of an order that ended. Logs any problem; what cannot be saved stays where it is."""
        try:
            if left := await self._crew.clear_up(order_id):
                self._stay.add(order_id)
                log.warning("worktrees are kept because they hold unsaved work", order_id=order_id, count=left)
        except Exception:
            self._stay.add(order_id)
            log.exception("worktrees could not be tidied up", order_id=order_id)

    async def clear_checkouts(self, site: Site, settings: Settings, children: Path) -> KeptCheckouts:
        """Delete the checkouts that have not been used for `checkout_days` and, while all together take more than
        `checkouts_mb`, the least recently used ones. Answers those that stay because they alone hold some work. Raises
        OSError, `StoreUnavailable`."""
        if site.checkouts is None or site.locks is None:
            return KeptCheckouts()
        before = time.time() - settings.checkout_days * DAY_SECONDS if settings.checkout_days else -math.inf
        most = settings.checkouts_mb * 1_000_000 or math.inf
        git = Git(self._crew.programs)
        alone = partial(self._alone, site.locks, children)
        sweep = Sweep(site.checkouts, git, before, most, self._is_free, alone)
        kept = await sweep.run(self._crew.pools.of(CHECKOUTS))
        for checkout in kept.kept:
            log.info("a checkout is kept because it holds unsaved work", place=checkout.place, why=checkout.why)
        return kept

    @asynccontextmanager
    async def _alone(self, locks: Locks, children: Path, name: str) -> AsyncIterator[bool]:
        """Lock the checkout of this name against all processes of this machine. Yields whether the lock was free."""
        me = Holder.here(CHECKOUTS, 1, "", children, locks.service)
        live = partial(live_incarnations, self._store.store)
        lock = HostLock(locks.directory, name, me, exclusive=True, live=live)
        taken = await self._store.patiently(lambda _: lock.take())
        try:
            yield taken
        finally:
            lock.release()

    async def _is_free(self, session_id: str) -> bool:
        """Whether no order of the session is unfinished."""
        for status in UNFINISHED:
            listed = partial(_listed, session_id=session_id, status=status)
            if (await self._store.once(listed)).items:
                return False
        return True

    async def _is_over(self, order_id: str) -> bool:
        """True also for an order that the database does not know: it came from no service, or was deleted."""
        try:
            order = await self._store.once(lambda store: store.orders.get(order_id))
        except UnknownOrder:
            return True
        return order.status in FINAL


def _listed(store: Store, *, session_id: str, status: OrderStatus) -> Page[WorkOrder]:
    return store.orders.list(session_id=session_id, status=status, limit=1)
