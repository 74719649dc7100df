"""This room is for chat records on request: the stored one after the end, before that a fold that grows."""

import asyncio
from collections import OrderedDict

from mcc.contracts.fold import Fold
from mcc.contracts.shape import to_json
from mcc.store.offload import Offload
from mcc.store.ports import Store

LIVE_ORDERS = 64
PAGE_ENTRIES = 500


class _Live:
    """The fold of an order that is not over, and who may add to it."""

    def __init__(self, order_id: str) -> None:
        self.fold = Fold(order_id)
        self.lock = asyncio.Lock()


class Records:
    """Folds of the orders that were asked for last; each journal entry is read and folded once."""

    def __init__(self, store: Store, offload: Offload, capacity: int = LIVE_ORDERS) -> None:
        self._store = store
        self._offload = offload
        self._capacity = capacity
        self._live: OrderedDict[str, _Live] = OrderedDict()

    async def of(self, order_id: str) -> bytes | None:
        """The record tree as JSON, None before an agent started. Raises `UnknownOrder`, `StoreUnavailable`."""
        stored = await self._offload(self._stored, order_id)
        if stored is not None:
            self._live.pop(order_id, None)
            return stored
        live = self._live.setdefault(order_id, _Live(order_id))
        self._live.move_to_end(order_id)
        while len(self._live) > self._capacity:
            self._live.popitem(last=False)
        async with live.lock:
            return await self._offload(self._caught_up, live.fold)

    def _stored(self, order_id: str) -> bytes | None:
        self._store.orders.get(order_id)
        record = self._store.orders.record(order_id)
        return None if record is None else to_json(record)

    def _caught_up(self, fold: Fold) -> bytes | None:
        entries = self._store.journal.read(fold.order_id, after=fold.last_seq, limit=PAGE_ENTRIES)
        while entries:
            for entry in entries:
                fold.add(entry)
            entries = self._store.journal.read(fold.order_id, after=fold.last_seq, limit=PAGE_ENTRIES)
        record = fold.record()
        return None if record is None else to_json(record)
