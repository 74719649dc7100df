"""Subagents: in the same event loop, concurrent, isolated, bounded, their final text returned to the parent."""

import asyncio

import pytest

from drone.agent.agent import AgentRuntime
from drone.agent.parts import NoTools
from drone.agent.ports.journal import MemoryJournal, Unwritable
from drone.agent.ports.model import Ask, ModelError, WantedCall
from drone.agent.ports.report import Report
from drone.agent.spending.budget import Budget
from drone.agent.subagents.delegation import CannotHire, Delegation, Wanted
from drone.agent.turns.toolset import StartedCall
from drone.agent.turns.turn import Task, Turn
from drone.models.scripted import Author, Line, Said, ScriptedModel, by_prompt, call
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.entry import Origin
from mcc.contracts.fact import Fact
from mcc.contracts.fence import unfenced
from mcc.contracts.ids import child_record_id, root_record_id
from mcc.contracts.journal import ToolFinished
from mcc.contracts.limits import AgentLimits, Limits
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.record import ChatRecord, RecordStatus
from mcc.transcript.messages import ToolResults
from tests.faults.simulation.leaping import leaping

ORDER = "order-1"
OFFERED = {"explore": "Looks around.", "general": "Does anything."}


class Tree:
    """A root agent that may delegate to `explore` and `general`, which may delegate further, to the depth limit."""

    def __init__(self, script: Author, limits: Limits | None = None) -> None:
        self.model = ScriptedModel(script)
        self.journal = MemoryJournal(ORDER)
        self.turn = Turn.begun(self.journal, Budget(limits or Limits(), asyncio.get_running_loop().time))
        self.hired: list[tuple[str, int]] = []

    async def run(self, prompt: str = "master") -> Report:
        agent = self._agent("master", 0)
        return await agent.run(Task(prompt, root_record_id(ORDER)), self.turn)

    def record(self) -> ChatRecord:
        record = self.journal.fold.record()
        assert record is not None
        return record

    def results(self) -> list[ToolFinished]:
        return [entry.data for entry in self.journal.entries if isinstance(entry.data, ToolFinished)]

    def _agent(self, name: str, depth: int) -> AgentRuntime:
        self.hired.append((name, depth))
        tools = Delegation(self.turn, OFFERED, lambda wanted: self._agent(wanted.agent_type, wanted.depth), depth=depth)
        return AgentRuntime(AgentDefinition(name=name, prompt=f"You are {name}."), model=self.model, tools=tools)


def delegate(*prompts: str, kind: str = "explore") -> Line:
    return Line(calls=tuple(call("subagent", agent_type=kind, prompt=prompt) for prompt in prompts))


def one_level(*prompts: str) -> Author:
    """A tree whose root delegates these prompts once; each child answers `found <prompt>`."""

    def write(prompt: str, replies: int) -> Said:
        if prompt != "master":
            return f"found {prompt}"
        return "Both are in." if replies else delegate(*prompts)

    return by_prompt(write)


async def test_only_the_final_text_of_a_child_reaches_the_parent() -> None:
    tree = Tree(one_level("north", "south"))
    report = await tree.run()
    assert report.text == "Both are in."
    results = tree.model.asks[-1].messages[-1]
    assert isinstance(results, ToolResults)
    told = [unfenced(result.content).partition("\n\nrecord_id: ") for result in results.results]
    children = [child.id for child in tree.record().subagent_history]
    assert told == [("found north", "\n\nrecord_id: ", children[0]), ("found south", "\n\nrecord_id: ", children[1])]


async def test_a_child_sees_nothing_but_its_prompt() -> None:
    tree = Tree(one_level("north"))
    await tree.run()
    (asked,) = [ask for ask in tree.model.asks if ask.system.startswith("You are explore.")]
    assert [message.text for message in asked.messages] == ["north"]  # type: ignore[union-attr]


async def test_the_childs_record_hangs_under_its_parents_with_the_id_of_the_call() -> None:
    tree = Tree(one_level("north", "south"))
    await tree.run()
    record = tree.record()
    calls = {step.call_id: step for step in record.steps if step.kind == "tool"}
    assert [child.prompt for child in record.subagent_history] == ["north", "south"]
    for child in record.subagent_history:
        assert child.call_id is not None
        assert (child.parent_id, child.depth, child.agent) == (record.id, 1, "explore")
        assert calls[child.call_id].subagent_ids == (child.id,) == (child_record_id(child.call_id),)


async def test_usage_of_the_root_includes_its_children() -> None:
    tree = Tree(one_level("north", "south"))
    await tree.run()
    record = tree.record()
    assert record.usage.model_calls == 2
    assert record.usage_total.model_calls == 4
    assert record.usage_total == tree.journal.fold.usage


async def test_children_of_one_reply_run_at_the_same_time_and_more_than_the_cap_wait() -> None:
    running, most = 0, 0
    gate = asyncio.Event()

    async def author(ask: Ask) -> Said:
        nonlocal running, most
        if ask.system.startswith("You are master."):
            return "Done." if len(ask.messages) > 1 else delegate(*"abcdef")
        running += 1
        most = max(most, running)
        if most == 2:
            gate.set()
        await gate.wait()
        await asyncio.sleep(0)
        running -= 1
        return "found"

    tree = Tree(author, Limits(concurrency=2))
    report = await tree.run()
    assert report.completed
    assert most == 2
    assert len(tree.record().subagent_history) == 6


async def test_depth_is_capped_before_any_model_is_asked() -> None:
    def write(prompt: str, replies: int) -> Said:
        if replies:
            return "Done."
        return delegate("deeper")

    tree = Tree(by_prompt(write), Limits(depth=2))
    report = await tree.run()
    assert report.completed
    assert max(depth for _, depth in tree.hired) == 2
    assert [result.outcome for result in tree.results() if result.is_error] == ["denied"]


async def test_spawns_are_capped_over_the_whole_tree_and_the_model_is_told() -> None:
    tree = Tree(one_level("a", "b", "c"), Limits(spawns=2))
    report = await tree.run()
    assert report.completed
    refused = [result for result in tree.results() if result.is_error]
    assert len(refused) == 1 and "spawns (2)" in refused[0].content


async def test_a_child_that_fails_is_a_tool_result_and_its_sibling_goes_on() -> None:
    def write(prompt: str, replies: int) -> Said:
        if prompt == "master":
            return "One of two." if replies else delegate("good", "bad")
        return ModelError("The provider is away.") if prompt == "bad" else "found it"

    tree = Tree(by_prompt(write))
    report = await tree.run()
    assert report.completed
    told = [(unfenced(result.content), result.is_error) for result in tree.results()]
    assert any(content.startswith("found it") and not is_error for content, is_error in told)
    assert any("The provider is away." in content and is_error for content, is_error in told)
    assert [child.status for child in tree.record().subagent_history] == [RecordStatus.COMPLETED, RecordStatus.FAILED]


async def test_a_child_that_ran_out_of_rounds_tells_the_parent_what_it_had() -> None:
    def write(prompt: str, replies: int) -> Said:
        if prompt == "master":
            return "Enough." if replies else delegate("dig")
        return Line(text="Half of it.", calls=(call("subagent", agent_type="nobody", prompt="x"),))

    tree = Tree(by_prompt(write), Limits(subagent_rounds=2))
    await tree.run()
    told = [result for result in tree.results() if result.subagent_ids]
    assert "rounds" in told[0].content and "Half of it." in told[0].content
    assert tree.record().subagent_history[0].status is RecordStatus.LIMIT_REACHED


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"agent_type": "explor", "prompt": "x"}, "names no agent here: 'explor'. There are explore, general"),
        ({"prompt": "x"}, "agent_type is missing. There are explore, general"),
        ({"agent_type": "explore"}, "prompt must be a text"),
        ({"agent_type": "explore", "prompt": "  "}, "prompt must be a text"),
        ({"agent_type": "explore", "prompt": "x", "tools": []}, "does not know tools"),
        ({"agent_type": "explore", "prompt": "x", "title": 7}, "title must be"),
        ({"agent_type": ["explore"], "prompt": "x"}, "agent_type names no agent here"),
    ],
)
async def test_wrong_arguments_are_told_in_words_and_nobody_is_hired(arguments: dict[str, object], words: str) -> None:
    def write(prompt: str, replies: int) -> Said:
        return "Done." if replies else Line(calls=(WantedCall("subagent", arguments),))

    tree = Tree(by_prompt(write))
    assert (await tree.run()).completed
    (result,) = tree.results()
    assert result.is_error and words in result.content
    assert tree.hired == [("master", 0)]


@leaping
async def test_when_the_wall_clock_ends_the_turn_children_are_closed_before_their_parent() -> None:
    async def author(ask: Ask) -> Said:
        if ask.system.startswith("You are master."):
            return delegate("a", "b")
        await asyncio.Event().wait()
        return ""

    tree = Tree(author, Limits(wall_seconds=30))
    report = await tree.run()
    assert report.limit == "wall_seconds"
    ends = [entry for entry in tree.journal.entries if entry.kind == "agent.finished"]
    assert [entry.depth for entry in ends] == [1, 1, 0]
    assert len([entry for entry in tree.journal.entries if entry.kind == "agent.started"]) == 3


async def test_an_agent_without_the_tool_cannot_delegate() -> None:
    model = ScriptedModel([delegate("x"), "Alone then."])
    agent = AgentRuntime(AgentDefinition(name="alone", prompt=""), model=model, tools=NoTools())
    report = await agent.run("go")
    assert report.text == "Alone then."
    assert model.asks[0].tools == ()


async def test_a_child_whose_model_breaks_is_finished_and_its_parent_goes_on() -> None:
    def write(prompt: str, replies: int) -> Said:
        if prompt == "north":
            raise KeyError("choices")
        return "I saw it fail." if replies else delegate("north")

    tree = Tree(by_prompt(write))
    assert (await tree.run()).text == "I saw it fail."
    (child,) = tree.record().subagent_history
    assert (child.status, "KeyError" in (child.error or "")) == (RecordStatus.FAILED, True)


async def test_an_entry_of_a_child_that_cannot_be_written_ends_the_whole_tree() -> None:
    class Picky(MemoryJournal):
        async def write(self, origin: Origin, *facts: Fact) -> int:
            if origin.depth == 1 and any(isinstance(fact, ModelReplied) for fact in facts):
                raise Unwritable("no such character")
            return await super().write(origin, *facts)

    tree = Tree(one_level("north", "south"))
    tree.turn = Turn.begun(Picky(ORDER), Budget(Limits()))
    with pytest.raises(Unwritable):
        await tree.run()


@leaping
async def test_a_child_asks_no_more_once_the_wall_clock_of_its_own_file_is_over() -> None:
    class Slowed(Tree):
        def _agent(self, name: str, depth: int) -> AgentRuntime:
            agent = super()._agent(name, depth)
            own = AgentLimits(wall_seconds=30) if depth else AgentLimits()
            return AgentRuntime(
                agent.definition.model_copy(update={"limits": own}), model=self.model, tools=agent.tools
            )

    async def write(ask: Ask) -> Said:
        if ask.system.startswith("You are explore."):
            await asyncio.Event().wait()
            return delegate("deeper", kind="general")
        return "Enough." if len(ask.messages) > 1 else delegate("north")

    tree = Slowed(write)
    assert (await tree.run()).text == "Enough."
    (child,) = tree.record().subagent_history
    assert child.status is RecordStatus.LIMIT_REACHED
    assert child.error == "the limit wall_seconds (30) is reached"


async def test_nothing_is_shown_where_nobody_can_be_hired_and_no_tool_beyond_those_that_were_given() -> None:
    tree = Tree(one_level("north"))

    def hire(wanted: Wanted) -> AgentRuntime:
        raise CannotHire("Nobody is here.")

    assert Delegation(tree.turn, {}, hire, depth=0).specs() == ()
    some = Delegation(tree.turn, OFFERED, hire, depth=0, tools=["subagent"])
    assert [spec.name for spec in some.specs()] == ["subagent"]
    output = await some.call(StartedCall("call-1", "subagents_run", {"agents": []}, Origin(record_id="master")))
    assert output.outcome == "denied"
    output = await some.call(StartedCall("call-1", "subagent", {"agent_type": "explore", "prompt": "x"}, Origin()))
    assert (unfenced(output.content), output.outcome) == ("Nobody is here.", "error")
    assert tree.turn.budget.tree.spawned == 0


async def test_a_child_whose_runtime_breaks_is_closed_and_told_and_its_parent_goes_on() -> None:
    class Torn(MemoryJournal):
        async def write(self, origin: Origin, *facts: Fact) -> int:
            if origin.depth == 1 and any(isinstance(fact, ModelReplied) for fact in facts):
                raise LookupError("a page is torn out")
            return await super().write(origin, *facts)

    tree = Tree(one_level("north", "south"))
    tree.journal = Torn(ORDER)
    tree.turn = Turn.begun(tree.journal, Budget(Limits()))
    assert (await tree.run()).text == "Both are in."
    assert [child.status for child in tree.record().subagent_history] == [RecordStatus.FAILED] * 2
    assert all("a page is torn out" in result.content and result.is_error for result in tree.results())
