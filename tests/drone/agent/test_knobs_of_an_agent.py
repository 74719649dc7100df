"""The knobs of an agent reach its model, and what a model is not told stands in the record once."""

from dataclasses import replace

from drone.agent.agent import Agent
from drone.agent.memory import MemoryJournal
from drone.agent.model import Ask, Listener, Reply, WantedCall
from drone.models.scripted import Line, ScriptedModel
from mcc.contracts.agents import AgentDefinition

CALL = WantedCall("look", {})
NOT_SENT = "This model is not told the temperature."


class Unwilling(ScriptedModel):
    """Says with every reply what it was not told."""

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        await listener.not_sent(NOT_SENT)
        return await super().ask(ask, listener)


async def test_what_the_file_of_an_agent_says_is_asked_for() -> None:
    model = ScriptedModel([Line("done")])
    said = AgentDefinition(name="helper", temperature=0.3, thinking="xhigh", max_output_tokens=700)
    report = await Agent(said, model=model).run("go")
    ask = model.asks[0]
    assert (ask.temperature, ask.thinking, ask.max_output_tokens) == (0.3, "xhigh", 700)
    assert ask.cache_key == report.record_id


async def test_what_a_model_is_not_told_is_kept_once_for_an_agent() -> None:
    model = Unwilling([Line("", (CALL,)), Line("", (replace(CALL, arguments={"again": True}),)), Line("done")])
    agent = Agent(AgentDefinition(name="helper"), model=model)
    journal = MemoryJournal("order")
    await agent.run("go", agent.turn(journal))
    record = journal.fold.record()
    assert record is not None
    assert [step.message for step in record.steps if step.kind == "note" and step.name == "not_sent"] == [NOT_SENT]
