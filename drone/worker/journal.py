"""The journals of the orders that a drone holds, and the writer that commits their entries in groups."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from drone.agent.journal import Fenced, TextDelta, Unwritable
from drone.worker.broadcaster import Broadcaster
from drone.worker.keeper import Keeper
from drone.worker.loop import AsyncStore
from mcc.contracts.entry import Draft, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.fold import Fold
from mcc.contracts.record import AgentEnd
from mcc.contracts.shape import now
from mcc.contracts.wire import Delta, Hint
from mcc.store.store import Store
from mcc.store.values import Appended, Batch

log = structlog.get_logger("drone.journal")

MOST_BYTES = 8_000_000
"""About as many bytes may wait to be committed; an `append` waits beyond that."""

BATCH_BYTES = 2_000_000
TRUST_SECONDS = 0.05


class OrderJournal:
    """The journal of one order under one epoch, with the fold of what is committed; a `drone.agent.journal.Journal`."""

    def __init__(self, writer: "Writer", order_id: str, epoch: int, fold: Fold, incarnation: str = "") -> None:
        self._writer = writer
        self.order_id = order_id
        self.epoch = epoch
        self.incarnation = incarnation
        self.fold = fold
        self.sealed = False
        self._owed: list[Draft] = []
        self._keeping = asyncio.Semaphore()
        self.weight = 0
        """About as many bytes as its entries take in memory; what was read of it is added by the reader."""

    @property
    def last_seq(self) -> int:
        """Number of the last committed entry."""
        return self.fold.last_seq

    async def write(self, origin: Origin, *facts: Fact) -> int:
        at = now()
        return await self.append([Draft(at=at, origin=origin, data=fact) for fact in facts])

    async def append(self, drafts: Sequence[Draft]) -> int:
        """Commit these entries, in this order; answers the number of the last. Raises `Fenced`, `Unwritable`."""
        self.check_open()
        return await self._append(drafts) if drafts else self.last_seq

    def owe(self, origin: Origin, *facts: Fact) -> None:
        """They go before the next entries, or with `settle`."""
        at = now()
        self._owed += [Draft(at=at, origin=origin, data=fact) for fact in facts]

    async def settle(self) -> None:
        """Commit what is owed, also when sealed: the database refuses it where another drone has the order.

        Raises `Fenced`, `Unwritable`.
        """
        if self._owed:
            await self._append(())

    async def _append(self, drafts: Sequence[Draft]) -> int:
        owed, self._owed = self._owed, []
        return await self._writer.append(self, [*owed, *drafts])

    async def keep(self, text: str) -> str:
        """One at a time, so that an order with many long texts leaves threads to its neighbours."""
        async with self._keeping:
            return await self._writer.keep(text, self.order_id)

    async def kept(self, digest: str) -> str | None:
        return await self._writer.kept(digest)

    async def cleared(self) -> None:
        self.check_open()
        if not self._writer.believes(self):
            await self._writer.believing(self)

    async def close(
        self, status: AgentEnd, error: str, under: str | None = None, limit: str | None = None
    ) -> Sequence[Draft]:
        await self.quiet()
        drafts = self.fold.closing(now(), status, error, under, limit)
        await self.append(drafts)
        return drafts

    def delta(self, origin: Origin, delta: TextDelta) -> None:
        if self.sealed or origin.record_id is None:
            return
        # Not validated: its parts are ours, and there is one for every few characters of a reply.
        self._writer.delta(
            Delta.model_construct(
                type="delta",
                kind=delta.kind,
                order_id=self.order_id,
                epoch=self.epoch,
                record_id=origin.record_id,
                parent_id=origin.parent_id,
                agent=origin.agent,
                depth=origin.depth,
                round=delta.round,
                attempt=delta.attempt,
                offset=delta.offset,
                text=delta.text,
                index=delta.call.index if delta.call else None,
                name=delta.call.name if delta.call else "",
            )
        )

    def check_open(self) -> None:
        """Raises `Fenced` once the journal is sealed."""
        if self.sealed:
            raise Fenced(f"order {self.order_id} is no longer this run's to write")

    def seal(self) -> None:
        """From here on nothing is written or published; what waits to be committed still is."""
        self.sealed = True

    async def quiet(self) -> None:
        """Return when nothing of this order waits to be committed."""
        await self._writer.quiet(self)


@dataclass(slots=True)
class _Waiting:
    """The drafts of one `append`, and who waits for their number."""

    journal: OrderJournal
    drafts: Sequence[Draft]
    weight: int
    done: "asyncio.Future[int]" = field(repr=False)


class Writer:
    """Commits entries of all orders of a drone in groups: while one group is in the database, the next one gathers.

    Numbers are given in memory, from each order's last committed one on. While the lease is not `trusted` no group is
    begun and none is answered, however long the database took: since an effect waits for the answer, none starts then.
    Two commits per model call are cheap because all orders share them (docs/decisions/08). Use on one event loop only.
    """

    def __init__(
        self,
        store: Store,
        lease: Keeper,
        broadcaster: Broadcaster,
        *,
        most_bytes: int = MOST_BYTES,
        grew: Callable[[int], None] = lambda weight: None,
    ) -> None:
        """`grew` is told about how many bytes the journals that are written here grow by."""
        self._lease = lease
        self._broadcaster = broadcaster
        self._most_bytes = most_bytes
        self._grew = grew
        self._groups = AsyncStore(store, 1, "journal")
        self._texts = AsyncStore(store, 2, "texts")
        self._queue: list[_Waiting] = []
        self._flying: list[_Waiting] = []
        self._bytes = 0
        self._arrived = asyncio.Event()
        self._moved = asyncio.Condition()

    def open(self, order_id: str, epoch: int, fold: Fold, incarnation: str = "") -> OrderJournal:
        """The journal of an order that was just claimed, with every entry so far in `fold`.

        `incarnation`: the one under which the order was claimed, if effects must not outlast it.
        """
        return OrderJournal(self, order_id, epoch, fold, incarnation)

    def believes(self, journal: OrderJournal) -> bool:
        """Whether effects of this order may start now: a reading of the clock, no question to anybody."""
        return self._lease.trusted and not self._is_over(journal)

    async def believing(self, journal: OrderJournal) -> None:
        """Return when effects of this order may start again. Raises `Fenced` when they never may."""
        while not self.believes(journal):
            journal.check_open()
            if self._is_over(journal):
                raise Fenced(f"the lease under which order {journal.order_id} was claimed is lost")
            await asyncio.sleep(TRUST_SECONDS)

    def _is_over(self, journal: OrderJournal) -> bool:
        return bool(journal.incarnation) and journal.incarnation != self._lease.incarnation

    async def append(self, journal: OrderJournal, drafts: Sequence[Draft]) -> int:
        weight = sum(weight_of(draft.data) for draft in drafts)
        journal.weight += weight
        self._grew(weight)
        if self._bytes and self._bytes + weight > self._most_bytes:
            async with self._moved:
                # What is larger than the bound by itself goes alone; it would wait for ever otherwise.
                await self._moved.wait_for(lambda: not self._bytes or self._bytes + weight <= self._most_bytes)
            journal.check_open()
        waiting = _Waiting(journal, drafts, weight, asyncio.get_running_loop().create_future())
        self._bytes += weight
        self._queue.append(waiting)
        self._arrived.set()
        return await waiting.done

    async def keep(self, text: str, order_id: str) -> str:
        return await self._texts.patiently(lambda store: store.texts.keep(text, owner=order_id))

    async def kept(self, digest: str) -> str | None:
        try:
            return await self._texts.patiently(lambda store: store.texts.kept(digest))
        except KeyError:
            return None

    def delta(self, delta: Delta) -> None:
        self._broadcaster.delta(delta)

    async def quiet(self, journal: OrderJournal) -> None:
        async with self._moved:
            await self._moved.wait_for(
                lambda: not any(waiting.journal is journal for waiting in (*self._queue, *self._flying))
            )

    async def run(self) -> None:
        """Commit until cancelled."""
        while True:
            await self._arrived.wait()
            await self._trust()
            await self._commit(self._take())

    async def _trust(self) -> None:
        while not self._lease.trusted:  # noqa: ASYNC110 - trust runs out by the clock, no event tells
            await asyncio.sleep(TRUST_SECONDS)

    def close(self) -> None:
        self._groups.close()
        self._texts.close()

    def _take(self) -> list[_Waiting]:
        taken, weight = 0, 0
        while taken < len(self._queue) and (taken == 0 or weight < BATCH_BYTES):
            weight += self._queue[taken].weight
            taken += 1
        self._flying, self._queue = self._queue[:taken], self._queue[taken:]
        if not self._queue:
            self._arrived.clear()
        return self._flying

    async def _commit(self, group: list[_Waiting]) -> None:
        batches = batches_of(group)
        try:
            appended = await self._groups.patiently(lambda store: store.journal.append(list(batches.values())))
        except Exception as problem:
            # This task commits for all orders: a group of entries may fail, the task may not.
            log.exception("the store refused a group of entries", orders=list(batches))
            appended = Appended(culprits=dict.fromkeys(batches, repr(problem)))
        # Once more: effects wait for this answer, and the commit may have taken longer than the lease lasts.
        await self._trust()
        for waiting in group:
            self._answer(waiting, appended)
        self._publish(batches, appended)
        self._flying = []
        self._bytes -= sum(waiting.weight for waiting in group)
        async with self._moved:
            self._moved.notify_all()

    def _answer(self, waiting: _Waiting, appended: Appended) -> None:
        journal = waiting.journal
        if journal.order_id in appended.fenced:
            journal.seal()
            fail(waiting.done, Fenced(f"another drone holds order {journal.order_id} now"))
        elif why := appended.culprits.get(journal.order_id):
            fail(waiting.done, Unwritable(f"The database refuses an entry of order {journal.order_id}: {why}"))
        else:
            fold_in(journal, waiting.drafts, waiting.done)

    def _publish(self, batches: Mapping[str, Batch], appended: Appended) -> None:
        for order_id, batch in batches.items():
            if order_id not in appended.fenced and order_id not in appended.culprits:
                self._broadcaster.entries(batch.entries)
                self._broadcaster.hint(Hint(order_id=order_id, seq=batch.entries[-1].seq))


def fold_in(journal: OrderJournal, drafts: Sequence[Draft], done: "asyncio.Future[int]") -> None:
    """Fold what was committed, and answer the `append` that waits. An entry that does not fit counts all the same."""
    for draft in drafts:
        try:
            journal.fold.add(draft.numbered(journal.order_id, journal.last_seq + 1))
        except Exception as problem:
            log.exception("an entry does not follow from those before", order_id=journal.order_id)
            fail(done, Unwritable(f"Entry {journal.last_seq} of order {journal.order_id} does not fit: {problem!r}"))
    if not done.done():
        done.set_result(journal.last_seq)


def batches_of(group: Iterable[_Waiting]) -> dict[str, Batch]:
    """One batch for each order of the group, in the order of the ids, in which all writers lock rows."""
    drafts: dict[str, list[Draft]] = {}
    journals: dict[str, OrderJournal] = {}
    for waiting in group:
        drafts.setdefault(waiting.journal.order_id, []).extend(waiting.drafts)
        journals[waiting.journal.order_id] = waiting.journal
    return {order_id: batch_of(journals[order_id], drafts[order_id]) for order_id in sorted(drafts)}


def batch_of(journal: OrderJournal, drafts: Sequence[Draft]) -> Batch:
    first = journal.last_seq + 1
    entries = [draft.numbered(journal.order_id, first + index) for index, draft in enumerate(drafts)]
    return Batch(order_id=journal.order_id, epoch=journal.epoch, last_seq=journal.last_seq, entries=entries)


def fail(done: "asyncio.Future[int]", problem: Exception) -> None:
    if not done.done():
        done.set_exception(problem)


def weight_of(fact: Fact) -> int:
    """About as many bytes as this fact needs."""
    return 200 + sum(_weight(value) for value in fact.__dict__.values())


def _weight(value: object) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(_weight(key) + _weight(part) for key, part in value.items())
    if isinstance(value, list | tuple):
        return sum(_weight(part) for part in value)
    inside = getattr(value, "__dict__", None)
    return sum(_weight(part) for part in inside.values()) if inside else 8
