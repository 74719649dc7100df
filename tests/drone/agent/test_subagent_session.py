"""An agent as a tool, and as a conversation of several messages, in a few lines of Python."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import drone
from drone.agent.ports.model import Ask, ModelError, WantedCall
from drone.agent.ports.report import Report
from drone.agent.turns.toolset import Output, StartedCall
from drone.models.scripted import Author, Line, Said, ScriptedModel, by_prompt, call
from drone.tools.frame.tool import ToolContext
from mcc.contracts.entry import Origin
from mcc.contracts.fence import unfenced
from mcc.contracts.fold import Fold
from mcc.contracts.journal import AgentReused, AgentStarted, ToolFinished
from mcc.contracts.record import RecordStatus
from mcc.definitions.front_matter import DefinitionError
from mcc.transcript.messages import AssistantMessage, ToolSpec, UserMessage
from tests.faults.simulation.leaping import leaping


def agent(script: Sequence[Said] | Author, name: str = "helper", **more: object) -> drone.Agent:
    definition = drone.AgentDefinition(name=name, prompt=f"You are {name}.")
    return drone.Agent(definition, model=ScriptedModel(script), **more)  # type: ignore[arg-type]


def use(name: str, **arguments: object) -> Line:
    return Line(calls=(call(name, **arguments),))


async def run(master: drone.Agent) -> tuple[Report, drone.MemoryJournal]:
    journal = drone.MemoryJournal("order")
    return await master.run("go", master.turn(journal)), journal


async def test_ten_lines_give_an_agent_a_function_of_ones_own() -> None:
    def double(number: int) -> int:
        """Twice a number.

        Args:
            number: any
        """
        return 2 * number

    definition = drone.AgentDefinition(name="maths", prompt="Calculate.")
    model = ScriptedModel([use("double", number=21), "42."])
    report = await drone.Agent(definition, model=model, tools=[double]).run("Twice 21?")
    assert report.text == "42."


async def test_functions_tool_sets_and_agents_mix_as_tools() -> None:
    @drone.tool(idempotent=True)
    async def north() -> str:
        """Look north."""
        return "a hill"

    class South:
        def specs(self) -> Sequence[ToolSpec]:
            return (ToolSpec("south", "Look south.", {"type": "object"}),)

        async def call(self, call: StartedCall) -> Output:
            return Output("a lake")

    sub = drone.SubAgent(agent(["a wood"]), name="west", description="Looks west.")
    looks = Line(calls=(call("north"), call("south"), call("west", input="Look.")))
    master = agent([looks, "Seen."], "master", tools=[north, South(), sub])
    report, journal = await run(master)
    assert report.text == "Seen."
    record = journal.fold.record()
    assert record is not None
    told = [unfenced(step.content).partition("\n")[0] for step in record.steps if step.kind == "tool"]
    assert sorted(told) == ["a hill", "a lake", "a wood"]


@pytest.mark.parametrize("tools", [[3], 3, ["north"]])
def test_what_cannot_be_a_tool_is_refused_at_once(tools: object) -> None:
    with pytest.raises(TypeError, match="tool set"):
        agent([], tools=tools)


async def test_an_agent_as_a_tool_hangs_in_its_callers_tree() -> None:
    inner = drone.SubAgentTool(drone.SubAgent(agent(["found"], "inner")))
    report, journal = await run(agent([use("inner", input="look"), "Done."], "outer", tools=[inner]))
    assert report.completed
    record = journal.fold.record()
    assert record is not None and Fold.of("order", journal.entries).record() == record
    (child,) = record.subagent_history
    (step,) = [step for step in record.steps if step.kind == "tool"]
    assert (child.agent, child.prompt, child.depth, child.parent_id) == ("inner", "look", 1, record.id)
    assert child.call_id == step.call_id and step.subagent_ids == (child.id,)
    assert record.usage_total.model_calls == 3


async def test_the_fields_of_a_schema_become_the_prompt_and_wrong_ones_are_told() -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
        "additionalProperties": False,
    }
    weather = drone.SubAgentTool(drone.SubAgent(agent(["Sunny."]), name="weather"), parameters=schema)
    lines: list[Said] = [use("weather", city="Bern", days=3), use("weather", days="many"), "Sunny."]
    _, journal = await run(agent(lines, "outer", tools=[weather]))
    record = journal.fold.record()
    assert record is not None
    assert [child.prompt for child in record.subagent_history] == ["city: Bern\ndays: 3"]
    wrong = [unfenced(step.content) for step in record.steps if step.kind == "tool" and step.is_error]
    assert len(wrong) == 1 and "city" in wrong[0]


async def test_an_agent_as_a_tool_outside_of_every_run_is_a_tree_of_its_own() -> None:
    tool = drone.SubAgentTool(drone.SubAgent(agent(["found"])))
    output = await tool.call(StartedCall("call-1", "helper", {"input": "look"}, Origin()))
    assert unfenced(output.content).startswith("found") and not output.is_error


async def test_agents_that_call_each_other_stop_at_the_depth_of_the_turn() -> None:
    class Again:
        """An agent as its own tool."""

        def specs(self) -> Sequence[ToolSpec]:
            return self.tool.specs()

        async def call(self, call: StartedCall) -> Output:
            return await self.tool.call(call)

        def __init__(self) -> None:
            self.tool = drone.SubAgentTool(drone.SubAgent(agent([]), name="again"))

    def write(prompt: str, replies: int) -> Said:
        return "Back." if replies else use("again", input=f"{prompt}+")

    again = Again()
    endless = agent(by_prompt(write), "endless", tools=again, limits=drone.Limits(depth=3))
    again.tool = drone.SubAgentTool(drone.SubAgent(endless, name="again"))
    report, journal = await run(endless)
    assert report.text == "Back."
    assert max(entry.depth for entry in journal.entries) == 3
    denied = [entry.data for entry in journal.entries if getattr(entry.data, "outcome", None) == "denied"]
    assert [getattr(one, "content", "") for one in denied] == [str(drone.DepthExceeded(3))]


async def test_calls_of_agents_as_tools_count_as_spawns_and_wait_for_their_places() -> None:
    at_work, most = 0, 0

    async def look(ask: Ask) -> Said:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await asyncio.sleep(0)
        at_work -= 1
        return "found"

    tool = drone.SubAgentTool(drone.SubAgent(agent(look)))
    looks = Line(calls=tuple(call("helper", input=f"{number}") for number in range(4)))
    limits = drone.Limits(concurrency=2, spawns=3)
    _, journal = await run(agent([looks, "Done."], "master", tools=[tool], limits=limits))
    record = journal.fold.record()
    assert record is not None and len(record.subagent_history) == 3 and most == 2
    assert [step.outcome for step in record.steps if step.kind == "tool" and step.is_error] == ["denied"]


def test_a_name_that_no_tool_may_have_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot name a tool"):
        drone.SubAgent(agent([]), name="a helper")


async def test_a_session_goes_on_with_its_conversation_until_it_is_reset() -> None:
    helper = agent(["Hello Ann.", "You are Ann.", "I do not know."])
    session = drone.SubAgentSession(drone.SubAgent(helper))
    assert (await session.send("I am Ann.")).text == "Hello Ann."
    second = await session.send("Who am I?")
    assert session.turns == 2
    assert session.transcript == (
        UserMessage("I am Ann."),
        AssistantMessage.of("Hello Ann.", model="scripted/model"),
        UserMessage("Who am I?"),
        AssistantMessage.of("You are Ann.", model="scripted/model"),
    )
    session.reset()
    assert session.turns == len(session.transcript) == 0
    assert (await session.send("Who am I?")).text == "I do not know."
    started = [entry.data for entry in session.journal.entries if isinstance(entry.data, AgentStarted)]
    reused = [entry for entry in session.journal.entries if isinstance(entry.data, AgentReused)]
    assert [bool(one.continues) for one in started] == [False, True, False]
    assert [(entry.record_id, entry.data) for entry in reused] == [
        (second.record_id, AgentReused(message="Who am I?", turn=2))
    ]
    record = session.journal.fold.record()
    assert record is not None and record.prompt == "Who am I?"
    assert session.journal.fold.usage.model_calls == 3


async def test_two_sends_at_once_are_done_one_after_the_other() -> None:
    at_work = 0

    async def author(ask: Ask) -> Said:
        nonlocal at_work
        at_work += 1
        assert at_work == 1
        await asyncio.sleep(0)
        at_work -= 1
        return f"after {len(ask.messages)}"

    session = drone.SubAgentSession(drone.SubAgent(agent(author)))
    first, second = await asyncio.gather(session.send("a"), session.send("b"))
    assert (first.text, second.text) == ("after 1", "after 3")


async def test_a_send_that_fails_is_a_report_and_the_next_one_goes_on() -> None:
    session = drone.SubAgentSession(drone.SubAgent(agent([ModelError("It is down."), "Here."])))
    assert (await session.send("a")).error == "It is down."
    assert (await session.send("b")).text == "Here."
    assert session.transcript == (
        UserMessage("a"),
        UserMessage("b"),
        AssistantMessage.of("Here.", model="scripted/model"),
    )


async def test_a_send_that_is_called_off_leaves_the_session_as_it_was_and_the_journal_closed() -> None:
    asked = asyncio.Event()

    async def author(ask: Ask) -> Said:
        if len(ask.messages) > 1:
            return "Still here."
        if asked.is_set():
            return "Here."
        asked.set()
        await asyncio.Event().wait()
        return ""

    session = drone.SubAgentSession(drone.SubAgent(agent(author)))
    sending = asyncio.ensure_future(session.send("a"))
    await asked.wait()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    record = session.journal.fold.record()
    assert record is not None and record.status is RecordStatus.CANCELLED
    assert session.turns == len(session.transcript) == 0
    assert (await session.send("a")).text == "Here."


async def test_a_reset_while_a_send_is_under_way_forgets_that_one_too() -> None:
    gate, asked = asyncio.Event(), asyncio.Event()

    async def author(ask: Ask) -> Said:
        asked.set()
        await gate.wait()
        return "Here."

    session = drone.SubAgentSession(drone.SubAgent(agent(author)))
    sending = asyncio.ensure_future(session.send("a"))
    await asked.wait()
    session.reset()
    gate.set()
    assert (await sending).text == "Here."
    assert session.turns == len(session.transcript) == 0


async def test_a_session_inside_of_a_turn_hangs_its_records_below_the_call_and_takes_one_spawn() -> None:
    session = drone.SubAgentSession(drone.SubAgent(agent(["One.", "Two."], "child")))

    @drone.tool
    async def consult(context: ToolContext) -> str:
        """Ask twice."""
        first = await session.send("first", context)
        second = await session.send("second", context)
        return f"{first.text} {second.text}"

    master = agent([use("consult"), "Done."], "master", tools=[consult], limits=drone.Limits(spawns=1))
    report, journal = await run(master)
    assert report.text == "Done."
    record = journal.fold.record()
    assert record is not None and Fold.of("order", journal.entries).record() == record
    first, second = record.subagent_history
    (step,) = [step for step in record.steps if step.kind == "tool"]
    assert unfenced(step.content) == "One. Two."
    assert first.call_id == second.call_id == step.call_id and (first.depth, second.depth) == (1, 1)
    assert (first.continues, second.continues) == (None, first.id)
    with pytest.raises(ValueError, match="reset"):
        await session.send("third")
    assert session.journal.entries == []


async def test_a_session_in_a_turn_that_may_not_grow_says_so() -> None:
    session = drone.SubAgentSession(drone.SubAgent(agent([], "child")))

    @drone.tool
    async def consult(context: ToolContext) -> str:
        """Ask."""
        return (await session.send("first", context)).text

    _, journal = await run(agent([use("consult"), "Done."], "master", tools=[consult], limits=drone.Limits(depth=0)))
    record = journal.fold.record()
    assert record is not None and record.subagent_history == ()
    (step,) = [step for step in record.steps if step.kind == "tool"]
    assert step.is_error and "DepthExceeded" in step.content and "depth (0)" in step.content


async def test_a_tool_of_a_library_agent_ends_in_the_time_of_the_limits_but_an_agent_has_its_own() -> None:
    @drone.tool
    async def forever() -> str:
        """Never ends."""
        await asyncio.Event().wait()
        return ""

    async def slow(ask: Ask) -> Said:
        await asyncio.sleep(0.05)
        return "found"

    sub = drone.SubAgent(agent(slow), name="inner")
    lines: list[Said] = [Line(calls=(call("forever"), call("inner", input="look"))), "Done."]
    limits = drone.Limits(tool_seconds=0.01)
    _, journal = await run(agent(lines, "master", tools=[forever, sub], limits=limits))
    record = journal.fold.record()
    assert record is not None
    assert {step.name: step.outcome for step in record.steps if step.kind == "tool"} == {
        "forever": "timeout",
        "inner": "ok",
    }


async def test_a_definition_that_owes_a_result_has_its_gate_without_a_word() -> None:
    definition = drone.AgentDefinition(
        name="maths",
        prompt="Calculate.",
        result={"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]},
    )
    model = ScriptedModel([use("submit_result", answer="many"), use("submit_result", answer=42)])
    report = await drone.Agent(definition, model=model).run("Twice 21?")
    assert report.result == {"answer": 42}


def test_an_agent_file_is_loaded_and_what_is_wrong_in_it_is_said_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "review.md"
    file.write_text("---\nname: review\ntools: []\n---\nRead the change.\n")
    assert drone.load_agent(file).prompt == "Read the change."
    file.write_text("---\nname: review\ntols: []\n---\nRead the change.\n")
    with pytest.raises(DefinitionError, match="tools"):
        drone.load_agent(str(file))


@pytest.mark.parametrize("within", ["the agent's own time", "the time of a tool", "the patience of a tool"])
@leaping
async def test_an_agent_that_its_call_does_not_wait_for_any_longer_has_its_end_before_the_call(within: str) -> None:
    async def never(ask: Ask) -> Said:
        await asyncio.Event().wait()
        return ""

    sub = drone.SubAgent(agent(never, "inner", limits=drone.Limits(wall_seconds=0.01)))
    session = drone.SubAgentSession(sub)

    @drone.tool(seconds=0.01 if within == "the time of a tool" else None)
    async def outer(input: str, context: ToolContext) -> str:
        """Ask the session."""
        sending = session.send(input, context)
        if within == "the time of a tool":
            return (await sending).text
        with suppress(TimeoutError):
            await asyncio.wait_for(sending, 0.01)
        return "no answer"

    name = "inner" if within == "the agent's own time" else "outer"
    tools: list[Any] = [sub if name == "inner" else outer]
    report, journal = await run(agent([use(name, input="look"), "Done."], "master", tools=tools))
    assert report.completed
    fold = Fold.of("order", journal.entries)
    record = fold.record()
    assert record is not None
    (child,) = record.subagent_history
    assert child.status is RecordStatus.CANCELLED and "did not wait" in str(child.error)
    kinds = [(entry.agent, entry.kind) for entry in journal.entries]
    assert kinds.index(("inner", "agent.finished")) < kinds.index(("master", "tool.finished"))


@pytest.mark.parametrize("with_caller", [True, False])
async def test_a_session_that_sends_to_itself_is_told_so_and_waits_for_nothing(with_caller: bool) -> None:
    @drone.tool
    async def ask_again(context: ToolContext) -> str:
        """Ask the same agent."""
        return (await session.send("And?", context if with_caller else None)).text

    session = drone.SubAgentSession(drone.SubAgent(agent([use("ask_again"), "Done.", "Later."], tools=[ask_again])))
    report = await session.send("Begin.")
    assert report.text == "Done."
    (told,) = [entry.data for entry in session.journal.entries if isinstance(entry.data, ToolFinished)]
    assert told.is_error and "at work on the very message" in told.content
    assert (await session.send("Go on.")).text == "Later."


async def test_two_sessions_do_not_mix_up_the_journal_that_both_were_given() -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def slow(ask: Ask) -> Said:
        begun.set()
        await goes_on.wait()
        return "first"

    journal = drone.MemoryJournal("shared")
    one = drone.SubAgentSession(drone.SubAgent(agent(slow)), journal=journal)
    other = drone.SubAgentSession(drone.SubAgent(agent(["second"])), journal=journal)
    sending = asyncio.create_task(one.send("a"))
    await begun.wait()
    with pytest.raises(ValueError, match="Another session is at work in this journal"):
        await other.send("b")
    goes_on.set()
    assert ((await sending).text, (await other.send("b")).text) == ("first", "second")


async def test_two_names_over_one_definition_are_told_apart_in_journal_record_and_report() -> None:
    shared = agent(by_prompt(lambda prompt, replies: f"{prompt}!"))
    tools = [drone.SubAgent(shared, name="maths"), drone.SubAgent(shared, name="poet")]
    master = agent([Line(calls=(call("maths", input="2+2"), call("poet", input="rose"))), "Both."], tools=tools)
    _, journal = await run(master)
    record = journal.fold.record()
    assert record is not None
    assert [(child.agent, child.answer) for child in record.subagent_history] == [("maths", "2+2!"), ("poet", "rose!")]
    assert {entry.agent for entry in journal.entries if entry.depth == 1} == {"maths", "poet"}
    alone = drone.SubAgentSession(drone.SubAgent(shared, name="poet"))
    assert (await alone.send("oak")).agent == "poet"


async def test_an_agent_is_invoked_with_a_text_or_with_values_and_lies_below_whoever_invokes_it() -> None:
    asked = agent(by_prompt(lambda prompt, replies: f"<{prompt}>"), "child")
    sub = drone.SubAgent(asked, name="clerk")
    journal = drone.MemoryJournal("order")
    report = await sub.invoke("alone", journal=journal)
    assert (report.text, report.agent) == ("<alone>", "clerk")
    assert {entry.depth for entry in journal.entries} == {1}
    assert (await sub.invoke({"city": "Bern", "days": 2})).text == "<city: Bern\ndays: 2>"
    reports: list[Report] = []

    @drone.tool
    async def consult(context: ToolContext) -> str:
        """Ask twice."""
        reports.extend([await sub.invoke("one", context), await sub.invoke("two", context)])
        return "asked"

    _, journal = await run(agent([use("consult"), "Done."], "master", tools=[consult]))
    record = journal.fold.record()
    assert record is not None
    children = record.subagent_history
    assert [(child.agent, child.prompt, child.depth) for child in children] == [
        ("clerk", "one", 1),
        ("clerk", "two", 1),
    ]
    assert [report.record_id for report in reports] == [child.id for child in children]
    assert {child.call_id for child in children} == {step.call_id for step in record.steps if step.kind == "tool"}


async def test_what_may_have_no_subagent_is_not_invoked() -> None:
    sub = drone.SubAgent(agent([], limits=drone.Limits(depth=0)))
    with pytest.raises(drone.DepthExceeded):
        await sub.invoke("go")
    with pytest.raises(drone.DepthExceeded):
        await drone.SubAgentSession(sub).send("go")
    output = await drone.SubAgentTool(sub).call(StartedCall("1", "helper", {"input": "go"}, Origin()))
    assert output.is_error and "depth (0)" in output.content


async def test_a_session_of_its_own_lies_one_below_its_caller() -> None:
    session = drone.SubAgentSession(drone.SubAgent(agent(["Here."])))
    await session.send("Where are you?")
    assert {entry.depth for entry in session.journal.entries} == {1}


@pytest.mark.parametrize(("sent", "told"), [('"2+2"', "<2+2>"), ("2+2", "must be one JSON object"), ('"2', "JSON")])
async def test_a_json_text_alone_is_the_task_of_a_subagent(sent: str, told: str) -> None:
    maths = drone.SubAgent(agent(by_prompt(lambda prompt, replies: f"<{prompt}>")), name="maths")
    lines: list[Said] = [Line(calls=(WantedCall("maths", sent),)), "Done."]
    _, journal = await run(agent(lines, "master", tools=[maths]))
    (done,) = [entry.data for entry in journal.entries if entry.depth == 0 and isinstance(entry.data, ToolFinished)]
    assert told in done.content
