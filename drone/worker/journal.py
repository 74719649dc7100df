"""Journals of the orders that a drone holds, and the writer that commits their entries in groups."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from drone.agent.ports.journal import Fenced, TextDelta, Unwritable
from drone.worker.broadcaster import Broadcaster
from drone.worker.keeper import Keeper
from drone.worker.loop import AsyncStore
from drone.worker.weight import weight_of
from mcc.contracts.entry import Draft, Entry, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.fold import Fold
from mcc.contracts.inbox_facts import INBOX_FACTS
from mcc.contracts.record import AgentEnd
from mcc.contracts.shape import now
from mcc.contracts.wire import Delta, GenerationProgress, Hint, Progress
from mcc.store.documents.changes import AppliedCommands
from mcc.store.rows.texts import STRING_BYTES, text_digest
from mcc.store.store import Store
from mcc.store.work.agent_changes import AgentCommands, CommitGroup, Committed, OrderPart, OrderParts, PartResult
from mcc.transcript.own_messages import OwnMessages

log = structlog.get_logger("drone.journal")

MOST_BYTES = 8_000_000
"""Approximate bytes that may wait to be committed; beyond that, `append` blocks."""

BATCH_BYTES = 2_000_000
TRUST_SECONDS = 0.05


class OrderJournal:
    """The journal of one order under one epoch, with the fold of its committed entries. Implements
    `drone.agent.ports.journal.Journal`."""

    def __init__(self, writer: "Writer", order_id: str, epoch: int, fold: Fold, incarnation: str = "") -> None:
        self._writer = writer
        self.order_id = order_id
        self.epoch = epoch
        self.incarnation = incarnation
        self.fold = fold
        self.own = OwnMessages()
        """What the order adds to its session, of its committed entries. The reader of earlier entries sets it."""
        self.sealed = False
        self.owed: list[Draft] = []
        """Entries that are committed before the next ones, or by `settle`."""
        self._texts: dict[str, str] = {}
        """Short texts by digest, committed together with the next entries."""
        self._keeping = asyncio.Semaphore()
        self.weight = 0
        """Approximate bytes that the journal's entries take in memory. The reader of earlier entries adds theirs."""

    @property
    def last_seq(self) -> int:
        """Number of the last committed entry."""
        return self.fold.last_seq

    async def write(self, origin: Origin, *facts: Fact) -> int:
        at = now()
        return await self.append([Draft(at=at, origin=origin, data=fact) for fact in facts])

    async def append(self, drafts: Sequence[Draft]) -> int:
        """Commit these entries in this order; answers the number of the last. Raises `Fenced`, `Unwritable`."""
        self.check_open()
        return await self._append(drafts) if drafts else self.last_seq

    def defer(self, origin: Origin, *facts: Fact) -> None:
        at = now()
        self.owed += [Draft(at=at, origin=origin, data=fact) for fact in facts]

    async def settle(self) -> None:
        """Commit what is owed, even when sealed: the database refuses the write if another drone holds the order.

        Raises `Fenced`, `Unwritable`.
        """
        if self.owed:
            await self._append(())
        texts, self._texts = self._texts, {}
        for text in texts.values():
            await self._writer.keep(text, self.order_id)

    def take_owed(self) -> Sequence[Draft]:
        """Take out the owed entries, for the caller to commit with the end of the order. Takes nothing while texts wait
        to be committed with them, since an ending carries no texts."""
        owed: list[Draft] = []
        if not self._texts:
            owed, self.owed = self.owed, owed
        return owed

    async def _append(self, drafts: Sequence[Draft]) -> int:
        owed, self.owed = self.owed, []
        return await self._writer.append(self, [*owed, *drafts])

    def take_texts(self) -> Mapping[str, str]:
        """Take out the texts, by digest, that are committed with the entries of the current `append`."""
        texts, self._texts = self._texts, {}
        return texts

    async def change(self, commands: AgentCommands) -> AppliedCommands:
        """Apply these commands to a document and commit the entries that report it, both or neither, after the owed
        entries.

        Raises `Fenced`, `Unwritable`; `mcc.documents.change.DispatchRefused` and `UnknownDocument` where nothing was
        changed.
        """
        self.check_open()
        owed, self.owed = self.owed, []
        return await self._writer.change(self, owed, commands)

    async def keep(self, text: str) -> str:
        """Store a text and answer its digest. A short text is committed with the next entries, the first that can name
        it. Long texts are stored at once, one at a time, so that an order with many of them leaves threads to others.
        """
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
        if not self._writer.may_cause_effects(self):
            await self._writer.until_trusted(self)

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
        self._writer.delta(delta.for_viewers(self.order_id, self.epoch, origin))

    def progress(self, progress: GenerationProgress) -> None:
        if not self.sealed:
            self._writer.progress(Progress(order_id=self.order_id, epoch=self.epoch, data=progress))

    def check_open(self) -> None:
        """Raises `Fenced` once the journal is sealed."""
        if self.sealed:
            raise Fenced(f"order {self.order_id} is no longer this run's to write")

    def seal(self) -> None:
        """Refuse further writes and publishing. Entries that already wait to be committed are still committed."""
        self.sealed = True

    async def quiet(self) -> None:
        """Return once nothing of this order waits to be committed."""
        await self._writer.quiet(self)


@dataclass(slots=True)
class _Waiting:
    """One `append` or `change` that waits for its commit: drafts, then the `commands` of a change. `done` receives the
    result."""

    journal: OrderJournal
    drafts: Sequence[Draft]
    texts: Mapping[str, str]
    commands: AgentCommands | None
    weight: int
    since: float
    """When it began to wait, by the monotonic clock."""
    done: "asyncio.Future[Any]" = field(repr=False)


class Writer:
    """Commits entries of all orders of a drone in groups: while one group is being committed, the next one gathers.

    Entries are numbered in memory, counting on from each order's last committed number. While the lease is not
    `trusted`, the writer neither starts a group nor answers a committed one; since each effect waits for its answer, no
    effect starts then. Two commits per model call are cheap because all orders share them (docs/decisions/08). Use on
    one event loop only.
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
        """`grew` is called with the approximate bytes that each write adds to the journals in memory."""
        self._lease = lease
        self._broadcaster = broadcaster
        self._most_bytes = most_bytes
        self._grew = grew
        # Threads of their own: neither reading nor a long text may delay a commit.
        self._groups = AsyncStore(store, 1, "journal")
        self._texts = AsyncStore(store, 2, "texts")
        self._queue: list[_Waiting] = []
        self._flying: list[_Waiting] = []
        self._bytes = 0
        self._arrived = asyncio.Event()
        self._moved = asyncio.Condition()

    def open(self, order_id: str, epoch: int, fold: Fold, incarnation: str = "") -> OrderJournal:
        """The journal of an order that was just claimed, with every entry so far in `fold`.

        `incarnation`: the incarnation under which the order was claimed, if effects must end with it.
        """
        return OrderJournal(self, order_id, epoch, fold, incarnation)

    def may_cause_effects(self, journal: OrderJournal) -> bool:
        """Whether effects of this order may start now. Only reads the clock; does not ask the database."""
        return self._lease.trusted and not self._has_lost_lease(journal)

    async def until_trusted(self, journal: OrderJournal) -> None:
        """Return once effects of this order may start again. Raises `Fenced` when they never may."""
        while not self.may_cause_effects(journal):
            journal.check_open()
            if self._has_lost_lease(journal):
                raise Fenced(f"the lease under which order {journal.order_id} was claimed is lost")
            await asyncio.sleep(TRUST_SECONDS)

    def _has_lost_lease(self, journal: OrderJournal) -> bool:
        return bool(journal.incarnation) and journal.incarnation != self._lease.incarnation

    async def append(self, journal: OrderJournal, drafts: Sequence[Draft]) -> int:
        number: int = await self._enqueue(journal, drafts, None)
        return number

    async def change(self, journal: OrderJournal, drafts: Sequence[Draft], commands: AgentCommands) -> AppliedCommands:
        done: AppliedCommands = await self._enqueue(journal, drafts, commands)
        return done

    async def _enqueue(self, journal: OrderJournal, drafts: Sequence[Draft], commands: AgentCommands | None) -> Any:
        """Queue this write, once the bound on waiting bytes allows it, and wait for the result of its commit."""
        texts = journal.take_texts()
        weight = sum(weight_of(draft.data) for draft in drafts) + sum(map(len, texts.values()))
        weight += sum(weight_of(command) for command in commands.commands) if commands else 0
        journal.weight += weight
        self._grew(weight)
        if self._bytes and self._bytes + weight > self._most_bytes:
            async with self._moved:
                # A write that exceeds the bound by itself is queued alone; otherwise it would wait for ever.
                await self._moved.wait_for(lambda: not self._bytes or self._bytes + weight <= self._most_bytes)
            # It may have been sealed while this write waited for room.
            journal.check_open()
        waiting = _Waiting(
            journal, drafts, texts, commands, weight, time.monotonic(), asyncio.get_running_loop().create_future()
        )
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
            await self._lease_is_trusted()
            await self._commit(self._next_group())

    async def _lease_is_trusted(self) -> None:
        while not self._lease.trusted:  # noqa: ASYNC110 - trust ends by the clock, there is no event
            await asyncio.sleep(TRUST_SECONDS)

    @property
    def lag_seconds(self) -> float:
        """How long the oldest entry that is not committed yet has waited; 0 when none waits. Call from any thread."""
        return max((time.monotonic() - waiting.since for waiting in (*self._flying, *self._queue)), default=0.0)

    def close(self) -> None:
        self._groups.close()
        self._texts.close()

    def _next_group(self) -> list[_Waiting]:
        taken, weight = 0, 0
        while taken < len(self._queue) and (taken == 0 or weight < BATCH_BYTES):
            weight += self._queue[taken].weight
            taken += 1
        self._flying, self._queue = self._queue[:taken], self._queue[taken:]
        if not self._queue:
            self._arrived.clear()
        return self._flying

    async def _commit(self, group: list[_Waiting]) -> None:
        committed = await self._store_group(group)
        # Checked again: effects wait for this answer, and the commit may have taken longer than the lease lasts.
        await self._lease_is_trusted()
        places = {order_id: iter(answers) for order_id, answers in committed.answers.items()}
        for waiting in group:
            self._answer(waiting, committed, places)
        self._publish(committed)
        # After the answers, because `quiet` promises that they are folded in.
        self._flying = []
        self._bytes -= sum(waiting.weight for waiting in group)
        async with self._moved:
            self._moved.notify_all()

    async def _store_group(self, some: list[_Waiting]) -> Committed:
        """Commit the group and answer the result for each order. Never raises: this task commits for all orders, so a
        group may fail, but not the task."""
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
                if any(entry.kind in INBOX_FACTS for entry in entries):
                    self._broadcaster.inbox_moved(order_id)


def fold_in(journal: OrderJournal, entries: Sequence[Entry], done: "asyncio.Future[Any]") -> None:
    """Fold committed entries. An entry that does not fit stays committed; `done` then fails with `Unwritable`."""
    for entry in entries:
        try:
            journal.fold.add(entry)
            journal.own.add(entry)
        except Exception as problem:
            log.exception("an entry does not follow from those before", order_id=journal.order_id)
            fail(done, Unwritable(f"Entry {journal.last_seq} of order {journal.order_id} does not fit: {problem!r}"))


def group_of(some: Iterable[_Waiting]) -> CommitGroup:
    """The group to commit, sorted by order id: all writers lock rows in that order, which rules out deadlocks."""
    parts: dict[str, list[OrderPart]] = {}
    texts: dict[str, dict[str, str]] = {}
    journals: dict[str, OrderJournal] = {}
    for waiting in some:
        journals[waiting.journal.order_id] = waiting.journal
        parts.setdefault(waiting.journal.order_id, []).append(OrderPart(waiting.drafts, waiting.commands))
        texts.setdefault(waiting.journal.order_id, {}).update(waiting.texts)
    return CommitGroup(
        [OrderParts(id_, journals[id_].epoch, journals[id_].last_seq, parts[id_], texts[id_]) for id_ in sorted(parts)]
    )


def fail(done: "asyncio.Future[int]", problem: Exception) -> None:
    if not done.done():
        done.set_exception(problem)
