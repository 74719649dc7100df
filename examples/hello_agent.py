"""An agent inside another program: no service, no broker, no database. Run: python examples/hello_agent.py"""

import asyncio

import drone


async def main() -> None:
    models = drone.Models(drone.Settings())
    definition = drone.AgentDefinition(name="helper", prompt="Answer in one paragraph.")
    agent = drone.Agent(definition, model=models.get("offline"))
    report = await agent.run("What can you do?")
    print(report.status, report.usage.model_calls)  # completed 1
    print(report.text)
    await models.aclose()


asyncio.run(main())
