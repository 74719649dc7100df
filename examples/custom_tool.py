"""A tool of one's own beside those for a workspace, and every journal entry as it comes.

The model is scripted, so that this runs anywhere and does the same each time; with `drone.Models` it is a real one.
Run: python examples/custom_tool.py
"""

import asyncio
from pathlib import Path

import drone
from drone.models.scripted import Line, ScriptedModel, call
from drone.tools.catalog import Toolbox
from mcc.contracts.entry import Entry
from mcc.contracts.ids import fresh_id


@drone.tool(idempotent=True, effects="none")
def count_words(text: str) -> int:
    """Count the words of a text.

    Args:
        text: What to count.
    """
    return len(text.split())


def watch(entry: Entry) -> None:
    print(entry.seq, entry.kind)


async def main() -> None:
    lines = [
        Line(calls=(call("count_words", text="one two three"), call("list_files", path=".", depth=1))),
        Line(text="There are three words."),
    ]
    definition = drone.AgentDefinition(name="counter", prompt="Count words.")
    tools = [count_words, Toolbox.found().tools(Path(__file__).parent)]
    agent = drone.Agent(definition, model=ScriptedModel(lines), tools=tools, limits=drone.Limits(rounds=5))
    journal = drone.MemoryJournal(fresh_id(), watch=watch)
    report = await agent.run("How many words?", agent.turn(journal))
    print(report.status, report.text)
    record = journal.fold.record()
    if record is not None:
        print(record.model_dump_json(include={"answer", "tools", "usage_total"}))


asyncio.run(main())
