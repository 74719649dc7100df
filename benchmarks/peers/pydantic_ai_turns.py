"""The turn of the benchmark, written with pydantic-ai as its users write it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from contender import Scenario, Turn, run
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


@asynccontextmanager
async def setup(scenario: Scenario) -> AsyncIterator[Turn]:
    client = AsyncOpenAI(api_key="x", base_url=scenario.address, timeout=600, max_retries=0)
    model = OpenAIChatModel("fake", provider=OpenAIProvider(openai_client=client))
    child = Agent(model, system_prompt=scenario.child)
    master = Agent(model, system_prompt=scenario.master)

    @child.tool_plain
    async def lookup(q: str) -> str:
        """Look up a fact."""
        return scenario.fact

    async def answer_of(agent: Agent, prompt: str) -> str:
        if not scenario.stream:
            return str((await agent.run(prompt)).output)
        async with agent.run_stream(prompt) as running:
            return str(await running.get_output())

    @master.tool_plain
    async def subagent(agent_type: str, prompt: str) -> str:
        """Delegate a task to a subagent."""
        return await answer_of(child, prompt)

    async def turn() -> None:
        if not await answer_of(master, scenario.prompt):
            raise RuntimeError("the turn has no answer")

    async with client:
        yield turn


if __name__ == "__main__":
    run(setup)
