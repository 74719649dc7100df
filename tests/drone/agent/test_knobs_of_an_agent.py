"""An agent's model settings reach its model, and what a model does not get is recorded once."""

from dataclasses import replace
from pathlib import Path

from drone.agent.agent import AgentRuntime
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask, Listener, Reply, WantedCall
from drone.agent.state.tree import Tree
from drone.agent.turns.turn import Task
from drone.models.scripted import Line, Said, ScriptedModel, call
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import AgentStarted
from mcc.contracts.order import ModelSettings
from tests.parity.world import World

CALL = WantedCall("look", {})
NOT_SENT = "This model is not told the temperature."


class Unwilling(ScriptedModel):
    """A model that reports with every reply what it did not get."""

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        await listener.not_sent(NOT_SENT)
        return await super().ask(ask, listener)


async def test_what_the_file_of_an_agent_says_is_asked_for() -> None:
    model = ScriptedModel([Line("done")])
    said = AgentDefinition(name="helper", temperature=0.3, thinking="xhigh", max_output_tokens=700)
    report = await AgentRuntime(said, model=model).run("go")
    ask = model.asks[0]
    assert (ask.temperature, ask.thinking, ask.max_output_tokens) == (0.3, "xhigh", 700)
    assert ask.cache_key == report.record_id


async def test_a_run_that_goes_on_elsewhere_is_asked_as_it_began() -> None:
    """Whatever its file says by then; a journal that does not contain the settings takes those of the file."""
    task = Task("go", root_record_id("order"))
    began = AgentRuntime(
        AgentDefinition(name="helper", thinking="high"), model=ScriptedModel([Line("", (CALL,)), Line("done")])
    )
    journal = MemoryJournal("order")
    await began.run(task, began.turn(journal))
    begun = [entry for entry in journal.entries if entry.seq <= 2]
    started = begun[0].data
    assert isinstance(started, AgentStarted) and started.model_settings == ModelSettings(thinking="high")
    older = begun[0].model_copy(update={"data": started.model_copy(update={"model_settings": None})})
    for first, thinking in ((begun[0], "high"), (older, "low")):
        here, model = MemoryJournal("order"), ScriptedModel([Line("done")])
        later = AgentRuntime(AgentDefinition(name="helper", thinking="low"), model=model)
        for entry in (first, *begun[1:]):
            await here.write(entry.origin, entry.data)
        await later.run(task, later.turn(here, Tree.of(here.entries)))
        assert [ask.thinking for ask in model.asks] == [thinking]


async def test_orders_and_their_agents_are_asked_as_the_order_says_and_their_records_tell(tmp_path: Path) -> None:
    def play(task: str, replies: int, ask: Ask) -> Said:
        if task != "go" or replies:
            return Line("done")
        return Line("", (call("subagent", agent_type="general", prompt="Look."),))

    world = World(tmp_path, play)
    await world.run(thinking="high", service_tier="flex", max_output_tokens=5_000)
    assert {(ask.thinking, ask.service_tier) for ask in world.model.asks} == {("high", "flex")}
    assert world.model.asks[0].max_output_tokens == 5_000
    told = ModelSettings(thinking="high", service_tier="flex", max_output_tokens=5_000)
    assert [record.model_settings for record in world.records()] == [told, told]


async def test_what_a_model_is_not_told_is_kept_once_for_an_agent() -> None:
    model = Unwilling([Line("", (CALL,)), Line("", (replace(CALL, arguments={"again": True}),)), Line("done")])
    agent = AgentRuntime(AgentDefinition(name="helper"), model=model)
    journal = MemoryJournal("order")
    await agent.run("go", agent.turn(journal))
    record = journal.fold.record()
    assert record is not None
    assert [step.message for step in record.steps if step.kind == "note" and step.name == "not_sent"] == [NOT_SENT]
