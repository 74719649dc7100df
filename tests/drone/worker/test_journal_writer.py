import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest

from drone.agent.ports.journal import Fenced, TextDelta, Unwritable
from drone.worker.journal import OrderJournal, Writer
from mcc.contracts.entry import Origin
from mcc.contracts.fold import Fold
from mcc.contracts.journal import AgentFinished, AgentStep
from mcc.contracts.record import RecordStatus
from mcc.store.database.engine import Database
from mcc.store.database.errors import StoreUnavailable
from mcc.store.rows.values import Appended, Batch
from mcc.store.store import Store
from mcc.store.work.journal import JournalStore
from mcc.testing import temporary_store
from tests.drone.worker.bench_of_orders import Bench
from tests.drone.worker.fake_crew import started

ROOT = Origin(record_id="root", agent="master")


def opened(bench: Bench, prompt: str = "p") -> OrderJournal:
    order = bench.place(prompt)
    claim = bench.claim(order)
    return bench.writer.open(order.id, claim.epoch, bench.fold(order.id))


def step(text: str) -> AgentStep:
    return AgentStep(name="note", message=text)


class Recorded(JournalStore):
    """Records each group. Gives the prepared `answers` instead of committing, raising those that are exceptions."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.groups: list[Sequence[Batch]] = []
        self.answers: list[Appended | Exception] = []
        self.gate = threading.Event()
        self.gate.set()

    def append(self, batches: Sequence[Batch]) -> Appended:
        self.gate.wait(5)
        self.groups.append(batches)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer or super().append(batches)


def a_recorded_store() -> tuple[Store, Recorded]:
    store = temporary_store()
    recorded = Recorded(store.database)
    return replace(store, journal=recorded), recorded


async def test_entries_are_numbered_from_the_last_committed_one_on_and_folded() -> None:
    async with Bench() as bench:
        journal = opened(bench)
        assert await journal.write(ROOT, started("p"), step("one")) == 4
        assert await journal.write(ROOT, step("two")) == 5
        assert [entry.seq for entry in bench.journal(journal.order_id)] == [1, 2, 3, 4, 5]
        assert journal.fold.record() == bench.fold(journal.order_id).record()


async def test_what_arrives_during_a_commit_is_committed_together() -> None:
    store, recorded = a_recorded_store()
    async with Bench(store) as bench:
        journals = [opened(bench, f"p{number}") for number in range(20)]
        recorded.gate.clear()
        writes = [asyncio.create_task(journal.write(ROOT, started("p"))) for journal in journals]
        await asyncio.sleep(0)
        recorded.gate.set()
        assert await asyncio.gather(*writes) == [3] * 20
        assert len(recorded.groups) <= 2
        ids = [batch.order_id for batch in recorded.groups[-1]]
        assert ids == sorted(ids)


async def test_a_group_is_hinted_once_per_order_after_its_commit() -> None:
    async with Bench() as bench:
        journal = opened(bench)
        await journal.write(ROOT, started("p"), step("one"), step("two"))
        await bench.broadcaster.flush()
        assert [(hint.order_id, hint.seq) for hint in bench.publisher.hints] == [(journal.order_id, 5)]


async def test_a_fenced_order_stops_and_the_others_of_its_group_are_committed() -> None:
    async with Bench() as bench:
        held, lost = opened(bench, "a"), opened(bench, "b")
        bench.store.claims.hand_back([(lost.order_id, lost.epoch)], drone="d1", message="")
        results = await asyncio.gather(
            held.write(ROOT, started("a")), lost.write(ROOT, started("b")), return_exceptions=True
        )
        assert results[0] == 3
        assert isinstance(results[1], Fenced)
        with pytest.raises(Fenced):
            await lost.write(ROOT, step("more"))


async def test_an_entry_that_the_database_refuses_fails_only_its_own_order() -> None:
    store, recorded = a_recorded_store()
    async with Bench(store) as bench:
        bad = opened(bench, "a")
        recorded.answers = [Appended(culprits={bad.order_id: "no such character"})]
        with pytest.raises(Unwritable, match="no such character"):
            await bad.write(ROOT, started("a"))
        assert await bad.write(ROOT, started("a")) == 3


async def test_the_writer_waits_for_an_unavailable_database() -> None:
    store, recorded = a_recorded_store()
    async with Bench(store) as bench:
        journal = opened(bench)
        recorded.answers = [StoreUnavailable("away"), StoreUnavailable("away")]
        assert await journal.write(ROOT, started("p")) == 3
        assert len(recorded.groups) == 3
        assert recorded.groups[0] == recorded.groups[2]


async def test_nothing_is_committed_while_the_lease_is_not_trusted() -> None:
    async with Bench() as bench:
        journal = opened(bench)
        bench.trust.trusted = False
        write = asyncio.create_task(journal.write(ROOT, started("p")))
        await asyncio.wait({write}, timeout=0.2)
        assert not write.done()
        assert journal.last_seq == 2
        bench.trust.trusted = True
        assert await write == 3


async def test_a_commit_that_outlasted_the_trust_in_the_lease_is_not_answered_yet() -> None:
    store, recorded = a_recorded_store()
    async with Bench(store) as bench:
        journal = opened(bench)
        recorded.gate.clear()
        write = asyncio.create_task(journal.write(ROOT, started("p")))
        await asyncio.wait({write}, timeout=0.05)
        bench.trust.trusted = False
        recorded.gate.set()
        await asyncio.wait({write}, timeout=0.2)
        assert bench.kinds(journal.order_id)[-1] == "agent.started"
        assert not write.done()
        bench.trust.trusted = True
        assert await write == 3


async def test_a_full_queue_slows_its_producers_down() -> None:
    store, recorded = a_recorded_store()
    async with Bench(store) as bench:
        journal = opened(bench)
        writer = Writer(store, bench.trust, bench.broadcaster, most_bytes=10_000)
        journal = writer.open(journal.order_id, journal.epoch, journal.fold)
        recorded.gate.clear()
        running = asyncio.create_task(writer.run())
        first = asyncio.create_task(journal.write(ROOT, started("x" * 9_000)))
        second = asyncio.create_task(journal.write(ROOT, step("y" * 9_000)))
        await asyncio.wait({first, second}, timeout=0.1)
        assert writer._bytes < 10_000
        recorded.gate.set()
        assert await first == 3
        assert await second == 4
        running.cancel()
        writer.close()


async def test_a_write_whose_caller_is_cancelled_is_committed_all_the_same() -> None:
    async with Bench() as bench:
        journal = opened(bench)
        write = asyncio.create_task(journal.write(ROOT, started("p")))
        await asyncio.sleep(0)
        write.cancel()
        await journal.quiet()
        assert bench.kinds(journal.order_id)[-1] == "agent.started"
        assert journal.last_seq == 3


async def test_a_sealed_journal_refuses_further_writes() -> None:
    async with Bench() as bench:
        journal = opened(bench)
        journal.seal()
        with pytest.raises(Fenced):
            await journal.write(ROOT, started("p"))
        journal.delta(ROOT, TextDelta("model.delta", 1, 1, 0, "unheard"))
        await bench.broadcaster.flush()
        assert bench.publisher.deltas == []


async def test_closing_ends_what_is_open() -> None:
    async with Bench() as bench:
        journal = opened(bench)
        await journal.write(ROOT, started("p"))
        await journal.close(RecordStatus.LIMIT_REACHED, "enough")
        last = bench.journal(journal.order_id)[-1].data
        assert isinstance(last, AgentFinished)
        assert (last.status, last.error) == (RecordStatus.LIMIT_REACHED, "enough")


async def test_an_entry_that_does_not_follow_fails_its_writer_and_not_the_others() -> None:
    async with Bench() as bench:
        journal = opened(bench)
        stray = Origin(record_id="nobody", agent="x")
        with pytest.raises(Unwritable):
            await journal.write(stray, AgentFinished(status=RecordStatus.COMPLETED))
        other = opened(bench, "other")
        assert await other.write(ROOT, started("p")) == 3


async def test_any_text_is_kept_and_read_back_exactly() -> None:
    async with Bench() as bench:
        journal = opened(bench)
        strange = "nul \x00 and a lone surrogate \ud800"
        await journal.write(ROOT, started(strange))
        assert Fold.of(journal.order_id, bench.journal(journal.order_id)).record().prompt == strange  # type: ignore[union-attr]


async def test_an_entry_that_does_not_follow_leaves_the_numbers_as_the_database_has_them() -> None:
    async with Bench() as bench:
        journal = opened(bench)
        stray = Origin(record_id="nobody", agent="x")
        with pytest.raises(Unwritable):
            await journal.write(stray, AgentFinished(status=RecordStatus.COMPLETED), step("more"))
        assert journal.last_seq == bench.journal(journal.order_id)[-1].seq == 4
        assert await journal.write(ROOT, started("p")) == 5


async def test_a_write_that_waits_for_room_is_dropped_when_its_journal_is_sealed() -> None:
    store, recorded = a_recorded_store()
    async with Bench(store) as bench:
        full = opened(bench)
        writer = Writer(store, bench.trust, bench.broadcaster, most_bytes=10_000)
        journal = writer.open(full.order_id, full.epoch, full.fold)
        recorded.gate.clear()
        running = asyncio.create_task(writer.run())
        first = asyncio.create_task(journal.write(ROOT, started("x" * 9_000)))
        second = asyncio.create_task(journal.write(ROOT, step("y" * 9_000)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        journal.seal()
        recorded.gate.set()
        assert await first == 3
        with pytest.raises(Fenced):
            await second
        assert bench.kinds(journal.order_id)[-1] == "agent.started"
        running.cancel()
        writer.close()


async def test_a_kept_text_is_read_back_and_one_that_was_never_kept_is_none() -> None:
    async with Bench() as bench:
        journal = opened(bench)
        digest = await journal.keep("half a pair \ud83d and NUL \x00")
        assert await journal.kept(digest) == "half a pair \ud83d and NUL \x00"
        assert await journal.kept("f" * 64) is None


async def test_a_short_text_is_committed_with_the_next_entries_of_its_order() -> None:
    store, recorded = a_recorded_store()
    async with Bench(store) as bench:
        one, other = opened(bench, "one"), opened(bench, "other")
        digest = await one.keep("short")
        with pytest.raises(KeyError):
            store.texts.kept(digest)
        await other.write(ROOT, started("other"))
        assert [dict(batch.texts) for group in recorded.groups for batch in group] == [{}]
        await one.write(ROOT, started("one"))
        assert store.texts.kept(digest) == "short"
        await one.write(ROOT, step("once"))
        assert [dict(group[0].texts) for group in recorded.groups[1:]] == [{digest: "short"}, {}]


async def test_a_short_text_that_no_entry_followed_is_kept_once_the_order_is_settled() -> None:
    async with Bench() as bench:
        journal = opened(bench)
        digest = await journal.keep("short")
        journal.seal()
        await journal.settle()
        assert bench.store.texts.kept(digest) == "short"


async def test_a_short_text_of_a_fenced_order_is_not_kept() -> None:
    async with Bench() as bench:
        lost = opened(bench)
        bench.store.claims.hand_back([(lost.order_id, lost.epoch)], drone="d1", message="")
        digest = await lost.keep("short")
        with pytest.raises(Fenced):
            await lost.write(ROOT, started("p"))
        with pytest.raises(KeyError):
            bench.store.texts.kept(digest)


TEXTS = tuple(letter * 40_000 for letter in "abc")
"""Texts too long to be committed together with the entries that name them."""


class Keeping(Writer):
    """A writer that stores texts as slowly as the test likes, and counts how many it stores at once."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.now = self.most = 0

    async def keep(self, text: str, order_id: str) -> str:
        self.now += 1
        self.most = max(self.most, self.now)
        await self.go_on.wait()
        self.now -= 1
        return text


async def test_an_order_keeps_one_long_text_at_a_time() -> None:
    writer = Keeping()
    one, other = (OrderJournal(writer, name, 1, Fold(name)) for name in ("one", "other"))
    keeping = [asyncio.create_task(journal.keep(text)) for journal in (one, other) for text in TEXTS]
    for _ in range(10):
        await asyncio.sleep(0)
    assert writer.most == 2
    writer.go_on.set()
    assert await asyncio.gather(*keeping) == [*TEXTS, *TEXTS]
    assert writer.most == 2
