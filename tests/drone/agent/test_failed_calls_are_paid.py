"""The cost of attempts without a reply is in the journal, the record and the report."""

import asyncio

import pytest

from drone.agent.agent import AgentRuntime
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask, ModelError
from drone.agent.state.tree import Tree
from drone.agent.turns.turn import Task
from drone.models.scripted import Line, ScriptedModel
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.record import RecordStatus
from mcc.contracts.usage import Usage

BILLED = Usage(input_tokens=40, output_tokens=7, model_calls=2, cost_usd=0.25)


async def test_a_call_that_failed_for_good_counts_what_its_tries_cost() -> None:
    model = ScriptedModel([Line(error=ModelError("The stream broke off."), billed=BILLED)])
    agent = AgentRuntime(AgentDefinition(name="helper", prompt="Help."), model=model)
    journal = MemoryJournal("order")
    report = await agent.run("go", agent.turn(journal))
    record = journal.fold.record()
    assert record is not None and record.status is RecordStatus.FAILED
    assert report.usage == record.usage == record.usage_total == journal.fold.usage == BILLED
    (note,) = [step for step in record.steps if step.kind == "note" and step.name == "model_failed"]
    assert "The stream broke off." in note.message


async def test_a_call_that_cost_nothing_leaves_no_such_entry() -> None:
    model = ScriptedModel([ModelError("There is no such address.")])
    agent = AgentRuntime(AgentDefinition(name="helper", prompt="Help."), model=model)
    journal = MemoryJournal("order")
    await agent.run("go", agent.turn(journal))
    assert "agent.step" not in [entry.kind for entry in journal.entries]


async def test_a_call_that_is_cancelled_counts_what_had_come_of_it() -> None:
    begun, never = asyncio.Event(), asyncio.Event()

    def author(_: Ask) -> Line:
        begun.set()
        return Line(gate=never, billed=BILLED)

    agent = AgentRuntime(AgentDefinition(name="helper", prompt="Help."), model=ScriptedModel(author))
    journal = MemoryJournal("order")
    running = asyncio.create_task(agent.run("go", agent.turn(journal)))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert journal.fold.usage == Tree.of(journal.entries).spent == BILLED


async def test_a_child_that_is_cut_off_by_the_end_of_its_time_counts_for_the_order() -> None:
    never = asyncio.Event()
    model = ScriptedModel([Line(gate=never, billed=BILLED)])
    agent = AgentRuntime(AgentDefinition(name="helper", prompt="Help."), model=model)
    journal = MemoryJournal("order")
    child = Task("go", "child", "go", parent_id="root", depth=1, seconds=0.05)
    report = await agent.run(child, agent.turn(journal))
    assert report.limit == "wall_seconds"
    assert report.usage == journal.fold.usage == BILLED
