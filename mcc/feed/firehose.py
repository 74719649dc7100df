"""The entries of all orders as they are committed: one line of JSON each, live, for whoever works on all of them."""

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from mcc.contracts.entry import Entry
from mcc.contracts.invisible import escape_invisible_json
from mcc.contracts.shape import to_json
from mcc.feed.viewers import Waker
from mcc.store.database.errors import StoreError
from mcc.store.lists.movements import MovementStore, OrderTraits
from mcc.store.store import Offload

LOOK_SECONDS = 0.25
"""How often it is looked for new entries while somebody reads. Hints make a look come sooner; none is relied on."""

WIDE_SECONDS = 2.0
"""How often it is looked for orders of which no hint told, beside those that run."""

OVERLAP = timedelta(seconds=10)
"""So far may the clocks of machines differ."""

BEHIND_SECONDS = 10.0
BEHIND_BYTES = 32 * 1024 * 1024
CHUNK_BYTES = 128 * 1024
READ_AT_ONCE = 500
KNOWN_ORDERS = 20_000

LINE_PING = b'{"type":"ping"}\n'

log = logging.getLogger(__name__)


class ReaderTooSlow(Exception):
    """The reader is too far behind to be kept."""


@dataclass(frozen=True, slots=True)
class EntryFilters:
    """Which entries are told: an empty filter keeps none back, one with several values lets each of them pass."""

    kinds: Collection[str] = ()
    labels: Collection[str] = ()
    agents: Collection[str] = ()
    session_ids: Collection[str] = ()
    principals: Collection[str] = ()
    doors: Collection[str] = ()

    def fit(self, kind: str, traits: OrderTraits) -> bool:
        asked = (
            (self.kinds, (kind,)),
            (self.labels, traits.labels),
            (self.agents, (traits.agent,)),
            (self.session_ids, (traits.session_id,)),
            (self.principals, (traits.principal,)),
            (self.doors, (traits.door,)),
        )
        return all(not wanted or any(value in wanted for value in values) for wanted, values in asked)


class LineReader:
    """What waits to be sent to one reader."""

    def __init__(self, filters: EntryFilters, uptime: Callable[[], float]) -> None:
        self.filters = filters
        self.waker = Waker()
        self.is_over = False
        self._uptime = uptime
        self._lines: deque[tuple[float, bytes]] = deque()
        self._bytes = 0
        self._is_late = False

    def offer(self, line: bytes) -> None:
        if self._is_late or self.is_over:
            return
        self._lines.append((self._uptime(), line))
        self._bytes += len(line)
        self._check()
        self.waker.wake()

    def end(self) -> None:
        self.is_over = True
        self.waker.wake()

    def take(self) -> bytes:
        """The next lines, not much more than `CHUNK_BYTES`; none when nothing waits. Raises `ReaderTooSlow`."""
        self._check()
        if self._is_late:
            raise ReaderTooSlow(f"the reader is more than {BEHIND_SECONDS:g} s behind")
        taken: list[bytes] = []
        size = 0
        while self._lines and size < CHUNK_BYTES:
            taken.append(self._lines.popleft()[1])
            size += len(taken[-1])
        self._bytes -= size
        return b"".join(taken)

    def _check(self) -> None:
        if self._lines and (self._bytes > BEHIND_BYTES or self._uptime() - self._lines[0][0] > BEHIND_SECONDS):
            self._is_late = True
            self._lines.clear()
            self._bytes = 0


@dataclass(slots=True)
class _Known:
    """How far an order was told. `since`: of what is read next, only what was written from then on is told, as it was
    not known before; None: all of it. Times are by the clocks of those who write, which may be wrong."""

    position: int
    traits: OrderTraits
    since: datetime | None = None


class Firehose:
    """Reads each new entry once for all readers. Nothing is read while there are none."""

    def __init__(
        self,
        movements: MovementStore,
        offload: Offload,
        *,
        ping_seconds: float,
        look_seconds: float = LOOK_SECONDS,
        uptime: Callable[[], float] = time.monotonic,
    ) -> None:
        self._movements = movements
        self._offload = offload
        self._ping_seconds = ping_seconds
        self._look_seconds = look_seconds
        self._uptime = uptime
        self._readers: set[LineReader] = set()
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._began: datetime | None = None
        self._wide_since: datetime | None = None
        self._wide_at = 0.0
        self._hinted: set[str] = set()
        self._wake = asyncio.Event()
        self._looking = asyncio.Lock()

    @property
    def readers(self) -> int:
        return len(self._readers)

    def moved(self, order_id: str) -> None:
        """The order has new entries, as a hint says."""
        if self._readers:
            self._hinted.add(order_id)
            self._wake.set()

    def end_streams(self) -> None:
        for reader in self._readers:
            reader.end()

    async def lines(self, filters: EntryFilters) -> AsyncGenerator[bytes]:
        """First a ping: from then on every entry that is committed and fits; in between further pings.

        The first step raises `StoreUnavailable` when the database cannot say how far the orders are, a later one
        `ReaderTooSlow`.
        """
        with self._joined(filters) as reader:
            await self._begin()
            yield LINE_PING
            while True:
                reader.waker.rearm()
                if chunk := reader.take():
                    yield chunk
                elif reader.is_over:
                    return
                elif not await reader.waker.wait(self._ping_seconds):
                    yield LINE_PING

    @contextlib.contextmanager
    def _joined(self, filters: EntryFilters) -> Iterator[LineReader]:
        reader = LineReader(filters, self._uptime)
        self._readers.add(reader)
        try:
            yield reader
        finally:
            self._readers.discard(reader)
            if not self._readers:
                self._began = None

    async def _begin(self) -> None:
        # Whoever joins others does not wait for a look that is under way.
        if self._began is not None:
            return
        async with self._looking:
            if self._began is None:
                now = await self._offload(self._movements.now)
                heads = await self._offload(self._movements.at_work)
                traits = await self._offload(self._movements.traits, heads)
                self._known = OrderedDict((each, _Known(heads[each], traits[each])) for each in sorted(traits))
                self._began = self._wide_since = now

    async def run(self) -> None:
        """Look for new entries while somebody reads, until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._look_seconds):
                    await self._wake.wait()
            # Before reading: what is committed during the read wakes the next round.
            self._wake.clear()
            if self._readers:
                try:
                    await self.look()
                except StoreError as error:
                    log.warning("the database cannot say which entries are new: %s", error)

    async def look(self) -> None:
        """Tell the readers what is new. Raises `StoreUnavailable`; the next look then tells it."""
        async with self._looking:
            if self._began is None:
                return
            hinted, self._hinted = self._hinted, set()
            try:
                await self._look(hinted, self._began)
            except BaseException:
                self._hinted |= hinted
                raise

    async def _look(self, hinted: Collection[str], began: datetime) -> None:
        is_wide = self._uptime() - self._wide_at >= WIDE_SECONDS
        since = None
        if is_wide and self._wide_since is not None:
            now, since = await self._offload(self._movements.now), self._wide_since - OVERLAP
        heads = await self._offload(self._movements.heads, hinted, since)
        fresh = heads.keys() - self._known.keys()
        positions = await self._offload(self._movements.positions, fresh, began)
        for order_id, traits in (await self._offload(self._movements.traits, fresh)).items():
            if traits.created_at >= began:
                self._known[order_id] = _Known(0, traits)
            else:
                self._known[order_id] = _Known(positions.get(order_id, 0), traits, began)
        for order_id in sorted(heads.keys() & self._known.keys()):
            await self._tell(order_id, self._known[order_id], heads[order_id])
        if since is not None:
            self._wide_since, self._wide_at = now, self._uptime()
            # Of those that have ended and were quiet longest nothing is heard any more.
            quiet = (order_id for order_id in self._known if order_id not in heads)
            for order_id in list(islice(quiet, max(0, len(self._known) - KNOWN_ORDERS))):
                del self._known[order_id]

    async def _tell(self, order_id: str, known: _Known, head: int) -> None:
        """Tell the readers the order's entries up to number `head`."""
        while known.position < head:
            self._known.move_to_end(order_id)
            read = await self._offload(self._movements.entries, order_id, known.position, READ_AT_ONCE)
            # A journal that was pruned or packed meanwhile has gaps, and nothing new behind them.
            known.position = read[-1].seq if read else head
            fresh = [entry for entry in read if known.since is None or entry.at >= known.since]
            await self._pass_on(fresh, known.traits)
        known.since = None

    async def _pass_on(self, entries: Sequence[Entry], traits: OrderTraits) -> None:
        kinds = {entry.kind for entry in entries}
        heard = {kind for kind in kinds if any(reader.filters.fit(kind, traits) for reader in self._readers)}
        wanted = [entry for entry in entries if entry.kind in heard]
        # In a thread, as an entry may be megabytes long; and once for all readers.
        for entry, line in zip(wanted, await self._offload(_encoded, wanted) if wanted else (), strict=True):
            for reader in self._readers:
                if reader.filters.fit(entry.kind, traits):
                    reader.offer(line)


def _encoded(entries: Sequence[Entry]) -> Sequence[bytes]:
    return [escape_invisible_json(to_json(entry)) + b"\n" for entry in entries]
