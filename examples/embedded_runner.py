"""The agents that ship, run by another program in its own process: by name, with a model, tools and a folder.

It uses the offline model, so that it needs no key; name others in `mcc.toml` or the environment.
Run: python examples/embedded_runner.py [FOLDER]
"""

import asyncio
import sys
from pathlib import Path

import drone


async def main(folder: Path) -> None:
    models = drone.Models(drone.Settings())
    runner: drone.SubagentRunner = drone.InProcessRunner(models, workspace=folder, limits=drone.Limits(rounds=30))
    result = await runner.run_isolated(
        "explore",
        "What is in this folder, and where does it start?",
        model="offline",
        tools=["list_files", "find_files", "search_text", "read_file"],
    )
    print(result.text or result.error)
    print(f"{result.model}: {result.turns} turns, {result.tokens} tokens")
    refused = await runner.run_isolated("explore", "And outside?", model="offline", cwd="..")
    print(refused.error)
    await models.aclose()


asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent))
