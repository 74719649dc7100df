"""Tidying up: worktrees that orders have left on this machine are saved and deleted once their orders are over."""

import asyncio

import structlog

from drone.agent.threads import in_thread
from drone.crew import Crew
from drone.worker.loop import AsyncStore
from mcc.contracts.status import FINAL
from mcc.store.errors import StoreUnavailable, UnknownOrder

log = structlog.get_logger("drone.tidying")

EVERY_SECONDS = 60.0


class Tidying:
    """For one drone. Use on one event loop only."""

    def __init__(self, store: AsyncStore, crew: Crew, every_seconds: float = EVERY_SECONDS) -> None:
        self._store = store
        self._crew = crew
        self._every_seconds = every_seconds

    async def run(self) -> None:
        """Look at all of them, over and over, until cancelled."""
        while True:
            try:
                for order_id in await in_thread(self._crew.with_worktrees):
                    if await self._is_over(order_id):
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
                log.warning("worktrees stay, which alone have what is in them", order_id=order_id, count=left)
        except Exception:
            log.exception("worktrees could not be tidied up", order_id=order_id)

    async def _is_over(self, order_id: str) -> bool:
        """Also of one that the database does not know: it was of no service, or was deleted."""
        try:
            order = await self._store.once(lambda store: store.orders.get(order_id))
        except UnknownOrder:
            return True
        return order.status in FINAL
