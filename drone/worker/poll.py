"""The database poll: a drone asks the database for work, so that a broken broker is only a delay."""

import asyncio
import random
from collections.abc import Callable, Sequence

import structlog

from drone.worker.async_store import AsyncStore
from drone.worker.claiming import Claimant
from mcc.contracts.drones import DroneStatus
from mcc.store.errors import StoreUnavailable
from mcc.store.values import Claimable

log = structlog.get_logger("drone.poll")

AWAY_SECONDS = 1.0
"""How often to ask while Redis is away."""


class Poll:
    """Starts claimable orders of its queues in free slots: a fair share, other drones ask as well.

    An order that may be what kills drones runs alone in a drone; one of the drones empties itself for such an order.
    """

    def __init__(
        self,
        store: AsyncStore,
        claimant: Claimant,
        queues: Sequence[str],
        start: Callable[[str], None],
        *,
        poll_seconds: float,
        connected: Callable[[], bool],
    ) -> None:
        """`start` is called with each order, in a slot that is taken. `connected` tells whether Redis is there."""
        self._store = store
        self._claimant = claimant
        self._slots = claimant.slots
        self._queues = tuple(queues)
        self._start = start
        self._poll_seconds = poll_seconds
        self._connected = connected
        self._skipped: set[str] = set()

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            # Spread at random: drones that were started together would otherwise all ask at the same moments.
            await asyncio.sleep(
                (self._poll_seconds if self._connected() else min(self._poll_seconds, AWAY_SECONDS))
                * random.uniform(0.8, 1.2)
            )
            try:
                await self.once()
            except StoreUnavailable as problem:
                log.debug("the poll waits for the database", problem=str(problem))
            except Exception:
                log.exception("the poll failed")

    async def once(self) -> int:
        """Start what this drone should take now; answers how many. Raises `StoreUnavailable`."""
        free = self._slots.total - self._slots.active
        if free <= 0:
            return 0
        skipped, self._skipped = tuple(self._skipped), set()
        waiting = await self._store.once(lambda store: store.claims.claimable(self._queues, free, besides=skipped))
        alone = [item for item in waiting if item.alone]
        others = [item for item in waiting if not item.alone]
        self._slots.keep_clear(bool(alone) and await self._is_chosen())
        started = 0
        for item in (*alone, *others[: await self._share(others)]):
            if not self._slots.take(alone=item.alone):
                continue
            self._start(item.order_id)
            started += 1
        return started

    def skip(self, order_id: str) -> None:
        """Leave this order, which could not be claimed now, out of the next poll, which then sees those behind it."""
        self._skipped.add(order_id)

    async def _is_chosen(self) -> bool:
        """Whether it is this drone that empties itself for an order that must be alone."""
        rivals = await self._rivals()
        return bool(rivals) and min(rivals) == self._claimant.incarnation

    async def _share(self, waiting: Sequence[Claimable]) -> int:
        """As many as each live drone of these queues would get."""
        if len(waiting) < 2:
            return len(waiting)
        return -(-len(waiting) // max(len(await self._rivals()), 1))

    async def _rivals(self) -> Sequence[str]:
        """Incarnations of the live drones that serve these queues, this one among them."""
        return [
            drone.incarnation
            for drone in await self._store.once(lambda store: store.leases.drones())
            if drone.status is DroneStatus.UP and not set(drone.queues).isdisjoint(self._queues)
        ]
