"""One agent: ask, act, ask again; what is journaled before and after; how a run ends."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

from drone.agent.agent import AgentRuntime
from drone.agent.parts import NoTools
from drone.agent.ports.journal import Fenced, MemoryJournal, Unwritable
from drone.agent.ports.model import Ask, ModelError, WantedCall
from drone.agent.ports.report import Cause, Report
from drone.agent.spending.budget import Budget
from drone.agent.turns.toolset import Output, StartedCall, ToolSet
from drone.agent.turns.turn import Steering, Task, Turn
from drone.models.scripted import Line, Said, ScriptedModel, call
from drone.tools.frame.tool import FunctionTools, tool
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.entry import Entry, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.fence import EXPLAINED, unfenced
from mcc.contracts.ids import call_id, root_record_id
from mcc.contracts.journal import AgentFinished, Outcome, ToolFinished, ToolStarted
from mcc.contracts.limits import AgentLimits, Limits
from mcc.contracts.model_facts import ModelReplied, ModelStarted
from mcc.contracts.record import RecordStatus
from mcc.contracts.usage import Usage
from mcc.transcript.messages import AssistantMessage, ToolResults, ToolSpec, UserMessage
from tests.faults.simulation.leaping import leaping

ORDER = "order-1"


@tool(idempotent=True)
async def double(number: int) -> str:
    """Twice a number.

    Args:
        number: what to double.
    """
    return str(number * 2)


F = TypeVar("F", bound=Fact)


class World:
    """One agent with its journal, ready to run."""

    def __init__(
        self,
        model: ScriptedModel,
        tools: ToolSet | None = None,
        limits: Limits | None = None,
        own: AgentLimits | None = None,
    ) -> None:
        self.model = model
        self.journal = MemoryJournal(ORDER)
        self.turn = Turn.begun(self.journal, Budget(limits or Limits(), asyncio.get_running_loop().time))
        definition = AgentDefinition(
            name="master", prompt="You double numbers.", guidelines=("Be brief.",), limits=own or AgentLimits()
        )
        self.agent = AgentRuntime(definition, model=model, tools=tools or FunctionTools([double]), limits=limits)

    async def run(self, prompt: str = "Go.") -> Report:
        return await self.agent.run(Task(prompt, root_record_id(ORDER)), self.turn)

    def kinds(self) -> list[str]:
        return [entry.kind for entry in self.journal.entries]

    def told(self, kind: type[F]) -> list[F]:
        return [entry.data for entry in self.journal.entries if isinstance(entry.data, kind)]


async def test_a_reply_without_tool_calls_is_the_result() -> None:
    world = World(ScriptedModel(["All done."]))
    report = await world.run()
    assert (report.status, report.text) == (RecordStatus.COMPLETED, "All done.")
    assert world.kinds() == ["agent.started", "model.started", "model.replied", "agent.finished"]


async def test_each_effect_is_journaled_before_it_and_its_result_after() -> None:
    seen_when_called: list[list[str]] = []

    @tool()
    async def look(place: str) -> str:
        """Look."""
        seen_when_called.append(world.kinds())
        return place

    world = World(ScriptedModel([Line(calls=(call("look", place="here"),)), "Done."]), FunctionTools([look]))
    await world.run()
    assert seen_when_called == [["agent.started", "model.started", "model.replied", "tool.started"]]
    assert world.kinds()[4:6] == ["tool.finished", "model.started"]


async def test_the_model_is_asked_with_system_prompt_guidelines_tools_and_the_whole_transcript() -> None:
    world = World(ScriptedModel([Line(text="Doubling.", calls=(call("double", number=4),)), "8"]))
    await world.run("Double 4.")
    first, second = world.model.asks
    assert first.system == f"You double numbers.\n\n{EXPLAINED}\n\nGuidelines:\n- Be brief."
    assert [spec.name for spec in first.tools] == ["double"]
    said, results = second.messages[1:]
    assert isinstance(said, AssistantMessage) and said.text == "Doubling."
    assert isinstance(results, ToolResults) and unfenced(results.results[0].content) == "8"
    assert results.results[0].call_id == said.tool_calls[0].call_id == call_id(root_record_id(ORDER), 1, 0)


async def test_calls_of_one_reply_run_side_by_side_and_answer_in_the_order_of_the_calls() -> None:
    slow_may_end = asyncio.Event()

    @tool()
    async def slow() -> str:
        """Wait for the other."""
        await slow_may_end.wait()
        return "slow"

    @tool()
    async def quick() -> str:
        """Let the other go on."""
        slow_may_end.set()
        return "quick"

    model = ScriptedModel([Line(calls=(call("slow"), call("quick"))), "Done."])
    world = World(model, FunctionTools([slow, quick]))
    await world.run()
    results = model.asks[1].messages[-1]
    assert isinstance(results, ToolResults)
    assert [unfenced(result.content) for result in results.results] == ["slow", "quick"]
    assert [fact.name for fact in world.told(ToolFinished)] == ["quick", "slow"]
    assert [(fact.index, fact.name) for fact in world.told(ToolStarted)] == [(0, "slow"), (1, "quick")]


async def test_no_more_calls_run_at_once_than_the_limit_and_the_rest_waits() -> None:
    running, most = 0, 0

    @tool()
    async def step() -> str:
        """One of many."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return "ok"

    model = ScriptedModel([Line(calls=tuple(call("step") for _ in range(9))), "Done."])
    world = World(model, FunctionTools([step]), Limits(parallel_tool_calls=3))
    await world.run()
    assert most == 3
    assert len(world.told(ToolFinished)) == 9


@pytest.mark.parametrize("arguments", ["not json", "[1, 2]", ""])
async def test_arguments_that_are_not_an_object_are_told_to_the_model_and_the_turn_goes_on(arguments: str) -> None:
    world = World(ScriptedModel([Line(calls=(WantedCall("double", arguments),)), "Done."]))
    report = await world.run()
    (finished,) = world.told(ToolFinished)
    assert isinstance(finished, ToolFinished)
    assert finished.is_error and "JSON object" in finished.content
    assert report.completed


async def test_a_tool_set_that_raises_is_told_to_the_model_and_the_turn_goes_on() -> None:
    class Broken:
        def specs(self) -> Sequence[ToolSpec]:
            return (ToolSpec("broken", "Breaks.", {"type": "object"}),)

        async def call(self, call: StartedCall) -> Output:
            raise RuntimeError("out of order")

    world = World(ScriptedModel([Line(calls=(call("broken"), call("broken"))), "Done."]), Broken())
    report = await world.run()
    assert report.completed
    assert ["out of order" in fact.content for fact in world.told(ToolFinished)] == [True, True]


async def test_repeated_provider_ids_do_not_mix_up_calls() -> None:
    wanted = tuple(WantedCall("double", {"number": n}, provider_id="same") for n in (1, 2))
    world = World(ScriptedModel([Line(calls=wanted), "Done."]))
    await world.run()
    finished = world.told(ToolFinished)
    assert sorted(unfenced(fact.content) for fact in finished) == ["2", "4"]
    assert len({fact.call_id for fact in finished}) == 2


async def test_a_model_that_fails_ends_the_run_with_its_sentence() -> None:
    world = World(ScriptedModel([ModelError("The key was refused (401).")]))
    report = await world.run()
    assert (report.status, report.error) == (RecordStatus.FAILED, "The key was refused (401).")
    assert world.kinds()[-1] == "agent.finished"


async def test_rounds_are_limited_and_the_partial_answer_is_kept() -> None:
    again = Line(text="Still at it.", calls=(call("double", number=1),))
    world = World(ScriptedModel([again] * 5), limits=Limits(rounds=2))
    report = await world.run()
    assert (report.status, report.limit, report.text) == (RecordStatus.LIMIT_REACHED, "rounds", "Still at it.")
    assert len(world.model.asks) == 3
    assert [fact.outcome for fact in world.told(ToolFinished)] == ["ok", "ok", "denied"]


async def test_when_no_tool_call_is_left_the_model_is_told() -> None:
    calls = tuple(call("double", number=n) for n in range(3))
    world = World(ScriptedModel([Line(calls=calls), "Done."]), limits=Limits(tool_calls=2))
    report = await world.run()
    assert (report.limit, report.text) == ("tool_calls", "Done.")
    assert [fact.outcome for fact in world.told(ToolFinished)].count(Outcome.DENIED) == 1


@pytest.mark.parametrize(
    ("limits", "name", "asks"),
    [
        (Limits(output_tokens=5), "output_tokens", 2),
        (Limits(total_tokens=20), "total_tokens", 1),
        (Limits(cost_usd=0.01), "cost_usd", 1),
    ],
)
async def test_what_a_call_spent_counts_before_the_next(limits: Limits, name: str, asks: int) -> None:
    spent = Usage(input_tokens=20, output_tokens=5, model_calls=1, cost_usd=0.02)
    line = Line(calls=(call("double", number=1),), usage=spent)
    world = World(ScriptedModel([line] * 3), limits=limits)
    report = await world.run()
    assert report.limit == name
    assert len(world.model.asks) == asks


@leaping
async def test_the_wall_clock_ends_a_tree_and_closes_what_is_open() -> None:
    @tool()
    async def hang() -> str:
        """Never ends."""
        await asyncio.Event().wait()
        return ""

    model = ScriptedModel([Line(text="One moment.", calls=(call("hang"),))])
    world = World(model, FunctionTools([hang]), Limits(wall_seconds=30))
    report = await world.run()
    assert (report.limit, report.text) == ("wall_seconds", "One moment.")
    (finished,) = world.told(ToolFinished)
    assert finished.outcome == "outcome_unknown"
    (end,) = world.told(AgentFinished)
    assert (end.status, end.answer) == (RecordStatus.LIMIT_REACHED, "One moment.")


async def test_a_cancelled_run_unwinds_at_once_and_writes_nothing_more() -> None:
    asked = asyncio.Event()

    @tool()
    async def hang() -> str:
        """Never ends."""
        asked.set()
        await asyncio.Event().wait()
        return ""

    world = World(ScriptedModel([Line(calls=(call("hang"),))]), FunctionTools([hang]))
    task = asyncio.create_task(world.run())
    await asked.wait()
    before = world.kinds()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert world.kinds() == before


async def test_a_fenced_journal_stops_the_run_wherever_it_is() -> None:
    class FencedJournal(MemoryJournal):
        async def write(self, origin: object, *facts: Fact) -> int:
            if any(isinstance(fact, ToolFinished) for fact in facts):
                raise Fenced
            return await super().write(origin, *facts)  # type: ignore[arg-type]

    world = World(ScriptedModel([Line(calls=(call("double", number=1), call("double", number=2))), "Done."]))
    world.turn = Turn.begun(FencedJournal(ORDER), Budget(Limits()))
    with pytest.raises(Fenced):
        await world.run()
    assert len(world.model.asks) == 1


async def test_text_with_nul_and_lone_surrogates_reaches_the_record_unchanged() -> None:
    strange = "before\x00\ud800after"
    world = World(ScriptedModel([Line(text=strange, pieces=(strange,))]))
    report = await world.run()
    record = world.journal.fold.record()
    assert record is not None
    assert report.text == record.answer == strange


async def test_text_on_its_way_is_told_with_the_whole_of_it_and_never_stored() -> None:
    heard: list[str] = []
    world = World(ScriptedModel([Line(text="one two three", thinking="hm")]))
    world.journal = MemoryJournal(ORDER, hear=lambda origin, kind, text: heard.append(f"{kind} {text}"))
    world.turn = Turn.begun(world.journal, Budget(Limits()))
    await world.run()
    spoken = "".join(line.removeprefix("model.delta ") for line in heard if line.startswith("model"))
    assert spoken == "one two three"
    assert "thinking.delta hm" in heard
    assert "model.delta" not in world.kinds()


async def test_the_setup_of_an_agent_is_kept_under_the_digest_that_its_start_names() -> None:
    world = World(ScriptedModel(["Done."]))
    await world.run()
    started = world.journal.entries[0].data
    kept = world.journal.texts[started.setup_digest]  # type: ignore[attr-defined]
    assert "You double numbers." in kept and '"double"' in kept


async def test_usage_is_summed_and_rounds_are_numbered() -> None:
    world = World(ScriptedModel([Line(calls=(call("double", number=1),)), "Done."]))
    report = await world.run()
    record = world.journal.fold.record()
    assert record is not None
    assert (record.usage_total.model_calls, record.usage_total.tool_calls) == (2, 1)
    assert report.usage.model_calls == 2
    assert (
        [fact.round for fact in world.told(ModelStarted)] == [fact.round for fact in world.told(ModelReplied)] == [1, 2]
    )


async def test_an_agent_runs_alone_from_a_few_lines() -> None:
    agent = AgentRuntime(AgentDefinition(name="alone", prompt="Hi."), model=ScriptedModel(["Hello."]), tools=NoTools())
    assert (await agent.run("Say hello.")).text == "Hello."


async def test_every_entry_of_a_run_comes_once_and_in_order() -> None:
    watched: list[Entry] = []
    world = World(ScriptedModel([Line(calls=(call("double", number=1), call("double", number=2))), "Done."]))
    world.journal = MemoryJournal(ORDER, watch=watched.append)
    world.turn = Turn.begun(world.journal, Budget(Limits()))
    await world.run()
    assert [entry.seq for entry in watched] == list(range(1, len(watched) + 1))


class Sabotaged:
    """A tool set whose only tool misbehaves as the test says."""

    def __init__(self, misbehave: Callable[[], object]) -> None:
        self._misbehave = misbehave

    def specs(self) -> Sequence[ToolSpec]:
        return (ToolSpec("odd", "Misbehaves.", {"type": "object"}),)

    async def call(self, call: StartedCall) -> Output:
        return self._misbehave()  # type: ignore[return-value]


def raising(error: BaseException) -> Callable[[], object]:
    def misbehave() -> object:
        raise error

    return misbehave


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize(
    ("misbehave", "said"),
    [
        (raising(SystemExit(2)), "SystemExit: 2"),
        (raising(asyncio.CancelledError()), "cancelled from within"),
        (raising(RecursionError("too deep")), "RecursionError: too deep"),
        (raising(TimeoutError()), "TimeoutError"),
        (lambda: Output(content=7), "odd broke"),  # type: ignore[arg-type]
        (lambda: None, "odd broke"),
    ],
)
async def test_whatever_a_tool_does_is_told_to_the_model_and_the_turn_goes_on(
    misbehave: Callable[[], object], said: str, width: int
) -> None:
    world = World(ScriptedModel([Line(calls=(call("odd"),) * width), "Done."]), Sabotaged(misbehave))
    report = await world.run()
    assert report.completed
    assert [said in fact.content for fact in world.told(ToolFinished)] == [True] * width
    assert world.kinds()[-1] == "agent.finished"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("choices"), "KeyError: 'choices'"),
        (SystemExit(1), "SystemExit: 1"),
        (asyncio.CancelledError(), "cancelled from within"),
        (TimeoutError("slow"), "TimeoutError: slow"),
    ],
)
async def test_a_model_that_breaks_fails_its_run_which_is_finished_all_the_same(
    error: BaseException, said: str
) -> None:
    def write(_: Ask) -> str:
        raise error

    world = World(ScriptedModel(write))
    report = await world.run()
    assert (report.status, said in (report.error or "")) == (RecordStatus.FAILED, True)
    assert world.kinds() == ["agent.started", "model.started", "agent.finished"]


@pytest.mark.parametrize("width", [1, 2])
async def test_an_entry_that_cannot_be_written_ends_the_run_and_is_not_told_to_the_model(width: int) -> None:
    class Picky(MemoryJournal):
        async def write(self, origin: Origin, *facts: Fact) -> int:
            if any(isinstance(fact, ToolFinished) for fact in facts):
                raise Unwritable("no such character")
            return await super().write(origin, *facts)

    world = World(ScriptedModel([Line(calls=(call("double", number=1),) * width), "Done."]))
    world.turn = Turn.begun(Picky(ORDER), Budget(Limits()))
    with pytest.raises(Unwritable, match="no such character"):
        await world.run()
    assert len(world.model.asks) == 1


@leaping
async def test_the_end_of_the_wall_clock_while_a_result_is_committed_loses_no_result() -> None:
    class Slow(MemoryJournal):
        async def write(self, origin: Origin, *facts: Fact) -> int:
            number = await super().write(origin, *facts)
            if any(isinstance(fact, ToolFinished) for fact in facts):
                await asyncio.Event().wait()
            return number

    world = World(ScriptedModel([Line(calls=(call("double", number=2),)), "Done."]))
    world.journal = Slow(ORDER)
    world.turn = Turn.begun(world.journal, Budget(Limits(wall_seconds=30)))
    report = await world.run()
    assert report.limit == "wall_seconds"
    (finished,) = world.told(ToolFinished)
    assert isinstance(finished, ToolFinished) and unfenced(finished.content) == "4"
    assert world.kinds()[-1] == "agent.finished"


async def test_tool_calls_of_an_agent_end_at_the_limit_of_its_own_file() -> None:
    calls = tuple(call("double", number=n) for n in range(3))
    world = World(ScriptedModel([Line(calls=calls), "Done."]), own=AgentLimits(tool_calls=1))
    assert (await world.run()).limit == "tool_calls"
    assert [fact.outcome for fact in world.told(ToolFinished)].count(Outcome.DENIED) == 2
    assert "tool_calls (1)" in world.told(ToolFinished)[-1].content


async def test_a_model_call_is_bounded_by_the_agents_own_file() -> None:
    world = World(ScriptedModel(["Done."]), own=AgentLimits(model_call_seconds=7))
    await world.run()
    assert world.model.asks[0].call_seconds == 7


@leaping
async def test_the_wall_clock_of_an_agents_own_file_ends_it() -> None:
    @tool()
    async def hang() -> str:
        """Never ends."""
        await asyncio.Event().wait()
        return ""

    world = World(ScriptedModel([Line(calls=(call("hang"),))]), FunctionTools([hang]), own=AgentLimits(wall_seconds=30))
    report = await world.run()
    assert (report.limit, report.error) == ("wall_seconds", "the limit wall_seconds (30) is reached")


async def steered(world: World, *texts: str) -> None:
    for text in texts:
        await Steering(world.turn).steer(text)


async def test_a_steer_is_read_before_the_next_round_and_is_an_entry_before_the_model_is_asked() -> None:
    @tool()
    async def look() -> str:
        """Look around; meanwhile somebody speaks."""
        await steered(world, "Mind the dog.")
        return "a garden"

    world = World(ScriptedModel([Line(calls=(call("look"),)), "I mind it."]), FunctionTools([look]))
    report = await world.run()
    assert report.text == "I mind it."
    last = world.model.asks[1].messages[-1]
    assert isinstance(last, UserMessage) and last.text.endswith("Z] Mind the dog.")
    assert world.kinds()[4:7] == ["tool.finished", "control.applied", "model.started"]
    record = world.journal.fold.record()
    assert record is not None
    assert [step.message for step in record.steps if step.kind == "steer"] == ["Mind the dog."]


async def test_a_steer_during_the_last_reply_is_answered_as_well() -> None:
    async def author(ask: Ask) -> Line:
        if len(world.model.asks) == 1:
            await steered(world, "And in French?")
            return Line(text="Good day.")
        return Line(text="Bonjour.")

    world = World(ScriptedModel(author))
    report = await world.run("Greet me.")
    assert report.text == "Bonjour."
    said = world.model.asks[1].messages
    assert [type(message).__name__ for message in said] == ["UserMessage", "AssistantMessage", "UserMessage"]


async def test_a_tool_set_that_can_no_longer_be_asked_ends_the_run_with_a_report_and_its_entries() -> None:
    class Going:
        gone = False

        def specs(self) -> Sequence[ToolSpec]:
            if self.gone:
                raise RuntimeError("the server is gone")
            return FunctionTools([double]).specs()

        async def call(self, call: StartedCall) -> Output:
            self.gone = True
            return Output("2")

    world = World(ScriptedModel([Line(calls=(call("double", number=1),)), "Done."]), Going())
    report = await world.run()
    assert (report.status, report.cause) == (RecordStatus.FAILED, Cause.BROKE)
    assert "RuntimeError: the server is gone" in str(report.error)
    assert [kind for kind in world.kinds() if kind.endswith("finished")] == ["tool.finished", "agent.finished"]


async def test_a_turn_takes_one_task_at_a_time_and_a_second_one_does_not_disturb_it() -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def write(_: Ask) -> Said:
        begun.set()
        await goes_on.wait()
        return "Done."

    world = World(ScriptedModel(write))
    first = asyncio.create_task(world.run())
    await begun.wait()
    second = await world.agent.run("Me too.", world.turn)
    goes_on.set()
    assert second.cause is Cause.BROKE and "a turn of its own" in str(second.error)
    assert (await first).completed
    assert world.kinds() == ["agent.started", "model.started", "model.replied", "agent.finished"]
