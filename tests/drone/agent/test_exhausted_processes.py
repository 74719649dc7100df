"""A process out of memory or threads ends no order, so that others resume them; a greedy tool just fails."""

import pytest

from drone.agent.agent import AgentRuntime
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask
from drone.agent.ports.report import ProcessExhausted
from drone.agent.subagents.delegation import Delegation
from drone.agent.turns.turn import Task
from drone.models.scripted import Line, Said, ScriptedModel, call
from drone.tools.frame.tool import FunctionTools, tool
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import ToolFinished

ORDER = "order-1"
NO_MEMORY = MemoryError()
NO_THREAD = RuntimeError("can't start new thread")


@tool
def greedy() -> str:
    """Ask for too much."""
    raise NO_MEMORY


@pytest.mark.parametrize("problem", [NO_MEMORY, NO_THREAD])
async def test_an_agent_whose_process_is_exhausted_is_left_open(problem: Exception) -> None:
    def write(ask: Ask) -> Said:
        raise problem

    agent = AgentRuntime(AgentDefinition(name="helper", prompt="Help."), model=ScriptedModel(write))
    journal = MemoryJournal(ORDER)
    with pytest.raises(ProcessExhausted):
        await agent.run(Task("go", root_record_id(ORDER)), agent.turn(journal))
    assert [entry.kind for entry in journal.entries] == ["agent.started", "model.started"]


async def test_so_is_the_parent_of_one() -> None:
    def write(ask: Ask) -> Said:
        if ask.system.startswith("You are explore"):
            raise NO_MEMORY
        return Line(calls=(call("subagent", agent_type="explore", prompt="look"),))

    journal = MemoryJournal(ORDER)
    model = ScriptedModel(write)
    bare = AgentRuntime(AgentDefinition(name="master", prompt="You are master."), model=model)
    turn = bare.turn(journal)
    child = AgentRuntime(AgentDefinition(name="explore", prompt="You are explore."), model=model)
    tools = Delegation(turn, {"explore": "Looks around."}, lambda wanted: child, depth=0)
    master = AgentRuntime(AgentDefinition(name="master", prompt="You are master."), model=model, tools=tools)
    with pytest.raises(ProcessExhausted):
        await master.run(Task("go", root_record_id(ORDER)), turn)
    assert not any(entry.kind.endswith(".finished") for entry in journal.entries)


async def test_a_tool_that_asks_for_more_memory_than_there_is_is_told_to_the_model() -> None:
    model = ScriptedModel([Line(calls=(call("greedy"),)), "Done."])
    agent = AgentRuntime(AgentDefinition(name="helper", prompt="Help."), model=model, tools=FunctionTools([greedy]))
    journal = MemoryJournal(ORDER)
    report = await agent.run(Task("go", root_record_id(ORDER)), agent.turn(journal))
    (told,) = [entry.data for entry in journal.entries if isinstance(entry.data, ToolFinished)]
    assert report.completed and told.is_error and "MemoryError" in told.content
