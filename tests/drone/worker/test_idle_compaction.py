"""Sessions in which nobody speaks: compacted before their provider forgets them, and no turn waits for it."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from drone.agent.compaction.of_session import NOTHING
from drone.agent.ports.model import Ask
from drone.models.scripted import Line, Said, call
from drone.settings import Settings
from mcc.configuration.settings import SessionSettings
from mcc.contracts.callers import Actor
from mcc.contracts.compaction import CompactionTerms
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.journal import AgentStarted, AgentStep, ToolFinished
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.order import OrderKind, WorkOrder
from mcc.contracts.status import OrderStatus
from mcc.transcript.compaction.built import BEGINNING
from mcc.transcript.messages import ToolResults, UserMessage
from mcc.transcript.transcript import request_in
from tests.drone.worker.test_compact_orders import AskedTalk, first_of
from tests.drone.worker.test_compacted_sessions import LONG
from tests.drone.worker.test_transcripts_of_sessions import Talk


class IdleTalk(AskedTalk):
    """A talk whose provider forgets at once, so that what waits for silence is due when a turn has ended."""

    def __init__(
        self,
        folder: Path,
        window: int | None = 60_000,
        forgets: int | None = 0,
        settings: Settings | None = None,
    ) -> None:
        super().__init__(folder, window, settings)
        self.model.cache_seconds = forgets
        self.reading = ""

    async def __aenter__(self) -> "IdleTalk":
        await super().__aenter__()
        return self

    async def _say(self, ask: Ask) -> Said:
        last = ask.messages[-1]
        if isinstance(last, UserMessage) and (word := request_in(last.text)).startswith("fetch "):
            return Line("I fetch it.", (call("read_artifact", id=word.removeprefix("fetch ")),))
        return await super()._say(ask)

    def compactions(self) -> list[WorkOrder]:
        return [*self.store.orders.list(kind=OrderKind.COMPACT).items]


@pytest.mark.parametrize(("forgets", "seconds"), [(300, 240), (1_800, 1_740), (None, 240), (30, 0)])
async def test_it_is_due_a_minute_before_the_cache_expires(tmp_path: Path, forgets: int | None, seconds: int) -> None:
    async with IdleTalk(tmp_path, window=10_000, forgets=forgets) as talk:
        order = await talk.say(f"0 {LONG} {LONG}")
        (waiting,) = talk.compactions()
        replied = [one for one in talk.journal(order.id) if isinstance(one.data, ModelReplied)]
        assert waiting.not_before == replied[-1].at + timedelta(seconds=seconds)
        assert waiting.status is (OrderStatus.WAITING if seconds else OrderStatus.QUEUED)
        assert waiting.limits is not None and waiting.limits.output_tokens == 3 * 1_000


async def test_only_a_turn_that_ends_with_half_of_the_window_places_it(tmp_path: Path) -> None:
    async with IdleTalk(tmp_path, window=14_000) as talk:
        session_id = (await talk.say(f"0 {LONG}")).session_id
        assert talk.compactions() == []
        await talk.say(f"1 {LONG}", session_id)
        assert [one.compacts for one in talk.compactions()] == [session_id]
    (other := tmp_path / "other").mkdir()
    async with IdleTalk(other, window=None) as unknown:
        await unknown.say(f"0 {LONG}")
        assert unknown.compactions() == []


@pytest.mark.parametrize(
    "settings",
    [
        Settings(compaction=CompactionTerms(idle=False)),
        Settings(compaction=CompactionTerms(idle_share=0.9)),
        Settings(sessions=SessionSettings(context="answers")),
    ],
)
async def test_an_operator_says_whether_and_from_when_on(tmp_path: Path, settings: Settings) -> None:
    settings = settings.model_copy(update={"workspace_roots": (tmp_path,)})
    async with Talk(tmp_path, settings, window=12_000) as talk:
        # Of a turn with a long result, only prompt and answer count where later turns are shown no more.
        (tmp_path / "README.md").write_text("Roses. " * 3_000)
        await talk.say("read it")
        assert talk.store.orders.list(kind=OrderKind.COMPACT).items == []


async def test_the_next_turn_is_shown_the_summary_that_was_made_in_the_silence(tmp_path: Path) -> None:
    async with IdleTalk(tmp_path, window=36_000) as talk:
        session_id = await talk.told()
        (order,) = talk.compactions()
        done = await talk.work(order)
        assert done.status is OrderStatus.SUCCEEDED, done.detail
        (fact,) = talk.compacted(done)
        assert (fact.stage, fact.reason) == ("summary", "idle")
        (base,) = talk.bases()
        assert (base.through_seq, base.reason) == (4, "summary")
        # The request that it rides on is the last turn's, with its answer.
        ridden = next(one for one in reversed(talk.asked) if "This conversation" not in str(one.messages[-1]))
        assert talk.requests[0].system == ridden.system
        assert [*talk.requests[0].messages][: len(ridden.messages)] == [*ridden.messages]
        await talk.say("next", session_id)
        assert first_of(talk.asked[-1]).startswith(BEGINNING)


async def test_where_old_results_pay_they_are_put_away_and_can_be_read(tmp_path: Path) -> None:
    async with IdleTalk(tmp_path, window=36_000) as talk:
        (tmp_path / "README.md").write_text("\n".join(f"line {number}: roses" for number in range(1_200)))
        session_id = (await talk.say("read it")).session_id
        for number in range(4):
            await talk.say(f"read {number} again", session_id)
        for number in range(2):
            await talk.say(f"{number} {LONG}", session_id)
        before = talk.asked[-1]
        order = talk.compactions()[0]
        done = await talk.work(order)
        assert done.status is OrderStatus.SUCCEEDED and done.usage.model_calls == 0, done.detail
        assert [(fact.stage, fact.reason) for fact in talk.compacted(done)] == [("results", "idle")]
        (base,) = [one for one in talk.bases() if one.order_id == order.id]
        assert base.reason == "results"
        following = await talk.say("next", session_id)
        after = talk.asked[-1]
        results = [one for one in after.messages if isinstance(one, ToolResults)]
        assert any("put away" in one.results[0].content for one in results)
        assert after.system == before.system and len(after.messages) == len(before.messages) + 2
        # It was told in the journal of the order that put it away.
        steps = [one.data.name for one in talk.journal(following.id) if isinstance(one.data, AgentStep)]
        assert "prefix_changed" not in steps
        handle = results[0].results[0].content.partition("id ")[2].partition(" ")[0]
        fetched = await talk.say(f"fetch {handle}", session_id)
        (read,) = [one.data for one in talk.journal(fetched.id) if isinstance(one.data, ToolFinished)]
        assert not read.is_error and "line 1: roses" in read.content


async def test_a_turn_that_runs_when_it_is_due_ends_it_and_places_the_next(tmp_path: Path) -> None:
    async with IdleTalk(tmp_path, window=36_000) as talk:
        session_id = await talk.told()
        (due,) = talk.compactions()
        running = talk.place("never", session_id=session_id, workspace=str(tmp_path))
        turn = asyncio.create_task(talk.runner.work(running.id))
        await talk.silent.wait()
        order = await talk.work(due)
        assert order.status is OrderStatus.CANCELLED and talk.requests == [] and talk.bases() == []
        talk.store.controls.request(running.id, ControlKind.CANCEL, NewControl(), by=Actor("test"))
        run = next(one for one in talk.executions if one.order_id == running.id)
        await run.take(talk.store.controls.pending({running.id: 0}))
        await turn
        assert len(talk.compactions()) == 1, "it has asked nothing of its model"
        await talk.say("and on", session_id)
        following, ended = talk.compactions()
        assert (ended.id, following.status) == (due.id, OrderStatus.QUEUED)


async def test_no_turn_waits_while_it_runs(tmp_path: Path) -> None:
    async with IdleTalk(tmp_path, window=36_000) as talk:
        session_id = await talk.told()
        talk.holding = True
        working = asyncio.create_task(talk.work(talk.compactions()[0]))
        await talk.summing.wait()
        during = await talk.say("during", session_id)
        assert during.status is OrderStatus.SUCCEEDED and not first_of(talk.asked[-1]).startswith(BEGINNING)
        talk.go_on.set()
        assert (await working).status is OrderStatus.SUCCEEDED
        started = [one.data for one in talk.journal(during.id) if isinstance(one.data, AgentStarted)]
        assert started[0].session is not None


async def test_one_that_freed_nothing_is_not_placed_after_every_turn(tmp_path: Path) -> None:
    settings = Settings(workspace_roots=(tmp_path,), compaction=CompactionTerms(idle_share=0.05))
    async with IdleTalk(tmp_path, settings=settings) as talk:
        # Its newest turns stay as they are, and there is nothing else.
        session_id = (await talk.say(f"0 {LONG} {LONG}")).session_id
        (order,) = talk.compactions()
        done = await talk.work(order)
        assert done.status is OrderStatus.SUCCEEDED and done.answer == NOTHING
        assert done.result is not None and done.result["tokens_after"] == done.result["tokens_before"] > 5_000
        for word in ("more", "and more"):
            await talk.say(word, session_id)
            assert [one.id for one in talk.compactions()] == [order.id]
        await talk.say(f"1 {LONG}", session_id)
        assert len(talk.compactions()) == 2, "it has grown"
