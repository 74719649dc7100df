"""Server-sent events as bytes, and journals as cached pages of them that all viewers share."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from mcc.contracts.entry import Entry
from mcc.contracts.order_facts import OrderClaimed, OrderFinished
from mcc.contracts.shape import to_json
from mcc.store.database.errors import JournalPruned, StoreError

PAGE_ENTRIES = 32
CACHE_BYTES = 32 * 1024 * 1024

log = logging.getLogger(__name__)

PING = b"event: ping\ndata: {}\n\n"


@dataclass(frozen=True, slots=True)
class EntryFrame:
    """One serialized entry. `final`: it is the order's last one. `epoch`: that of the claim it records, if it does."""

    seq: int
    data: bytes
    final: bool = False
    epoch: int | None = None


ReadFrames = Callable[[str, int, int], Awaitable[list[EntryFrame]]]
"""Read frames of an order: takes order id, the number to read after, and a limit. Raises `StoreError`."""


def entry_frame(entry: Entry) -> EntryFrame:
    fact = entry.data
    return EntryFrame(
        seq=entry.seq,
        data=b"id: %d\nevent: %s\ndata: %s\n\n" % (entry.seq, entry.kind.encode(), to_json(entry)),
        final=isinstance(fact, OrderFinished),
        epoch=fact.epoch if isinstance(fact, OrderClaimed) else None,
    )


def plain_frame(event: str, value: object) -> bytes:
    """An event that is not an entry. It has no id, so that it does not change the viewer's Last-Event-ID."""
    return b"event: %s\ndata: %s\n\n" % (event.encode(), to_json(value))


def retry_frame(milliseconds: int) -> bytes:
    """Tells the viewer how long to wait before it reconnects."""
    return b"retry: %d\n\n" % milliseconds


class PageCache:
    """An LRU cache of pages of frames by order id and page number. It needs no invalidation: an entry never changes."""

    def __init__(self, budget_bytes: int = CACHE_BYTES) -> None:
        self._budget = budget_bytes
        self._pages: OrderedDict[tuple[str, int], list[EntryFrame]] = OrderedDict()
        self._bytes = 0

    def get(self, order_id: str, number: int) -> list[EntryFrame]:
        page = self._pages.get((order_id, number))
        if page is None:
            return []
        self._pages.move_to_end((order_id, number))
        return page

    def put(self, order_id: str, number: int, page: list[EntryFrame]) -> None:
        self._bytes += _size(page) - _size(self._pages.pop((order_id, number), []))
        self._pages[order_id, number] = page
        while self._bytes > self._budget and self._pages:
            _, dropped = self._pages.popitem(last=False)
            self._bytes -= _size(dropped)


def _size(page: Sequence[EntryFrame]) -> int:
    return sum(len(frame.data) for frame in page)


class SharedJournal:
    """One order's journal, of which each page is read once for all viewers.

    `reached` is the highest entry number known to exist, read or not. `epoch` is that of the latest claim read.
    `pruned`: the entries not read so far have been deleted.
    """

    def __init__(self, order_id: str, cache: PageCache, read: ReadFrames) -> None:
        self.order_id = order_id
        self.reached = 0
        self.epoch = 0
        self.pruned = False
        self._cache = cache
        self._read = read
        self._reading: dict[int, asyncio.Task[list[EntryFrame]]] = {}

    async def after(self, position: int) -> Sequence[EntryFrame]:
        """At most one page of entries after number `position`; none at the journal's end, or when it is unreadable."""
        number, offset = divmod(position, PAGE_ENTRIES)
        page = self._cache.get(self.order_id, number)
        if len(page) <= offset and position < self.reached:
            page = await self._read_more(number)
        return page[offset:]

    async def _read_more(self, number: int) -> list[EntryFrame]:
        """The page including entries committed since it was last read. Concurrent callers share one read."""
        task = self._reading.get(number)
        if task is None:
            task = asyncio.create_task(self._read_page(number))
            self._reading[number] = task
            task.add_done_callback(lambda _: self._reading.pop(number, None))
        # A viewer that leaves must not cancel the read that the others wait for.
        return await asyncio.shield(task)

    async def _read_page(self, number: int) -> list[EntryFrame]:
        page = self._cache.get(self.order_id, number)
        start = number * PAGE_ENTRIES + len(page)
        try:
            fresh = await self._read(self.order_id, start, PAGE_ENTRIES - len(page))
        except JournalPruned:
            self.pruned = True
            return page
        except StoreError as error:
            log.warning("the journal of %s cannot be read now: %s", self.order_id, error)
            return page
        if fresh:
            page = [*page, *fresh]
            self._cache.put(self.order_id, number, page)
            self.reached = max(self.reached, fresh[-1].seq)
            self.epoch = max(self.epoch, *(frame.epoch or 0 for frame in fresh))
        return page
