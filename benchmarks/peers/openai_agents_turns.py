"""The turn as users of openai-agents write it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from contender import Game, Turn, run
from openai import AsyncOpenAI


@asynccontextmanager
async def player(game: Game) -> AsyncIterator[Turn]:
    set_tracing_disabled(True)
    client = AsyncOpenAI(api_key="x", base_url=game.address, timeout=600, max_retries=0)
    model = OpenAIChatCompletionsModel("fake", client)

    @function_tool
    async def lookup(q: str) -> str:
        """Look up a fact."""
        return game.fact

    child = Agent(name="explore", instructions=game.child, model=model, tools=[lookup])

    async def ended(agent: Agent, prompt: str) -> str:
        if not game.stream:
            return str((await Runner.run(agent, prompt, max_turns=20)).final_output)
        running = Runner.run_streamed(agent, prompt, max_turns=20)
        async for _ in running.stream_events():
            pass
        return str(running.final_output)

    @function_tool
    async def subagent(agent_type: str, prompt: str) -> str:
        """Delegate a task to a subagent."""
        return await ended(child, prompt)

    master = Agent(name="master", instructions=game.master, model=model, tools=[subagent])

    async def turn() -> None:
        if not await ended(master, game.prompt):
            raise RuntimeError("the turn has no answer")

    async with client:
        yield turn


if __name__ == "__main__":
    run(player)
