"""Subagents in the background: each report reaches its parent once, whatever the parent does meanwhile."""

import asyncio
import json
from collections.abc import Callable
from io import StringIO

from rich.console import Console

from drone.models.scripted import Line, call
from drone.tools.frame.tool import FunctionTools, tool
from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.entry import Entry
from mcc.contracts.ids import call_id, child_record_id, root_record_id
from mcc.contracts.journal import AgentFinished, ControlApplied, ToolFinished, ToolStarted
from mcc.contracts.limits import Limits
from mcc.contracts.record import NoteStep, RecordStatus, ToolStep
from mcc.contracts.shape import now
from mcc.transcript.messages import ToolResults, UserMessage
from mcc.view.lines import Lines
from mcc.view.story import Story
from mcc.view.tree import OrderPicture
from tests.drone.agent.steered_tree import MASTER, ORDER, SteeredTree, asked_by

Script = dict[str, list[Line | str]]


def in_background(*prompts: str, **more: object) -> Line:
    calls = [call("subagent", agent_type="scout", prompt=prompt, background=True, **more) for prompt in prompts]
    return Line(calls=tuple(calls))


def wait(**arguments: object) -> Line:
    return Line(calls=(call("subagent_wait", **arguments),))


def child(round_: int = 1, index: int = 0, of: int = 0) -> str:
    """Record id of the child that this call of the master started."""
    return child_record_id(call_id(root_record_id(ORDER), round_, index), of)


def delivered(tree: SteeredTree) -> list[str]:
    """The children that entries of their parents delivered, in order."""
    brought: list[str] = []
    for entry in tree.journal.entries:
        if isinstance(fact := entry.data, AgentDelivered):
            brought.append(fact.child_id)
        if isinstance(fact, ToolFinished):
            brought.extend(fact.delivered)
    return brought


def result_of(tree: SteeredTree, name: str) -> ToolFinished:
    return [one.data for one in tree.journal.entries if isinstance(one.data, ToolFinished) and one.data.name == name][
        -1
    ]


def place_of(tree: SteeredTree, true: Callable[[Entry], bool]) -> int:
    return next(entry.seq for entry in tree.journal.entries if true(entry))


def begun(tree: SteeredTree, name: str) -> bool:
    return any(isinstance(entry.data, ToolStarted) and entry.data.name == name for entry in tree.journal.entries)


async def text_of(tree: SteeredTree) -> str:
    assert tree.running is not None
    async with asyncio.timeout(10):
        return (await tree.running).text


async def test_the_parent_goes_on_at_once_and_its_answer_waits_for_the_report() -> None:
    tree = SteeredTree({MASTER: [in_background("north"), "Meanwhile.", "Both."], "north": ["North is empty."]})
    tree.hold("north")
    tree.begin()
    await tree.until_asked("north")
    await tree.until(lambda: sum(entry.kind == "model.replied" for entry in tree.journal.entries) == 2)
    assert tree.running is not None and not tree.running.done()
    assert json.loads(result_of(tree, "subagent").content) == {"record_id": child(), "status": "running"}
    assert result_of(tree, "subagent").background == (child(),)
    tree.release("north")
    assert await text_of(tree) == "Both."
    assert delivered(tree) == [child()]
    last = [message for message in tree.model.asks[-1].messages if isinstance(message, UserMessage)][-1].text
    assert last.startswith(f"<notice>Subagent {child()} (north) ended: completed.</notice>\n<untrusted ")
    assert "North is empty." in last


async def test_a_report_that_is_there_in_time_stands_at_the_end_of_the_results_before_the_next_request() -> None:
    looked = asyncio.Event()

    @tool()
    async def look() -> str:
        """Look."""
        await looked.wait()
        return "seen"

    script: Script = {
        MASTER: [in_background("north"), Line(calls=(call("look"),)), "Done."],
        "north": ["North is empty."],
    }
    tree = SteeredTree(script, lambda: FunctionTools([look]))
    tree.hold("north")
    tree.begin()
    await tree.until(lambda: begun(tree, "look"))
    tree.release("north")
    await tree.until(lambda: any(entry.kind == "agent.finished" for entry in tree.journal.entries))
    looked.set()
    assert await text_of(tree) == "Done."
    results = [message for message in tree.model.asks[-1].messages if isinstance(message, ToolResults)][-1]
    assert results.as_shown[-1].content.partition("\n\n")[2].startswith("<notice>Subagent ")
    assert delivered(tree) == [child()] and len(tree.model.asks) == 4


async def test_an_answer_stops_those_that_were_started_to_be_cancelled_by_it() -> None:
    tree = SteeredTree({MASTER: [in_background("north", on_end="cancel"), "Done."], "north": ["Never said."]})
    tree.hold("north")
    tree.begin()
    assert await text_of(tree) == "Done."
    assert tree.ended("north") is RecordStatus.CANCELLED and delivered(tree) == []
    ends = [entry.record_id for entry in tree.journal.entries if isinstance(entry.data, AgentFinished)]
    assert ends == [child(), root_record_id(ORDER)]


async def test_a_race_brings_the_first_report_and_says_who_still_runs() -> None:
    stop = Line(calls=(call("subagent_cancel", record_id=child(index=1)),))
    tree = SteeredTree(
        {MASTER: [in_background("north", "south"), wait(first=True), stop, "Done."], "north": ["N."], "south": ["S."]}
    )
    tree.hold("north", "south")
    tree.begin()
    await tree.until(lambda: begun(tree, "subagent_wait"))
    tree.release("north")
    assert await text_of(tree) == "Done."
    waited = json.loads(result_of(tree, "subagent_wait").content.split("\n")[1])
    assert [one["record_id"] for one in waited["agents"]] == [child()] and waited["running"] == [child(index=1)]
    assert delivered(tree) == [child(), child(index=1)]
    stopped = result_of(tree, "subagent_cancel")
    assert not stopped.is_error and '"status":"blocked"' in stopped.content
    assert tree.ended("south") is RecordStatus.CANCELLED


async def test_a_wait_that_brings_nothing_in_time_is_no_error_and_no_standstill() -> None:
    waits = [wait(seconds=0.01)] * 6
    tree = SteeredTree({MASTER: [in_background("north"), *waits, "Done.", "All."], "north": ["North."]})
    tree.hold("north")
    tree.begin()
    await tree.until(lambda: sum(entry.kind == "model.replied" for entry in tree.journal.entries) == 8)
    assert json.loads(result_of(tree, "subagent_wait").content.split("\n")[1]) == {"agents": [], "running": [child()]}
    tree.release("north")
    assert await text_of(tree) == "All."


async def test_two_waits_at_once_bring_each_report_once() -> None:
    both = Line(calls=(call("subagent_wait"), call("subagent_wait")))
    tree = SteeredTree({MASTER: [in_background("north", "south"), both, "Done."], "north": ["N."], "south": ["S."]})
    tree.begin()
    assert await text_of(tree) == "Done."
    assert sorted(delivered(tree)) == sorted([child(), child(index=1)])


async def test_a_message_reaches_a_running_subagent_before_its_next_request() -> None:
    @tool()
    async def look() -> str:
        """Look."""
        return "seen"

    steer = Line(calls=(call("subagent_steer", record_id=child(), message="Mind the gulls."),))
    tree = SteeredTree(
        {MASTER: [in_background("north"), steer, "Done.", "All."], "north": [Line(calls=(call("look"),)), "North."]},
        lambda: FunctionTools([look]),
    )
    tree.hold("north")
    tree.begin()
    await tree.until_asked("north")
    await tree.until(lambda: sum(entry.kind == "model.replied" for entry in tree.journal.entries) == 3)
    assert result_of(tree, "subagent_steer").content == '{"ok":true}'
    tree.release("north")
    assert await text_of(tree) == "All."
    [told] = [entry for entry in tree.journal.entries if isinstance(entry.data, ControlApplied)]
    assert told.record_id == child() and told.data == ControlApplied(
        control_id=call_id(root_record_id(ORDER), 2, 0),
        control="steer",
        mode="inject",
        message="Mind the gulls.",
        by="parent",
    )
    assert "Mind the gulls." in [said for ask in tree.model.asks if asked_by(ask) == "north" for said in _texts(ask)]


def _texts(ask: object) -> list[str]:
    messages = getattr(ask, "messages", ())
    return [message.text for message in messages if isinstance(message, UserMessage)]


async def test_only_as_many_run_as_have_a_slot_and_the_others_are_queued() -> None:
    status = Line(calls=(call("subagent_status"),))
    tree = SteeredTree(
        {MASTER: [in_background("north", "south"), status, "Done.", "All."], "north": ["N."], "south": ["S."]},
        limits=Limits(concurrency=1),
    )
    tree.hold("north")
    tree.begin()
    await tree.until(lambda: sum(entry.kind == "model.replied" for entry in tree.journal.entries) == 3)
    said = json.loads(result_of(tree, "subagent_status").content.split("\n")[1])["agents"]
    assert [(one["record_id"], one["status"]) for one in said] == [(child(), "running"), (child(index=1), "queued")]
    tree.release("north")
    assert await text_of(tree) == "All."
    assert sorted(delivered(tree)) == sorted([child(), child(index=1)])


async def test_those_beyond_the_limit_on_subagents_are_refused_at_once() -> None:
    crowd = [{"role": "scout", "task": name} for name in ("north", "south", "east")]
    start = Line(calls=(call("subagents_run", agents=crowd, background=True),))
    tree = SteeredTree(
        {MASTER: [start, "Done.", "All."], "north": ["N."], "south": ["S."], "east": ["E."]}, limits=Limits(spawns=2)
    )
    tree.hold("north", "south")
    tree.begin()
    await tree.until(lambda: sum(entry.kind == "model.replied" for entry in tree.journal.entries) == 2)
    tree.release("north", "south")
    assert await text_of(tree) == "All."
    said = json.loads(result_of(tree, "subagents_run").content)["agents"]
    assert [one["status"] for one in said] == ["running", "running", "blocked"]
    assert "The limit spawns (2) is reached" in said[2]["summary"]
    assert len(delivered(tree)) == 2


async def test_a_limit_that_ends_the_parent_ends_those_in_the_background() -> None:
    script: Script = {MASTER: [in_background("north"), *[Line(calls=(call("subagent_status"),))] * 3], "north": ["N."]}
    tree = SteeredTree(script, limits=Limits(rounds=2))
    tree.hold("north")
    tree.begin()
    assert tree.running is not None
    await tree.running
    assert tree.ended("north") is RecordStatus.CANCELLED
    assert tree.journal.entries[-1].record_id == root_record_id(ORDER)


async def test_what_asks_a_person_or_cannot_be_undone_is_denied_in_the_background_alone() -> None:
    @tool(background_safe=False)
    async def ask() -> str:
        """Ask."""
        return "asked"

    @tool(effects="irreversible")
    async def burn() -> str:
        """Burn."""
        return "burnt"

    both = Line(calls=(call("ask"), call("burn")))
    tree = SteeredTree(
        {MASTER: [in_background("north"), both, "Done.", "All."], "north": [both, "North."]},
        lambda: FunctionTools([ask, burn]),
    )
    tree.begin()
    await text_of(tree)
    ends = {
        (entry.record_id == child(), entry.data.name): (entry.data.outcome, entry.data.content)
        for entry in tree.journal.entries
        if isinstance(entry.data, ToolFinished) and entry.data.name in ("ask", "burn")
    }
    assert {key for key, (outcome, _) in ends.items() if outcome == "denied" and key[0]} == {
        (True, "ask"),
        (True, "burn"),
    }
    assert ends[True, "ask"][1].startswith("ask was not run: you work in the background")
    assert ends[False, "ask"][0] == "ok"


async def test_a_message_of_a_person_ends_the_wait_of_an_answer() -> None:
    tree = SteeredTree({MASTER: [in_background("north"), "Done.", "I read it.", "All."], "north": ["N."]})
    tree.hold("north")
    tree.begin()
    await tree.until(lambda: sum(entry.kind == "model.replied" for entry in tree.journal.entries) == 2)
    await tree.steering.steer("Are you there?")
    await tree.until(lambda: sum(entry.kind == "model.replied" for entry in tree.journal.entries) == 3)
    assert any(message.endswith("Z] Are you there?") for message in tree.said_to(MASTER))
    tree.release("north")
    assert await text_of(tree) == "All."
    assert delivered(tree) == [child()]


async def test_a_tree_in_which_the_parent_waits_and_all_in_the_background_are_paused_can_be_parked() -> None:
    tree = SteeredTree({MASTER: [in_background("north"), "Done.", "All."], "north": ["N."]})
    tree.hold("north")
    tree.begin()
    await tree.until(lambda: sum(entry.kind == "model.replied" for entry in tree.journal.entries) == 2)
    assert not tree.turn.idle.is_idle
    await tree.steering.pause(record_id=child())
    idle = asyncio.Event()
    tree.turn.idle.watch(lambda stands: idle.set() if stands else None)
    tree.release("north")
    async with asyncio.timeout(10):
        await idle.wait()
    await tree.steering.resume(record_id=child())
    assert await text_of(tree) == "All."
    assert delivered(tree) == [child()]


async def test_those_who_watch_see_who_works_in_the_background_and_when_a_report_is_read() -> None:
    tree = SteeredTree({MASTER: [in_background("north"), "Done.", "All."], "north": ["N."]})
    tree.hold("north")
    tree.begin()
    await tree.until(lambda: sum(entry.kind == "model.replied" for entry in tree.journal.entries) == 2)
    assert "  in the background" in _drawn(tree)
    tree.release("north")
    await text_of(tree)
    assert "  in the background" not in _drawn(tree)
    lines = Lines()
    said = "\n".join(line for entry in tree.journal.entries if (line := lines.line_of(entry)))
    assert "master: subagent leaves a subagent running in the background" in said
    assert "master: reads what its subagent scout brought: completed" in said
    record = tree.record()
    assert [step.background for step in record.steps if isinstance(step, ToolStep)] == [(child(),)]
    # The tools for agents in the background come with the first of them.
    assert [step.name for step in record.steps if isinstance(step, NoteStep)] == ["prefix_changed", "agent.delivered"]


def _drawn(tree: SteeredTree) -> str:
    console = Console(width=160, file=StringIO())
    console.print(OrderPicture(Story.of(tree.journal.entries), now()))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()
