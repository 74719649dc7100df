"""Chat records of orders, built from cached folds; long texts stay in the database until they are sent."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Sequence

from mcc.contracts.fold import Fold
from mcc.contracts.shape import to_json
from mcc.store.database.errors import JournalPruned, UnknownOrder
from mcc.store.rows.texts import EntryOutline, TextPlace
from mcc.store.store import Offload, Store

log = logging.getLogger(__name__)

KEPT_ORDERS = 32
PAGE_ENTRIES = 100

AT_ONCE_CHARACTERS = 128 * 1024
"""About how much text of a long record is read from the database at a time."""

SMALL_CHARACTERS = 512 * 1024
"""A record is sent in one piece when its long texts together are no longer than this."""


class _Kept:
    """The cached fold of one order, its record as JSON with marks in place of long texts, and a lock for updates."""

    def __init__(self, order_id: str) -> None:
        self.fold = Fold(order_id)
        self.outline = EntryOutline()
        self.lock = asyncio.Lock()
        self.document: bytes | None = None


class Records:
    """Chat records, from a cache of the folds of recently read orders, so that each journal entry is folded once.

    However long a record is and however many callers read it, memory holds one copy, without its long texts. `offload`
    runs short database reads, `texts` the reads of records that are sent piece by piece.
    """

    def __init__(self, store: Store, offload: Offload, texts: Offload, capacity: int = KEPT_ORDERS) -> None:
        self._store = store
        self._offload = offload
        self._texts = texts
        self._capacity = capacity
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    async def of(self, order_id: str) -> bytes | AsyncIterator[bytes] | None:
        """The record tree as JSON, in pieces if it is long; None before the first agent has started.

        Raises `UnknownOrder` and `StoreUnavailable`.
        """
        kept = self._known(order_id)
        try:
            async with kept.lock:
                document = await self._offload(self._caught_up, kept)
        except UnknownOrder:
            self._kept.pop(order_id, None)
            raise
        except JournalPruned:
            self._kept.pop(order_id, None)
            return await self._offload(self._stored, order_id)
        except (ValueError, LookupError, TypeError, AttributeError, AssertionError):
            log.exception("the journal of %s makes no sense; its stored record is sent", order_id)
            self._kept.pop(order_id, None)
            return await self._offload(self._stored, order_id)
        if document is None:
            return None
        pieces = list(kept.outline.pieces(document))
        if sum(piece.characters for piece in pieces if isinstance(piece, TextPlace)) > SMALL_CHARACTERS:
            return self._in_pieces(order_id, pieces)
        return await self._offload(self._whole, order_id, pieces)

    async def setup(self, order_id: str, record_id: str) -> str | None:
        """The set-up of this record's agent as JSON; None when there is no such record or no set-up was kept.

        Raises `UnknownOrder`, `JournalPruned`, `StoreUnavailable`.
        """
        kept = await self._folded(order_id)
        digest = kept.fold.setup_digest(record_id)
        return await self._offload(self._text, digest) if digest else None

    async def artifact(self, order_id: str, digest: str) -> str | None:
        """The kept text with this digest; None when no result of this order refers to it.

        Raises `UnknownOrder`, `JournalPruned`, `StoreUnavailable`.
        """
        kept = await self._folded(order_id)
        if not kept.fold.has_artifact(digest):
            changes = (await self._offload(self._store.orders.get, order_id)).changes
            if changes is None or changes.diff != digest:
                return None
        return await self._offload(self._text, digest)

    def _text(self, digest: str) -> str | None:
        try:
            return self._store.texts.kept(digest)
        except KeyError:
            return None

    async def _folded(self, order_id: str) -> _Kept:
        kept = self._known(order_id)
        try:
            async with kept.lock:
                await self._offload(self._caught_up, kept)
        except (UnknownOrder, JournalPruned):
            self._kept.pop(order_id, None)
            raise
        return kept

    def _known(self, order_id: str) -> _Kept:
        kept = self._kept.setdefault(order_id, _Kept(order_id))
        self._kept.move_to_end(order_id)
        while len(self._kept) > self._capacity:
            self._kept.popitem(last=False)
        return kept

    def _caught_up(self, kept: _Kept) -> bytes | None:
        fold, outline = kept.fold, kept.outline
        seen = fold.last_seq
        while entries := self._store.journal.outlined(fold.order_id, outline, after=fold.last_seq, limit=PAGE_ENTRIES):
            for entry in entries:
                fold.add(entry)
        if kept.document is None or fold.last_seq > seen:
            record = fold.record()
            kept.document = None if record is None else to_json(record)
        return kept.document

    def _stored(self, order_id: str) -> bytes | None:
        """The stored record, for an order whose journal was pruned or cannot be folded."""
        record = self._store.orders.record(order_id)
        return None if record is None else to_json(record)

    async def _in_pieces(self, order_id: str, pieces: Sequence[bytes | TextPlace]) -> AsyncIterator[bytes]:
        for group in grouped(pieces):
            yield await self._texts(self._whole, order_id, group)

    def _whole(self, order_id: str, pieces: Sequence[bytes | TextPlace]) -> bytes:
        places = [piece for piece in pieces if isinstance(piece, TextPlace)]
        texts = iter(self._store.journal.texts(order_id, places) if places else ())
        return b"".join(next(texts) if isinstance(piece, TextPlace) else piece for piece in pieces)


def grouped(pieces: Sequence[bytes | TextPlace]) -> Iterator[Sequence[bytes | TextPlace]]:
    """The pieces in groups of about `AT_ONCE_CHARACTERS`."""
    group: list[bytes | TextPlace] = []
    size = 0
    for piece in pieces:
        group.append(piece)
        size += piece.characters if isinstance(piece, TextPlace) else len(piece)
        if size >= AT_ONCE_CHARACTERS:
            yield group
            group, size = [], 0
    if group:
        yield group
