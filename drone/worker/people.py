"""How the agents of an order reach people: what they ask stands in the inbox, and answers come as controls."""

from collections.abc import Sequence

from drone.worker.loop import AsyncStore
from mcc.contracts.entry import Origin
from mcc.contracts.inbox_facts import InboxRequest, Said
from mcc.contracts.permission import SavedRule


class OrderPeople:
    """`expire_seconds`: how long a call waits for an approval. The sweep says when that is over."""

    reaches = True

    def __init__(self, store: AsyncStore, order_id: str, expire_seconds: float) -> None:
        self._store = store
        self._order_id = order_id
        self.expire_seconds = expire_seconds

    async def grants(self) -> Sequence[SavedRule]:
        return await self._store.patiently(lambda store: store.grants.of_order(self._order_id))

    async def ask(self, origin: Origin, asked: InboxRequest) -> Said | None:
        return None
