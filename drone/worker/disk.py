"""The disk watch: orders are parked before there is no room on the disk to write down what they do."""

import asyncio
import random
from pathlib import Path

import structlog

from drone.agent.controls.idle_watch import Block
from drone.worker.async_store import AsyncStore
from drone.worker.executions import Execution, Executions
from mcc.contracts.status import WaitingReason
from mcc.store.errors import StoreUnavailable
from mcc.store.resources import Reserve
from mcc.store.store import Offload
from mcc.store.values import Waiting

log = structlog.get_logger("drone.disk")

LOOK_SECONDS = 1.0
WAKE_EVERY = 5
"""Every so many looks, orders are sought that wait for room."""

WAKE_TIMES = 1.5
"""So many reserves must be free before an order goes on, so that it is not parked again at once."""

MOST_WOKEN = 100


class DiskWatch:
    """Looks at the free space beside database, data directory and the workspaces of the orders that run here.

    While there is a `shortage`, a sentence, this drone should claim nothing. Use on one event loop only.
    """

    def __init__(
        self, reserve: Reserve, executions: Executions, store: AsyncStore, *, look_seconds: float = LOOK_SECONDS
    ) -> None:
        self.shortage: str | None = reserve.shortage()
        self._reserve = reserve
        self._executions = executions
        self._store = store
        self._look_seconds = look_seconds
        self._looking = Offload(1, "disk")

    async def run(self) -> None:
        """Look until cancelled."""
        look = 0
        while True:
            try:
                await self.look()
                if look % WAKE_EVERY == 0:
                    await self.wake()
            except StoreUnavailable as problem:
                log.debug("orders that wait for room wait for the database", problem=str(problem))
            except Exception:
                log.exception("the disk could not be looked at")
            look += 1
            await asyncio.sleep(self._look_seconds * random.uniform(0.8, 1.2))

    async def look(self) -> None:
        """Park the orders that there is no room for."""
        before, self.shortage = self.shortage, await self._looking(self._reserve.shortage)
        if self.shortage and not before:
            log.error("this drone takes no orders", problem=self.shortage)
        if before and not self.shortage:
            log.warning("there is room on the disk again: this drone takes orders")
        for execution in self._executions:
            if execution.goes_on and (short := self.shortage or await self._shortage_of(execution)):
                execution.wait_for(Block(WaitingReason.DISK, short.removesuffix(".")))
                log.warning("order is parked", order_id=execution.order_id, why=short)

    async def wake(self) -> None:
        """Queue again what waits for room that there is here. Raises `StoreUnavailable`."""
        if await self._looking(self._reserve.shortage, times=WAKE_TIMES):
            return
        for waiting in await self._store.once(lambda store: store.claims.waiting(WaitingReason.DISK, MOST_WOKEN)):
            if await self._looking(self._fits, waiting):
                await self._wake(waiting.order_id)

    async def _wake(self, order_id: str) -> None:
        why = "there is room on the disk again"
        if await self._store.once(lambda store: store.claims.wake(order_id, WaitingReason.DISK, why)):
            log.info("order goes on", order_id=order_id, why=why)

    def close(self) -> None:
        self._looking.close()

    async def _shortage_of(self, execution: Execution) -> str | None:
        workspace = execution.held[0].order.workspace if execution.held else None
        if workspace is None:
            return None
        alone = Reserve((Path(workspace),), self._reserve.bytes)
        return await self._looking(alone.shortage)

    def _fits(self, waiting: Waiting) -> bool:
        """Whether an order that waits for room has it here. False for a workspace that only other machines see."""
        if waiting.workspace is None:
            return True
        place = Path(waiting.workspace)
        return place.is_dir() and Reserve((place,), self._reserve.bytes).shortage(times=WAKE_TIMES) is None
