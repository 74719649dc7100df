"""Summaries that are interrupted: by a provider that is busy, by the loss of a drone, by the end of a short turn."""

import asyncio
from collections.abc import Callable, Iterator, Sequence

from drone.agent.compaction.summary import AGENT, ATTEMPTS
from drone.agent.ports.model import Ask, AskLater
from drone.agent.state.tree import Tree
from drone.agent.turns.turn import Steering, Task, Turn
from drone.models.scripted import Said
from mcc.contracts.compaction import CompactionTerms, TranscriptCompacted
from mcc.contracts.control import Control, ControlKind
from mcc.contracts.entry import Entry
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import AgentFinished, AgentStarted
from mcc.contracts.model_facts import ModelRetried
from mcc.contracts.record import RecordStatus
from mcc.contracts.shape import now
from tests.drone.agent.compaction.long_runs import ORDER, SUMMARY, LongModel, LongRun
from tests.drone.agent.compaction.test_models_of_summaries import OtherModel, earlier, hired


async def test_a_busy_provider_is_no_failed_summary() -> None:
    answers: Iterator[Said] = iter([AskLater("Busy.", 0.0), AskLater("Busy.", 0.0)])
    world = LongRun(LongModel(160, 40_000, length=700, sums_up=lambda _: next(answers, SUMMARY)))
    assert (await world.run()).text == "All read."
    assert [one.reason for one in world.compacted()] == ["background"] and world.compacted("summary")
    assert next(answers, None) is None


async def test_while_its_provider_is_busy_none_is_begun_in_the_background() -> None:
    world = LongRun(LongModel(200, 40_000, length=700, sums_up=lambda _: AskLater("Busy.", 3_600.0)))
    assert (await world.run()).text == "All read."
    begun = [one for one in world.summaries() if isinstance(one.data, AgentStarted)]
    # In the background once; then, as the window is full, once more before lines stand in for it.
    assert len(begun) == 2 and [fact.reason for fact in world.compacted("handles")] == ["full"]


async def test_a_summary_that_was_paid_for_is_not_asked_again_by_the_next_drone() -> None:
    first = LongRun(LongModel(60, 12_000, length=700))
    await first.run()
    ends = [
        one.seq
        for one in first.journal.entries
        if one.agent == AGENT and isinstance(one.data, AgentFinished) and one.data.status is RecordStatus.COMPLETED
    ]
    for end in ends:
        applied = next(one.seq for one in first.journal.entries[end:] if isinstance(one.data, TranscriptCompacted))
        if applied != end + 1:
            continue
        model = LongModel(60, 12_000, length=700)
        model.said = Tree.of(first.journal.entries[:end]).records[first.journal.entries[0].record_id or ""].rounds
        second = LongRun(model, left=first.journal.entries[:end], texts=first.journal.texts)
        assert (await second.run()).text == "All read."
        fact = next(one.data for one in second.journal.entries[end:] if isinstance(one.data, TranscriptCompacted))
        before = first.journal.entries[applied - 1].data
        assert isinstance(before, TranscriptCompacted)
        assert (fact.stage, fact.record_id, fact.summary) == ("summary", before.record_id, before.summary)
        assert fact.usage == before.usage and fact.checklist == before.checklist
        assert not [ask for ask in model.asks[:1] if ask in model.summaries]


async def test_a_control_for_the_record_of_a_summary_is_refused_after_a_takeover() -> None:
    first = LongRun(LongModel(60, 12_000, length=700))
    await first.run()
    begun = next(one for one in first.journal.entries if one.agent == AGENT and isinstance(one.data, AgentStarted))
    tree = Tree.of(first.journal.entries[: begun.seq])
    assert begun.record_id in tree.unfinished and begun.record_id not in tree.unfinished_agents
    world = LongRun(LongModel(60, 12_000, length=700), left=first.journal.entries[: begun.seq])
    turn = world.agent.turn(world.journal, tree)
    Steering(turn)
    pause = Control(
        id="c", order_id="", number=1, kind=ControlKind.PAUSE, record_id=begun.record_id, requested_at=now()
    )
    assert await turn.router.take(pause) is not None


async def test_a_turn_that_is_answered_at_once_begins_no_summary() -> None:
    session = earlier(LongModel(0, 1).name, turns=7)
    model = LongModel(0, 30_000)
    assert (await hired(LongRun(model), CompactionTerms(), OtherModel(1), session).run()).text == "All read."
    assert not model.summaries
    longer = LongModel(3, 30_000)
    await hired(LongRun(longer), CompactionTerms(), OtherModel(1), session).run()
    assert longer.summaries


def parked(sums_up: Callable[[Ask], Said], *, left: Sequence[Entry] = ()) -> tuple[LongRun, Turn]:
    """A run whose order may wait for its provider."""
    model = LongModel(60, 12_000, length=700, sums_up=sums_up)
    tree = Tree.of(left) if left else None
    model.said = 0 if tree is None else tree.records[root_record_id(ORDER)].rounds
    world = LongRun(model, left=left)
    turn = world.agent.turn(world.journal, tree)
    turn.idle.parks = True
    return world, turn


def retried(world: LongRun) -> list[ModelRetried]:
    return [one.data for one in world.summaries() if isinstance(one.data, ModelRetried)]


async def test_a_full_window_waits_for_a_busy_provider_however_often_it_is() -> None:
    # More often than a summary has attempts.
    world, turn = parked(lambda _: SUMMARY if len(retried(world)) > ATTEMPTS else AskLater("Busy.", 0.0))
    report = await world.agent.run(Task(world.prompt, root_record_id(ORDER)), turn)
    assert (report.text, report.error) == ("All read.", None)
    assert world.compacted("summary") and not world.compacted("handles")
    assert [one.attempt for one in retried(world)] == [*range(1, ATTEMPTS + 2)]


async def test_an_order_that_waits_for_its_summary_is_parked_and_asks_for_the_same_one_afterwards() -> None:
    world, turn = parked(lambda _: AskLater("Busy.", 3_600.0))
    idle = asyncio.Event()
    turn.idle.watch(lambda is_idle: idle.set() if is_idle else None)
    running = asyncio.create_task(world.agent.run(Task(world.prompt, root_record_id(ORDER)), turn))
    async with asyncio.timeout(60):
        await idle.wait()
    assert [block.message for block in turn.idle.blocks] == ["Busy"]
    left = [*world.journal.entries]
    running.cancel()
    await asyncio.wait([running])
    waiting = left[-1]
    assert isinstance(waiting.data, ModelRetried) and waiting.agent == AGENT
    assert Tree.of(left).waiting_for_provider == {waiting.record_id, root_record_id(ORDER), None}
    second, turn = parked(lambda _: SUMMARY, left=left)
    assert (await second.agent.run(Task(world.prompt, root_record_id(ORDER)), turn)).text == "All read."
    assert second.compacted("summary")[0].record_id == waiting.record_id
    assert second.model.summaries[0].messages == world.model.summaries[-1].messages
    assert second.model.summaries[0].waited_seconds == 3_600.0


async def test_a_summary_is_not_waited_for_longer_than_the_order_may_wait() -> None:
    world, turn = parked(lambda _: AskLater("Busy.", 25 * 3_600.0))
    assert (await world.agent.run(Task(world.prompt, root_record_id(ORDER)), turn)).text == "All read."
    assert world.compacted("handles") and not retried(world)
