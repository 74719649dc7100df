"""This room is for the tape of an order: its entries as frames, read once for all who watch."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence

from mcc.feed.frames import Frame
from mcc.store.errors import StoreError

PAGE_ENTRIES = 32
CACHE_BYTES = 32 * 1024 * 1024

Read = Callable[[str, int, int], Awaitable[list[Frame]]]
"""Order id, number to read after, at most how many; raises `StoreError`."""

log = logging.getLogger(__name__)


class PageCache:
    """Pages of frames under (order id, page number), the least recently used dropped first. A journal never changes."""

    def __init__(self, budget_bytes: int = CACHE_BYTES) -> None:
        self._budget = budget_bytes
        self._pages: OrderedDict[tuple[str, int], list[Frame]] = OrderedDict()
        self._bytes = 0

    def get(self, order_id: str, number: int) -> list[Frame]:
        page = self._pages.get((order_id, number))
        if page is None:
            return []
        self._pages.move_to_end((order_id, number))
        return page

    def put(self, order_id: str, number: int, page: list[Frame]) -> None:
        self._bytes += _size(page) - _size(self._pages.pop((order_id, number), []))
        self._pages[order_id, number] = page
        while self._bytes > self._budget and self._pages:
            _, dropped = self._pages.popitem(last=False)
            self._bytes -= _size(dropped)


def _size(page: Sequence[Frame]) -> int:
    return sum(len(frame.data) for frame in page)


class Tape:
    """What is known of one order's journal. `reached` is the highest number heard of, `epoch` the latest claim's."""

    def __init__(self, order_id: str, cache: PageCache, read: Read) -> None:
        self.order_id = order_id
        self.reached = 0
        self.epoch = 0
        self._cache = cache
        self._read = read
        self._reading: dict[int, asyncio.Task[list[Frame]]] = {}

    async def after(self, position: int) -> Sequence[Frame]:
        """Entries after number `position`, at most a page; none when the journal ends there or cannot be read now."""
        number, offset = divmod(position, PAGE_ENTRIES)
        page = self._cache.get(self.order_id, number)
        if len(page) <= offset and position < self.reached:
            page = await self._more_of(number)
        return page[offset:]

    async def _more_of(self, number: int) -> list[Frame]:
        """The page with what was committed since it was last read; all who ask at once share one reading."""
        task = self._reading.get(number)
        if task is None:
            task = asyncio.create_task(self._read_page(number))
            self._reading[number] = task
            task.add_done_callback(lambda _: self._reading.pop(number, None))
        return await asyncio.shield(task)

    async def _read_page(self, number: int) -> list[Frame]:
        page = self._cache.get(self.order_id, number)
        start = number * PAGE_ENTRIES + len(page)
        try:
            fresh = await self._read(self.order_id, start, PAGE_ENTRIES - len(page))
        except StoreError as error:
            log.warning("the journal of %s cannot be read now: %s", self.order_id, error)
            return page
        if fresh:
            page = [*page, *fresh]
            self._cache.put(self.order_id, number, page)
            self._learn(fresh)
        return page

    def _learn(self, fresh: Sequence[Frame]) -> None:
        self.reached = max(self.reached, fresh[-1].seq)
        self.epoch = max(self.epoch, *(frame.epoch or 0 for frame in fresh))
