"""Orders that make no progress, by the doctor's rule, looked for when somebody asks and at most every ten seconds."""

import asyncio
import time
from collections.abc import Callable, Sequence

from mcc.contracts.approvals import OrderItem
from mcc.findings.orders import stuck
from mcc.findings.snapshot import Thresholds, take_snapshot
from mcc.store.store import BoundedOffload, Store

LOOKED_SECONDS = 10.0
"""For how long what was found is told again."""


class StuckOrders:
    def __init__(self, store: Store, offload: BoundedOffload, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._offload = offload
        self._clock = clock
        self._one_at_a_time = asyncio.Lock()
        self._items: Sequence[OrderItem] = ()
        self._looked_at = float("-inf")

    async def items(self) -> Sequence[OrderItem]:
        """Those that were stuck at most ten seconds ago. Raises `StoreUnavailable`."""
        async with self._one_at_a_time:
            if self._clock() - self._looked_at >= LOOKED_SECONDS:
                self._items = await self._offload(stuck_orders, self._store)
                self._looked_at = self._clock()
            return self._items


def stuck_orders(store: Store) -> Sequence[OrderItem]:
    snapshot = take_snapshot(store, None, Thresholds())
    orders = {order.id: order for order in snapshot.examined.orders}
    details: dict[str, str] = {}
    for finding in stuck(snapshot):
        # The rule also tells of queues and sessions, which are not about one order.
        if finding.what == "stuck" and finding.order_id in orders:
            details.setdefault(finding.order_id, finding.detail)
    return [
        OrderItem(
            id=f"stuck:{order_id}", kind="stuck", order_id=order_id, detail=detail, at=orders[order_id].last_entry_at
        )
        for order_id, detail in details.items()
    ]
