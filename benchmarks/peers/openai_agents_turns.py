"""The turn of the benchmark, written with openai-agents as its users write it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from contender import Scenario, Turn, run
from openai import AsyncOpenAI


@asynccontextmanager
async def setup(scenario: Scenario) -> AsyncIterator[Turn]:
    set_tracing_disabled(True)
    client = AsyncOpenAI(api_key="x", base_url=scenario.address, timeout=600, max_retries=0)
    model = OpenAIChatCompletionsModel("fake", client)

    @function_tool
    async def lookup(q: str) -> str:
        """Look up a fact."""
        return scenario.fact

    child = Agent(name="explore", instructions=scenario.child, model=model, tools=[lookup])

    async def answer_of(agent: Agent, prompt: str) -> str:
        if not scenario.stream:
            return str((await Runner.run(agent, prompt, max_turns=20)).final_output)
        running = Runner.run_streamed(agent, prompt, max_turns=20)
        async for _ in running.stream_events():
            pass
        return str(running.final_output)

    @function_tool
    async def subagent(agent_type: str, prompt: str) -> str:
        """Delegate a task to a subagent."""
        return await answer_of(child, prompt)

    master = Agent(name="master", instructions=scenario.master, model=model, tools=[subagent])

    async def turn() -> None:
        if not await answer_of(master, scenario.prompt):
            raise RuntimeError("the turn has no answer")

    async with client:
        yield turn


if __name__ == "__main__":
    run(setup)
