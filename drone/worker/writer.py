"""This room is for the journal writer: entries of all orders of a drone, committed in groups, one group at a time."""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import structlog

from drone.agent.ports import Fenced, Unwritable
from drone.worker.journal import OrderJournal
from drone.worker.told import Teller
from mcc.contracts.fold import Fold
from mcc.contracts.journal import Draft, Fact
from mcc.contracts.wire import Delta, Hint
from mcc.store.errors import StoreUnavailable
from mcc.store.offload import Offload
from mcc.store.ports import Store
from mcc.store.values import Appended, Batch

T = TypeVar("T")
log = structlog.get_logger("drone.writer")

MOST_BYTES = 8_000_000
"""About as many bytes may wait to be committed; producers wait beyond that."""

BATCH_BYTES = 2_000_000
RETRY_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0)
TRUST_SECONDS = 0.05


class Lease(Protocol):
    @property
    def trusted(self) -> bool: ...

    @property
    def incarnation(self) -> str | None: ...


@dataclass(slots=True)
class _Waiting:
    """The drafts of one `append`, and who waits for their number."""

    journal: OrderJournal
    drafts: Sequence[Draft]
    weight: int
    done: "asyncio.Future[int]" = field(repr=False)


class Writer:
    """While one group is in the database, the next one gathers. Use on one event loop only.

    Numbers are given in memory, from each order's last committed one on. While the lease is not `trusted` no group is
    begun and none is answered, however long the database took: since an effect waits for the answer, none starts then.
    """

    def __init__(
        self,
        store: Store,
        lease: Lease,
        teller: Teller,
        *,
        most_bytes: int = MOST_BYTES,
        grew: Callable[[int], None] = lambda weight: None,
    ) -> None:
        """`grew` is told about how many bytes the journals that are written here grow by."""
        self._store = store
        self._lease = lease
        self._teller = teller
        self._most_bytes = most_bytes
        self._grew = grew
        self._groups = Offload(1, "journal")
        self._texts = Offload(2, "texts")
        self._queue: list[_Waiting] = []
        self._flying: list[_Waiting] = []
        self._bytes = 0
        self._arrived = asyncio.Event()
        self._moved = asyncio.Condition()

    def open(self, order_id: str, epoch: int, fold: Fold, incarnation: str = "") -> OrderJournal:
        """The journal of an order that was just claimed; `fold` has taken in every entry so far.

        `incarnation`: under which it was claimed, if effects must not outlast that.
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
                await self._moved.wait_for(lambda: not self._bytes or self._bytes + weight <= self._most_bytes)
            journal.check_open()
        waiting = _Waiting(journal, drafts, weight, asyncio.get_running_loop().create_future())
        self._bytes += weight
        self._queue.append(waiting)
        self._arrived.set()
        return await waiting.done

    async def keep(self, text: str) -> str:
        return await patiently(self._texts, lambda: self._store.texts.keep(text))

    async def kept(self, digest: str) -> str | None:
        try:
            return await patiently(self._texts, lambda: self._store.texts.kept(digest))
        except KeyError:
            return None

    def delta(self, delta: Delta) -> None:
        self._teller.delta(delta)

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
            appended = await patiently(self._groups, lambda: self._store.journal.append(list(batches.values())))
        except Exception as problem:
            log.exception("the store refused a group of entries", orders=list(batches))
            appended = Appended(culprits=dict.fromkeys(batches, repr(problem)))
        await self._trust()
        for waiting in group:
            self._answer(waiting, appended)
        self._tell(batches, appended)
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
            take_in(journal, waiting.drafts, waiting.done)

    def _tell(self, batches: Mapping[str, Batch], appended: Appended) -> None:
        for order_id, batch in batches.items():
            if order_id not in appended.fenced and order_id not in appended.culprits:
                self._teller.hint(Hint(order_id=order_id, seq=batch.entries[-1].seq))


def take_in(journal: OrderJournal, drafts: Sequence[Draft], done: "asyncio.Future[int]") -> None:
    """Fold what was committed, and answer whoever waits. An entry that does not fit is counted all the same."""
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


async def patiently(offload: Offload, work: Callable[[], T]) -> T:
    """What `work` answers, however long the database is away. Raises what else it raises."""
    failures = 0
    while True:
        try:
            return await offload(work)
        except StoreUnavailable as problem:
            if failures == 0:
                log.warning("the drone waits for the database", problem=str(problem))
            pause = RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)]
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            failures += 1


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
