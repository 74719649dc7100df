"""Orders that compact a session: the next turn is shown their summary, and no turn waits for them."""

import asyncio
from pathlib import Path

from drone.agent.compaction.built import BEGINNING
from drone.agent.compaction.of_session import NO_SUMMARY, NOTHING
from drone.agent.ports.messages import UserMessage
from drone.agent.ports.model import Ask
from drone.models.scripted import Said
from drone.worker.executions import Stop
from mcc.contracts.compaction import TranscriptCompacted
from mcc.contracts.journal import AgentStarted
from mcc.contracts.order import WorkOrder
from mcc.contracts.status import FailureReason, OrderStatus
from tests.drone.worker.test_compacted_sessions import LONG, LongTalk
from tests.drone.worker.test_transcripts_of_sessions import Talk


class AskedTalk(LongTalk):
    """A talk that is compacted when somebody asks. `holding`: its model waits before it sums up."""

    def __init__(self, folder: Path, window: int | None = 60_000) -> None:
        super().__init__(folder, window=window)
        self.holding = False
        self.summing = asyncio.Event()
        self.go_on = asyncio.Event()
        self.requests: list[Ask] = []

    async def __aenter__(self) -> "AskedTalk":
        await super().__aenter__()
        return self

    async def _say(self, ask: Ask) -> Said:
        last = ask.messages[-1]
        if isinstance(last, UserMessage) and "This conversation gets too long" in last.text:
            self.requests.append(ask)
            self.summing.set()
            if self.holding:
                await self.go_on.wait()
        return await super()._say(ask)

    async def told(self, turns: int = 4) -> str:
        """A session of so many turns."""
        session_id = (await self.say(f"0 Never water roses-17. {LONG}")).session_id
        for number in range(1, turns):
            await self.say(f"{number} {LONG}", session_id)
        return session_id

    def ask(self, session_id: str) -> WorkOrder:
        return self.store.compactions.ask(session_id).order

    async def compact(self, session_id: str) -> WorkOrder:
        return await self.work(self.ask(session_id))


def first_of(ask: Ask) -> str:
    first = ask.messages[0]
    assert isinstance(first, UserMessage)
    return first.text


async def test_the_next_turn_is_shown_a_summary_and_the_newest_turns(tmp_path: Path) -> None:
    async with AskedTalk(tmp_path) as talk:
        session_id = await talk.told()
        before = talk.asked[-1]
        order = await talk.compact(session_id)
        assert order.status is OrderStatus.SUCCEEDED, order.detail
        assert order.answer is not None and "4 turns" in order.answer
        (fact,) = talk.compacted(order)
        assert (fact.stage, fact.reason) == ("summary", "asked")
        (base,) = talk.bases()
        assert (base.through_seq, base.reason, base.order_id) == (4, "summary", order.id)
        after = await talk.say("next", session_id)
        assert first_of(talk.asked[-1]).startswith(BEGINNING) and "Never water roses-17" in first_of(talk.asked[-1])
        assert fact.summary == first_of(talk.asked[-1])
        # The newest two turns are as they were: prompt and answer each, behind the summary.
        kept = [*before.messages][-3:]
        assert [*talk.asked[-1].messages][1 : 1 + len(kept)] == kept
        assert after.status is OrderStatus.SUCCEEDED
        # Its request was that of the last turn, with its answer and one message more.
        request = talk.requests[0]
        assert request.system == before.system and request.cache_key == before.cache_key
        assert [spec.name for spec in request.tools] == [spec.name for spec in before.tools]
        assert [*request.messages][: len(before.messages)] == [*before.messages]
        assert len(request.messages) == len(before.messages) + 2
        record = talk.store.orders.record(order.id)
        assert record is not None and [child.agent for child in record.subagent_history] == ["compaction"]
        # Asked once more for what the summary lacked of the checklist.
        assert order.usage.model_calls == len(talk.requests) == 2


async def test_compacted_again_it_carries_what_the_summary_before_kept(tmp_path: Path) -> None:
    async with AskedTalk(tmp_path) as talk:
        session_id = await talk.told()
        await talk.compact(session_id)
        for number in range(3):
            await talk.say(f"again {number} {LONG}", session_id)
        order = await talk.compact(session_id)
        assert order.status is OrderStatus.SUCCEEDED
        await talk.say("next", session_id)
        assert "Never water roses-17" in first_of(talk.asked[-1])
        assert sum(getattr(one, "text", "").startswith(BEGINNING) for one in talk.asked[-1].messages) == 1


async def test_a_turn_that_begins_meanwhile_keeps_what_it_was_shown_and_the_next_has_the_summary(
    tmp_path: Path,
) -> None:
    async with AskedTalk(tmp_path) as talk:
        session_id = await talk.told()
        talk.holding = True
        working = asyncio.create_task(talk.compact(session_id))
        await talk.summing.wait()
        during = await talk.say("during", session_id)
        assert during.status is OrderStatus.SUCCEEDED and "0 Never water" in first_of(talk.asked[-1])
        assert not first_of(talk.asked[-1]).startswith(BEGINNING)
        talk.go_on.set()
        assert (await working).status is OrderStatus.SUCCEEDED
        await talk.say("after", session_id)
        assert first_of(talk.asked[-1]).startswith(BEGINNING)
        words = " ".join(getattr(one, "text", "") for one in talk.asked[-1].messages)
        assert "About during." in words


async def test_it_ends_where_a_turn_runs(tmp_path: Path) -> None:
    async with AskedTalk(tmp_path) as talk:
        session_id = await talk.told()
        running = talk.place("never", session_id=session_id, workspace=str(tmp_path))
        turn = asyncio.create_task(talk.runner.work(running.id))
        await talk.silent.wait()
        order = await talk.compact(session_id)
        assert order.status is OrderStatus.CANCELLED and order.detail is not None and "turn 5" in order.detail
        assert talk.bases() == [] and talk.requests == []
        next(one for one in talk.executions if one.order_id == running.id).halt(Stop.HAND_BACK)
        await turn


async def test_another_drone_goes_on_with_the_same_context(tmp_path: Path) -> None:
    async with AskedTalk(tmp_path) as talk:
        session_id = await talk.told()
        talk.holding = True
        order = talk.ask(session_id)
        working = asyncio.create_task(talk.runner.work(order.id))
        await talk.summing.wait()
        execution = next(one for one in talk.executions if one.order_id == order.id)
        assert execution.held is not None
        epoch = execution.held[0].epoch
        execution.halt(Stop.HAND_BACK)
        await working
        talk.store.claims.hand_back([(order.id, epoch)], drone="d1", message="restarts")
        await talk.say("meanwhile", session_id)
        talk.holding = False
        done = await talk.work(order)
        assert done.status is OrderStatus.SUCCEEDED
        first, second, *_ = talk.requests
        assert first.messages[:-1] == second.messages[:-1] and first.system == second.system
        started = [one for one in talk.journal(order.id) if isinstance(one.data, AgentStarted)]
        assert [one.origin.agent for one in started] == ["master", "compaction"]
        assert [base.through_seq for base in talk.bases()] == [4]


async def test_a_window_that_only_the_last_reply_told_counts(tmp_path: Path) -> None:
    async with AskedTalk(tmp_path, window=None) as talk:
        talk.model.told_tokens = 60_000
        session_id = await talk.told()
        order = await talk.compact(session_id)
        assert order.status is OrderStatus.SUCCEEDED
        # A tenth of it for the summary, and room for a reply.
        assert talk.requests[0].max_output_tokens == 6_000 + 4_096
        assert order.limits is not None and order.limits.output_tokens == 3 * 6_000


async def test_a_short_session_is_left_as_it_is(tmp_path: Path) -> None:
    async with AskedTalk(tmp_path) as talk:
        session_id = (await talk.say("hello")).session_id
        order = await talk.compact(session_id)
        assert (order.status, order.answer, order.usage.model_calls) == (OrderStatus.SUCCEEDED, NOTHING, 0)
        assert talk.bases() == [] and talk.requests == []


async def test_a_model_that_writes_no_summary_leaves_the_session_as_it_is(tmp_path: Path) -> None:
    async with PlainTalk(tmp_path, window=60_000) as talk:
        session_id = (await talk.say(f"0 {LONG}")).session_id
        for number in range(1, 4):
            await talk.say(f"{number} {LONG}", session_id)
        order = await talk.work(talk.store.compactions.ask(session_id).order)
        assert (order.status, order.reason) == (OrderStatus.FAILED, FailureReason.MODEL_ERROR)
        assert order.detail == NO_SUMMARY and order.usage.model_calls == 3
        assert talk.bases() == []


async def test_where_the_window_is_nearly_full_lines_stand_in_for_the_summary(tmp_path: Path) -> None:
    async with PlainTalk(tmp_path) as talk:
        session_id = (await talk.say(f"0 {LONG}")).session_id
        for number in range(1, 9):
            await talk.say(f"{number} {LONG * 2}", session_id)
        talk.model.context_tokens = 60_000
        order = await talk.work(talk.store.compactions.ask(session_id).order)
        facts = [one.data for one in talk.journal(order.id) if isinstance(one.data, TranscriptCompacted)]
        assert order.status is OrderStatus.SUCCEEDED and [fact.stage for fact in facts] == ["handles"]
        await talk.say("next", session_id)
        assert first_of(talk.asked[-1]).startswith(BEGINNING) and "turn 1: Person: " in first_of(talk.asked[-1])


class PlainTalk(Talk):
    """A talk whose model never writes a summary."""

    async def __aenter__(self) -> "PlainTalk":
        await super().__aenter__()
        return self
