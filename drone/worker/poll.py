"""This room is for the database poll: a drone asks for work itself, so that a broken broker is only a delay."""

import asyncio
import random
from collections.abc import Callable, Sequence

import structlog

from drone.worker.slots import Slots
from mcc.contracts.drones import DroneStatus
from mcc.store.errors import StoreUnavailable
from mcc.store.offload import Offload
from mcc.store.ports import Claimable, Store

log = structlog.get_logger("drone.poll")

AWAY_SECONDS = 1.0
"""How often to ask while Redis is away."""


class Poll:
    """Starts claimable orders of its queues in free slots: a fair share, other drones ask as well."""

    def __init__(
        self,
        store: Store,
        offload: Offload,
        slots: Slots,
        queues: Sequence[str],
        start: Callable[[str], None],
        *,
        poll_seconds: float,
        connected: Callable[[], bool],
    ) -> None:
        self._store = store
        self._offload = offload
        self._slots = slots
        self._queues = tuple(queues)
        self._start = start
        self._poll_seconds = poll_seconds
        self._connected = connected

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            await asyncio.sleep(self._seconds() * random.uniform(0.8, 1.2))
            try:
                await self.once()
            except StoreUnavailable as problem:
                log.debug("the poll waits for the database", problem=str(problem))
            except Exception:
                log.exception("the poll failed")

    async def once(self) -> int:
        """Start what this drone should take now; answers how many. Raises `StoreUnavailable`."""
        if self._slots.free <= 0:
            return 0
        waiting = await self._offload(self._store.claims.claimable, self._queues, self._slots.free)
        started = 0
        for item in waiting[: await self._share(waiting)]:
            if not self._slots.take():
                break
            self._start(item.order_id)
            started += 1
        return started

    async def _share(self, waiting: Sequence[Claimable]) -> int:
        """As many as each live drone of these queues would get."""
        if len(waiting) < 2:
            return len(waiting)
        drones = await self._offload(self._store.leases.drones)
        rivals = [
            drone
            for drone in drones
            if drone.status is DroneStatus.UP and not set(drone.queues).isdisjoint(self._queues)
        ]
        return -(-len(waiting) // max(len(rivals), 1))

    def _seconds(self) -> float:
        return self._poll_seconds if self._connected() else min(self._poll_seconds, AWAY_SECONDS)
