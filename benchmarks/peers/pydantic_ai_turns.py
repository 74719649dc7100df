"""The turn as users of pydantic-ai write it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from contender import Game, Turn, run
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


@asynccontextmanager
async def player(game: Game) -> AsyncIterator[Turn]:
    client = AsyncOpenAI(api_key="x", base_url=game.address, timeout=600, max_retries=0)
    model = OpenAIChatModel("fake", provider=OpenAIProvider(openai_client=client))
    child = Agent(model, system_prompt=game.child)
    master = Agent(model, system_prompt=game.master)

    @child.tool_plain
    async def lookup(q: str) -> str:
        """Look up a fact."""
        return game.fact

    async def ended(agent: Agent, prompt: str) -> str:
        if not game.stream:
            return str((await agent.run(prompt)).output)
        async with agent.run_stream(prompt) as running:
            return str(await running.get_output())

    @master.tool_plain
    async def subagent(agent_type: str, prompt: str) -> str:
        """Delegate a task to a subagent."""
        return await ended(child, prompt)

    async def turn() -> None:
        if not await ended(master, game.prompt):
            raise RuntimeError("the turn has no answer")

    async with client:
        yield turn


if __name__ == "__main__":
    run(player)
