"""A later turn goes on with a subagent of an earlier one: from that turn's journal, as a new record of its own."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from drone.agent.ports.model import Ask
from drone.models.scripted import Line, Said, call
from drone.worker.executions import Stop
from mcc.contracts.callers import Actor
from mcc.contracts.entry import Entry
from mcc.contracts.journal import AgentFinished, AgentReused, AgentStarted, ToolFinished
from mcc.contracts.order import WorkOrder
from mcc.contracts.sessions import NewSessionFork
from mcc.transcript.compaction.built import BEGINNING
from mcc.transcript.messages import AssistantMessage, ToolResults, UserMessage
from mcc.transcript.transcript import request_in
from mcc.view.lines import Lines
from tests.drone.worker.test_compacted_sessions import LONG, SUMMARY
from tests.drone.worker.test_transcripts_of_sessions import Talk


class Hirer(Talk):
    """A talk whose model hires an agent at "hire", and sends to one at "send RECORD_ID WORDS"; the agent answers how
    many messages it was shown."""

    async def __aenter__(self) -> "Hirer":
        await super().__aenter__()
        return self

    async def _say(self, ask: Ask) -> Said:
        last = ask.messages[-1]
        said = request_in(last.text) if isinstance(last, UserMessage) else ""
        if "This conversation gets too long" in said:
            return SUMMARY
        match said.split():
            case ["hire"]:
                return Line("I ask.", (call("subagent", agent_type="explore", title="Scout", prompt="Find roses."),))
            case ["send", record_id, *words]:
                return Line("I ask.", (call("subagent_send", record_id=record_id, message=" ".join(words)),))
        if said == "linger" and not self.silent.is_set():
            self.asked.append(ask)
            self.silent.set()
            await asyncio.Event().wait()
        if isinstance(last, ToolResults):
            return "It is said."
        self.asked.append(ask)
        return f"Shown {len(ask.messages)}."

    def children(self, order: WorkOrder) -> list[Entry]:
        started = (entry for entry in self.journal(order.id) if isinstance(entry.data, AgentStarted))
        return [entry for entry in started if entry.parent_id is not None]

    def result(self, order: WorkOrder) -> ToolFinished:
        [done] = [one.data for one in self.journal(order.id) if isinstance(one.data, ToolFinished)]
        return done


@pytest.fixture
async def hirer(tmp_path: Path) -> AsyncIterator[Hirer]:
    async with Hirer(tmp_path) as opened:
        yield opened


async def test_an_agent_of_an_earlier_turn_is_told_more_over_several_turns(hirer: Hirer) -> None:
    first = await hirer.say("hire")
    [hired] = hirer.children(first)
    told = hirer.asked[-1].messages
    second = await hirer.say(f"send {hired.record_id} And tulips?", first.session_id)
    again = hirer.asked[-1].messages
    assert again == (*told, AssistantMessage.of("Shown 1.", model=hirer.model.name), UserMessage("And tulips?"))
    [continued] = hirer.children(second)
    started = continued.data
    assert isinstance(started, AgentStarted) and continued.agent == "explore"
    assert (started.continues, started.continues_order) == (hired.record_id, first.id)
    [reused] = [one.data for one in hirer.journal(second.id) if isinstance(one.data, AgentReused)]
    assert (reused.turn, reused.message) == (2, "And tulips?")
    assert "Shown 3." in hirer.result(second).content
    third = await hirer.say(f"send {continued.record_id} And lilies?", first.session_id)
    assert hirer.asked[-1].messages[: len(again)] == again and "Shown 5." in hirer.result(third).content
    lines = Lines()
    said = "\n".join(line for entry in hirer.journal(second.id) if (line := lines.line_of(entry)))
    assert f"goes on from order {first.id[-12:]}" in said
    record = hirer.fold(second.id).record()
    assert record is not None and record.subagent_history[0].continues_order == first.id


async def test_a_fork_of_the_session_goes_on_with_the_agents_of_its_source(hirer: Hirer) -> None:
    first = await hirer.say("hire")
    [hired] = hirer.children(first)
    fork = hirer.store.sessions.fork(first.session_id, NewSessionFork(turn=1), by=Actor("test"))
    second = await hirer.say(f"send {hired.record_id} And tulips?", fork.id)
    assert "Shown 3." in hirer.result(second).content


async def test_one_that_only_a_summary_names_goes_on(tmp_path: Path) -> None:
    async with Hirer(tmp_path, window=60_000) as hirer:
        first = await hirer.say("hire")
        [hired] = hirer.children(first)
        assert hired.record_id is not None
        for _ in range(3):
            await hirer.say(LONG, first.session_id)
        await hirer.work(hirer.store.compactions.ask(first.session_id, by=Actor("ann")).order)
        await hirer.say("And now?", first.session_id)
        shown = hirer.asked[-1].messages
        assert [hired.record_id in str(message) for message in shown].count(True) == 1
        assert str(shown[0].text).startswith(BEGINNING) and hired.record_id in shown[0].text  # type: ignore[union-attr]
        second = await hirer.say(f"send {hired.record_id} And tulips?", first.session_id)
        assert "Shown 3." in hirer.result(second).content
        [continued] = hirer.children(second)
        started = continued.data
        assert isinstance(started, AgentStarted)
        assert (started.continues, started.continues_order) == (hired.record_id, first.id)
        elsewhere = await hirer.say("hire")
        [other] = hirer.children(elsewhere)
        refused = await hirer.say(f"send {other.record_id} And tulips?", first.session_id)
        assert "There is no subagent" in hirer.result(refused).content


async def test_one_of_a_turn_that_is_not_shown_or_unknown_is_refused(hirer: Hirer) -> None:
    first = await hirer.say("hire")
    [hired] = hirer.children(first)
    root = next(one.record_id for one in hirer.journal(first.id) if isinstance(one.data, AgentStarted))
    elsewhere = await hirer.say(f"send {hired.record_id} And tulips?")
    itself = await hirer.say(f"send {root} And tulips?", first.session_id)
    hirer.store.orders.roll_back(first.id, by=Actor("test"))
    taken_back = await hirer.say(f"send {hired.record_id} And tulips?", first.session_id)
    for order in (elsewhere, itself, taken_back):
        assert hirer.result(order).is_error and "There is no subagent" in hirer.result(order).content
        assert not hirer.children(order)


async def test_a_drone_that_takes_over_goes_on_and_brings_one_report(hirer: Hirer) -> None:
    first = await hirer.say("hire")
    [hired] = hirer.children(first)
    prompt = f"send {hired.record_id} linger"
    second = hirer.place(prompt, session_id=first.session_id, workspace=str(hirer.folder))
    working = asyncio.create_task(hirer.runner.work(second.id))
    await hirer.silent.wait()
    lost = hirer.asked[-1].messages
    for run in hirer.executions:
        run.halt(Stop.HAND_BACK)
    await working
    held = [(claim.order.id, claim.epoch) for claim in hirer.executions.to_hand_back()]
    hirer.store.claims.hand_back(held, drone="d1", message="bye")
    done = await hirer.work(second)
    assert hirer.asked[-1].messages == lost and len(hirer.children(done)) == 1
    assert "Shown 3." in hirer.result(done).content
    ended = [one.record_id for one in hirer.journal(done.id) if isinstance(one.data, AgentFinished)]
    assert len(ended) == len(set(ended)) == 2
