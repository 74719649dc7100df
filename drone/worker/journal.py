"""The journals of the orders that a drone holds, and the writer that commits their entries in groups."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from drone.agent.journal import Fenced, TextDelta, Unwritable
from drone.worker.broadcaster import Broadcaster
from drone.worker.keeper import Keeper
from drone.worker.loop import AsyncStore
from drone.worker.weight import weight_of
from mcc.contracts.entry import Draft, Entry, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.fold import Fold
from mcc.contracts.record import AgentEnd
from mcc.contracts.shape import now
from mcc.contracts.wire import Delta, GenerationProgress, Hint, Progress
from mcc.store.agent_changes import AgentCommands, Committed, Group, OrderParts, Part, PartResult
from mcc.store.document_changes import Done
from mcc.store.store import Store
from mcc.store.texts import STRING_BYTES, text_digest

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
        self.owed: list[Draft] = []
        """They go before the next entries, or with `settle`."""
        self._texts: dict[str, str] = {}
        """By digest, short ones that are committed with the next entries."""
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

    def defer(self, origin: Origin, *facts: Fact) -> None:
        at = now()
        self.owed += [Draft(at=at, origin=origin, data=fact) for fact in facts]

    async def settle(self) -> None:
        """Commit what is owed, also when sealed: the database refuses it where another drone has the order.

        Raises `Fenced`, `Unwritable`.
        """
        if self.owed:
            await self._append(())
        texts, self._texts = self._texts, {}
        for text in texts.values():
            await self._writer.keep(text, self.order_id)

    def handed_over(self) -> Sequence[Draft]:
        """What is owed, for whoever commits it with the end of the order; nothing where texts are to be kept with
        it."""
        owed: list[Draft] = []
        if not self._texts:
            owed, self.owed = self.owed, owed
        return owed

    async def _append(self, drafts: Sequence[Draft]) -> int:
        owed, self.owed = self.owed, []
        return await self._writer.append(self, [*owed, *drafts])

    def taken(self) -> Mapping[str, str]:
        """By digest, the texts that go with the entries which are committed now."""
        texts, self._texts = self._texts, {}
        return texts

    async def change(self, asked: AgentCommands) -> Done:
        """Do these commands in a document and commit the entries that tell of it, both or neither, after what is owed.

        Raises `Fenced`, `Unwritable`; `mcc.documents.change.Refused` and `UnknownDocument` where nothing was done.
        """
        self.check_open()
        owed, self.owed = self.owed, []
        return await self._writer.change(self, owed, asked)

    async def keep(self, text: str) -> str:
        """A short one is committed with the next entries: none names it before. Long ones go ahead, one at a time, so
        that an order with many leaves threads to its neighbours."""
        if len(text) <= STRING_BYTES and len(text.encode("utf-8", "surrogatepass")) <= STRING_BYTES:
            digest = text_digest(text)
            self._texts[digest] = text
            return digest
        async with self._keeping:
            return await self._writer.keep(text, self.order_id)

    async def kept(self, digest: str) -> str | None:
        text = self._texts.get(digest)
        return await self._writer.kept(digest) if text is None else text

    async def confirm_held(self) -> None:
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
                call_id=delta.call_id,
            )
        )

    def progress(self, progress: GenerationProgress) -> None:
        if not self.sealed:
            self._writer.progress(Progress(order_id=self.order_id, epoch=self.epoch, data=progress))

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
    """The drafts of one `append`, and who waits for their number; or of one `change`, which is `asked` after them."""

    journal: OrderJournal
    drafts: Sequence[Draft]
    texts: Mapping[str, str]
    asked: AgentCommands | None
    weight: int
    done: "asyncio.Future[Any]" = field(repr=False)


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
        number: int = await self._committed(journal, drafts, None)
        return number

    async def change(self, journal: OrderJournal, drafts: Sequence[Draft], asked: AgentCommands) -> Done:
        done: Done = await self._committed(journal, drafts, asked)
        return done

    async def _committed(self, journal: OrderJournal, drafts: Sequence[Draft], asked: AgentCommands | None) -> Any:
        texts = journal.taken()
        weight = sum(weight_of(draft.data) for draft in drafts) + sum(map(len, texts.values()))
        weight += sum(weight_of(command) for command in asked.commands) if asked else 0
        journal.weight += weight
        self._grew(weight)
        if self._bytes and self._bytes + weight > self._most_bytes:
            async with self._moved:
                # What is larger than the bound by itself goes alone; it would wait for ever otherwise.
                await self._moved.wait_for(lambda: not self._bytes or self._bytes + weight <= self._most_bytes)
            journal.check_open()
        waiting = _Waiting(journal, drafts, texts, asked, weight, asyncio.get_running_loop().create_future())
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

    def progress(self, progress: Progress) -> None:
        self._broadcaster.progress(progress)

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
        committed = await self._kept(group)
        # Once more: effects wait for this answer, and the commit may have taken longer than the lease lasts.
        await self._trust()
        places = {order_id: iter(answers) for order_id, answers in committed.answers.items()}
        for waiting in group:
            self._answer(waiting, committed, places)
        self._publish(committed)
        self._flying = []
        self._bytes -= sum(waiting.weight for waiting in group)
        async with self._moved:
            self._moved.notify_all()

    async def _kept(self, some: list[_Waiting]) -> Committed:
        """What became of the group. This task commits for all orders: a group of entries may fail, the task may not."""
        group = group_of(some)
        try:
            if group.has_commands:
                return await self._groups.patiently(lambda store: store.agent_changes.commit(group))
            batches = group.batches()
            return group.answered(await self._groups.patiently(lambda store: store.journal.append(batches)))
        except Exception as problem:
            orders = [held.order_id for held in group.orders]
            log.exception("the store refused a group of entries", orders=orders)
            return Committed(culprits=dict.fromkeys(orders, repr(problem)))

    def _answer(self, waiting: _Waiting, committed: Committed, places: Mapping[str, Iterator[PartResult]]) -> None:
        journal = waiting.journal
        if journal.order_id in committed.fenced:
            journal.seal()
            fail(waiting.done, Fenced(f"another drone holds order {journal.order_id} now"))
        elif why := committed.culprits.get(journal.order_id):
            fail(waiting.done, Unwritable(f"The database refuses an entry of order {journal.order_id}: {why}"))
        else:
            answer = next(places[journal.order_id])
            fold_in(journal, answer.entries, waiting.done)
            if answer.refused is not None:
                fail(waiting.done, answer.refused)
            elif not waiting.done.done():
                waiting.done.set_result(answer.done or journal.last_seq)

    def _publish(self, committed: Committed) -> None:
        for order_id, answers in committed.answers.items():
            if entries := [entry for answer in answers for entry in answer.entries]:
                self._broadcaster.entries(entries)
                self._broadcaster.hint(Hint(order_id=order_id, seq=entries[-1].seq))


def fold_in(journal: OrderJournal, entries: Sequence[Entry], done: "asyncio.Future[Any]") -> None:
    """Fold what was committed. An entry that does not fit counts all the same, and whoever waits hears of it."""
    for entry in entries:
        try:
            journal.fold.add(entry)
        except Exception as problem:
            log.exception("an entry does not follow from those before", order_id=journal.order_id)
            fail(done, Unwritable(f"Entry {journal.last_seq} of order {journal.order_id} does not fit: {problem!r}"))


def group_of(some: Iterable[_Waiting]) -> Group:
    """By order, in the order of the ids, in which all writers lock rows."""
    parts: dict[str, list[Part]] = {}
    texts: dict[str, dict[str, str]] = {}
    journals: dict[str, OrderJournal] = {}
    for waiting in some:
        journals[waiting.journal.order_id] = waiting.journal
        parts.setdefault(waiting.journal.order_id, []).append(Part(waiting.drafts, waiting.asked))
        texts.setdefault(waiting.journal.order_id, {}).update(waiting.texts)
    return Group(
        [OrderParts(one, journals[one].epoch, journals[one].last_seq, parts[one], texts[one]) for one in sorted(parts)]
    )


def fail(done: "asyncio.Future[int]", problem: Exception) -> None:
    if not done.done():
        done.set_exception(problem)
