"""Figures for people: cached tokens, and how much of their children's work parents never read."""

import pytest

from drone.agent.agent import AgentRuntime
from drone.agent.ports.journal import MemoryJournal
from drone.agent.spending.budget import Budget
from drone.agent.subagents.delegation import Delegation
from drone.agent.turns.turn import Task, Turn
from drone.models.scripted import Line, Said, ScriptedModel, by_prompt, call
from drone.tools.frame.tool import FunctionTools, Joined, tool
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.fence import fenced
from mcc.contracts.ids import root_record_id
from mcc.contracts.limits import Limits
from mcc.contracts.record import ChatRecord, NoteStep, ToolStep
from mcc.contracts.usage import Usage
from mcc.view.figures import Savings, ordinal, saved_by_delegation, tokens

LONG = "x" * 8_000


@tool
def look() -> str:
    """Look at something long."""
    return LONG


def write(prompt: str, replies: int) -> Said:
    if prompt == "master":
        return "Enough." if replies else Line(calls=(call("subagent", agent_type="explore", prompt="dig"),))
    return "Found." if replies == 2 else Line(text="Looking.", calls=(call("look"),))


async def recorded() -> ChatRecord:
    journal = MemoryJournal("order-1")
    turn = Turn.begun(journal, Budget(Limits()))
    model = ScriptedModel(by_prompt(write))
    child = AgentRuntime(AgentDefinition(name="explore"), model=model, tools=FunctionTools([look]))
    delegation = Delegation(turn, {"explore": "Looks."}, lambda wanted: child, depth=0)
    master = AgentRuntime(AgentDefinition(name="master"), model=model, tools=Joined(delegation))
    await master.run(Task("master", root_record_id("order-1")), turn)
    record = journal.fold.record()
    assert record is not None
    return record


async def test_what_a_child_read_and_said_is_set_against_what_its_parent_was_told() -> None:
    record = await recorded()
    told = sum(len(step.content) for step in record.steps if isinstance(step, ToolStep))
    worked = 2 * (len("Looking.") + len("{}") + len(fenced(LONG, "a call"))) + len("Found.")
    found = saved_by_delegation(record)
    assert found == Savings(worked, told)
    assert found.tokens == (worked - told) // 4
    assert 0.9 < found.share < 1


async def test_a_report_that_came_later_is_what_the_parent_was_told_too() -> None:
    record = await recorded()
    delivered = NoteStep(seq=99, name="agent.delivered", message="It reads it.", characters=700)
    later = record.model_copy(update={"steps": (*record.steps, delivered)})
    assert saved_by_delegation(later).reported == saved_by_delegation(record).reported + 700


def test_without_children_nothing_is_saved() -> None:
    assert (Savings().tokens, Savings().share) == (0, 0.0)
    assert (Savings(10, 400).tokens, Savings(10, 400).share) == (0, 0.0)


@pytest.mark.parametrize(
    ("read", "cached", "said"),
    [
        (0, 0, "200 tokens"),
        (1_000, 0, "1,200 tokens"),
        (1_000, 9, "1,200 tokens"),
        (1_000, 819, "1,200 tokens (81 % cached)"),
        (1_000, 1_000, "1,200 tokens (100 % cached)"),
    ],
)
def test_the_part_of_the_input_that_came_from_a_cache_is_told(read: int, cached: int, said: str) -> None:
    assert tokens(Usage(input_tokens=read, cached_input_tokens=cached, output_tokens=200)) == said


def test_places_in_a_row_are_said_as_people_say_them() -> None:
    said = [ordinal(number) for number in (1, 2, 3, 4, 11, 12, 13, 21, 112, 1_023)]
    assert said == ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th", "1,023rd"]
