"""Orders that compact a session: the next turn is shown their summary, and no turn waits for them."""

import asyncio
from pathlib import Path

from drone.agent.compaction.of_session import NO_SUMMARY, NOTHING
from drone.agent.ports.model import Ask, AskLater
from drone.models.scripted import Line, Said, call
from drone.settings import Settings
from drone.worker.executions import Stop
from mcc.contracts.callers import Actor
from mcc.contracts.compaction import TranscriptCompacted
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.journal import AgentStarted
from mcc.contracts.model_facts import ModelRetried
from mcc.contracts.order import WorkOrder
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from mcc.transcript.compaction.built import BEGINNING
from mcc.transcript.messages import UserMessage
from mcc.transcript.transcript import request_in
from tests.drone.worker.test_compacted_sessions import LONG, LongTalk
from tests.drone.worker.test_transcripts_of_sessions import Talk


class AskedTalk(LongTalk):
    """A talk that is compacted when somebody asks. `holding`: its model waits before it sums up."""

    def __init__(self, folder: Path, window: int | None = 60_000, settings: Settings | None = None) -> None:
        super().__init__(folder, settings, window)
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
        return self.store.compactions.ask(session_id, by=Actor("ann")).order

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
        order = await talk.work(talk.store.compactions.ask(session_id, by=Actor("ann")).order)
        assert (order.status, order.reason) == (OrderStatus.FAILED, FailureReason.MODEL_ERROR)
        assert order.detail == NO_SUMMARY and order.usage.model_calls == 3
        assert talk.bases() == []


async def test_where_the_window_is_nearly_full_lines_stand_in_for_the_summary(tmp_path: Path) -> None:
    async with PlainTalk(tmp_path) as talk:
        session_id = (await talk.say(f"0 {LONG}")).session_id
        for number in range(1, 9):
            await talk.say(f"{number} {LONG * 2}", session_id)
        talk.model.context_tokens = 60_000
        order = await talk.work(talk.store.compactions.ask(session_id, by=Actor("ann")).order)
        facts = [one.data for one in talk.journal(order.id) if isinstance(one.data, TranscriptCompacted)]
        assert order.status is OrderStatus.SUCCEEDED and [fact.stage for fact in facts] == ["handles"]
        await talk.say("next", session_id)
        assert first_of(talk.asked[-1]).startswith(BEGINNING) and "turn 1: Person: " in first_of(talk.asked[-1])


class PlainTalk(Talk):
    """A talk whose model never writes a summary."""

    async def __aenter__(self) -> "PlainTalk":
        await super().__aenter__()
        return self


class BusyTalk(AskedTalk):
    """A talk whose provider is busy so often when it is asked for a summary, and says each time for how long."""

    def __init__(self, folder: Path, *seconds: float) -> None:
        super().__init__(folder)
        self.busy = [*seconds]

    async def __aenter__(self) -> "BusyTalk":
        await super().__aenter__()
        return self

    async def _say(self, ask: Ask) -> Said:
        said = await super()._say(ask)
        is_summary = bool(self.requests) and self.requests[-1] is ask
        return AskLater("Busy.", self.busy.pop(0), status=429) if is_summary and self.busy else said


async def test_a_busy_provider_is_waited_for_however_often_it_is(tmp_path: Path) -> None:
    async with BusyTalk(tmp_path, *[0.0] * 6) as talk:
        order = await talk.compact(await talk.told())
        assert order.status is OrderStatus.SUCCEEDED and [base.reason for base in talk.bases()] == ["summary"]
        assert sum(isinstance(one.data, ModelRetried) for one in talk.journal(order.id)) == 6


async def test_one_that_waits_for_its_provider_is_parked_and_goes_on_when_the_time_has_come(tmp_path: Path) -> None:
    async with BusyTalk(tmp_path, 3_600.0) as talk:
        session_id = await talk.told()
        order = talk.ask(session_id)
        working = asyncio.create_task(talk.runner.work(order.id))
        await talk.summing.wait()
        execution = next(one for one in talk.executions if one.order_id == order.id)
        assert execution.router is not None
        is_idle = asyncio.Event()
        execution.router.idle.watch(lambda idle: is_idle.set() if idle else None)
        await is_idle.wait()
        execution.halt(Stop.PARK)
        await working
        parked = talk.store.orders.get(order.id)
        assert (parked.status, parked.reason, parked.detail) == (OrderStatus.WAITING, WaitingReason.RATE_LIMIT, "Busy")
        during = await talk.say("during", session_id)
        assert during.status is OrderStatus.SUCCEEDED, "no turn waits for it"
        assert talk.store.claims.resume(order.id, WaitingReason.RATE_LIMIT, "time")
        done = await talk.work(order)
        assert done.status is OrderStatus.SUCCEEDED, done.detail
        first, second, *_ = talk.requests
        assert first.messages == second.messages
        assert [base.through_seq for base in talk.bases()] == [4]


async def test_a_cancel_ends_one_that_waits_for_its_provider(tmp_path: Path) -> None:
    async with BusyTalk(tmp_path, 3_600.0) as talk:
        order = talk.ask(await talk.told())
        working = asyncio.create_task(talk.runner.work(order.id))
        await talk.summing.wait()
        talk.store.controls.request(order.id, ControlKind.CANCEL, NewControl(), by=Actor("test"))
        execution = next(one for one in talk.executions if one.order_id == order.id)
        await execution.take(talk.store.controls.pending({order.id: 0}))
        await working
        assert talk.store.orders.get(order.id).status is OrderStatus.CANCELLED and talk.bases() == []


class DelegatingTalk(AskedTalk):
    """A talk whose agent starts a subagent in the background, and is shown more tools then."""

    async def __aenter__(self) -> "DelegatingTalk":
        await super().__aenter__()
        return self

    async def _say(self, ask: Ask) -> Said:
        last = ask.messages[-1]
        if isinstance(last, UserMessage) and request_in(last.text) == "delegate":
            hired = {"agent_type": "explore", "prompt": "look", "title": "look", "background": True}
            return Line("I delegate.", (call("subagent", **hired),))
        return await super()._say(ask)


async def test_tools_that_were_added_in_the_last_turn_are_in_the_request(tmp_path: Path) -> None:
    async with DelegatingTalk(tmp_path) as talk:
        session_id = await talk.told()
        await talk.say("delegate", session_id)
        before = next(ask for ask in reversed(talk.asked) if any(spec.name == "subagent" for spec in ask.tools))
        names = [spec.name for spec in before.tools]
        assert "subagent_status" in names
        await talk.compact(session_id)
        assert [(spec.name, spec.description, spec.parameters) for spec in talk.requests[0].tools] == [
            (spec.name, spec.description, spec.parameters) for spec in before.tools
        ]
