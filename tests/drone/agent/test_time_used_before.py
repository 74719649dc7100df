"""A resumed agent has the time left that it had: the time used under earlier drones counts."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from drone.agent.agent import AgentRuntime
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask
from drone.agent.ports.report import Report
from drone.agent.spending.allowance import Allowance
from drone.agent.spending.budget import Budget, Share
from drone.agent.state.tree import Tree
from drone.agent.subagents.children import Wanted
from drone.agent.subagents.delegation import Delegation
from drone.agent.turns.turn import Task, Turn
from drone.models.scripted import Line, Said, ScriptedModel, call
from drone.tools.frame.tool import FunctionTools, Joined, tool
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.entry import ORDER, Entry, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import AgentFinished, AgentStarted, AgentStep, BudgetWarned
from mcc.contracts.limits import AgentLimits, LimitChoice, Limits
from mcc.contracts.order_facts import Forked, OrderClaimed, OrderQueued, OrderRequeued
from mcc.contracts.record import ModelChoice
from mcc.testing import FakeClock
from mcc.transcript.messages import AssistantMessage
from tests.faults.simulation.loop import SimulatedLoop

ORDER_ID = "order-1"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LIMITS = Limits(wall_seconds=100)
MASTER, CHILD = Origin(record_id="m", agent="master"), Origin(record_id="c", parent_id="m", agent="scout", depth=1)

BEGINS = AgentStarted(
    title="Look",
    prompt="look",
    model=ModelChoice(requested="fake", effective="fake"),
    tools=(),
    limits=LimitChoice(),
    definition_digest="",
    setup_digest="",
)
WORKS = AgentStep(name="note", message="At work.")
CLAIMED = OrderClaimed(attempt=1, epoch=1, drone="d1", incarnation="i1")
LOST = OrderRequeued(epoch=2, lost="i1", message="The drone was lost.")


def told(*entries: tuple[float, Origin, Fact]) -> Tree:
    """A journal with these facts at these seconds after noon."""
    return Tree.of(
        Entry(order_id=ORDER_ID, seq=seq, at=NOON + timedelta(seconds=at), data=fact, **dict(origin))
        for seq, (at, origin, fact) in enumerate(entries, start=1)
    )


def left_of(past: Tree, record_id: str = "c", own: float = 20) -> float:
    """The seconds that the agent has left when a drone resumes it at once."""
    clock = FakeClock()
    budget = Budget(LIMITS, clock.uptime)
    budget.follow(past)
    depth = 1 if record_id == "c" else 0
    share = Share.of(LIMITS, AgentLimits(wall_seconds=own), depth)
    return Allowance(budget, share, past.records[record_id]).seconds_left()


def test_what_an_agent_used_before_the_loss_is_taken_off_its_time() -> None:
    past = told((0, ORDER, CLAIMED), (0, MASTER, BEGINS), (10, CHILD, BEGINS), (15, CHILD, WORKS))
    assert left_of(past) == 15
    assert left_of(past, "m", own=40) == 25


def test_time_under_several_drones_adds_up_and_what_lies_between_them_does_not_count() -> None:
    past = told(
        (0, ORDER, CLAIMED),
        (0, MASTER, BEGINS),
        (10, CHILD, BEGINS),
        (15, CHILD, WORKS),
        (40, ORDER, LOST),
        (500, ORDER, CLAIMED),
        (508, CHILD, WORKS),
        (900, ORDER, LOST),
    )
    assert past.seconds == 23 and left_of(past) == 7
    assert left_of(past, "m", own=40) == 17


def test_an_agent_that_began_under_the_second_drone_has_used_nothing_under_the_first() -> None:
    past = told(
        (0, ORDER, CLAIMED),
        (0, MASTER, BEGINS),
        (30, MASTER, WORKS),
        (40, ORDER, LOST),
        (500, ORDER, CLAIMED),
        (502, CHILD, BEGINS),
        (508, MASTER, WORKS),
    )
    assert left_of(past) == 14


def test_an_agent_whose_time_is_used_up_has_none_left() -> None:
    past = told((0, ORDER, CLAIMED), (0, MASTER, BEGINS), (10, CHILD, BEGINS), (35, CHILD, WORKS))
    assert left_of(past) == -5


def test_the_time_of_the_tree_still_bounds_that_of_each_agent() -> None:
    past = told((0, ORDER, CLAIMED), (0, MASTER, BEGINS), (90, CHILD, BEGINS), (95, CHILD, WORKS))
    assert left_of(past) == 5


def test_a_clock_that_was_turned_back_gives_nobody_more_time_than_it_had() -> None:
    past = told((0, ORDER, CLAIMED), (0, MASTER, BEGINS), (50, CHILD, BEGINS), (3, CHILD, WORKS))
    assert left_of(past) == 20


def test_time_that_was_used_in_the_order_it_was_forked_from_does_not_count() -> None:
    queued = OrderQueued(
        session_id="s",
        session_seq=1,
        agent="master",
        queue="default",
        priority=5,
        forked=Forked(order_id="other", after=9, until=3),
    )
    past = told(
        (900, ORDER, queued), (10, MASTER, BEGINS), (60, MASTER, WORKS), (901, ORDER, CLAIMED), (905, MASTER, WORKS)
    )
    assert left_of(past, "m") == 16


@tool(idempotent=True)
async def step() -> str:
    """One step."""
    return "done"


class Drone:
    """A root agent and a child that takes a step and whose next model call hangs; the child's limit is 20 seconds."""

    def __init__(self, clock: FakeClock, left: Sequence[Entry] = (), past: Tree | None = None) -> None:
        self.journal = MemoryJournal(ORDER_ID, entries=left)
        self.turn = Turn.begun(self.journal, Budget(LIMITS, clock.uptime), tree=past)
        self.hanging = asyncio.Event()
        self.model = ScriptedModel(self._author)

    async def run(self) -> Report:
        return await self._agent(Wanted("master", 0)).run(Task("master", root_record_id(ORDER_ID)), self.turn)

    async def _author(self, ask: Ask) -> Said:
        replies = sum(isinstance(message, AssistantMessage) for message in ask.messages)
        if ask.messages[0].text == "master":  # type: ignore[union-attr]
            return "It stopped." if replies else Line(calls=(call("subagent", agent_type="scout", prompt="look"),))
        if replies:
            self.hanging.set()
            await asyncio.Event().wait()
        return Line(calls=(call("step"),))

    def _agent(self, wanted: Wanted) -> AgentRuntime:
        tools = Joined(
            FunctionTools([step]), Delegation(self.turn, {"scout": "Looks."}, self._agent, depth=wanted.depth)
        )
        own = AgentLimits(wall_seconds=20) if wanted.depth else AgentLimits()
        definition = AgentDefinition(name=wanted.agent_type, prompt="", limits=own)
        return AgentRuntime(definition, model=self.model, tools=tools, limits=LIMITS)


async def left_by_the_first(clock: FakeClock) -> list[Entry]:
    """The entries of a drone that was lost during the child's second model call."""
    first = Drone(clock)
    running = asyncio.create_task(first.run())
    await first.hanging.wait()
    left = list(first.journal.entries)
    running.cancel()
    await asyncio.wait({running})
    return left


def lost_after(seconds: float, left: Sequence[Entry]) -> Tree:
    """A journal in which the child began at once, and the last entry came so many seconds later."""
    claimed = Entry(order_id=ORDER_ID, seq=1, at=NOON, data=CLAIMED)
    dated = [entry.model_copy(update={"at": NOON}) for entry in left[:-1]]
    return Tree.of([claimed, *dated, left[-1].model_copy(update={"at": NOON + timedelta(seconds=seconds)})])


@pytest.mark.parametrize(("used", "left"), [(0, 20), (12, 8), (19, 1), (25, 0)])
def test_an_agent_that_goes_on_elsewhere_ends_when_its_time_is_used_up_all_in_all(used: float, left: float) -> None:
    clock = FakeClock()
    loop = SimulatedLoop(clock, Random(0))

    async def main() -> None:
        entries = await left_by_the_first(clock)
        second, began = Drone(clock, entries, lost_after(used, entries)), clock.uptime()
        report = await second.run()
        assert report.text == "It stopped."
        assert clock.uptime() - began == pytest.approx(left, abs=0.01)
        ended = [entry.data for entry in second.journal.entries if isinstance(entry.data, AgentFinished)]
        assert [end.error for end in ended[:1]] == ["the limit wall_seconds (20) is reached"]
        warned = [entry.data for entry in second.journal.entries if isinstance(entry.data, BudgetWarned)]
        assert [(one.limit, one.used) for one in warned] == ([("wall_seconds", used)] if used == 19 else [])

    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
