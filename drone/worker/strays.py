"""Orders that a drone gives back: strays, which nothing here works on, and all where an operator wants that."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from drone.sandbox.custody import Custody
from drone.threads import in_thread
from drone.worker.claiming import Claimant, Slots
from drone.worker.ending import ENTRIES_LOST
from drone.worker.executions import Executions, Stop
from drone.worker.loop import AsyncStore
from mcc.contracts.drones import DrainRequest
from mcc.store.database.errors import StoreUnavailable
from mcc.store.rows.values import Claim

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


UNWIND_SECONDS = 10.0
"""How long the orders that are to be handed back may take to stop before those that did are."""

WHY = "its drone was told to take no orders"

AGAIN_SECONDS = 1.0
"""Pause before the next try, where some did not stop or the database was away."""


class Draining:
    """What an operator told this drone: to take no orders, to hand back those that it has, to take orders again. Use on
    one event loop only."""

    def __init__(
        self,
        slots: Slots,
        executions: Executions,
        custody: Custody,
        hand_back: Callable[[Sequence[Claim], str], Awaitable[None]],
        look: Callable[[], None],
    ) -> None:
        """`hand_back` returns orders to the queue, with a sentence that says why; `look` looks for orders to take."""
        self._slots = slots
        self._executions = executions
        self._custody = custody
        self._hand_back = hand_back
        self._look = look
        self._drain: DrainRequest | None = None
        self._changed = asyncio.Event()

    def told(self, drain: DrainRequest | None) -> None:
        log.info("told to take no orders" if drain else "told to take orders again", drain=drain)
        self._drain = drain
        if drain is not None:
            self._slots.close(True)
        elif not self._returns:
            self._take_orders()
        self._changed.set()

    async def run(self) -> None:
        """Hand orders back whenever that is wanted, until cancelled. Once some have been stopped for it, all are handed
        back, whatever is told meanwhile: nobody works on them. Only then does this drone take orders again."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            # An order whose claim was on its way enters after the others were stopped.
            while self._returns:
                try:
                    await self._hand_all_back()
                except StoreUnavailable as problem:
                    log.debug("orders to hand back wait for the database", problem=str(problem))
                except Exception:
                    log.exception("orders could not be handed back")
                if self._returns:
                    await asyncio.sleep(AGAIN_SECONDS)
                elif self._drain is None:
                    self._take_orders()

    @property
    def _returns(self) -> bool:
        """Whether there are orders to hand back."""
        if self._executions.stopped_to_hand_back():
            return True
        return any(self._drain == "hand_back" or one.stop is Stop.HAND_BACK for one in self._executions)

    def _take_orders(self) -> None:
        self._slots.close(False)
        self._look()

    async def _hand_all_back(self) -> None:
        for execution in self._executions:
            execution.halt(Stop.HAND_BACK)
        await self._executions.emptied(UNWIND_SECONDS)
        # Programs end before their orders are handed back: the next drone's programs run in the same workspace.
        await in_thread(self._custody.end_term)
        if claims := self._executions.stopped_to_hand_back():
            await self._hand_back(claims, WHY)
            self._executions.handed_back(claims)
