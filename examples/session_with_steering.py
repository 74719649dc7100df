"""One agent over several messages, and a word to it while it works. Run: python examples/session_with_steering.py"""

import asyncio

import drone
from drone.models.scripted import Line, ScriptedModel, call


async def main() -> None:
    looking, told = asyncio.Event(), asyncio.Event()

    @drone.tool(idempotent=True)
    async def look(place: str) -> str:
        """Look somewhere; it takes a while."""
        looking.set()
        await told.wait()
        return f"{place}: three cats"

    model = ScriptedModel(
        [
            "Hello Ann.",
            "You are Ann.",
            Line(calls=(call("look", place="garden"),)),
            "Three cats. I leave the dog alone.",
        ]
    )
    definition = drone.AgentDefinition(name="helper", prompt="Be helpful.")
    agent = drone.Agent(definition, model=model, tools=[look])

    session = drone.SubAgentSession(drone.SubAgent(agent))
    for message in ("I am Ann.", "Who am I?"):
        print((await session.send(message)).text)
    print(session.turns, "turns,", len(session.transcript), "messages")

    turn = agent.turn()
    steering = drone.Steering(turn)
    running = asyncio.create_task(agent.run("What is in the garden?", turn))
    await looking.wait()
    await steering.steer("Mind the dog.")
    told.set()
    print((await running).text)
    print([(control.kind.value, control.message, control.applied_seq) for control in steering.asked])


asyncio.run(main())
