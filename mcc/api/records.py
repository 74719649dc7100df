"""Chat records on request: a fold that grows, with the long texts left in the database until they are sent."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Sequence

from mcc.contracts.fold import Fold
from mcc.contracts.shape import to_json
from mcc.store.errors import Pruned, UnknownOrder
from mcc.store.store import Offload, Store
from mcc.store.texts import Outline, TextPlace

log = logging.getLogger(__name__)

KEPT_ORDERS = 32
PAGE_ENTRIES = 100

AT_ONCE_CHARACTERS = 128 * 1024
"""About so much text is read from the database before it is sent."""

SMALL_CHARACTERS = 512 * 1024
"""A record whose long texts are no longer than this together is sent in one piece."""


class _Kept:
    """The fold of one order, its record as JSON with marks, and who may add to it."""

    def __init__(self, order_id: str) -> None:
        self.fold = Fold(order_id)
        self.outline = Outline()
        self.lock = asyncio.Lock()
        self.document: bytes | None = None


class Records:
    """Folds of the orders that were asked for last; each journal entry is read and folded once.

    However long a record is, and however many read it, what is held of it is its entries without their long texts; all
    who read it share that. `offload` is for what answers at once, `texts` for reading what is sent piece by piece.
    """

    def __init__(self, store: Store, offload: Offload, texts: Offload, capacity: int = KEPT_ORDERS) -> None:
        self._store = store
        self._offload = offload
        self._texts = texts
        self._capacity = capacity
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    async def of(self, order_id: str) -> bytes | AsyncIterator[bytes] | None:
        """The record tree as JSON, in pieces where it is long; None before an agent started.

        Raises `UnknownOrder`, `StoreUnavailable`.
        """
        kept = self._known(order_id)
        try:
            async with kept.lock:
                document = await self._offload(self._caught_up, kept)
        except UnknownOrder:
            self._kept.pop(order_id, None)
            raise
        except Pruned:
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
            return self._sent(order_id, pieces)
        return await self._offload(self._whole, order_id, pieces)

    async def setup(self, order_id: str, record_id: str) -> str | None:
        """The set-up of this record's agent as JSON; None where there is no such record, or nothing was kept of it.

        Raises `UnknownOrder`, `Pruned`, `StoreUnavailable`.
        """
        kept = await self._folded(order_id)
        digest = kept.fold.setup_digest(record_id)
        return await self._offload(self._text, digest) if digest else None

    async def artifact(self, order_id: str, digest: str) -> str | None:
        """The kept text that a result of this order names; None where none does.

        Raises `UnknownOrder`, `Pruned`, `StoreUnavailable`.
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
        except (UnknownOrder, Pruned):
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
        """What was kept of an order whose journal was pruned, or does not make sense."""
        record = self._store.orders.record(order_id)
        return None if record is None else to_json(record)

    async def _sent(self, order_id: str, pieces: Sequence[bytes | TextPlace]) -> AsyncIterator[bytes]:
        for some in portions(pieces):
            yield await self._texts(self._whole, order_id, some)

    def _whole(self, order_id: str, pieces: Sequence[bytes | TextPlace]) -> bytes:
        places = [piece for piece in pieces if isinstance(piece, TextPlace)]
        texts = iter(self._store.journal.texts(order_id, places) if places else ())
        return b"".join(next(texts) if isinstance(piece, TextPlace) else piece for piece in pieces)


def portions(pieces: Sequence[bytes | TextPlace]) -> Iterator[Sequence[bytes | TextPlace]]:
    """The same pieces, as many at a time as are about `AT_ONCE_CHARACTERS`."""
    some: list[bytes | TextPlace] = []
    size = 0
    for piece in pieces:
        some.append(piece)
        size += piece.characters if isinstance(piece, TextPlace) else len(piece)
        if size >= AT_ONCE_CHARACTERS:
            yield some
            some, size = [], 0
    if some:
        yield some
