"""A program that embeds the runtime with the names that `drone` offers alone, checked like all code by `mypy --strict`.

Its first argument names the model that its agent asks, twice.
"""

import asyncio
import sys

from pydantic import BaseModel

import drone
from drone.models.scripted import Line, ScriptedModel, call


class Price(BaseModel):
    fruit: str
    euros: float


def price_of(fruit: str) -> str:
    """What a fruit costs."""
    return {"apple": "3"}.get(fruit, "unknown")


def looked(price: Price, evidence: drone.Evidence) -> bool | str:
    return any(receipt.tool == "price_of" for receipt in evidence.receipts) or "Look it up."


async def main(model: str) -> None:
    clerk = drone.AgentDefinition(name="clerk", prompt="Answer.")
    helper = drone.Agent(clerk, model=model)
    for _ in range(2):
        report: drone.Report = await helper.run("Who are you?")
        print(report.text)
    none: drone.Tool | None = None
    tools: list[drone.Tool] = [price_of, drone.SubAgent(helper)]
    script = [
        Line(calls=(call("submit_result", fruit="apple", euros=3),)),
        Line(calls=(call("price_of", fruit="apple"),)),
        Line(calls=(call("submit_result", fruit="apple", euros=3),)),
    ]
    lead = drone.AgentDefinition(name="lead", prompt="Answer.")
    gate = drone.ReportGate(Price, functions={"looked": looked})
    agent = drone.Agent(lead, model=ScriptedModel(script), tools=tools, gate=gate)
    price = (await agent.run("What does an apple cost?")).result
    assert isinstance(price, Price)
    print(price.euros, none)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
