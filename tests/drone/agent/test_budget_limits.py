"""Every limit on the root agent, where it ends a turn with the answer so far, and on a child, whose parent is told."""

import asyncio
from collections.abc import Callable

import pytest

from drone.agent.agent import AgentRuntime
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask, ModelError
from drone.agent.ports.report import Cause, Report
from drone.agent.spending.budget import Budget
from drone.agent.subagents.delegation import Delegation, Wanted
from drone.agent.turns.turn import Task, Turn
from drone.models.scripted import Author, Line, Said, ScriptedModel, by_prompt, call
from drone.tools.frame.tool import FunctionTools, Joined, tool
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.fold import Fold
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import AgentFinished, AgentStarted, ToolFinished
from mcc.contracts.limits import AgentLimits, Limits
from mcc.contracts.model_facts import ModelStarted
from mcc.contracts.record import ChatRecord, RecordStatus
from mcc.contracts.usage import Usage
from mcc.transcript.messages import ToolResults
from tests.faults.simulation.leaping import leaping

ORDER = "order-1"
CALL = Usage(input_tokens=90, output_tokens=10, model_calls=1, cost_usd=0.01)
DELEGATING = call("subagent", agent_type="explore", prompt="look")


@tool()
async def step(number: int) -> str:
    """One step.

    Args:
        number: which one.
    """
    return f"step {number} is done"


class Tree:
    """A root agent with the tool `step`; its children have the same tool and the limits `own`."""

    def __init__(self, script: Author, limits: Limits, own: AgentLimits | None = None) -> None:
        self.model = ScriptedModel(script)
        self.journal = MemoryJournal(ORDER)
        self.turn = Turn.begun(self.journal, Budget(limits, asyncio.get_running_loop().time))
        self._own = own or AgentLimits()

    def _agent(self, depth: int) -> AgentRuntime:
        def hire(wanted: Wanted) -> AgentRuntime:
            return self._agent(wanted.depth)

        tools = Joined(FunctionTools([step]), Delegation(self.turn, {"explore": "Looks."}, hire, depth=depth))
        own = self._own if depth else AgentLimits()
        definition = AgentDefinition(name="explore" if depth else "master", prompt=f"Depth {depth}.", limits=own)
        return AgentRuntime(definition, model=self.model, tools=tools, limits=self.turn.budget.limits)

    async def run(self) -> Report:
        report = await self._agent(0).run(Task("master", root_record_id(ORDER)), self.turn)
        facts = [entry.data for entry in self.journal.entries]
        begun = sum(isinstance(fact, AgentStarted) for fact in facts)
        assert begun == sum(isinstance(fact, AgentFinished) for fact in facts)
        assert self.record().status == report.status
        return report

    def record(self) -> ChatRecord:
        record = Fold.of(ORDER, self.journal.entries).record()
        assert record is not None
        return record

    def results(self) -> list[ToolFinished]:
        """The root agent's tool results."""
        return [
            entry.data for entry in self.journal.entries if entry.depth == 0 and isinstance(entry.data, ToolFinished)
        ]

    def asked(self, depth: int) -> int:
        """Number of model calls by agents at this depth."""
        return sum(entry.depth == depth for entry in self.journal.entries if isinstance(entry.data, ModelStarted))


def endless(number: int) -> Said:
    return Line(f"So far {number}.", calls=(call("step", number=number),), usage=CALL)


def alone() -> Author:
    """A root agent that never ends by itself."""
    return by_prompt(lambda _, replies: endless(replies))


def with_child(child: Callable[[int], Said] = endless) -> Author:
    """A root agent that delegates once and ends with the result."""

    def write(prompt: str, replies: int) -> Said:
        if prompt != "master":
            return child(replies)
        return Line("The child stopped.", usage=CALL) if replies else Line(calls=(DELEGATING,), usage=CALL)

    return by_prompt(write)


@pytest.mark.parametrize(
    ("limits", "name", "rounds"),
    [
        (Limits(rounds=3), "rounds", 4),
        (Limits(output_tokens=40), "output_tokens", 5),
        (Limits(total_tokens=250), "total_tokens", 3),
        (Limits(cost_usd=0.02), "cost_usd", 2),
    ],
)
async def test_a_limit_of_the_turn_ends_it_with_the_answer_so_far_and_the_reason(
    limits: Limits, name: str, rounds: int
) -> None:
    tree = Tree(alone(), limits)
    report = await tree.run()
    assert (report.status, report.cause, report.limit) == (RecordStatus.LIMIT_REACHED, Cause.LIMIT, name)
    assert (report.text, tree.asked(0)) == (f"So far {rounds - 1}.", rounds)
    assert report.error is not None and report.error.startswith(f"the limit {name} (")
    assert (tree.record().answer, tree.record().error) == (report.text, report.error)
    assert len(tree.results()) == rounds


@pytest.mark.parametrize(
    ("limits", "own", "name", "rounds"),
    [
        (Limits(subagent_rounds=3), AgentLimits(), "rounds", 4),
        (Limits(), AgentLimits(rounds=2), "rounds", 3),
        (Limits(subagent_output_tokens=40), AgentLimits(), "output_tokens", 5),
        (Limits(), AgentLimits(output_tokens=20), "output_tokens", 3),
    ],
)
async def test_a_limit_of_a_child_is_a_tool_result_with_what_it_has_and_its_parent_goes_on(
    limits: Limits, own: AgentLimits, name: str, rounds: int
) -> None:
    tree = Tree(with_child(), limits, own)
    report = await tree.run()
    assert (report.completed, report.text) == (True, "The child stopped.")
    (told,) = tree.results()
    assert told.is_error and f"the limit {name} (" in told.content and f"So far {rounds - 1}." in told.content
    (child,) = tree.record().subagent_history
    assert (child.status, child.answer) == (RecordStatus.LIMIT_REACHED, f"So far {rounds - 1}.")
    assert tree.asked(1) == rounds


@pytest.mark.parametrize(
    ("limits", "name", "last"),
    [
        (Limits(output_tokens=40), "output_tokens", 1),
        (Limits(total_tokens=400), "total_tokens", 0),
        (Limits(cost_usd=0.04), "cost_usd", 0),
    ],
)
async def test_what_a_child_spends_of_the_turns_limits_ends_the_child_and_then_its_parent(
    limits: Limits, name: str, last: int
) -> None:
    tree = Tree(with_child(), limits)
    report = await tree.run()
    assert (report.status, report.limit) == (RecordStatus.LIMIT_REACHED, name)
    assert (tree.asked(0), tree.asked(1)) == (1 + last, 3 + last)
    (child,) = tree.record().subagent_history
    assert child.status == RecordStatus.LIMIT_REACHED


def hanging(prompt_of_the_hanging: str) -> Author:
    async def author(ask: Ask) -> Said:
        prompt = ask.messages[0].text  # type: ignore[union-attr]
        if prompt == prompt_of_the_hanging and len(ask.messages) > 1:
            await asyncio.Event().wait()
        if prompt == "master" and prompt_of_the_hanging != "master":
            done = any(isinstance(message, ToolResults) for message in ask.messages)
            return (
                "The child stopped." if done else Line(calls=(call("subagent", agent_type="explore", prompt="look"),))
            )
        return endless(0)

    return author


@leaping
async def test_the_wall_clock_ends_the_turn_in_the_midst_of_a_model_call() -> None:
    tree = Tree(hanging("master"), Limits(wall_seconds=30))
    report = await tree.run()
    assert (report.status, report.limit, report.text) == (RecordStatus.LIMIT_REACHED, "wall_seconds", "So far 0.")
    assert tree.turn.budget.output_tokens_left() == 200_000 - 10
    assert not tree.turn.budget.full


@leaping
async def test_the_wall_clock_of_a_child_is_a_tool_result_and_gives_back_what_was_set_aside() -> None:
    tree = Tree(hanging("look"), Limits(), AgentLimits(wall_seconds=30))
    report = await tree.run()
    assert (report.completed, report.text) == (True, "The child stopped.")
    (told,) = tree.results()
    assert "wall_seconds (30)" in told.content and "So far 0." in told.content
    ends = [entry.data for entry in tree.journal.entries if isinstance(entry.data, AgentFinished)]
    assert (ends[0].cause, ends[0].limit, ends[1].cause) == ("limit", "wall_seconds", None)
    assert tree.turn.budget.output_tokens_left() == 200_000 - tree.turn.budget.spent.output_tokens


async def test_tool_calls_are_those_of_the_whole_tree_and_each_model_is_told() -> None:
    tree = Tree(with_child(lambda replies: endless(replies) if replies < 4 else "Enough."), Limits(tool_calls=3))
    assert (await tree.run()).completed
    facts = [entry.data for entry in tree.journal.entries if entry.depth == 1]
    outcomes = [fact.outcome.value for fact in facts if isinstance(fact, ToolFinished)]
    assert outcomes == ["ok", "ok", "denied", "denied"]


async def test_spawns_are_those_of_the_whole_tree_and_who_has_none_left_is_told() -> None:
    def write(prompt: str, replies: int) -> Said:
        if prompt == "master" and not replies:
            return Line(calls=tuple(call("subagent", agent_type="explore", prompt=f"look {n}") for n in range(5)))
        return f"{prompt} is done."

    tree = Tree(by_prompt(write), Limits(spawns=2))
    assert (await tree.run()).completed
    denied = [one.content for one in tree.results() if one.outcome == "denied"]
    assert len(denied) == 3 and all("spawns (2)" in said for said in denied)
    assert len(tree.record().subagent_history) == 2


@pytest.mark.parametrize("depth", [0, 1, 2])
async def test_depth_ends_a_chain_of_agents_and_the_last_one_is_told_to_do_the_work_itself(depth: int) -> None:
    def write(prompt: str, replies: int) -> Said:
        return "Done." if replies else Line(calls=(call("subagent", agent_type="explore", prompt=prompt + "+"),))

    tree = Tree(by_prompt(write), Limits(depth=depth))
    assert (await tree.run()).completed
    denied = [
        entry
        for entry in tree.journal.entries
        if isinstance(entry.data, ToolFinished) and entry.data.outcome == "denied"
    ]
    assert [(one.depth, f"depth ({depth})" in one.data.content) for one in denied] == [(depth, True)]  # type: ignore[attr-defined]


async def test_a_model_is_asked_for_no_more_output_than_is_left() -> None:
    tree = Tree(alone(), Limits(output_tokens=30))
    await tree.run()
    assert [ask.max_output_tokens for ask in tree.model.asks] == [30, 20, 10, 64]


async def test_a_child_is_asked_for_no_more_output_than_its_share() -> None:
    tree = Tree(with_child(), Limits(), AgentLimits(output_tokens=30))
    await tree.run()
    asks = [ask.max_output_tokens for ask in tree.model.asks]
    assert asks == [None, 30, 20, 10, 64, None]


async def test_what_failed_tries_cost_counts_for_the_tree() -> None:
    failing = Line(error=ModelError("It is broken."), billed=CALL)
    tree = Tree(with_child(lambda _: failing), Limits(total_tokens=200))
    report = await tree.run()
    assert (report.limit, tree.asked(0), tree.asked(1)) == ("total_tokens", 1, 1)
    assert tree.turn.budget.spent.total_tokens == 200


async def test_what_was_set_aside_stands_in_the_entry_before_the_call() -> None:
    tree = Tree(alone(), Limits(rounds=3))
    await tree.run()
    first, second, third, _ = [entry.data for entry in tree.journal.entries if isinstance(entry.data, ModelStarted)]
    assert first.reserved_usd is None and first.reserved_tokens > 4096
    assert second.reserved_tokens >= 90 + 4096
    assert third.reserved_usd == pytest.approx(third.reserved_tokens * 0.0001)


async def test_children_that_run_side_by_side_wait_for_each_other_where_little_is_left() -> None:
    running = most = 0

    async def author(ask: Ask) -> Said:
        nonlocal running, most
        if ask.messages[0].text == "master":  # type: ignore[union-attr]
            if len(ask.messages) > 1:
                return "All are in."
            return Line(calls=tuple(call("subagent", agent_type="explore", prompt=f"look {n}") for n in range(6)))
        running += 1
        most = max(most, running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1
        return Line("Found.", usage=CALL)

    tree = Tree(author, Limits(total_tokens=5_000, concurrency=6))
    report = await tree.run()
    assert report.completed
    assert most == 2
    assert [child.status for child in tree.record().subagent_history] == [RecordStatus.COMPLETED] * 6


@pytest.mark.parametrize(("usd", "rounds"), [(0.0, 3), (0.01, 1)])
async def test_with_no_money_at_all_a_free_model_works_and_a_paid_one_is_asked_once(usd: float, rounds: int) -> None:
    spent = Usage(input_tokens=10, output_tokens=1, model_calls=1, cost_usd=usd)
    script = [Line(calls=(call("nothing", number=number),), usage=spent) for number in range(2)]
    model = ScriptedModel([*script, Line(text="Done.", usage=spent)])
    agent = AgentRuntime(AgentDefinition(name="a", prompt="Go."), model=model, limits=Limits(cost_usd=0))
    report = await agent.run("go")
    assert (report.rounds, report.limit) == (rounds, "cost_usd" if usd else None)
