"""How many programs run at once, of one holder and of all."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class ProgramSlots:
    """A holder has one slot for certain, and up to `each` while fewer than `in_all` are taken.

    So an order whose programs take their time holds up its own, and nobody else's. Use on one event loop only.
    """

    def __init__(self, each: int, in_all: int) -> None:
        self._each = each
        self._in_all = in_all
        self._held: Counter[int] = Counter()
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def taken(self, holder: int) -> AsyncIterator[None]:
        """A slot, once there is one."""
        while not self._may(holder):
            await self._changed.wait()
        self._held[holder] += 1
        try:
            yield
        finally:
            self._held[holder] -= 1
            if not self._held[holder]:
                del self._held[holder]
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    def _may(self, holder: int) -> bool:
        own = self._held[holder]
        return not own or (own < self._each and self._held.total() < self._in_all)
