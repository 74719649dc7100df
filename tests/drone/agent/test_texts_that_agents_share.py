"""Agents with equal system prompts and setups share one text object."""

from drone.agent.agent import AgentRuntime
from drone.agent.parts import SHARED_CHARACTERS
from drone.models.scripted import ScriptedModel
from mcc.contracts.agents import AgentDefinition


def agent(prompt: str) -> AgentRuntime:
    return AgentRuntime(AgentDefinition(name="explore", prompt=prompt), model=ScriptedModel([]))


def test_agents_of_one_definition_hold_one_system_prompt_and_one_set_up() -> None:
    one, other = agent("Look facts up."), agent("Look facts up.")
    assert one.system is other.system and one.setup is other.setup
    assert agent("Write facts down.").system != one.system


def test_texts_that_are_long_are_not_held_for_others() -> None:
    prompt = "x" * (SHARED_CHARACTERS + 1)
    one, other = agent(prompt), agent(prompt)
    assert one.system == other.system and one.setup == other.setup
    assert one.setup is not other.setup
