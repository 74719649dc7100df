"""Strays: orders that the database says this drone holds, and that nothing here works on."""

import asyncio

import structlog

from drone.worker.claiming import Claimant
from drone.worker.ending import ENTRIES_LOST
from drone.worker.executions import Executions
from drone.worker.loop import AsyncStore
from mcc.store.database.errors import StoreUnavailable

log = structlog.get_logger("drone.strays")

EVERY_SECONDS = 1.0


class Strays:
    """Returns strays to the queue. Use on one event loop only.

    There are some where a standby was promoted that had not received the end of an order: this drone has ended or
    parked it, and its row says again that this drone holds it, under a live lease, so that nobody takes it over. They
    are looked for after a connection was lost, because only then another server may answer.
    """

    def __init__(self, store: AsyncStore, claimant: Claimant, executions: Executions) -> None:
        self._store = store
        self._claimant = claimant
        self._executions = executions
        self._losses = self._lost_so_far

    @property
    def _lost_so_far(self) -> int:
        return self._store.store.beats.losses

    async def run(self) -> None:
        """Look again and again whether a connection was lost, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Return strays to the queue if a connection was lost since they were last looked for."""
        losses, incarnation = self._lost_so_far, self._claimant.incarnation
        if losses == self._losses or incarnation is None:
            return
        try:
            held = await self._store.once(lambda store: store.claims.held_by(incarnation))
            # Whatever is claimed here is entered before, and what left since is no longer held under that epoch.
            strays = [(order_id, epoch) for order_id, epoch in held if self._executions.get(order_id) is None]
            if strays:
                name = self._claimant.name
                returned = await self._store.once(
                    lambda store: store.claims.hand_back(strays, drone=name, message=ENTRIES_LOST)
                )
                log.warning("orders that were over here are not so in the database", orders=list(returned))
        except StoreUnavailable as problem:
            log.debug("strays wait for the database", problem=str(problem))
        else:
            # Only now: a look that failed is repeated.
            self._losses = losses
