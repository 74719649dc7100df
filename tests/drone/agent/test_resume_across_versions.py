"""Resuming a run whose journal has entries of version 2: those are sent unchanged, later results are fenced."""

from drone.agent.agent import AgentRuntime
from drone.agent.ports.journal import MemoryJournal
from drone.agent.state.tree import Tree
from drone.agent.turns.turn import Task
from drone.models.scripted import Line, ScriptedModel, call
from drone.tools.frame.tool import FunctionTools
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.entry import Entry
from mcc.contracts.fence import fenced, unfenced
from mcc.contracts.ids import call_id, fresh_id, root_record_id
from mcc.contracts.journal import AgentStarted, ToolFinished
from mcc.contracts.shape import to_json
from mcc.store.rows.texts import parsed
from mcc.transcript.messages import ToolResults, UserMessage

ORDER = fresh_id()
ROOT = root_record_id(ORDER)


def look(at: str) -> str:
    """Look at something."""
    return f"{at} is green"


def agent(model: ScriptedModel) -> AgentRuntime:
    return AgentRuntime(AgentDefinition(name="scout", prompt="Look."), model=model, tools=FunctionTools([look]))


def of_version_2(entry: Entry) -> Entry:
    """The entry as a drone of version 2 wrote it: without fences, and without what version 3 added."""
    document = parsed(to_json(entry))
    if isinstance(entry.data, ToolFinished):
        document["data"]["content"] = unfenced(entry.data.content)
        del document["data"]["untrusted"]
    if isinstance(entry.data, AgentStarted):
        document["data"]["prompt"] = "Look, as version 2 put it."
        del document["data"]["definition_origin"]
    return Entry.model_validate(document)


async def test_a_result_of_version_2_is_sent_as_it_stands_and_later_ones_are_fenced() -> None:
    first = ScriptedModel([Line(calls=(call("look", at="north"),)), "Green."])
    journal = MemoryJournal(ORDER)
    begun = agent(first)
    await begun.run(Task("Look.", ROOT), begun.turn(journal))
    told = [entry for entry in journal.entries if isinstance(entry.data, ToolFinished)]
    older = [of_version_2(entry) for entry in journal.entries[: told[0].seq]]

    second = ScriptedModel([Line(calls=(call("look", at="south"),)), "Green."])
    resumed, here = agent(second), MemoryJournal(ORDER)
    for entry in older:
        await here.write(entry.origin, entry.data)
    report = await resumed.run(Task("Look.", ROOT), resumed.turn(here, Tree.of(older)))

    assert (
        report.completed and [ask.messages[0] for ask in second.asks] == [UserMessage("Look, as version 2 put it.")] * 2
    )
    shown = [message for message in second.asks[-1].messages if isinstance(message, ToolResults)]
    assert [one.content for message in shown for one in message.results] == [
        "north is green",
        fenced("south is green", call_id(ROOT, 2, 0)),
    ]
    marked = [entry.data.untrusted for entry in here.entries if isinstance(entry.data, ToolFinished)]
    assert marked == [False, True]
