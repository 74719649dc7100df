"""What a provider bills for tries that brought no reply is in the journal, the record and the report."""

from drone.agent.agent import Agent
from drone.agent.journal import MemoryJournal
from drone.agent.model import ModelError
from drone.models.scripted import ScriptedModel
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.record import RecordStatus
from mcc.contracts.usage import Usage

BILLED = Usage(input_tokens=40, output_tokens=7, model_calls=2, cost_usd=0.25)


async def test_a_call_that_failed_for_good_counts_what_its_tries_cost() -> None:
    model = ScriptedModel([ModelError("The stream broke off.", usage=BILLED)])
    agent = Agent(AgentDefinition(name="helper", prompt="Help."), model=model)
    journal = MemoryJournal("order")
    report = await agent.run("go", agent.turn(journal))
    record = journal.fold.record()
    assert record is not None and record.status is RecordStatus.FAILED
    assert report.usage == record.usage == record.usage_total == journal.fold.usage == BILLED
    (note,) = [step for step in record.steps if step.kind == "note" and step.name == "model_failed"]
    assert "The stream broke off." in note.message


async def test_a_call_that_cost_nothing_leaves_no_such_entry() -> None:
    model = ScriptedModel([ModelError("There is no such address.")])
    agent = Agent(AgentDefinition(name="helper", prompt="Help."), model=model)
    journal = MemoryJournal("order")
    await agent.run("go", agent.turn(journal))
    assert "agent.step" not in [entry.kind for entry in journal.entries]
