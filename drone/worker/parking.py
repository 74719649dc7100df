"""This room is for parking: an order whose whole tree waits for a person or a clock gives its slot back."""

import asyncio
from functools import partial

import structlog

from drone.agent.controls.standstill import Standstill, together
from drone.worker.runs import Run, Stop
from drone.worker.told import Teller
from drone.worker.writer import patiently
from mcc.contracts.status import OrderStatus
from mcc.contracts.wire import Hint
from mcc.store.errors import ControlsPending, Fenced
from mcc.store.offload import Offload
from mcc.store.ports import Store
from mcc.store.values import Parking

log = structlog.get_logger("drone.parking")

ASKED_MEANWHILE = "something was asked of it just as it was to be laid aside"


class Grace:
    """Halts a run whose tree has stood still for `seconds` without a break. Use on one event loop only."""

    def __init__(self, run: Run, standstill: Standstill, seconds: float) -> None:
        self._run = run
        self._standstill = standstill
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self, stands: bool) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if stands:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._over)

    def _over(self) -> None:
        if self._run.goes_on and self._standstill.stands:
            self._run.halt(Stop.PARK)


class Parker:
    """Lays held orders aside, and hands back those of which something was asked at the last moment."""

    def __init__(self, store: Store, offload: Offload, teller: Teller) -> None:
        self._store = store
        self._offload = offload
        self._teller = teller

    async def park(self, run: Run) -> None:
        """The order of a halted run, whose journal is quiet, waits for what its tree waits for."""
        assert run.held is not None and run.waits_for is not None
        claim, journal = run.held
        block = together(run.waits_for)
        parking = Parking(
            order_id=run.order_id,
            epoch=claim.epoch,
            last_seq=journal.last_seq,
            control_seq=run.seen,
            reason=block.reason,
            message=block.message,
            until=block.until,
        )
        try:
            seq = await patiently(self._offload, partial(self._store.claims.park, parking))
        except Fenced as problem:
            log.warning("another drone holds the order", order_id=run.order_id, problem=str(problem))
        except ControlsPending:
            await self._hand_back(run.order_id, claim.epoch, claim.order.drone or "")
        else:
            self._teller.hint(Hint(order_id=run.order_id, seq=seq, status=OrderStatus.WAITING.value))
            log.info("order waits", order_id=run.order_id, reason=block.reason.value, until=block.until)

    async def _hand_back(self, order_id: str, epoch: int, drone: str) -> None:
        hand_back = partial(self._store.claims.hand_back, [(order_id, epoch)], drone=drone, message=ASKED_MEANWHILE)
        await patiently(self._offload, hand_back)
        reached = await patiently(self._offload, lambda: self._store.journal.reached([order_id])[order_id])
        self._teller.hint(Hint(order_id=order_id, seq=reached.seq, status=reached.status.value))
        log.info("order handed back", order_id=order_id, why=ASKED_MEANWHILE)
