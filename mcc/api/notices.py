"""Notices of what was committed: a nudge for drones, a hint for viewers; no request waits for either."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any

from mcc.contracts.order import WorkOrder
from mcc.contracts.wire import Hint, Wake
from mcc.dispatch.nudge import Nudger
from mcc.dispatch.publisher import AsyncPublisher
from mcc.feed.feed import Feed
from mcc.store.store import Offload

MOST_PENDING = 1_000
"""More notices than this are dropped: sweeps and polls find what they would have said."""

log = logging.getLogger(__name__)


class Notices:
    """Sent in the background. `nudger` or `publisher` None: there is no Redis; viewers of this process hear of all."""

    def __init__(self, feed: Feed, nudger: Nudger | None, publisher: AsyncPublisher | None) -> None:
        self._feed = feed
        self._nudger = nudger
        self._publisher = publisher
        self._thread = Offload(1, "nudge")
        self._pending: set[asyncio.Task[object]] = set()

    @property
    def trouble(self) -> str:
        """Why drones cannot be nudged at the moment; "" when they can, or when there is no Redis at all."""
        return self._nudger.trouble if self._nudger is not None else ""

    def placed(self, order: WorkOrder) -> None:
        self.moved(order)
        if self._nudger is not None:
            self._send(self._nudge(self._nudger, order))

    def moved(self, order: WorkOrder) -> None:
        hint = Hint(order_id=order.id, seq=order.last_seq, status=order.status.value)
        self._feed.hint(hint)
        if self._publisher is not None:
            self._send(self._publisher.publish([hint]))

    def controlled(self, order_id: str, number: int, incarnations: Iterable[str]) -> None:
        """A control with this number waits for an order that one of these drone processes runs."""
        if self._publisher is not None:
            wake = Wake(order_id=order_id, control_seq=number)
            for incarnation in incarnations:
                self._send(self._publisher.wake(incarnation, wake))

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

    def _send(self, sending: Coroutine[Any, Any, object]) -> None:
        if len(self._pending) >= MOST_PENDING:
            sending.close()
            return
        task = asyncio.create_task(sending)
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _nudge(self, nudger: Nudger, order: WorkOrder) -> None:
        try:
            await self._thread(nudger.nudge, order.id, queue=order.queue, priority=order.priority)
        except Exception as error:
            log.warning("order %s was not nudged (%s); a sweep will find it", order.id, error)
