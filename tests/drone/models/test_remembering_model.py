"""A question that was answered is not paid for again."""

from drone.agent.agent import Agent
from drone.models.remembered import Remembering
from drone.models.scripted import Line, ScriptedModel, call
from drone.tools.tool import FunctionTools, tool
from mcc.contracts.agents import AgentDefinition


@tool(idempotent=True)
async def look() -> str:
    """Look."""
    return "a garden"


async def test_the_same_run_again_asks_the_model_nothing_and_costs_nothing() -> None:
    inner = ScriptedModel([Line(calls=(call("look"),)), "A garden."])
    agent = Agent(AgentDefinition(name="a", prompt="Look."), model=Remembering(inner), tools=FunctionTools([look]))
    first, second = await agent.run("Look around."), await agent.run("Look around.")
    assert (first.text, second.text) == ("A garden.", "A garden.")
    assert len(inner.asks) == 2
    assert first.usage.model_calls == 2 and second.usage.model_calls == 0


async def test_another_question_is_asked() -> None:
    inner = ScriptedModel(["One.", "Two."])
    agent = Agent(AgentDefinition(name="a", prompt="Count."), model=Remembering(inner))
    assert [(await agent.run(text)).text for text in ("one", "two")] == ["One.", "Two."]


async def test_only_the_latest_replies_are_kept() -> None:
    inner = ScriptedModel(["One.", "Two.", "One again."])
    agent = Agent(AgentDefinition(name="a", prompt="Count."), model=Remembering(inner, most=1))
    assert [(await agent.run(text)).text for text in ("one", "two", "one")] == ["One.", "Two.", "One again."]
