"""Entries in short of recently read orders, in memory: each is read once, from stored parts or from the journal."""

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from mcc.contracts.entry_lines import EntryLine
from mcc.contracts.reading import IndexState
from mcc.reading.tree import OrderTree
from mcc.store.database.errors import JournalPruned, StoreError, UnknownOrder
from mcc.store.rows.part_rows import PART_ENTRIES
from mcc.store.store import Offload, Store

T = TypeVar("T")

KEPT_LINES = 300_000
"""How many lines are kept in memory, of all orders together; one takes about 300 bytes."""

SECONDS = 0.5
"""How long one request reads entries of which nobody has made parts yet; the next request continues."""


class OrderLines:
    """The lines of one order so far, in order; `of`: how many entries its journal has."""

    def __init__(self) -> None:
        self.lines: list[EntryLine] = []
        self.tree = OrderTree()
        self.of = 0
        self.lock = asyncio.Lock()


@dataclass(frozen=True, slots=True)
class LinesAt:
    """The lines of an order up to the entry that was asked for, and its agents as of that entry; `read` of its `of`
    entries have been read so far."""

    lines: Sequence[EntryLine]
    tree: OrderTree
    read: int
    of: int

    @property
    def at(self) -> int:
        return self.lines[-1].seq if self.lines else 0

    @property
    def index(self) -> IndexState:
        return IndexState(to=self.read, of=self.of)


class LinesOfOrders:
    """Answers the lines of an order. Raises `UnknownOrder`, `JournalPruned` and `StoreUnavailable`."""

    def __init__(self, store: Store, offload: Offload, kept_lines: int = KEPT_LINES, seconds: float = SECONDS) -> None:
        self._store = store
        self._offload = offload
        self._kept_lines = kept_lines
        self._seconds = seconds
        self._kept: OrderedDict[str, OrderLines] = OrderedDict()

    @property
    def count(self) -> int:
        """How many lines are kept."""
        return sum(len(order.lines) for order in self._kept.values())

    async def of(self, order_id: str, use: Callable[[LinesAt], T], at: int | None = None) -> T:
        """What `use` makes, in a thread, of the lines up to entry `at` (None: the newest), as far as they could be read
        in time. Nobody else reads on in the order meanwhile."""
        order = self._kept.setdefault(order_id, OrderLines())
        self._kept.move_to_end(order_id)
        try:
            async with order.lock:
                return await self._offload(self._used, order_id, order, use, at)
        except (UnknownOrder, JournalPruned):
            self._kept.pop(order_id, None)
            raise
        finally:
            while len(self._kept) > 1 and self.count > self._kept_lines:
                self._kept.popitem(last=False)

    def _used(self, order_id: str, order: OrderLines, use: Callable[[LinesAt], T], at: int | None) -> T:
        self._catch_up(order_id, order)
        read = len(order.lines)
        if at is None or at >= read:
            return use(LinesAt(order.lines, order.tree, read, order.of))
        lines = order.lines[:at]
        return use(LinesAt(lines, OrderTree(lines), read, order.of))

    async def make_parts(self, most: int) -> int:
        """Store what is missing of the parts of running orders, at most `most` parts; answers how many were made."""
        made = 0
        for order_id in await self._offload(self._store.parts.behind, most):
            made += await self._offload(self._make_next, order_id)
        return made

    def _catch_up(self, order_id: str, order: OrderLines) -> None:
        self._store.journal.check(order_id)
        order.of = self._store.journal.reached([order_id])[order_id].seq
        until = time.monotonic() + self._seconds
        before = len(order.lines)
        while len(order.lines) < order.of and (not order.lines or time.monotonic() < until):
            read = len(order.lines)
            if read % PART_ENTRIES == 0 and order.of - read >= PART_ENTRIES:
                order.lines += self._store.parts.stored(order_id, read)
            if len(order.lines) == read:
                order.lines += self._next(order_id, order.lines, order.of)
            if len(order.lines) == read:
                break
        order.tree.extend(order.lines[before:])

    def _next(self, order_id: str, lines: Sequence[EntryLine], of: int) -> Sequence[EntryLine]:
        """The next lines from the journal; those of a part that is whole are stored."""
        following = self._store.parts.next(order_id, len(lines))
        first = len(lines) // PART_ENTRIES * PART_ENTRIES
        if following and following[-1].seq == first + PART_ENTRIES:
            # It can be made again: whoever reads is not refused because nothing can be written now.
            with contextlib.suppress(StoreError):
                self._store.parts.keep(order_id, [*lines[first:], *following])
        return following

    def _make_next(self, order_id: str) -> int:
        """Store the first part that is missing."""
        after = 0
        while stored := self._store.parts.stored(order_id, after):
            after = stored[-1].seq
        lines = self._store.parts.next(order_id, after)
        if len(lines) < PART_ENTRIES:
            return 0
        self._store.parts.keep(order_id, lines)
        return 1
