"""This room is for telling others what was committed: drones by a nudge, viewers by a hint; no request waits for it."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any, Protocol

from mcc.contracts.order import WorkOrder
from mcc.contracts.wire import Hint, Wake
from mcc.feed.feed import Feed
from mcc.store.offload import Offload

MOST_PENDING = 1_000
"""More notices than this are dropped: sweeps and polls find what they would have told."""

log = logging.getLogger(__name__)


class Nudge(Protocol):
    @property
    def trouble(self) -> str:
        """Why nudges do not go out at the moment; "" when they do."""

    def nudge(self, order_id: str, *, queue: str, priority: int) -> None:
        """Tell drones that this order waits. May block for seconds and raise; the order stands either way."""


class Teller(Protocol):
    """Redis pub/sub; neither raises, both end within about a second."""

    async def tell(self, told: Iterable[Hint]) -> bool: ...
    async def wake(self, incarnation: str, wake: Wake) -> bool: ...


class Notices:
    """Sends in the background. `nudge` or `teller` None: there is no Redis; viewers of this process are told still."""

    def __init__(self, feed: Feed, nudge: Nudge | None, teller: Teller | None) -> None:
        self._feed = feed
        self._nudge = nudge
        self._teller = teller
        self._thread = Offload(1, "nudge")
        self._pending: set[asyncio.Task[None]] = set()

    @property
    def trouble(self) -> str:
        """Why drones cannot be nudged at the moment; "" when they can, or when there is no Redis at all."""
        return self._nudge.trouble if self._nudge is not None else ""

    def placed(self, order: WorkOrder) -> None:
        self.moved(order)
        if self._nudge is not None:
            self._send(self._nudge_for(self._nudge, order))

    def moved(self, order: WorkOrder) -> None:
        hint = Hint(order_id=order.id, seq=order.last_seq, status=order.status.value)
        self._feed.hint(hint)
        if self._teller is not None:
            self._send(_hinted(self._teller, hint))

    def controlled(self, order_id: str, number: int, incarnations: Iterable[str]) -> None:
        """A control with this number waits for an order that one of these drone processes runs."""
        if self._teller is not None:
            wake = Wake(order_id=order_id, control_seq=number)
            for incarnation in incarnations:
                self._send(_woken(self._teller, incarnation, wake))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Notices"]:
        """At the end, what is not sent within a moment is dropped."""
        try:
            yield self
        finally:
            if self._pending:
                _, late = await asyncio.wait(self._pending, timeout=0.3)
                for task in late:
                    task.cancel()
            self._thread.close()

    def _send(self, sending: Coroutine[Any, Any, None]) -> None:
        if len(self._pending) >= MOST_PENDING:
            sending.close()
            return
        task = asyncio.create_task(sending)
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _nudge_for(self, nudge: Nudge, order: WorkOrder) -> None:
        try:
            await self._thread(nudge.nudge, order.id, queue=order.queue, priority=order.priority)
        except Exception as error:
            log.warning("order %s was not nudged (%s); a sweep will find it", order.id, error)


async def _hinted(teller: Teller, hint: Hint) -> None:
    await teller.tell([hint])


async def _woken(teller: Teller, incarnation: str, wake: Wake) -> None:
    await teller.wake(incarnation, wake)
