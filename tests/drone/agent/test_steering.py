"""Controls (pause, resume, message, remove tools, cancel) for any agent of a tree, each with one outcome."""

import asyncio

import pytest

from drone.agent.control import control_router
from drone.agent.ports.report import Cause
from drone.models.scripted import Line, call
from drone.tools.frame.tool import FunctionTools, ToolContext, tool
from mcc.contracts.fence import unfenced
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import ToolFinished
from mcc.contracts.limits import Limits
from mcc.contracts.model_facts import ModelStarted
from mcc.contracts.record import RecordStatus
from mcc.transcript.messages import ToolResults
from tests.drone.agent.steered_tree import MASTER, TWO, SteeredTree, delegate, end_of, outcome, seq_of, two_at_work


async def test_a_message_to_a_child_is_read_by_that_child_alone_before_its_next_model_call() -> None:
    tree = SteeredTree({**TWO, "north": [delegate("quay"), "Two cranes."], "quay": ["Wet."]})
    tree.hold("quay", "south")
    tree.begin()
    await tree.until_asked("quay", "south")
    asked = await tree.steering.steer("Count the cranes.", record_id=tree.child("north").id)
    assert asked.open
    tree.release("quay", "south")
    await end_of(tree)
    assert outcome(tree, asked).applied_seq == seq_of(tree, asked)
    said = outcome(tree, asked)
    assert tree.said_to("north") == ["north", f"[{said.requested_at:%Y-%m-%dT%H:%M:%SZ}] Count the cranes."]
    assert tree.said_to("south") == ["south"] and tree.said_to("quay") == ["quay"] and tree.said_to(MASTER) == [MASTER]
    kinds = tree.kinds("north")
    at = kinds.index("control.applied")
    assert (kinds[at - 1], kinds[at + 1]) == ("tool.finished", "model.started")


async def test_a_redirect_tells_the_agent_its_task_from_now_on() -> None:
    tree = await two_at_work()
    asked = await tree.steering.steer("Look east.", record_id=tree.child("north").id, redirect=True)
    tree.release("north", "south")
    await end_of(tree)
    assert tree.said_to("north")[1].endswith("this is your task from now on:\n\nLook east.")
    (step,) = [step for step in tree.child("north").steps if step.kind == "steer"]
    assert (step.seq, step.mode, step.message) == (outcome(tree, asked).applied_seq, "redirect", "Look east.")


async def test_a_message_that_came_too_late_for_its_child_is_refused_when_that_ends_and_given_to_nobody_else() -> None:
    @tool()
    async def talk() -> str:
        """Send a message to this agent before its last model call."""
        return "x"

    tree = SteeredTree({**TWO, "north": [Line(calls=(call("talk"),)), "Done."]}, lambda: FunctionTools([talk]))
    tree.hold("north", "south")
    tree.begin()
    await tree.until_asked("north", "south")
    await tree.steering.pause(record_id=tree.child("north").id)
    asked = await tree.steering.steer("Too late.", record_id=tree.child("north").id)
    await tree.steering.cancel(record_id=tree.child("north").id)
    await tree.until(lambda: tree.ended("north") is not None)
    assert tree.ended("south") is None
    assert outcome(tree, asked).refused == control_router.UNREAD
    tree.release("south")
    await end_of(tree)
    assert "Too late." not in [*tree.said_to("south"), *tree.said_to(MASTER)]


@pytest.mark.parametrize("kind", ["steer", "pause", "resume", "cancel", "remove_tools"])
async def test_an_agent_that_has_finished_or_never_was_is_told_to_be_nobody(kind: str) -> None:
    tree = await two_at_work()
    north = tree.child("north").id
    tree.release("north")
    await tree.until(lambda: tree.ended("north") is not None)
    ask = getattr(tree.steering, kind)
    words = ["x"] if kind in ("steer", "remove_tools") else []
    for record_id in (north, fresh_id()):
        assert (await ask(*words, record_id=record_id)).refused == control_router.NOBODY
    tree.release("south")
    await end_of(tree)
    assert (await ask(*words)).refused == control_router.OVER


async def test_a_paused_child_waits_and_its_sibling_goes_on() -> None:
    tree = await two_at_work()
    paused = await tree.steering.pause(record_id=tree.child("north").id, reason="lunch")
    assert paused.applied_seq == seq_of(tree, paused)
    assert tree.child("north").status is RecordStatus.WAITING
    assert tree.child("south").status is tree.record().status is RecordStatus.RUNNING
    tree.release("north", "south")
    await tree.until(lambda: tree.ended("south") is not None)
    assert tree.ended("north") is None
    await tree.steering.resume(record_id=tree.child("north").id)
    assert await end_of(tree) == "Both looked."
    assert tree.child("north").status is RecordStatus.COMPLETED


async def test_a_steer_during_a_pause_is_read_when_it_ends_even_if_the_last_word_was_said() -> None:
    tree = await two_at_work()
    north = tree.child("north").id
    await tree.steering.pause(record_id=north)
    tree.release("north")
    await tree.until(lambda: "model.replied" in tree.kinds("north"))
    asked = await tree.steering.steer("And the cranes?", record_id=north)
    assert asked.open and tree.calls.count("north") == 1
    await tree.steering.resume(record_id=north)
    tree.release("south")
    await end_of(tree)
    assert outcome(tree, asked).applied_seq is not None
    assert tree.calls.count("north") == 2 and tree.said_to("north")[-1].endswith("Z] And the cranes?")


@pytest.mark.parametrize("by", ["order", "root record"])
async def test_a_paused_turn_starts_no_model_or_tool_call_at_any_node_children_hired_later_included(by: str) -> None:
    ran: list[str] = []

    @tool()
    async def look() -> str:
        """Look."""
        ran.append("look")
        return "seen"

    tree = SteeredTree(
        {
            MASTER: [delegate("north"), "Done."],
            "north": [Line(calls=(call("look"),)), delegate("quay"), "n"],
            "quay": ["q"],
        },
        lambda: FunctionTools([look]),
    )
    tree.hold("north")
    tree.begin()
    await tree.until_asked("north")
    record_id = tree.record().id if by == "root record" else None
    await tree.steering.pause(record_id=record_id)
    assert {tree.record().status, tree.child("north").status} == {RecordStatus.WAITING}
    tree.release("north")
    await tree.until(lambda: "model.replied" in tree.kinds("north"))
    assert tree.kinds("north")[-1] == "model.replied" and not ran
    assert (await tree.steering.resume()).applied_seq is not None
    assert await end_of(tree) == "Done."
    assert ran == ["look"] and tree.ended("quay") is RecordStatus.COMPLETED


async def test_a_child_hired_while_its_parent_is_paused_asks_nothing_until_the_parent_goes_on() -> None:
    hiring = asyncio.Event()

    class Slow(SteeredTree):
        def _agent(self, wanted: object) -> object:  # type: ignore[override]
            if getattr(wanted, "depth", 0) == 1:
                hiring.set()
            return super()._agent(wanted)  # type: ignore[arg-type]

    tree = Slow(
        {MASTER: [delegate("north", "south"), "Done."], "north": ["n"], "south": ["s"]}, limits=Limits(concurrency=1)
    )
    tree.hold("north")
    tree.begin()
    await tree.until_asked("north")
    await tree.steering.pause()
    tree.release("north")
    await tree.until(lambda: "model.replied" in tree.kinds("north"))
    await tree.until(lambda: any(child.prompt == "south" for child in tree.record().subagent_history))
    assert tree.calls.count("south") == 0 and tree.child("south").status is RecordStatus.WAITING
    await tree.steering.resume()
    assert await end_of(tree) == "Done."


async def test_a_second_pause_and_a_resume_without_one_are_refused_with_a_sentence() -> None:
    tree = await two_at_work()
    north = tree.child("north").id
    assert (await tree.steering.resume()).refused == control_router.NOT_PAUSED
    assert (await tree.steering.resume(record_id=north)).refused == control_router.NOT_PAUSED
    assert (await tree.steering.pause()).refused is None
    assert (await tree.steering.pause()).refused == control_router.PAUSED
    assert (await tree.steering.resume(record_id=north)).refused == control_router.PAUSED_ABOVE
    assert (await tree.steering.pause(record_id=north)).refused is None, "it stays paused when the turn goes on"
    assert (await tree.steering.resume()).refused is None
    assert tree.child("north").status is RecordStatus.WAITING
    assert (await tree.steering.resume(record_id=north)).refused is None
    tree.release("north", "south")
    await end_of(tree)


async def test_nothing_to_say_and_nothing_to_take_away_is_refused() -> None:
    tree = await two_at_work()
    assert (await tree.steering.remove_tools()).refused == control_router.NOTHING_ASKED
    tree.release("north", "south")
    await end_of(tree)


async def test_a_removed_group_stays_in_the_catalogue_and_is_refused_at_the_call_of_that_agent_and_all_below() -> None:
    ran: list[str] = []

    @tool(group="workspace_write")
    async def write() -> str:
        """Write."""
        ran.append("write")
        return "written"

    writes = Line(calls=(call("write"),))
    tree = SteeredTree(
        {
            MASTER: [delegate("north", "south"), "Done."],
            "north": [writes, delegate("quay"), "n"],
            "quay": [writes, "q"],
            "south": [writes, "s"],
        },
        lambda: FunctionTools([write]),
    )
    tree.hold("north", "south")
    tree.begin()
    await tree.until_asked("north", "south")
    asked = await tree.steering.remove_tools("workspace_write", "unheard_of", record_id=tree.child("north").id)
    assert asked.applied_seq == seq_of(tree, asked)
    tree.release("north", "south")
    await end_of(tree)
    assert ran == ["write"]
    refused = [one.data for one in tree.journal.entries if isinstance(one.data, ToolFinished) and one.data.is_error]
    assert [one.outcome for one in refused] == ["denied", "denied"] and "took the tool write away" in refused[0].content
    assert all("write" in tree.offered_to(name) for name in (MASTER, "north", "quay", "south")), "it stays described"


async def test_tools_that_a_message_takes_away_stay_described_and_its_entry_comes_when_it_is_read() -> None:
    @tool()
    async def write() -> str:
        """Write."""
        return "written"

    tree = SteeredTree(
        {MASTER: [delegate("north"), "Done."], "north": [Line(calls=(call("write"),)), "n"]},
        lambda: FunctionTools([write]),
    )
    tree.hold("north")
    tree.begin()
    await tree.until_asked("north")
    asked = await tree.steering.steer("Only look.", remove_tools=("write",))
    assert asked.open
    tree.release("north")
    await end_of(tree)
    assert "write" in tree.offered_to("north"), "it stays described, and is refused"
    (step,) = [step for step in tree.record().steps if step.kind == "steer"]
    assert (step.message, step.tools_removed) == ("Only look.", ("write",))


async def test_a_cancelled_child_and_all_below_it_end_so_its_sibling_goes_on_and_the_parent_is_told() -> None:
    tree = SteeredTree({**TWO, "north": [delegate("quay", "pier"), "n"], "quay": ["q"], "pier": ["p"]})
    tree.hold("quay", "pier", "south")
    tree.begin()
    await tree.until_asked("quay", "pier", "south")
    cancelled = await tree.steering.cancel(record_id=tree.child("north").id, reason="wrong side")
    await tree.until(lambda: tree.ended("north") is not None)
    calls = list(tree.calls)
    assert [tree.ended(one) for one in ("quay", "pier", "north")] == [RecordStatus.CANCELLED] * 3
    assert tree.ended("south") is None and tree.child("north").error == "a person cancelled it: wrong side"
    tree.release("quay", "pier", "south")
    assert await end_of(tree) == "Both looked."
    assert tree.calls == [*calls, MASTER], "nothing below started again"
    assert tree.kinds("north")[-2:] == ["tool.finished", "agent.finished"]
    assert outcome(tree, cancelled).applied_seq == seq_of(tree, cancelled)
    (results,) = [message for message in tree.model.asks[-1].messages if isinstance(message, ToolResults)]
    north, south = results.results
    assert north.is_error and "a person cancelled it: wrong side" in north.content
    assert unfenced(south.content).startswith("South is empty.")


async def test_no_model_or_tool_call_starts_below_a_cancelled_agent_once_its_cancel_is_an_entry() -> None:
    going = asyncio.Event()

    @tool()
    async def dig() -> str:
        """Dig for as long as it is let."""
        going.set()
        await asyncio.Event().wait()
        return ""

    dig_twice = Line(calls=(call("dig"), call("dig")))
    tree = SteeredTree(
        {MASTER: [delegate("north", "south"), "Done."], "north": [dig_twice, "n"], "south": ["s"]},
        lambda: FunctionTools([dig]),
        Limits(parallel_tool_calls=1),
    )
    tree.hold("south")
    tree.begin()
    await going.wait()
    cancelled = await tree.steering.cancel(record_id=tree.child("north").id)
    tree.release("south")
    await end_of(tree)
    after = [entry.kind for entry in tree.journal.entries if entry.record_id == tree.child("north").id]
    at = after.index("control.applied")
    assert after[at + 1 :] == ["tool.finished", "tool.finished", "agent.finished"]
    assert outcome(tree, cancelled).applied_seq is not None


async def test_a_tool_in_a_thread_learns_that_its_agent_was_cancelled() -> None:
    loop = asyncio.get_running_loop()
    began, heard = asyncio.Event(), asyncio.Event()

    @tool()
    def dig(context: ToolContext) -> str:
        """Dig in a thread."""
        loop.call_soon_threadsafe(began.set)
        if context.stop.wait(10):
            loop.call_soon_threadsafe(heard.set)
        return "dug"

    tree = SteeredTree(
        {MASTER: [delegate("north"), "Done."], "north": [Line(calls=(call("dig"),)), "n"]},
        lambda: FunctionTools([dig]),
    )
    tree.begin()
    await began.wait()
    await tree.steering.cancel(record_id=tree.child("north").id)
    assert await end_of(tree) == "Done."
    async with asyncio.timeout(10):
        await heard.wait()


async def test_a_paused_agent_can_be_cancelled() -> None:
    tree = await two_at_work()
    north = tree.child("north").id
    await tree.steering.pause(record_id=north)
    tree.release("north")
    await tree.until(lambda: "model.replied" in tree.kinds("north"))
    await tree.steering.cancel(record_id=north)
    await tree.until(lambda: tree.ended("north") is RecordStatus.CANCELLED)
    tree.release("south")
    await end_of(tree)


async def test_a_child_that_waits_for_a_place_is_nobody_yet_and_goes_with_its_parent() -> None:
    tree = SteeredTree({**TWO, "north": ["n"], "south": ["s"]}, limits=Limits(concurrency=1))
    tree.hold("north")
    running = tree.begin()
    await tree.until_asked("north")
    assert len(tree.record().subagent_history) == 1
    await tree.steering.cancel()
    report = await running
    assert (report.cause, report.status) == (Cause.CANCELLED, RecordStatus.CANCELLED)
    assert "south" not in tree.calls


@pytest.mark.parametrize("by", ["order", "root record"])
async def test_cancelling_the_turn_ends_every_agent_of_it(by: str) -> None:
    tree = await two_at_work()
    root = tree.record().id
    await tree.steering.cancel(record_id=root if by == "root record" else None, reason="enough")
    await end_of(tree)
    assert [tree.ended(one) for one in ("north", "south", MASTER)] == [RecordStatus.CANCELLED] * 3
    assert tree.record().error == "a person cancelled it: enough"


async def test_a_message_has_reached_its_model_with_the_first_request_of_its_agent_after_it() -> None:
    tree = SteeredTree({**TWO, "north": ["North is empty.", "Two cranes.", "As I said."]})
    tree.hold("north", "south")
    tree.begin()
    await tree.until_asked("north", "south")
    north = tree.child("north").id
    asked = await tree.steering.steer("Count the cranes.", record_id=north)
    whole = await tree.steering.steer("Be quick.")
    tools = await tree.steering.remove_tools("page")
    assert outcome(tree, asked).carried_seq is None and outcome(tree, whole).carried_seq is None
    tree.release("north", "south")
    await end_of(tree)

    def first_request(record_id: str | None, after: int | None) -> int:
        requests = (
            one.seq for one in tree.journal.entries if one.record_id == record_id and one.kind == ModelStarted.kind
        )
        return next(seq for seq in requests if seq > (after or 0))

    for control, record_id in ((asked, north), (whole, tree.record().id)):
        applied = outcome(tree, control).applied_seq
        assert outcome(tree, control).carried_seq == first_request(record_id, applied)
    assert outcome(tree, tools).carried_seq is None, "it says nothing"


async def test_a_message_that_no_request_carried_is_not_told_as_delivered() -> None:
    tree = SteeredTree(dict(TWO), limits=Limits(rounds=2))
    tree.hold(MASTER)
    tree.begin()
    await tree.until_asked(MASTER)
    asked = await tree.steering.steer("Look east.")
    await tree.steering.cancel()
    await end_of(tree)
    assert outcome(tree, asked).carried_seq is None
