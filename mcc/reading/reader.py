"""Answers what people read of one order: overview, rows and time line, as of any entry."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import partial

from mcc.contracts.answers import Listing
from mcc.contracts.entry import Entry
from mcc.contracts.entry_lines import EntryLine
from mcc.contracts.reading import Overview, Rows, ShownRow, Timeline
from mcc.contracts.shape import to_json
from mcc.reading.heads import RowHead
from mcc.reading.index import LinesAt, LinesOfOrders
from mcc.reading.overview import overview
from mcc.reading.requests import ModelRequests
from mcc.reading.rows import Chosen, RowsWanted, choose, numbers_of, row_of, said_by, sources_of
from mcc.reading.timeline import ShownPart, timeline
from mcc.rendering.renderer import RenderingTime, TextRenderer
from mcc.store.database.errors import StoreError
from mcc.store.store import Offload, Store

ROWS_AT_ONCE = 25
"""Of how many rows the texts are read at a time."""

ANSWER_BYTES = 1_500_000
"""The size at which an answer ends, though more rows are wanted."""


PARTS_AT_ONCE = 8
IDLE_SECONDS, BUSY_SECONDS = 5.0, 0.5
"""How long to wait before more parts are made, where none are missing and where some are."""

log = logging.getLogger(__name__)


class OrderViews:
    """What is read of one order. Its methods raise `UnknownOrder`, `JournalPruned` and `StoreUnavailable`."""

    def __init__(self, store: Store, offload: Offload, texts: Offload, renderer: TextRenderer | None = None) -> None:
        """`offload` runs short reads of the database, `texts` those that may take long."""
        self._store = store
        self._offload = offload
        self._texts = texts
        self.lines = LinesOfOrders(store, texts)
        self.requests = ModelRequests(store, texts, self.lines)
        self.renderer = renderer or TextRenderer()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Make parts behind long orders while the block runs, so that whoever opens one finds them."""
        making = asyncio.create_task(self._make_parts())
        try:
            yield
        finally:
            making.cancel()
            await asyncio.wait({making})
            self.renderer.close()

    async def _make_parts(self) -> None:
        while True:
            try:
                made = await self.lines.make_parts(PARTS_AT_ONCE)
            except StoreError as error:
                log.debug("no parts of journals were made (%s)", error)
                made = 0
            await asyncio.sleep(IDLE_SECONDS if made < PARTS_AT_ONCE else BUSY_SECONDS)

    async def overview(self, order_id: str, at: int | None = None, skip: int = 0) -> Overview:
        """The agents after the first `skip`, as of entry `at` (None: the newest)."""
        order = await self._offload(self._store.orders.get, order_id)
        show = partial(overview, order, skip=skip, as_of_last=at is not None)
        return await self.lines.of(order_id, show, at)

    async def timeline(self, order_id: str, view: ShownPart, at: int | None = None) -> Timeline:
        return await self.lines.of(order_id, partial(timeline, view), at)

    async def rows(self, order_id: str, wanted: RowsWanted, at: int | None = None) -> Rows:
        """Neighbouring rows as of entry `at`; fewer than wanted where they are large."""

        def chosen_of(read: LinesAt) -> tuple[Chosen, LinesAt]:
            return choose(read.lines, wanted), replace(read, lines=read.lines[-1:])

        chosen, read = await self.lines.of(order_id, chosen_of, at)
        rows = sorted(await self._fitting(order_id, chosen), key=lambda row: row.seq)
        return Rows(
            items=tuple(rows),
            earlier=chosen.earlier or (bool(rows) and rows[0].seq > chosen.heads[0].seq),
            later=chosen.later or (bool(rows) and rows[-1].seq < chosen.heads[-1].seq),
            last_seq=read.of,
            at=read.at,
            index=read.index,
        )

    async def _fitting(self, order_id: str, chosen: Chosen) -> Sequence[ShownRow]:
        """The rows nearest to the reader, as many as fit into an answer, at least one."""
        places = sorted(range(len(chosen.heads)), key=lambda place: abs(place - chosen.anchor))
        rows: list[ShownRow] = []
        size, time_left = 0, RenderingTime()
        for start in range(0, len(places), ROWS_AT_ONCE):
            heads = [chosen.heads[place] for place in places[start : start + ROWS_AT_ONCE]]
            for row in await self._rows(order_id, heads, time_left):
                size += len(to_json(row))
                if rows and size > ANSWER_BYTES:
                    return rows
                rows.append(row)
        return rows

    async def journal_page(
        self, order_id: str, picked: Callable[[EntryLine], bool], after: int, limit: int
    ) -> Listing[Entry]:
        """The next entries after entry `after` whose lines are `picked`; fewer than `limit` where they are large, or
        where a long journal has not been read to its end yet."""

        def numbers_picked(read: LinesAt) -> tuple[Sequence[int], int, int]:
            return [line.seq for line in read.lines[after:] if picked(line)], read.read, read.of

        numbers, known, of = await self.lines.of(order_id, numbers_picked)
        entries: list[Entry] = []
        size = 0
        while len(entries) < min(limit, len(numbers)) and size < ANSWER_BYTES:
            some = numbers[len(entries) : min(limit, len(entries) + ROWS_AT_ONCE)]
            read = await self._texts(self._store.parts.entries, order_id, some)
            if not read:
                break
            entries += read
            size += sum(len(to_json(entry)) for entry in read)
        reached = known if len(entries) == len(numbers) else entries[-1].seq
        return Listing(items=tuple(entries), next_cursor=str(reached) if reached < of else None)

    async def _rows(self, order_id: str, heads: Sequence[RowHead], time_left: RenderingTime) -> Sequence[ShownRow]:
        numbers = sorted({number for head in heads for number in numbers_of(head)})
        entries: Sequence[Entry] = await self._texts(self._store.parts.entries, order_id, numbers)
        by_number = {entry.seq: entry for entry in entries}
        said = [said_by(head, by_number) for head in heads]
        sources = [sources_of(words) for words in said]
        nodes = iter(await self.renderer.nodes([source for some in sources for source in some], time_left))
        rendered = [[next(nodes) for _ in some] for some in sources]
        return [row_of(*parts) for parts in zip(heads, said, rendered, strict=True)]
