"""This room is for the disk watch: what runs is laid aside before there is no room to write it down."""

import asyncio
import random
from pathlib import Path

import structlog

from drone.agent.controls.standstill import Block
from drone.worker.runs import Run, Runs, Stop
from mcc.contracts.status import WaitingReason
from mcc.store.errors import StoreUnavailable
from mcc.store.offload import Offload
from mcc.store.ports import Claims
from mcc.store.room import Reserve
from mcc.store.values import Waiting

log = structlog.get_logger("drone.room")

LOOK_SECONDS = 1.0
WAKE_EVERY = 5
"""Every so many looks, orders are sought that wait for room."""

WAKE_TIMES = 1.5
"""So many reserves must be free before an order goes on, that it is not laid aside again at once."""

MOST_WOKEN = 100


class Room:
    """Looks at the free space beside database, data directory and the workspaces of the orders that run here.

    While there is a `shortage`, a sentence, this drone should claim nothing. Use on one event loop only.
    """

    def __init__(
        self, reserve: Reserve, runs: Runs, claims: Claims, offload: Offload, *, look_seconds: float = LOOK_SECONDS
    ) -> None:
        self.shortage: str | None = reserve.shortage()
        self._reserve = reserve
        self._runs = runs
        self._claims = claims
        self._offload = offload
        self._look_seconds = look_seconds
        self._looking = Offload(1, "room")

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
        """Lay aside what there is no room for."""
        before, self.shortage = self.shortage, await self._looking(self._reserve.shortage)
        if self.shortage and not before:
            log.error("this drone takes no orders", problem=self.shortage)
        if before and not self.shortage:
            log.warning("there is room on the disk again: this drone takes orders")
        for run in self._runs:
            if run.goes_on and (short := self.shortage or await self._shortage_of(run)):
                lay_aside(run, short)

    async def wake(self) -> None:
        """Queue again what waits for room that there is here. Raises `StoreUnavailable`."""
        if await self._looking(self._reserve.shortage, times=WAKE_TIMES):
            return
        for waiting in await self._offload(self._claims.waiting, WaitingReason.DISK, MOST_WOKEN):
            if await self._looking(self._fits, waiting):
                message = "there is room on the disk again"
                if await self._offload(self._claims.wake, waiting.order_id, WaitingReason.DISK, message):
                    log.info("order goes on", order_id=waiting.order_id, why=message)

    def close(self) -> None:
        self._looking.close()

    async def _shortage_of(self, run: Run) -> str | None:
        workspace = run.held[0].order.workspace if run.held else None
        if workspace is None:
            return None
        alone = Reserve((Path(workspace),), self._reserve.bytes)
        return await self._looking(alone.shortage)

    def _fits(self, waiting: Waiting) -> bool:
        """A workspace that is not here may be full elsewhere: whoever sees it decides."""
        if waiting.workspace is None:
            return True
        place = Path(waiting.workspace)
        return place.is_dir() and Reserve((place,), self._reserve.bytes).shortage(times=WAKE_TIMES) is None


def lay_aside(run: Run, why: str) -> None:
    """Park a run, whatever its tree does: what is open stays open, for whoever goes on."""
    run.halt(Stop.PARK)
    if run.stop is Stop.PARK:
        run.waits_for = [Block(WaitingReason.DISK, why.removesuffix("."))]
        log.warning("order is laid aside", order_id=run.order_id, why=why)
